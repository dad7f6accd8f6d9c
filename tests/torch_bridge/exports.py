"""Small models and their recorded exports, each made once per session. Every export is a real one."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tests.registry import shared_registry
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

from guarddiff.analysis import attribute
from guarddiff.core.evidence import Evidence, Group
from guarddiff.torch_bridge import evidence, hooks, origin
from guarddiff.torch_bridge.record import Recording

AUTO = Dim.AUTO
HERE = origin.shorten(__file__)
"""This file as an origin names it."""


def line_of(text: str) -> int:
    """Number of the only line of this file with this text."""
    lines = Path(__file__).read_text().splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if line.strip() == text]
    return number


class Pool(nn.Module):
    def forward(self, x):
        return F.adaptive_avg_pool2d(x, (2, 3))


class PoolHeight(nn.Module):
    def forward(self, x):
        return F.adaptive_avg_pool2d(x, (1, None))


class Kron(nn.Module):
    def forward(self, a, b):
        return torch.kron(a, b)


class MaxOverAll(nn.Module):
    def forward(self, x):
        return F.max_pool1d(x, x.size(2))


class Half(nn.Module):
    def forward(self, x):
        return x[:, : int(x.shape[1] * 0.5)]


class Root(nn.Module):
    def forward(self, x):
        return x / math.sqrt(x.shape[1])


class Float(nn.Module):
    def forward(self, x):
        return x * float(x.shape[1])


class Greatest(nn.Module):
    def forward(self, x):
        return x * max(x.shape[1] * 0.5, 2)


class Branch(nn.Module):
    def forward(self, x):
        if x.shape[1] > 4:
            return x + 1
        return x - 1


class Loop(nn.Module):
    def forward(self, x):
        total = x[:, 0]
        for i in range(x.shape[1]):
            total = total + x[:, i]
        return total


class Even(nn.Module):
    def forward(self, x):
        if x.shape[1] % 2 == 0:
            return x * 2
        return x


class InSubmodule(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(Even(), nn.ReLU())

    def forward(self, x):
        return self.features(x)


class InLayers(nn.Module):
    """Guards that torch's own layers ask for, at capture and at decomposition."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.ReLU(), nn.Unflatten(0, (2, -1)), nn.AdaptiveAvgPool2d((2, 3)))

    def forward(self, x):
        return self.features(x)


class StrictOnly(nn.Module):
    """A model that non-strict capture can't export, so that the exporter falls back on the strict one."""

    def __init__(self):
        super().__init__()
        self.even = Even()

    def forward(self, x, y):
        if not torch.compiler.is_dynamo_compiling():
            raise RuntimeError("strict capture only")
        if x.shape[0] > 2:
            x = x + 1
        x = self.even(x)
        return x, torch.kron(y, y)


class Two(nn.Module):
    def forward(self, x, y):
        return x.relu(), y.relu()


class Sum(nn.Module):
    def forward(self, x, y):
        return x + y


class Nested(nn.Module):
    def forward(self, data, pair, mask=None, *, scale):
        return data["a"].relu(), data["b"] - 1, pair[0] + 1, pair[1][0] * 2, scale * 1


class WithNone(nn.Module):
    def forward(self, x, mask, y):
        return x.relu(), y.sigmoid()


class TimesNumber(nn.Module):
    def forward(self, x, n: int, y):
        return x.relu() * n, y.sigmoid()


class Unbacked(nn.Module):
    def forward(self, x):
        n = x.nonzero().shape[0]
        torch._check(n < 100)
        return torch.zeros(n) + 1


class Classifier(nn.Module):
    """A pooling, a layer whose features it fixes, and a pooling beside it."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2 * 3, 4)

    def forward(self, x):
        first = F.adaptive_avg_pool2d(x, (2, 3))
        beside = F.adaptive_avg_pool2d(x, (3, 2))
        return self.linear(first.flatten(2)), beside


@dataclass
class Cache:
    """As a transformer's cache: no tensor itself, registered with pytree."""

    keys: list
    values: list


class WithCache(nn.Module):
    def forward(self, x, past):
        return x.relu(), past.keys[0] + 1, past.values[1] * 2


@functools.cache
def register_cache() -> None:
    torch.export.register_dataclass(Cache, serialized_type_name="guarddiff.tests.Cache")


def typed_at_a_prompt() -> nn.Module:
    """A model whose file is no file, as one that was typed at Python's prompt."""
    source = (
        "class Typed(nn.Module):\n"
        "    def forward(self, x):\n"
        "        if x.shape[1] > 4:\n"
        "            return x + 1\n"
        "        return x - 1\n"
    )
    namespace: dict[str, Any] = {"nn": nn, "__name__": "__main__"}
    exec(compile(source, "<stdin>", "exec"), namespace)
    return namespace["Typed"]()


def program() -> torch.export.ExportedProgram:
    """An ExportedProgram as a user makes one, without the exporter's flags."""
    shapes = ({2: Dim.DYNAMIC, 3: Dim("w", min=2, max=60)},)
    return torch.export.export(Pool().eval(), (torch.randn(1, 2, 6, 6),), dynamic_shapes=shapes)


@dataclass
class Case:
    model: Callable[[], Any]
    args: Callable[[], tuple]
    options: dict[str, Any] = field(default_factory=dict)


def _shapes(*sizes: tuple[int, ...]) -> Callable[[], tuple]:
    return lambda: tuple(torch.randn(*size) for size in sizes)


_ALL2 = {0: AUTO, 1: AUTO}
_H = Dim("h", min=2, max=64)

CASES: dict[str, Case] = {
    "pool": Case(Pool, _shapes((1, 2, 6, 6)), {"dynamic_shapes": (dict.fromkeys(range(4), AUTO),)}),
    "pool_height": Case(PoolHeight, _shapes((1, 2, 6, 6)), {"dynamic_shapes": ({2: AUTO, 3: AUTO},)}),
    "kron": Case(Kron, _shapes((2, 3), (4, 5)), {"dynamic_shapes": (_ALL2, _ALL2)}),
    "kron_named": Case(Kron, _shapes((2, 3), (4, 5)), {"dynamic_shapes": ({0: Dim("rows")}, {1: Dim("columns")})}),
    "max_over_all": Case(MaxOverAll, _shapes((2, 3, 7)), {"dynamic_shapes": ({0: AUTO, 2: AUTO},)}),
    "half": Case(Half, _shapes((2, 7)), {"dynamic_shapes": ({1: AUTO},)}),
    "root": Case(Root, _shapes((2, 7)), {"dynamic_shapes": ({1: AUTO},)}),
    "float": Case(Float, _shapes((2, 7)), {"dynamic_shapes": ({1: AUTO},)}),
    "greatest": Case(Greatest, _shapes((2, 7)), {"dynamic_shapes": ({1: AUTO},)}),
    "branch": Case(Branch, _shapes((2, 7)), {"dynamic_shapes": ({1: AUTO},)}),
    "loop": Case(Loop, _shapes((2, 4)), {"dynamic_shapes": ({1: AUTO},)}),
    "loop_named": Case(Loop, _shapes((2, 4)), {"dynamic_shapes": ({1: Dim("steps")},)}),
    "submodule": Case(InSubmodule, _shapes((2, 4)), {"dynamic_shapes": ({1: AUTO},)}),
    "layers": Case(InLayers, _shapes((6, 4, 6)), {"dynamic_shapes": ({0: AUTO, 2: AUTO},)}),
    "strict": Case(StrictOnly, _shapes((3, 6), (2, 5)), {"dynamic_shapes": (_ALL2, {1: AUTO})}),
    "typed": Case(typed_at_a_prompt, _shapes((2, 7)), {"dynamic_shapes": ({1: AUTO},)}),
    "other_order": Case(
        Two,
        _shapes((2, 3), (4, 5)),
        {"input_names": ["p", "q"], "dynamic_axes": {"q": {1: "n"}, "p": {0: "m"}}},
    ),
    "negative": Case(Two, _shapes((2, 3), (4, 5)), {"dynamic_shapes": ({-1: "n"}, {0: "m"})}),
    "shared": Case(Two, _shapes((2, 3), (2, 5)), {"dynamic_shapes": ({0: "n"}, {0: "n"})}),
    "shared_unequal": Case(Two, _shapes((2, 3), (4, 5)), {"dynamic_shapes": ({0: "n"}, {0: "n", 1: "k"})}),
    "derived": Case(Two, _shapes((2, 3), (4, 5)), {"dynamic_shapes": ({0: _H}, {0: 2 * _H})}),
    "derived_only": Case(Two, _shapes((2, 3), (16, 5)), {"dynamic_shapes": (None, {0: 2 * Dim("r", min=3, max=64)})}),
    "sum": Case(Sum, _shapes((4, 3), (4, 3)), {"dynamic_shapes": ({0: AUTO}, {0: AUTO})}),
    "nested": Case(
        Nested,
        lambda: (
            {"b": torch.randn(2, 2), "a": torch.randn(2, 3)},
            (torch.randn(4, 2), [torch.randn(5, 5)]),
            None,
        ),
        {
            "kwargs": {"scale": torch.randn(6, 7)},
            "dynamic_shapes": {
                "data": {"b": {0: "n"}, "a": {0: "n"}},
                "pair": ({1: AUTO}, [[None, Dim("k", min=3, max=9)]]),
                "mask": None,
                "scale": {0: Dim.DYNAMIC},
            },
        },
    ),
    "with_none": Case(
        WithNone,
        lambda: (torch.randn(2, 3), None, torch.randn(4, 5)),
        {"input_names": ["p", "q"], "dynamic_shapes": ({0: "m"}, None, {1: "w"})},
    ),
    "times_number": Case(
        TimesNumber,
        lambda: (torch.randn(2, 3), 3, torch.randn(4, 5)),
        {"dynamic_shapes": ({0: "m"}, None, {1: "w"})},
    ),
    "unbacked": Case(Unbacked, _shapes((3, 6)), {"dynamic_shapes": ({0: "h"},)}),
    "classifier": Case(Classifier, _shapes((1, 2, 6, 6)), {"dynamic_shapes": ({2: AUTO, 3: AUTO},)}),
    "cache": Case(
        WithCache,
        lambda: (
            torch.randn(2, 2),
            Cache([torch.randn(2, 3), torch.randn(2, 4)], [torch.randn(2, 3), torch.randn(2, 4)]),
        ),
        {"dynamic_shapes": ({0: "b"}, [[{0: "b"}, {0: "b", 1: "t"}], [{0: "b"}, {0: "b"}]])},
    ),
    "program": Case(program, lambda: ()),
}


def onnx_export(model: Any, args: tuple, **options: Any) -> Any:
    """``torch.onnx.export``, silent."""
    with shared_registry(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.onnx.export(model, args, dynamo=True, verbose=False, **options)


def case(name: str) -> tuple[Any, tuple, dict[str, Any]]:
    """Model, example arguments and options of a case."""
    register_cache()
    torch.manual_seed(0)
    chosen = CASES[name]
    model = chosen.model()
    return model.eval() if isinstance(model, nn.Module) else model, chosen.args(), dict(chosen.options)


@dataclass
class Exported:
    recording: Recording
    evidence: Evidence
    inputs: evidence.Inputs
    found: attribute.Attribution

    @property
    def group(self) -> Group:
        """The only group."""
        (group,) = self.evidence.groups
        return group

    def sizes(self) -> dict[str, tuple[str, str, int, str]]:
        """Place → (name, size, example, declared text)."""
        return {
            dim.place: (dim.name, dim.size, dim.example, dim.declared.text if dim.declared else "static")
            for dim in self.evidence.dims
        }

    def admitted(self) -> list[dict[str, str]]:
        """Per finding: place → admitted."""
        return [{dim.place: str(dim.admitted) for dim in finding.dims} for finding in self.found.findings]


@functools.cache
def exported(name: str) -> Exported:
    """A case, exported and read; the findings have no verdicts, nothing is run."""
    model, args, options = case(name)
    recording = Recording()
    with hooks.recording(recording):
        onnx_export(model, args, **options)
    made, inputs = evidence.build(recording)
    return Exported(recording, made, inputs, attribute.attribute(made))
