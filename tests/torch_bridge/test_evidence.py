from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch
from tests.torch_bridge.exports import (
    AUTO,
    CASES,
    HERE,
    Classifier,
    Kron,
    Pool,
    case,
    exported,
    line_of,
    onnx_export,
)

from guarddiff.analysis import notes
from guarddiff.core import codec
from guarddiff.core.dims import Declared, Dimension, InputSpec, OutputSpec
from guarddiff.core.domain import SizeRange
from guarddiff.core.evidence import Evidence, StaticDimension
from guarddiff.core.origin import Origin
from guarddiff.core.report import ReportData
from guarddiff.core.snapshot import Snapshot
from guarddiff.options import Options
from guarddiff.pipeline import Pipeline
from guarddiff.torch_bridge import evidence, hooks
from guarddiff.torch_bridge.record import Recording

ANY = SizeRange()


def shapes(name: str) -> dict[str, tuple[int | str, ...]]:
    return {spec.name: spec.shape for spec in exported(name).evidence.inputs}


def snapshot(name: str, stage: str, when: str = "after") -> Snapshot:
    (found,) = [s for s in exported(name).evidence.snapshots if (s.stage, s.when) == (stage, when)]
    return found


def outputs(found: Snapshot) -> list[tuple[str, str, tuple[int | str | None, ...]]]:
    return [(spec.name, spec.dtype, spec.shape) for spec in found.outputs]


def guards(found: Snapshot) -> list[tuple[str, str]]:
    return [(guard.kind, guard.text) for guard in found.guards]


# --- inputs and their dimensions ------------------------------------------------------------------------


def test_unnamed_dimensions_are_called_by_their_place() -> None:
    dim = Dimension("x", 2, "x[2]", "x[2]", 6, Declared(ANY, "Dim.AUTO"), parameter="x")
    spec = exported("pool").evidence.inputs[0]
    assert isinstance(spec, InputSpec)
    assert spec.dims[2] == dim
    assert (spec.name, spec.dtype, spec.shape) == ("x", "torch.float32", ("x[0]", "x[1]", "x[2]", "x[3]"))
    assert exported("pool").evidence.declared == dict.fromkeys(spec.shape, ANY)
    assert exported("pool").evidence.example == {"x[0]": 1, "x[1]": 2, "x[2]": 6, "x[3]": 6}


def test_static_dimensions_are_numbers() -> None:
    assert shapes("pool_height") == {"x": (1, 2, "x[2]", "x[3]")}
    assert list(exported("pool_height").sizes()) == ["x[2]", "x[3]"]


def test_a_shared_name_is_one_variable() -> None:
    case = exported("shared")
    assert shapes("shared") == {"x": ("n", 3), "y": ("n", 5)}
    assert case.sizes() == {"x[0]": ("n", "n", 2, "'n'"), "y[0]": ("n", "n", 2, "'n'")}
    assert (case.evidence.declared, case.evidence.example) == ({"n": ANY}, {"n": 2})


def test_a_shared_name_with_different_examples_gives_way_to_places() -> None:
    case = exported("shared_unequal")
    assert shapes("shared_unequal") == {"x": ("x[0]", 3), "y": ("y[0]", "k")}
    assert case.sizes() == {
        "x[0]": ("x[0]", "x[0]", 2, "'n'"),
        "y[0]": ("y[0]", "y[0]", 4, "'n'"),
        "y[1]": ("k", "k", 5, "'k'"),
    }
    assert case.evidence.example == {"x[0]": 2, "y[0]": 4, "k": 5}


def test_derived_dimensions_are_texts_over_their_root() -> None:
    case = exported("derived")
    assert shapes("derived") == {"x": ("h", 3), "y": ("2*h", 5)}
    assert case.sizes() == {"x[0]": ("h", "h", 2, "Dim('h', min=2, max=64)"), "y[0]": ("y[0]", "2*h", 4, "2*h")}
    assert (case.evidence.declared, case.evidence.example) == ({"h": SizeRange(2, 64)}, {"h": 2})
    assert case.found.findings == []


def test_a_root_that_is_no_input_dimension() -> None:
    case = exported("derived_only")
    assert shapes("derived_only") == {"x": (2, 3), "y": ("2*r", 5)}
    assert (case.evidence.declared, case.evidence.example) == ({"r": SizeRange(3, 64)}, {"r": 8})
    assert str(case.evidence.dims[0].declared) == "6–128"
    assert outputs(snapshot("derived_only", "capture"))[1] == ("relu_1", "torch.float32", ("2 * r", 5))


def test_what_was_declared_is_no_finding_of_a_derived_dimension() -> None:
    assert exported("derived_only").found.findings == []


def test_two_symbols_that_torch_made_one_keep_their_own_names() -> None:
    case = exported("sum")
    assert shapes("sum") == {"x": ("x[0]", 3), "y": ("y[0]", 3)}
    assert [guard.text for guard in case.group.guards] == ["x[0] == y[0]"]
    assert case.admitted() == [{"x[0]": "equal to y[0]", "y[0]": "equal to x[0]"}]
    assert case.group.origin.op == "aten.add.Tensor"
    assert {shape for _, _, shape in outputs(snapshot("sum", "capture"))} <= {("x[0]", 3), ("y[0]", 3)}


def test_onnx_names_come_from_input_names() -> None:
    assert shapes("with_none") == {"p": ("m", 3), "q": (4, "w")}
    assert exported("with_none").sizes() == {"p[0]": ("m", "m", 2, "'m'"), "q[1]": ("w", "w", 5, "'w'")}


def test_an_input_that_is_none_is_no_onnx_input() -> None:
    names = [(p.name, p.onnx, p.leaf.path if p.leaf else None) for p in exported("with_none").inputs.placeholders]
    assert names == [("x", "p", "x"), ("mask", None, "mask"), ("y", "q", "y")]


def test_a_number_among_the_inputs_is_no_dimension_and_no_finding() -> None:
    case = exported("times_number")
    assert shapes("times_number") == {"x": ("m", 3), "y": (4, "w")}
    assert case.evidence.example == {"m": 2, "w": 5}
    assert case.found.findings == []


def test_nested_inputs() -> None:
    case = exported("nested")
    assert shapes("nested") == {
        "data_b": ("n", 2),
        "data_a": ("n", 3),
        "pair_0": (4, "pair_0[1]"),
        "pair_1_0": (5, "k"),
        "scale": ("scale[0]", 7),
    }
    assert case.sizes() == {
        "data_b[0]": ("n", "n", 2, "'n'"),
        "data_a[0]": ("n", "n", 2, "'n'"),
        "pair_0[1]": ("pair_0[1]", "pair_0[1]", 2, "Dim.AUTO"),
        "pair_1_0[1]": ("k", "k", 5, "Dim('k', min=3, max=9)"),
        "scale[0]": ("scale[0]", "scale[0]", 6, "Dim.DYNAMIC"),
    }
    assert case.evidence.declared == {"n": ANY, "pair_0[1]": ANY, "k": SizeRange(3, 9), "scale[0]": ANY}
    assert case.found.findings == []


def test_a_registered_cache() -> None:
    assert shapes("cache") == {
        "x": ("b", 2),
        "past_keys_0": ("b", 3),
        "past_keys_1": ("b", "t"),
        "past_values_0": ("b", 3),
        "past_values_1": ("b", 4),
    }
    assert exported("cache").evidence.example == {"b": 2, "t": 4}
    assert exported("cache").recording.missing == []


def test_a_program_exported_before() -> None:
    case = exported("program")
    assert shapes("program") == {"x": (1, 2, "x[2]", "x[3]")}
    assert case.admitted() == [{"x[2]": "exactly 6", "x[3]": "exactly 6"}]
    assert {text for _, _, _, text in case.sizes().values()} == {"symbolic in the program"}
    assert all(p.leaf is None for p in case.inputs.placeholders)


def test_strict_capture_maps_its_own_numbering() -> None:
    assert shapes("strict") == {"x": ("x[0]", "x[1]"), "y": (2, "y[1]")}
    texts = [guard.text for group in exported("strict").evidence.groups for guard in group.guards]
    assert texts == ["x[0] > 2", "x[1] % 2 == 0", "y[1] == 5"]


# --- example inputs -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nested", ["data_b", "data_a", "pair_0", "pair_1_0", None, "scale"]),
        ("with_none", ["p", None, "q"]),
        ("times_number", ["x", None, "y"]),
        ("cache", ["x", "past_keys_0", "past_keys_1", "past_values_0", "past_values_1"]),
        ("program", ["x"]),
    ],
)
def test_example_parts_name_the_onnx_input_of_each_leaf(name: str, expected: list[str | None]) -> None:
    parts = evidence.example_parts(exported(name).recording, exported(name).inputs)
    assert parts is not None
    leaves, names, tree, unflatten = parts
    assert list(names) == expected
    spec = {s.name: s for s in exported(name).evidence.inputs}
    for leaf, onnx in zip(leaves, names):
        if onnx is not None:
            assert len(leaf.shape) == len(spec[onnx].shape)
            fixed = [(a, size) for a, size in enumerate(spec[onnx].shape) if isinstance(size, int)]
            assert [(axis, leaf.shape[axis]) for axis, _ in fixed] == fixed
    args, kwargs = unflatten(leaves, tree)
    assert set(kwargs) == set(CASES[name].options.get("kwargs", {}))


def test_the_same_tensor_given_twice_has_two_names() -> None:
    same = torch.randn(3, 3)
    recording = Recording()
    with hooks.recording(recording):
        onnx_export(Kron().eval(), (same, same))
    _, inputs = evidence.build(recording)
    parts = evidence.example_parts(recording, inputs)
    assert parts is not None
    assert parts[1] == ("a", "b")


# --- groups ---------------------------------------------------------------------------------------------


def test_adaptive_pooling_to_a_height_leaves_only_a_range() -> None:
    case = exported("pool_height")
    new = [(kind, text) for kind, text in guards(snapshot("pool_height", "decompose")) if "x[2]" in text]
    assert new == [("range", "x[2] == 6")]
    (group,) = [g for g in case.evidence.groups if g.stage == "decompose"]
    assert [guard.text for guard in group.guards] == ["x[2] == 6"]
    assert case.admitted() == [{"x[2]": "exactly 6"}]
    assert [(change.stage, change.effect) for change in case.found.changes] == [
        ("capture", "small"),
        ("decompose", "restricts"),
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("pool", [{"x[2]": "exactly 6", "x[3]": "exactly 6"}]),
        ("kron", [{"a[0]": "exactly 2", "a[1]": "exactly 3", "b[0]": "exactly 4", "b[1]": "exactly 5"}]),
        ("max_over_all", [{"x[2]": "exactly 7"}]),
        ("half", [{"x[1]": "6–7"}]),
        ("branch", [{"x[1]": "at least 5"}]),
        ("loop", [{"x[1]": "exactly 4"}]),
        ("submodule", [{"x[1]": "even sizes"}]),
        ("shared", []),
        ("shared_unequal", []),
        ("with_none", []),
        ("cache", []),
        ("unbacked", []),
    ],
)
def test_what_is_admitted(name: str, expected: list[dict[str, str]]) -> None:
    assert exported(name).admitted() == expected


def test_a_layer_fixed_by_a_pooling_is_no_root_cause_but_a_pooling_beside_it_is() -> None:
    case = exported("classifier")
    nodes = [(g.origin.node, sorted(g.upstream)) for g in case.evidence.groups]
    assert nodes == [
        ("adaptive_avg_pool2d", ["x"]),
        ("adaptive_avg_pool2d_1", ["x"]),
        ("linear", ["adaptive_avg_pool2d", "flatten", "p_linear_bias", "p_linear_weight", "x"]),
    ]
    assert [finding.origin.node for finding in case.found.findings] == ["adaptive_avg_pool2d", "adaptive_avg_pool2d_1"]
    assert [change.effect for change in case.found.changes] == ["restricts", "restricts", "entailed"]
    assert [change.finding for change in case.found.changes] == [0, 1, None]
    assert case.evidence.groups[2].origin.module_path == "linear"


def test_a_group_has_each_guard_once() -> None:
    for name in ("pool", "kron", "classifier", "layers"):
        for group in exported(name).evidence.groups:
            texts = [guard.text for guard in group.guards]
            assert len(texts) == len(set(texts))


def test_unbacked_guards_are_marked() -> None:
    case = exported("unbacked")
    (guard,) = case.group.guards
    assert (guard.text, guard.unbacked, guard.variables) == ("u0 < 100", True, ())
    assert [change.effect for change in case.found.changes] == ["unbacked"]
    assert case.evidence.example == {"h": 3}


# --- snapshots ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pool", "kron", "other_order", "program", "strict", "nested"])
def test_one_snapshot_per_boundary(name: str) -> None:
    found = [(s.stage, s.when, s.state_read) for s in exported(name).evidence.snapshots]
    assert found == [
        ("capture", "after", True),
        ("decompose", "before", True),
        ("decompose", "after", True),
        ("translate", "after", False),
        ("optimize", "after", False),
    ]


def test_snapshots_of_a_specialization_at_decomposition() -> None:
    assert guards(snapshot("pool", "capture")) == guards(snapshot("pool", "decompose", "before")) == []
    after = guards(snapshot("pool", "decompose"))
    assert after[:4] == [
        ("assert", "x[2] % 2 == 0"),
        ("assert", "x[3] % 3 == 0"),
        ("assert", "x[2] // 2 == 3"),
        ("assert", "x[3] // 3 == 2"),
    ]
    assert after[-2:] == [("range", "x[2] >= 3"), ("range", "x[3] >= 2")]
    assert len(after) == len(set(after)) == 9
    assert outputs(snapshot("pool", "capture")) == [("adaptive_avg_pool2d", "torch.float32", ("x[0]", "x[1]", 2, 3))]
    assert outputs(snapshot("pool", "decompose")) == [
        ("avg_pool2d", "torch.float32", ("x[0]", "x[1]", "x[2] // 3", "x[3] // 2"))
    ]


def test_snapshots_of_a_specialization_at_capture() -> None:
    first = guards(snapshot("kron", "capture"))
    texts = ["a[0] == 2", "a[1] == 3", "b[0] == 4", "b[1] == 5"]
    assert first == [("range", text) for text in texts] + [("constraint", text) for text in texts]
    assert first == guards(snapshot("kron", "decompose", "before")) == guards(snapshot("kron", "decompose"))


def test_snapshots_after_translation_hold_what_the_file_says() -> None:
    for stage in ("translate", "optimize"):
        found = snapshot("pool", stage)
        assert found.guards == ()
        ((name, shape),) = found.inputs
        assert name == "x"
        assert [type(size) for size in shape] == [str] * 4
        ((output, dtype, sizes),) = outputs(found)
        assert (output, dtype, len(sizes)) == ("avg_pool2d", "FLOAT", 4)
    assert dict(snapshot("negative", "optimize").inputs)["x"] == (2, 3)
    assert [name for name, _ in snapshot("other_order", "optimize").inputs] == ["p", "q"]


def test_the_state_holds_what_each_stage_added() -> None:
    assert {stage for stage, _ in exported("pool").evidence.state} == {"decompose"}
    assert [stage for stage, _ in exported("kron").evidence.state] == ["capture"] * 8
    both = [(stage, guard.text) for stage, guard in exported("pool_height").evidence.state]
    assert both == [("capture", "x[3] != 1"), ("decompose", "x[2] == 6")]


def modules(value: Any, seen: set[int]) -> set[str]:
    """Top-level modules of the types of everything that a record holds."""
    if id(value) in seen:
        return set()
    seen.add(id(value))
    found = {type(value).__module__.split(".")[0]}
    if isinstance(value, dict):
        parts = [*value.keys(), *value.values()]
    elif isinstance(value, (list, tuple, set, frozenset)):
        parts = list(value)
    else:
        parts = list(vars(value).values()) if hasattr(value, "__dict__") else []
    for part in parts:
        found |= modules(part, seen)
    return found


@pytest.mark.parametrize("name", ["pool", "kron_named", "derived", "nested", "unbacked", "strict"])
def test_evidence_is_plain_data(name: str) -> None:
    made = exported(name).evidence
    assert isinstance(made, Evidence)
    assert modules(made, set()) == {"guarddiff", "builtins"}
    assert pickle.loads(pickle.dumps(made)) == made


def test_evidence_can_be_written_to_a_report() -> None:
    made = exported("pool").evidence
    data = ReportData(stages=made.snapshots, inputs=made.inputs, findings=tuple(exported("pool").found.findings))
    assert codec.to_dict(data)["stages"][2]["guards"][0]["text"] == "x[2] % 2 == 0"
    assert "tensor(" not in str(codec.to_dict(data))


def test_symbolic_outputs_are_those_of_the_capture() -> None:
    assert exported("half").evidence.symbolic_outputs == (OutputSpec("slice_1", "torch.float32", (2, "min(3, x[1])")),)
    assert notes.fixed_outputs(exported("pool").evidence) == ()


# --- dimensions that became static ----------------------------------------------------------------------


def statics(name: str) -> list[tuple[str, int, str, tuple[str, ...]]]:
    return [(s.dim.place, s.size, s.stage, s.instead) for s in exported(name).evidence.static]


def test_dynamic_axes_in_another_order_were_never_taken() -> None:
    assert statics("other_order") == [
        ("p[0]", 2, "declare", ("p[1]", "q[0]")),
        ("q[1]", 5, "declare", ("p[1]", "q[0]")),
    ]
    case = exported("other_order")
    assert case.sizes()["p[0]"] == ("m", "m", 2, "'m'")
    assert case.sizes()["p[1]"] == ("p[1]", "p[1]", 3, "static")
    assert [s.origin for s in case.evidence.static] == [Origin(), Origin()]
    (finding,) = case.found.findings
    assert (finding.stage, finding.op) == ("declare", "torch.onnx.export")
    assert finding.guards == ("m == 2", "n == 5")
    assert case.admitted() == [{"p[0]": "exactly 2", "q[1]": "exactly 5"}]


def test_a_negative_axis_was_never_taken() -> None:
    assert statics("negative") == [("x[1]", 3, "declare", ())]
    assert exported("negative").sizes() == {"x[1]": ("n", "n", 3, "'n'"), "y[0]": ("m", "m", 4, "'m'")}
    assert exported("negative").admitted() == [{"x[1]": "exactly 3"}]


def test_a_loop_over_a_named_dimension_was_fixed_at_capture() -> None:
    assert statics("loop_named") == [("x[1]", 4, "capture", ())]
    (static,) = exported("loop_named").evidence.static
    assert isinstance(static, StaticDimension)
    found = static.origin
    assert (found.op, found.module_path, found.branch, found.rule) == ("range() or index", "", True, None)
    assert found.source is not None
    text = "for i in range(x.shape[1]):"
    assert (found.source.file, found.source.line, found.source.text) == (HERE, line_of(text), text)
    assert exported("loop_named").admitted() == [{"x[1]": "exactly 4"}]


def test_an_operator_that_fixed_two_named_dimensions() -> None:
    assert statics("kron_named") == [("a[0]", 2, "capture", ()), ("b[1]", 5, "capture", ())]
    first, second = (s.origin for s in exported("kron_named").evidence.static)
    assert first == second
    assert (first.op, first.node) == ("aten.kron.default", "kron")
    (finding,) = exported("kron_named").found.findings
    assert finding.guards == ("rows == 2", "columns == 5")


@pytest.mark.parametrize("name", ["pool", "kron", "loop", "derived", "nested", "program"])
def test_nothing_is_static_that_was_meant_to_be(name: str) -> None:
    assert exported(name).evidence.static == ()


# --- through the pipeline -------------------------------------------------------------------------------


def test_a_whole_pipeline() -> None:
    model, args, options = case("pool")
    pipeline = Pipeline(Options(replay="off"))
    with hooks.recording(pipeline.recording):
        program = onnx_export(model, args, **options)
    report = pipeline.finish()
    assert report.program is program
    assert (report.status, report.model, report.missing, report.error) == ("specialized", "Pool", (), None)
    assert report.inputs == exported("pool").evidence.inputs
    assert report.stages == exported("pool").evidence.snapshots
    (finding,) = report.findings
    assert (finding.verdict, finding.reason) == ("unconfirmed", 'replay="off": nothing was run')
    assert finding.admits({"x": (1, 2, 6, 6)}) is True
    assert finding.admits({"x": (1, 2, 8, 6)}) is False
    assert [node.op_type for node in finding.onnx_nodes] == ["AveragePool"]


def test_an_export_that_raised_still_tells_what_was_captured() -> None:
    class Unsupported(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.qr(torch.nn.functional.adaptive_avg_pool2d(x, (2, 3)))

    recording = Recording()
    with pytest.raises(torch.onnx.OnnxExporterError), hooks.recording(recording):
        onnx_export(Unsupported().eval(), (torch.randn(1, 2, 6, 6),), dynamic_shapes=({2: AUTO, 3: AUTO},))
    made, _ = evidence.build(recording)
    assert [(s.stage, s.when) for s in made.snapshots] == [
        ("capture", "after"),
        ("decompose", "before"),
        ("decompose", "after"),
    ]
    assert [(spec.name, spec.shape) for spec in made.inputs] == [("x", (1, 2, "x[2]", "x[3]"))]
    assert made.static == ()
    (group,) = [g for g in made.groups if g.origin.op == "aten._adaptive_avg_pool2d.default"]
    assert group.guards[0].text == "x[2] % 2 == 0"


def test_a_model_with_no_symbolic_size() -> None:
    recording = Recording()
    with hooks.recording(recording):
        onnx_export(Pool().eval(), (torch.randn(1, 2, 6, 6),))
    made, _ = evidence.build(recording)
    assert (made.groups, made.state, made.static, made.dims) == ((), (), (), ())
    assert [(spec.name, spec.shape) for spec in made.inputs] == [("x", (1, 2, 6, 6))]
    assert recording.missing == []


def test_the_recorded_export_has_left_no_trace_in_the_model() -> None:
    model = Classifier().eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    recording = Recording()
    with hooks.recording(recording):
        onnx_export(model, (torch.randn(1, 2, 6, 6),), dynamic_shapes=({2: AUTO, 3: AUTO},))
    made, _ = evidence.build(recording)
    assert [group.origin.node for group in made.groups][0] == "adaptive_avg_pool2d"
    assert not model.training
    assert set(model.state_dict()) == set(before)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
