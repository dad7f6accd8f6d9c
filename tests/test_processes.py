"""Exports in forked and spawned processes, in threads at the same time, and inside one another."""

from __future__ import annotations

import multiprocessing
import threading
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

import guarddiff

KEYWORDS: dict[str, Any] = {"dynamo": True, "verbose": False}


class Pool(nn.Module):
    def forward(self, x: Any) -> Any:
        return F.adaptive_avg_pool2d(x, (2, 3))


class Clean(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.relu(x) + 1


def seen(model: nn.Module, **more: Any) -> tuple[str, list[str]]:
    """Status and findings of an export."""
    shapes = ({2: Dim.AUTO, 3: Dim.AUTO},)
    given = {"dynamic_shapes": shapes, "on_finding": "ignore", **KEYWORDS, **more}
    program = guarddiff.export(model.eval(), (torch.ones(1, 2, 6, 6),), **given)
    report = guarddiff.report_of(program)
    assert report is not None
    return report.status, [f"{finding.op} {finding.verdict}" for finding in report.findings]


POOLED = ("specialized", ["aten._adaptive_avg_pool2d.default confirmed"])


def send(answers: Any) -> None:
    """Runs in another process."""
    answers.put(seen(Pool()))


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_in_another_process(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no {method}")
    context = multiprocessing.get_context(method)
    answers = context.Queue()
    process = context.Process(target=send, args=(answers,))
    with guarddiff.watch(on_finding="raise") as reports:
        process.start()
        found = answers.get(timeout=240)
        process.join(60)
    assert process.exitcode == 0
    assert found == POOLED
    assert reports == []


def two_threads(answers: Any) -> None:
    """Runs in another process: torch's flags of the whole process can be left as the other thread had set them."""
    found: dict[str, Any] = {}
    start = threading.Barrier(2)

    def work(name: str, model: nn.Module) -> None:
        start.wait()
        try:
            found[name] = seen(model)
        except Exception as error:
            found[name] = f"{type(error).__module__}: {error}"

    threads = [
        threading.Thread(target=work, args=("pool", Pool())),
        threading.Thread(target=work, args=("clean", Clean())),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answers.put((found, seen(Pool())))


def test_two_threads_at_once_never_mix() -> None:
    """torch's exporter may fail there; what does not fail tells of its own model. Where one thread switches off that
    torch notes nodes, for all threads, the pooling's guards are laid at parts of its decomposition as well."""
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    process = context.Process(target=two_threads, args=(answers,))
    process.start()
    found, afterwards = answers.get(timeout=240)
    process.join(60)
    assert found.keys() == {"pool", "clean"}
    for name, told in found.items():
        if isinstance(told, str):
            assert told.startswith(("torch", "builtins")), told
            continue
        status, findings = told
        assert status in (POOLED[0] if name == "pool" else "clean", "incomplete")
        if name == "clean":
            assert findings == []
        else:
            assert POOLED[1][0] in findings
            assert not any("relu" in finding for finding in findings)
    assert afterwards == POOLED  # nothing is left behind


def test_an_export_inside_a_translation_function() -> None:
    from onnxscript import opset18 as op

    inner: list[Any] = []

    def translated(x: Any) -> Any:
        if not inner:
            inner.append(seen(Pool()))
        return op.Relu(x)

    table = {torch.ops.aten.relu.default: translated}
    with guarddiff.watch() as reports:
        assert seen(Clean(), custom_translation_table=table) == ("clean", [])
    assert inner == [POOLED]
    assert [(report.model, report.status) for report in reports] == [("Pool", "specialized"), ("Clean", "clean")]


def test_an_export_inside_a_forward() -> None:
    inner: list[Any] = []

    class Outer(nn.Module):
        def forward(self, x: Any) -> Any:
            if not inner:
                inner.append(None)
                try:
                    inner.append(seen(Pool()))
                except Exception as error:
                    inner.append(type(error).__name__)
            return torch.relu(x)

    plain: list[Any] = []

    class Plain(nn.Module):
        def forward(self, x: Any) -> Any:
            if not plain:
                plain.append(None)
                try:
                    torch.onnx.export(
                        Pool(), (torch.ones(1, 2, 6, 6),), dynamic_shapes=({2: Dim.AUTO, 3: Dim.AUTO},), **KEYWORDS
                    )
                    plain.append("exported")
                except Exception as error:
                    plain.append(type(error).__name__)
            return torch.relu(x)

    torch.onnx.export(
        Plain().eval(), (torch.ones(1, 2, 6, 6),), dynamic_shapes=({2: Dim.AUTO, 3: Dim.AUTO},), **KEYWORDS
    )
    assert seen(Outer()) == ("clean", [])
    assert len(inner) == len(plain) == 2
    assert (inner[1] == plain[1]) if isinstance(inner[1], str) else plain[1] == "exported"
