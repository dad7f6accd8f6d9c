"""Reproductions of real exports. Most are run on the shared workbench alone; some to the end, in a fresh process."""

from __future__ import annotations

import importlib.util
import math
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

import guarddiff
from guarddiff import proving
from guarddiff.core import forked
from guarddiff.core.finding import Finding
from guarddiff.core.origin import Origin
from guarddiff.core.proof import Reproduction
from guarddiff.replay import reproduce
from guarddiff.replay.prove import Prover
from guarddiff.replay.workbench import Workbench

pytestmark = pytest.mark.usefixtures("shared_registry")


def load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


far_away = load("far_away")


@pytest.fixture(scope="module")
def bench() -> Iterator[Workbench]:
    with Workbench(time.monotonic() + 3000) as made:
        yield made


class Kept:
    """The prover and the call of the last export."""

    prover: Prover
    call: reproduce.Call


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exports keep what a reproduction is made from, and make none themselves; all in this process."""

    def reproductions(findings: list[Finding], prover: Prover, call: reproduce.Call, *_: Any) -> list[Finding]:
        Kept.prover, Kept.call = prover, call
        return list(findings)

    monkeypatch.setattr(proving, "reproductions", reproductions)
    monkeypatch.setattr(forked, "possible", lambda: False)


def findings_of(model: nn.Module, args: tuple[Any, ...], more: dict[str, Any]) -> list[Finding]:
    report = guarddiff.check(model.eval(), args, verbose=False, on_finding="ignore", replay="full", **more)
    return [finding for finding in report.findings if finding.verdict == "confirmed"]


def quick(finding: Finding, bench: Workbench, seconds: float = 100.0, polishing: float = 2.0) -> Reproduction:
    """The reproduction, run on the workbench where it would be run in a fresh process."""
    end = time.monotonic() + seconds + reproduce._FRESH_SHARE
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reproduce, "fresh", lambda text, _: bench.shows(text))
        patch.setattr(reproduce, "_POLISHING", polishing)
        return reproduce._one(finding, reproduce._Work(Kept.prover, Kept.call, bench, end, {}))


# --- models -----------------------------------------------------------------------------------------------------------


class Pooling(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.adaptive_avg_pool2d(torch.relu(self.conv(x)), (2, 3)).flatten(1)


class Kron(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.kron(a, b) * 2


class PoolByShape(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x)
        return F.avg_pool2d(y, y.shape[2:]).flatten(1)


class Loop(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(3, 4)
        self.out = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Reads one step after the other."""
        h = c = torch.zeros(x.shape[0], 4)
        for step in range(x.shape[1]):
            h, c = self.cell(x[:, step], (h, c))
        return self.out(h)


class Branch(nn.Module):
    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        y = x * mask
        if x.shape[1] > 4:
            y = y - y.mean(1, keepdim=True)
        return y + 1


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.Embedding(20, 6)
        self.register_buffer("scale", torch.full((6,), 0.123456))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.emb(ids) * self.scale
        return x / math.sqrt(x.shape[1])


class Faraway(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return far_away.enlarged(self.stem(x)).relu()


class Inner(far_away.Base):
    @torch.no_grad()
    def forward(self, x: torch.Tensor, *, keep: torch.Tensor | None = None) -> torch.Tensor:
        y = super().forward(x)
        return y[..., : int(y.shape[2] * 0.5)] if keep is None else y


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.blocks = nn.ModuleList([Inner(), Inner()])

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        y = self.first(x).transpose(1, 2)
        return y, {"part": self.blocks[1](y)}


class Half(nn.Module):
    def forward(self, y: dict[str, torch.Tensor], x: torch.Tensor, scale: float | None = None) -> torch.Tensor:
        total = y["a"] + x.sum()
        rows = [row * 2 for row in x]
        return torch.stack(rows).sum(0) + total


IMAGE = torch.randn(1, 3, 12, 12)
CASES: dict[str, tuple[nn.Module, tuple[Any, ...], Any, set[str]]] = {
    "adaptive pooling, declared by names": (Pooling(), (IMAGE,), ({2: "h", 3: "w"},), {"operator"}),
    "kron, two inputs": (
        Kron(),
        (torch.randn(2, 3), torch.randn(4, 5)),
        ({0: Dim.AUTO, 1: Dim.AUTO}, {0: Dim.AUTO, 1: Dim.AUTO}),
        {"statement", "operator"},
    ),
    "avg_pool2d of the whole image": (
        PoolByShape(),
        (torch.randn(1, 2, 6, 8),),
        ({2: Dim.AUTO, 3: Dim.AUTO},),
        {"statement"},
    ),
    "a loop over steps": (Loop(), (torch.randn(2, 5, 3),), ({1: Dim.AUTO},), {"statement"}),
    "if on a size, a mask": (
        Branch(),
        (torch.randn(2, 3), torch.ones(2, 3, dtype=torch.bool)),
        ({1: "n"}, {1: "n"}),
        {"statement"},
    ),
    "a named Dim that becomes static": (Loop(), (torch.randn(2, 5, 3),), ({1: Dim("steps", min=2)},), {"statement"}),
    "math.sqrt of a size, embedding": (Scaled(), (torch.randint(0, 20, (2, 5)),), ({1: Dim.AUTO},), {"statement"}),
    "functions of another file": (Faraway(), (torch.randn(1, 1, 8, 8),), ({2: "h"},), {"statement"}),
    "nested modules, super(), a decorator": (Nested(), (torch.randn(2, 6, 8),), ({1: "n"},), {"statement"}),
    "float16, a dict and None": (
        Half(),
        ({"a": torch.randn(4).half()}, torch.randn(3, 4).half()),
        ({"a": {}}, {0: Dim.AUTO}),
        {"statement"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_kind_gets_a_short_script(name: str, bench: Workbench) -> None:
    model, args, shapes, scopes = CASES[name]
    found = findings_of(model, args, {"dynamic_shapes": shapes})
    assert found
    made = quick(found[0], bench)
    assert made.reason == ""
    assert made.scope in scopes
    assert made.lines <= 40
    assert "guarddiff" not in made.script
    assert "123456" not in made.script  # no value of a weight
    first, second = made.output.splitlines()
    assert first.endswith(": equal")
    assert second != first


def test_sizes_shrink_and_only_what_varies_is_declared(bench: Workbench) -> None:
    (found,) = findings_of(Pooling(), (torch.randn(2, 3, 24, 24),), {"dynamic_shapes": ({0: "b", 2: "h", 3: "w"},)})
    made = quick(found, bench, polishing=60.0)
    sizes = [line for line in made.script.splitlines() if line.startswith(("example = ", "other = "))]
    numbers = [int(n) for line in sizes for n in line.split("randn(")[1].split(")")[0].split(", ")]
    assert max(numbers) <= 12
    assert '"b"' not in made.script


def test_a_declaration_in_another_order_is_kept_word_for_word(bench: Workbench) -> None:
    axes = {"query": {0: "count"}, "image": {1: "channels"}}
    args = (torch.randn(3, 4), torch.randn(5, 6))
    found = findings_of(Pair(), args, {"dynamic_axes": axes, "input_names": ["image", "query"]})
    assert [finding.stage for finding in found] == ["declare"]
    made = quick(found[0], bench)
    assert made.reason == ""
    text = "dynamic_axes={'query': {0: 'count'}, 'image': {1: 'channels'}}, input_names=['image', 'query']"
    assert text in made.script
    assert "invalid dimensions for input" in made.output


class Pair(nn.Module):
    def forward(self, image: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
        return image.sum(1, keepdim=True) + query.mean(0).sum()


class Squeeze(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x).squeeze(1) * 2


def test_a_fault_of_the_translation_by_its_node(bench: Workbench) -> None:
    shapes = ({1: "n"},)
    (found,) = findings_of(Squeeze(), (torch.randn(3, 1, 4),), {"dynamic_shapes": shapes})
    assert found.stage == "translate"
    made = quick(found, bench)
    assert made.reason == ""
    assert made.scope == "operator"
    assert "torch.ops.aten.squeeze.dim" in made.script
    assert "relu" not in made.script


# --- where there is none ----------------------------------------------------------------------------------------------


class Calls(nn.Module):
    """A model of one function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def test_a_model_typed_at_a_prompt_has_a_reason(bench: Workbench) -> None:
    space: dict[str, Any] = {"torch": torch}
    text = "class Typed(torch.nn.Module):\n    def forward(self, x):\n        return x * float(x.shape[0])\n"
    exec(compile(text, "<stdin>", "exec"), space)
    (found,) = findings_of(space["Typed"](), (torch.randn(4),), {"dynamic_shapes": ({0: Dim.AUTO},)})
    made = quick(found, bench, 20)
    assert made.script == ""
    assert made.scope == ""
    assert made.reason
    assert "no small script" not in made.reason  # the renderers say that
    assert "not at hand" in made.reason


def test_a_lambda_among_others_on_its_line(bench: Workbench) -> None:
    both = (lambda x: x * float(x.shape[0]), lambda x: x)
    (found,) = findings_of(Calls(both[0]), (torch.randn(4),), {"dynamic_shapes": ({0: Dim.AUTO},)})
    made = quick(found, bench, 30)
    assert made.script == ""
    assert made.reason


def test_a_script_that_fails_in_a_fresh_process_is_not_given(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = findings_of(Squares(), (torch.randn(4),), {"dynamic_shapes": ({0: Dim.AUTO},)})
    monkeypatch.setattr(reproduce, "fresh", lambda *_: None)
    work = reproduce._Work(Kept.prover, Kept.call, bench, time.monotonic() + 40, {})
    made = reproduce._one(found, work)
    assert made.script == ""
    assert "did not show the difference in a fresh process" in made.reason


class Squares(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * float(x.shape[0])


# --- to the end -------------------------------------------------------------------------------------------------------


def test_all_findings_get_theirs_and_the_module_is_left_alone() -> None:
    model = Two().eval()
    found = findings_of(model, (torch.randn(1, 2, 6, 6),), {"dynamic_shapes": ({2: "h", 3: "w"},)})
    assert len(found) == 2
    state = {name: value.clone() for name, value in model.state_dict().items()}
    random, trace = torch.random.get_rng_state(), sys.gettrace()
    harmless = Finding(dims=(), stage="capture", op="x", origin=Origin(), verdict="harmless")
    made = reproduce.reproductions([harmless, *found], Kept.prover, Kept.call, 240.0)
    assert made[0].reproduction is None
    for finding in made[1:]:
        assert finding.reproduction is not None
        assert finding.reproduction.reason == ""
        assert finding.reproduction.output.splitlines()[0].endswith(": equal")
        assert finding.reproduction.output.splitlines()[1].endswith(": different")
    assert torch.equal(torch.random.get_rng_state(), random)
    assert sys.gettrace() is trace
    assert model.seen == 1
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


class Two(nn.Module):
    """Counts its calls; what it counts is the user's."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))
        self.seen = 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen = x.dim()
        return F.adaptive_avg_pool2d(x, (2, 3)).sum() + F.adaptive_max_pool2d(x, (3, 2))


def test_without_time_there_is_a_reason(bench: Workbench) -> None:
    (found,) = findings_of(Squares(), (torch.randn(4),), {"dynamic_shapes": ({0: Dim.AUTO},)})
    made = reproduce._one(found, reproduce._Work(Kept.prover, Kept.call, bench, time.monotonic() - 1, {}))
    assert made.script == ""
    assert "the time for it was used up" in made.reason


def test_nothing_is_started_where_nothing_is_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduce, "Workbench", None)
    harmless = Finding(dims=(), stage="capture", op="x", origin=Origin(), verdict="harmless")
    assert reproduce.reproductions([harmless], None, None) == [harmless]  # type: ignore[arg-type]


def test_an_error_of_ours_becomes_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("made up")

    monkeypatch.setattr(reproduce, "Workbench", broken)
    confirmed = Finding(dims=(), stage="capture", op="x", origin=Origin(), verdict="confirmed")
    (made,) = reproduce.reproductions([confirmed], None, None)  # type: ignore[arg-type]
    assert made.reproduction is not None
    assert "making it failed" in made.reproduction.reason
