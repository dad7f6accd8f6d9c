"""``probe`` on models made by hand: no torch is needed."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from guarddiff.cli import probe_text
from guarddiff.core import child
from guarddiff.replay import probe_points, probing
from guarddiff.replay.probe_model import NoModel, Value, read
from guarddiff.replay.probe_points import NoInputs
from guarddiff.replay.probing import ProbeResult, probe

Sizes = Sequence[int | str]


def saved(
    folder: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, Sizes],
    outputs: dict[str, Sizes],
    held: dict[str, np.ndarray] | None = None,
    kinds: dict[str, int] | None = None,
) -> str:
    """A model of these nodes, written into ``folder``."""
    kinds = kinds or {}
    made = [
        [
            helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), shape)
            for name, shape in group.items()
        ]
        for group in (inputs, outputs)
    ]
    initial = [numpy_helper.from_array(array, name) for name, array in (held or {}).items()]
    graph = helper.make_graph(list(nodes), "g", *made, initial)
    path = folder / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return str(path)


def node(op: str, inputs: Sequence[str], **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op, list(inputs), ["y"], name=f"the_{op}", **attributes)


def sizes(runs: Sequence[probing.Run]) -> list[dict[str, int]]:
    return [run.sizes for run in runs]


# --- what is right stays silent ---


def test_clean(tmp_path: Path) -> None:
    found = probe(saved(tmp_path, [node("Relu", "x")], {"x": ["n", "h"]}, {"y": ["n", "h"]}))
    assert found.status == "clean"
    assert found.symbols == ("n", "h")
    assert len(found.runs) > 5
    assert all(run.state == "ran" and run.outputs["y"] == run.shapes["x"] for run in found.runs)
    assert len({tuple(run.shapes["x"]) for run in found.runs}) == len(found.runs)


def test_a_symbol_moves_everywhere_together(tmp_path: Path) -> None:
    path = saved(tmp_path, [node("Add", ["a", "b"])], {"a": ["n", 3], "b": ["n", 3]}, {"y": ["n", 3]})
    found = probe(path)
    assert found.status == "clean"
    assert found.symbols == ("n",)
    assert all(run.shapes["a"] == run.shapes["b"] for run in found.runs)


def test_a_derived_size_follows(tmp_path: Path) -> None:
    path = saved(tmp_path, [node("Concat", ["a", "b"], axis=0)], {"a": ["n"], "b": ["2*n"]}, {"y": ["3*n"]})
    found = probe(path)
    assert found.status == "clean"
    assert found.symbols == ("n",)
    assert all(run.shapes["b"] == (2 * run.sizes["n"],) for run in found.runs)


def test_nothing_dynamic(tmp_path: Path) -> None:
    found = probe(saved(tmp_path, [node("Relu", "x")], {"x": [2, 3]}, {"y": [2, 3]}))
    assert (found.status, found.runs) == ("clean", ())
    assert "No input is declared dynamic" in probe_text.to_text(found, "m.onnx")


def test_a_smallest_size_alone_is_no_fault(tmp_path: Path) -> None:
    weight = {"w": np.ones((1, 1, 5), np.float32)}
    path = saved(tmp_path, [node("Conv", ["x", "w"])], {"x": [1, 1, "n"]}, {"y": [1, 1, "n - 4"]}, weight)
    found = probe(path)
    assert found.status == "clean"
    assert found.too_small
    assert all(run.sizes["n"] < 5 for run in found.too_small)
    assert not found.failing


# --- what can be suspected ---


def reshape(folder: Path) -> str:
    held = {"shape": np.asarray([2, 18], np.int64)}
    return saved(folder, [node("Reshape", ["x", "shape"])], {"x": [2, "h", "w"]}, {"y": [2, 18]}, held)


def test_a_fixed_reshape(tmp_path: Path) -> None:
    found = probe(reshape(tmp_path), [{"h": 3, "w": 6}])
    assert found.status == "suspected"
    assert any(run.state == "ran" and run.sizes == {"h": 3, "w": 6} for run in found.runs)
    assert found.failing
    assert all("Reshape" in run.why for run in found.failing)
    (suspect,) = found.suspects
    assert (suspect.node, suspect.op) == ("the_Reshape", "Reshape")
    assert suspect.why == "a fixed shape (2, 18) for a value of size (2, h, w)"


def test_what_a_model_carries_is_tried_and_named(tmp_path: Path) -> None:
    held = {"position": np.ones((1, 11, 4), np.float32)}
    path = saved(tmp_path, [node("Add", ["x", "position"])], {"x": ["b", "n", 4]}, {"y": ["b", "n", 4]}, held)
    found = probe(path)
    assert found.status == "suspected"
    ran = {run.sizes["n"] for run in found.runs if run.state == "ran"}
    assert 11 in ran  # no usual size: it was read from the model
    assert ran <= {1, 11}
    assert [(c.node, c.number, c.where) for c in found.carriers] == [("the_Add", 11, "shape of input 1")]
    assert [s.why for s in found.suspects] == ["a size of exactly 11 meets n on axis -2"]


def test_a_matrix_of_fixed_size(tmp_path: Path) -> None:
    held = {"w": np.ones((20, 3), np.float32)}
    found = probe(saved(tmp_path, [node("MatMul", ["x", "w"])], {"x": [2, "k"]}, {"y": [2, 3]}, held), [{"k": 20}])
    assert found.status == "suspected"
    assert [s.why for s in found.suspects] == ["takes exactly 20 features and is given k"]
    assert {run.sizes["k"] for run in found.runs if run.state == "ran"} == {20}


def test_an_output_that_is_declared_otherwise(tmp_path: Path) -> None:
    path = saved(tmp_path, [node("Concat", ["x", "x"], axis=0)], {"x": ["n"]}, {"y": ["n"]})
    found = probe(path, [{"n": 5}])
    assert found.status == "suspected"
    (run,) = [run for run in found.runs if run.sizes == {"n": 5}]
    assert run.contradictions == ("y[0] is 10, declared is n = 5",)


def test_a_fixed_output_of_a_dynamic_input(tmp_path: Path) -> None:
    found = probe(saved(tmp_path, [node("Relu", "x")], {"x": ["n"]}, {"y": [6]}))
    assert found.status == "suspected"
    assert all(bool(run.contradictions) == (run.sizes["n"] != 6) for run in found.runs)


def test_a_symbol_of_an_output_alone_may_be_anything(tmp_path: Path) -> None:
    path = saved(tmp_path, [node("Concat", ["x", "x"], axis=0)], {"x": ["n"]}, {"y": ["some_size"]})
    assert probe(path).status == "clean"


def pooled(folder: Path, line: str) -> str:
    pool = node("AveragePool", "x", kernel_shape=[3, 2], strides=[3, 2])
    pool.metadata_props.add(key="pkg.torch.onnx.stack_trace", value=f'File "net.py", line 4, in forward\n    {line}')
    return saved(folder, [pool], {"x": [1, 1, "h", "w"]}, {"y": [1, 1, "h//3", "w//2"]})


def test_adaptive_pooling_with_a_fixed_kernel(tmp_path: Path) -> None:
    found = probe(pooled(tmp_path, "return F.adaptive_avg_pool2d(x, (2, 3))"))
    assert found.status == "suspected"
    (suspect,) = found.suspects
    assert suspect.source == "return F.adaptive_avg_pool2d(x, (2, 3))"
    assert "fixed kernel of 3×2" in suspect.why
    text = probe_text.to_text(found, "m.onnx")
    assert "Without the source model this can only be suspected" in text


def test_pooling_with_a_kernel_that_was_asked_for(tmp_path: Path) -> None:
    found = probe(pooled(tmp_path, "return F.avg_pool2d(x, (3, 2))"))
    assert found.suspects == ()
    assert found.status == "clean"


# --- inputs ---


def test_positions_exist(tmp_path: Path) -> None:
    table = {"table": np.ones((1, 4), np.float32)}  # position 0 alone
    path = saved(
        tmp_path, [node("Gather", ["table", "i"])], {"i": ["b", "n"]}, {"y": ["b", "n", 4]}, table,
        {"i": TensorProto.INT64},
    )  # fmt: skip
    found = probe(path)
    assert found.status == "clean", found
    assert all(run.state == "ran" for run in found.runs)


@pytest.mark.parametrize(
    "kind",
    [
        TensorProto.FLOAT16,
        TensorProto.DOUBLE,
        TensorProto.INT8,
        TensorProto.UINT64,
        TensorProto.BOOL,
        TensorProto.STRING,
    ],
)
def test_kinds_of_inputs(tmp_path: Path, kind: int) -> None:
    path = saved(tmp_path, [node("Identity", "x")], {"x": ["n"]}, {"y": ["n"]}, kinds={"x": kind, "y": kind})
    found = probe(path)
    assert found.status == "clean", found
    assert found.runs


def test_bfloat16_is_told(tmp_path: Path) -> None:
    kinds = {"x": TensorProto.BFLOAT16, "y": TensorProto.BFLOAT16}
    found = probe(saved(tmp_path, [node("Identity", "x")], {"x": ["n"]}, {"y": ["n"]}, kinds=kinds))
    assert found.status == "incomplete"
    assert found.missing == ("no inputs can be made: x has the type bfloat16",)


def test_a_model_that_runs_nowhere(tmp_path: Path) -> None:
    held = {"shape": np.asarray([1009, 1013], np.int64)}
    path = saved(tmp_path, [node("Reshape", ["x", "shape"])], {"x": ["n", 3]}, {"y": ["a", "b"]}, held)
    found = probe(path)
    assert not any(run.state == "ran" for run in found.runs)
    assert "it ran at none of the sizes that were tried: give some with --sizes" in found.missing


def test_an_operator_that_is_unknown(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Own", ["x"], ["y"], domain="own")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])],
    )
    domains = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    onnx.save(helper.make_model(graph, opset_imports=domains, ir_version=9), tmp_path / "m.onnx")
    found = probe(str(tmp_path / "m.onnx"))
    assert found.status == "incomplete"
    assert "ONNX Runtime can't run the model" in found.missing[0]


# --- the user's own sizes ---


def test_own_sizes_by_symbol_and_place(tmp_path: Path) -> None:
    path = saved(tmp_path, [node("Relu", "x")], {"x": ["n", ""]}, {"y": ["n", ""]})
    found = probe(path, [{"n": 17, "x[1]": 19}, {"x[0]": 23}])
    shapes = [run.shapes["x"] for run in found.runs]
    assert (17, 19) in shapes
    assert any(shape[0] == 23 for shape in shapes)
    with pytest.raises(ValueError, match=r"no dynamic size 'm'; there are n, x\[1\]"):
        probe(path, [{"m": 3}])


@pytest.mark.parametrize(
    ("declared", "point", "why"),
    [
        (
            ["h", "w"],
            {"h": 40000, "w": 40000},
            "h=40000 w=40000 was not run: x would have more than 67,108,864 elements",
        ),
        (["h", "h-9"], {"h": 5}, "h=5 was not run: the size h-9 of x[1] would be negative"),
        (["h", "64//(h-7)"], {"h": 7}, "h=7 was not run: the size 64//(h-7) of x[1] can't be worked out"),
    ],
)
def test_own_sizes_that_can_not_be_run_are_told(
    tmp_path: Path, declared: Sizes, point: dict[str, int], why: str
) -> None:
    path = saved(tmp_path, [node("Relu", "x")], {"x": declared}, {"y": declared})
    assert probe(path).status == "clean"
    found = probe(path, [point, dict(point)])
    assert (found.status, found.missing) == ("incomplete", (why,))
    assert point not in sizes(found.runs)
    assert f"Missing:\n- {why}\n" in probe_text.to_text(found, "m.onnx")


# --- ONNX Runtime in a process of its own ---


def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> str:
    """A model whose worker loads and then does ``body`` for each request (``n`` is its size)."""
    script = tmp_path / "worker.py"
    script.write_text(
        "import json, os, signal, sys, time\n"
        "print(json.dumps({'loaded': True, 'types': {'x': 'tensor(float)'}}), flush=True)\n"
        "for line in sys.stdin:\n"
        "    n = json.loads(line)['shapes']['x'][0]\n"
        f"    {body}\n"
        "    print(json.dumps({'ok': True, 'outputs': [['y', [n]]]}), flush=True)\n"
    )
    real = child.subprocess.Popen

    def started(command: list[str], **options: object) -> object:
        assert command[:3] == [sys.executable, "-m", "guarddiff.replay.probe_worker"]
        return real([sys.executable, str(script)], **options)  # type: ignore[call-overload]

    monkeypatch.setattr(child.subprocess, "Popen", started)
    return saved(tmp_path, [node("Relu", "x")], {"x": ["n"]}, {"y": ["n"]})


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_a_crash_is_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = f"n == 17 and os.kill(os.getpid(), {int(signal.SIGSEGV)})"
    found = probe(worker(tmp_path, monkeypatch, body), [{"n": 17}])
    (crashed,) = [run for run in found.runs if run.state == "crashed"]
    assert crashed.sizes == {"n": 17}
    assert crashed.why == "ONNX Runtime crashed (SIGSEGV)"
    assert found.status == "suspected"
    assert len([run for run in found.runs if run.state == "ran"]) == 5  # it went on in another process


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_it_gives_up_after_a_few_crashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = probe(worker(tmp_path, monkeypatch, f"os.kill(os.getpid(), {int(signal.SIGSEGV)})"))
    assert [run.state for run in found.runs] == ["crashed"] * 3
    assert any("crashed or hung 3 times" in text for text in found.missing)
    assert found.status == "suspected"


def test_it_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = probe(worker(tmp_path, monkeypatch, "time.sleep(60)"), seconds=1)
    assert {run.state for run in found.runs} == {"slow"}
    assert found.status == "incomplete"


def test_no_process_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = []
    real = child.subprocess.Popen

    def started(*arguments: object, **options: object) -> object:
        ended.append(real(*arguments, **options))  # type: ignore[call-overload]
        return ended[-1]

    monkeypatch.setattr(child.subprocess, "Popen", started)
    probe(saved(tmp_path, [node("Relu", "x")], {"x": ["n"]}, {"y": ["n"]}))
    assert [process.poll() is not None for process in ended] == [True]


def test_progress_is_told(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    probe(saved(tmp_path, [node("Relu", "x")], {"x": ["n"]}, {"y": ["n"]}), told=lambda *step: told.append(step))
    assert told
    assert all(0 <= done <= of for done, of in told)


# --- parts ---


def test_reading_needs_no_weights(tmp_path: Path) -> None:
    model = read(reshape(tmp_path))
    assert model.inputs == (Value("x", "float", (2, "h", "w")),)
    assert model.numbers == (2, 18)
    with pytest.raises(NoModel):
        read(str(tmp_path / "nowhere.onnx"))


def test_points() -> None:
    inputs = (Value("x", "float", ("n", 3, None)), Value("y", "float", ("2*n",)))
    assert probe_points.free_symbols(inputs) == {"n": 0, "x[2]": 2}
    assert probe_points.shapes(inputs, {"n": 4, "x[2]": 5}) == {"x": (4, 3, 5), "y": (8,)}
    with pytest.raises(NoInputs, match=r"the size x\[2\] of x\[2\] can't be worked out"):
        probe_points.shapes(inputs, {"n": 4})
    with pytest.raises(NoInputs, match="x would have more than 67,108,864 elements"):
        probe_points.shapes(inputs, {"n": 2**20, "x[2]": 2**20})
    around = probe_points.around({"n": 4, "h": 6})
    assert {"n": 8, "h": 12} in around
    assert {"n": 6, "h": 4} in around
    assert {"n": 4, "h": 6} not in around
    assert {"n": 37, "h": 37} in probe_points.starts({"n": 1, "h": 2}, [37])


def test_hostile_names_are_escaped(tmp_path: Path) -> None:
    bad = "\x1b[31m\n# x"
    relu = helper.make_node("Relu", [bad], ["y"], name=bad)
    found = probe(saved(tmp_path, [relu], {bad: [bad]}, {"y": [6]}))
    text = probe_text.to_text(found, bad)
    assert all(char == "\n" or char.isprintable() for char in text)
    assert "\n# x" not in text
    probe_text.to_json(found).encode("ascii")


def test_text_of_every_kind(tmp_path: Path) -> None:
    run = probing.Run({"n": 40}, {"x": (40,)}, "failed", "Fail: no")
    fine = probing.Run({"n": 8}, {"x": (8,)}, "ran", outputs={"y": (8,)})
    found = ProbeResult("suspected", (Value("x", "float", None),), (), ("n",), (fine, run))
    assert sizes(found.failing) == [{"n": 40}]
    text = probe_text.to_text(found, "m.onnx")
    assert "x: float, no shape declared" in text
    assert "at n=40: Fail: no" in text
