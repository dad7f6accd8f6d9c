from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from tests.contract.exports import Exported

import guarddiff
from guarddiff.contract import asserts
from guarddiff.contract.contract import Condition, Contract
from guarddiff.core import domain
from guarddiff.core.dims import Declared, Dimension, InputSpec
from guarddiff.core.domain import SizeRange
from guarddiff.core.errors import ContractError

ANY = SizeRange()
QUIET = onnxruntime.SessionOptions()
QUIET.log_severity_level = 4


def test_any_runtime_fails_at_what_is_not_admitted(pooled: Exported, tmp_path: Path) -> None:
    path = pooled.copied_to(tmp_path)
    guarddiff.embed_contract(path, pooled.report, embed="asserts")
    assert guarddiff.read_contract(path).admits({"images": (1, 3, 6, 6)})
    onnx.checker.check_model(path, full_check=True)
    images = np.random.default_rng(0).standard_normal((2, 3, 6, 6)).astype(np.float32)
    expected = onnxruntime.InferenceSession(pooled.path).run(None, {"images": images})[0]
    for level in (
        onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
        onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
    ):
        QUIET.graph_optimization_level = level
        session = onnxruntime.InferenceSession(path, QUIET)
        np.testing.assert_allclose(session.run(None, {"images": images})[0], expected, atol=1e-6)
        with pytest.raises(Exception, match=r"guarddiff: right only for images\[2\] exactly 6; images\[3\] exactly 6"):
            session.run(None, {"images": np.zeros((1, 3, 12, 12), np.float32)})
    with pytest.raises(ContractError, match="has asserts of a contract already"):
        guarddiff.embed_contract(path, pooled.report, embed="asserts")
    with pytest.raises(ValueError, match="there are 'metadata' and 'asserts'"):
        guarddiff.embed_contract(path, pooled.report, embed="graph")  # type: ignore[arg-type]


def two_inputs(opset: int = 18) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [name]) for name in ("h", "w")]
    output = helper.make_tensor_value_info("out", TensorProto.FLOAT, [None])
    node = helper.make_node("Concat", ["h", "w"], ["out"], axis=0)
    graph = helper.make_graph([node], "g", inputs, [output])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def contract(*guards: str, sizes: SizeRange = ANY) -> Contract:
    dims = [Dimension(name, 0, name, name, 4, Declared(sizes)) for name in ("h", "w")]
    inputs = tuple(InputSpec(dim.name, "float32", (dim.name,), (dim,)) for dim in dims)
    return Contract(inputs, tuple(Condition((guard,)) for guard in guards))


def session_with(*guards: str, sizes: SizeRange = ANY) -> onnxruntime.InferenceSession:
    model = two_inputs()
    asserts.insert(model, contract(*guards, sizes=sizes))
    onnx.checker.check_model(model, full_check=True)
    return onnxruntime.InferenceSession(model.SerializeToString(), QUIET)


def runs(session: onnxruntime.InferenceSession, h: int, w: int) -> bool:
    feeds: dict[str, Any] = {"h": np.zeros(h, np.float32), "w": np.zeros(w, np.float32)}
    try:
        session.run(None, feeds)
    except Exception as error:
        assert "guarddiff: " in str(error)
        return False
    return True


GUARDS = [
    "h == w",
    "h != 3",
    "h // 2 == 2",
    "h % 3 == 1",
    "(h - 7) // 2 == -2",
    "(h - 7) % 4 == 1",
    "2 <= h < 6",
    "h * w <= 12 and not h == 4",
    "h < 3 or w > 4",
    "max(h, w, 3) == 5 or min(h, w) == 1",
    "abs(h - w) <= 1",
    "h ** 2 > 10",
    "w % (h - 3) == 0",
    "h / 2 == 1.5 or w / 2 > 2.0",
    "math.floor(h * 0.6) == 1",
    "math.ceil(h / 4) == 2",
    "round(h / 2) == 2",
    "math.trunc(1.7 * float(h)) > 3",
    "int(h * 0.9) == h - 1",
    "math.sqrt(h) > 2",
    "torch.sym_ite(h > 3, w, h) == 2",
    "(w if h > 3 else h) == 2",
    "-h + 5 > w",
    "+h == w + 0",
]


@pytest.mark.parametrize("guard", GUARDS)
def test_a_guard_in_the_graph_is_the_guard(guard: str) -> None:
    session = session_with(guard)
    for h, w in itertools.product(range(7), range(7)):
        assert runs(session, h, w) is (domain.holds(guard, {"h": h, "w": w}) is True), (h, w)


def test_declared_ranges_and_several_guards() -> None:
    session = session_with("h == w", "h % 2 == 0", sizes=SizeRange(2, 5))
    assert [h for h in range(9) if runs(session, h, h)] == [2, 4]
    assert not runs(session, 2, 4)


def test_inputs_whose_names_are_no_identifiers() -> None:
    names = ("in-put.1", "class")
    nodes = [helper.make_node("Concat", names, ["out"], axis=0)]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None]) for name in names]
    output = helper.make_tensor_value_info("out", TensorProto.FLOAT, [None])
    graph = helper.make_graph(nodes, "g", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    dims = [Dimension(name, 0, "h", "h", 4, Declared(SizeRange(2, 5))) for name in names]
    specs = tuple(InputSpec(dim.input, "float32", ("h",), (dim,)) for dim in dims)
    asserts.insert(model, Contract(specs))
    session = onnxruntime.InferenceSession(model.SerializeToString(), QUIET)
    for sizes, right in (((2, 2), True), ((1, 1), False), ((6, 6), False), ((2, 3), False)):
        feeds = {name: np.zeros(size, np.float32) for name, size in zip(names, sizes, strict=True)}
        try:
            session.run(None, feeds)
        except Exception as error:
            assert not right and ("in-put.1[0] is declared as" in str(error) or "class[0] has to be" in str(error))
        else:
            assert right


def test_sizes_that_are_all_derived_from_one_that_no_input_has() -> None:
    dims = [Dimension(name, 0, "n", size, 4, Declared(ANY)) for name, size in (("h", "2*n"), ("w", "3*n + 1"))]
    specs = tuple(InputSpec(dim.input, "float32", (dim.size,), (dim,)) for dim in dims)
    held = Contract(specs, (Condition(("n != 2",)),))
    model = two_inputs()
    asserts.insert(model, held)
    session = onnxruntime.InferenceSession(model.SerializeToString(), QUIET)
    for h, w in itertools.product(range(8), range(12)):
        assert runs(session, h, w) is held.admits({"h": (h,), "w": (w,)}), (h, w)


@pytest.mark.parametrize("guard", ["math.log(h) > 1", "h ** w > 1", "u0 == 3", "h == 99999999999999999999"])
def test_what_has_no_form_in_onnx_is_told(guard: str) -> None:
    with pytest.raises(ContractError, match="has no form as an assert in ONNX"):
        asserts.insert(two_inputs(), contract(guard))


def test_an_old_opset_is_told() -> None:
    with pytest.raises(ContractError, match="asserts need opset 14 or newer, and the model has 13"):
        asserts.insert(two_inputs(13), contract("h == w"))


def test_nothing_to_assert_leaves_the_model_as_it_is() -> None:
    model = two_inputs()
    asserts.insert(model, contract())
    assert model == two_inputs()


def test_subgraphs_take_what_passed_the_asserts() -> None:
    then = helper.make_graph([helper.make_node("Identity", ["h"], ["a"])], "then", [],
                             [helper.make_tensor_value_info("a", TensorProto.FLOAT, [None])])  # fmt: skip
    other = helper.make_graph([helper.make_node("Neg", ["h"], ["b"])], "else", [],
                              [helper.make_tensor_value_info("b", TensorProto.FLOAT, [None])])  # fmt: skip
    model = two_inputs()
    model.graph.initializer.append(helper.make_tensor("yes", TensorProto.BOOL, [], [True]))
    model.graph.node.append(helper.make_node("If", ["yes"], ["chosen"], then_branch=then, else_branch=other))
    asserts.insert(model, contract("h == w"))
    inner = [node.input[0] for attribute in model.graph.node[-1].attribute for node in attribute.g.node]
    assert inner == ["guarddiff_assert_h", "guarddiff_assert_h"]
