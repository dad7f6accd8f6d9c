"""Kinds of models and inputs: the export is torch's own, byte for byte, and the report tells what it should."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

import guarddiff
from guarddiff.core import forked

AUTO = Dim.AUTO
pytestmark = [
    pytest.mark.usefixtures("no_reproductions"),
    pytest.mark.filterwarnings("ignore"),
]


@dataclasses.dataclass
class Kind:
    """A model with its inputs. ``expects``: the verdicts in the report; None where torch's export raises."""

    model: Any
    args: tuple[Any, ...]
    shapes: Any
    expects: tuple[str, ...] | None = ()
    kwargs: dict[str, Any] | None = None
    more: dict[str, Any] = dataclasses.field(default_factory=dict)


KINDS: dict[str, Callable[[], Kind]] = {}


def kind(make: Callable[[], Kind]) -> Callable[[], Kind]:
    KINDS[make.__name__.strip("_")] = make
    return make


class Of(nn.Module):
    """A module whose forward is a function."""

    def __init__(self, function: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        self._function = function
        for name, part in parts.items():
            if isinstance(part, torch.Tensor) and not isinstance(part, nn.Parameter):
                self.register_buffer(name, part)
            else:
                setattr(self, name, part)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(self, *args, **kwargs)


def pooled(dtype: torch.dtype) -> Kind:
    class Pool(nn.Module):
        def forward(self, x: Any) -> Any:
            return F.adaptive_avg_pool2d(x, (2, 3))

    # ONNX Runtime averages no float64, and its Python interface takes no bfloat16
    verdict = "confirmed" if dtype in (torch.float16, torch.float32) else "unconfirmed"
    return Kind(Pool(), (torch.randn(1, 2, 6, 6).to(dtype),), ({2: AUTO, 3: AUTO},), (verdict,))


@kind
def _float16() -> Kind:
    return pooled(torch.float16)


@kind
def _bfloat16() -> Kind:
    return pooled(torch.bfloat16)


@kind
def _float64() -> Kind:
    return pooled(torch.float64)


@kind
def _integers_of_every_width() -> Kind:
    class Sum(nn.Module):
        def forward(self, a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
            return a + b.to(torch.int8), c + d, e & e

    args = tuple(torch.ones(3, dtype=d) for d in (torch.int8, torch.uint8, torch.int16, torch.int32, torch.bool))
    return Kind(Sum(), args, tuple({0: "n"} for _ in args))


@kind
def _quantized() -> Kind:
    class Quantized(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127)

    return Kind(Quantized(), (torch.randn(2, 3),), ({0: "n"},), None)


@kind
def _quantized_inputs() -> Kind:
    class Dequantize(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.dequantize()

    return Kind(Dequantize(), (torch.quantize_per_tensor(torch.randn(2, 3), 0.1, 0, torch.qint8),), ({0: AUTO},), None)


@kind
def _complex() -> Kind:
    class Complex(nn.Module):
        def forward(self, x: Any) -> Any:
            return (x * (1 + 2j)).abs()

    return Kind(Complex(), (torch.randn(2, 3, dtype=torch.complex64),), ({0: AUTO},))


@kind
def _scalars() -> Kind:
    class Scaled(nn.Module):
        def forward(self, x: Any, scale: Any, shift: Any) -> Any:
            return x * scale + shift

    return Kind(Scaled(), (torch.randn(2, 3), torch.tensor(2.0), 3), ({0: AUTO}, {}, None))


@kind
def _nothing_in_it() -> Kind:
    class Joined(nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return torch.cat([x, y], 1) + 1

    return Kind(Joined(), (torch.zeros(2, 0), torch.ones(2, 3)), ({0: "n"}, {0: "n", 1: "m"}))


@kind
def _other_values() -> Kind:
    class Other(nn.Module):
        def forward(self, x: Any, mask: Any = None, flag: bool = False, name: str = "a", scale: float = 1.0) -> Any:
            x = x * scale if flag else x + scale
            return x if mask is None else x + mask

    return Kind(Other(), (torch.randn(2, 3), None, True, "b", 2.0), ({0: AUTO}, None, None, None, None))


@kind
def _nested() -> Kind:
    class Nested(nn.Module):
        def forward(self, a: Any, *, b: Any) -> Any:
            return {"sum": a["x"] + a["y"][0], "more": [b[0] * 2]}

    named = {0: AUTO}
    return Kind(
        Nested(),
        ({"x": torch.randn(2, 3), "y": [torch.randn(2, 3)]},),
        {"a": {"x": named, "y": [named]}, "b": (named,)},
        ("harmless",),
        kwargs={"b": (torch.randn(4),)},
    )


@dataclasses.dataclass
class Pair:
    first: torch.Tensor
    second: torch.Tensor


Point = collections.namedtuple("Point", ["first", "second"])


@kind
def _dataclass() -> Kind:
    with contextlib.suppress(ValueError):  # by another test of this process
        torch.export.register_dataclass(Pair, serialized_type_name="guarddiff.tests.Pair")

    class Added(nn.Module):
        def forward(self, pair: Any) -> Any:
            return F.adaptive_max_pool1d(pair.first, 3) + pair.second

    return Kind(Added(), (Pair(torch.randn(1, 2, 6), torch.randn(1, 2, 1)),), ([{2: AUTO}, {}],), ("confirmed",))


@kind
def _namedtuple() -> Kind:
    class Added(nn.Module):
        def forward(self, point: Any) -> Any:
            return point.first + point.second

    return Kind(Added(), (Point(torch.randn(2), torch.randn(2)),), (Point({0: AUTO}, {0: AUTO}),), ("harmless",))


@kind
def _tied_weights() -> Kind:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(20, 4)
            self.head = nn.Linear(4, 20, bias=False)
            self.head.weight = self.words.weight

        def forward(self, x: Any) -> Any:
            return self.head(F.adaptive_avg_pool1d(self.words(x).transpose(1, 2), 2).transpose(1, 2))

    return Kind(Tied(), (torch.randint(0, 20, (2, 6)),), ({1: AUTO},), ("confirmed",))


@kind
def _mutated_buffers() -> Kind:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(()))
            self.norm = nn.BatchNorm1d(3)

        def forward(self, x: Any) -> Any:
            self.count.add_(1)
            return F.adaptive_avg_pool1d(self.norm(x), 2) + self.count

    return Kind(Counting().train(), (torch.randn(2, 3, 6),), ({2: AUTO},), ("confirmed",))


@kind
def _cond() -> Kind:
    class Branching(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x,))

    return Kind(Branching(), (torch.ones(4, 3),), ({0: AUTO},))


@kind
def _while_loop() -> Kind:
    from torch._higher_order_ops.while_loop import while_loop

    class Looping(nn.Module):
        def forward(self, n: Any, x: Any) -> Any:
            return while_loop(lambda n, x: n > 0, lambda n, x: (n - 1, x * 2), (n, x))

    return Kind(Looping(), (torch.tensor(3), torch.ones(4)), ({}, {0: AUTO}))


@torch.library.custom_op("guarddiff_kinds::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    """An operator of its own."""
    return x * 2


@twice.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class Custom(nn.Module):
    def forward(self, x: Any) -> Any:
        return F.adaptive_avg_pool1d(twice(x), 2)


@kind
def _custom_operator() -> Kind:
    return Kind(Custom(), (torch.randn(1, 2, 6),), ({2: AUTO},), None)


@kind
def _custom_operator_with_a_translation() -> Kind:
    from onnxscript import opset18 as op

    def translated(x: Any) -> Any:
        return op.Add(x, x)

    table = {torch.ops.guarddiff_kinds.twice.default: translated}
    more = {"custom_translation_table": table}
    return Kind(Custom(), (torch.randn(1, 2, 6),), ({2: AUTO},), ("confirmed",), more=more)


@kind
def _sizes_from_data() -> Kind:
    class Chosen(nn.Module):
        def forward(self, x: Any) -> Any:
            return x[x > 0].sum() + torch.nonzero(x).shape[0]

    return Kind(Chosen(), (torch.randn(5, 3),), ({0: AUTO},))


@kind
def _symbolic_floats() -> Kind:
    class Scaled(nn.Module):
        def forward(self, x: Any) -> Any:
            return x * (x.shape[0] / 3.0) ** 0.5 + float(x.shape[0])

    return Kind(Scaled(), (torch.randn(5, 3),), ({0: AUTO},), ("confirmed",))


@kind
def _on_the_meta_device() -> Kind:
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    return Kind(model, (torch.randn(2, 4, device="meta"),), ({0: AUTO},), None)


@kind
def _fake_tensors() -> Kind:
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True):
        model, args = nn.Conv1d(2, 3, 3), (torch.randn(1, 2, 6),)
    return Kind(model, args, ({2: AUTO},), None)


@kind
def _raises_at_other_sizes() -> Kind:
    class Raising(nn.Module):
        def forward(self, x: Any) -> Any:
            if x.shape[0] != 4:
                raise ValueError("only 4")
            return x + 1

    return Kind(Raising(), (torch.randn(4),), ({0: AUTO},), ("inherent",))


@kind
def _a_program_that_was_exported_before() -> Kind:
    program = torch.export.export(nn.ReLU(), (torch.randn(2, 3),), dynamic_shapes=({0: Dim("n")},))
    return Kind(program, (), None)


@kind
def _a_traced_module() -> Kind:
    return Kind(torch.jit.trace(nn.ReLU(), torch.randn(2, 3)), (torch.randn(2, 3),), ({0: AUTO},), None)


@kind
def _weight_norm() -> Kind:
    from torch.nn.utils.parametrizations import weight_norm

    class Normed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = weight_norm(nn.Conv1d(2, 3, 1))

        def forward(self, x: Any) -> Any:
            return F.adaptive_avg_pool1d(self.layer(x), 2)

    return Kind(Normed(), (torch.randn(1, 2, 6),), ({2: AUTO},), ("confirmed",))


@kind
def _strided_inputs() -> Kind:
    class Pool(nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return F.adaptive_avg_pool1d(x, 2) + y.sum()

    given = (torch.randn(1, 6, 2).transpose(1, 2), torch.randn(1, 4).expand(3, 4))
    return Kind(Pool(), given, ({2: AUTO}, {0: AUTO}), ("confirmed",))


def outcome(export: Callable[..., Any], made: Kind, path: Path) -> tuple[Any, ...]:
    """What an export gives: its error, or digests of the model in memory and in the file."""
    torch._dynamo.reset()
    if isinstance(made.model, nn.Module):
        state = {name: value.clone() for name, value in made.model.state_dict().items()}
    else:
        state = {}
    try:
        program = export(
            made.model,
            made.args,
            str(path),
            kwargs=made.kwargs,
            dynamic_shapes=made.shapes,
            dynamo=True,
            verbose=False,
            **made.more,
        )
    except Exception as error:
        return type(error).__name__, _plain(str(error).encode())
    for name, value in state.items():
        if not value.is_meta and type(value) is torch.Tensor:
            assert torch.equal(value, made.model.state_dict()[name]), name
    return _plain(program.model_proto.SerializeToString(deterministic=True)), _plain(path.read_bytes())


def _folder(path: Path) -> Path:
    path.mkdir()
    return path / "model.onnx"  # the name of the weights' file follows from it


def _plain(content: bytes) -> str:
    """Without what differs between two exports of one process by torch alone: addresses and counters."""
    content = re.sub(rb"0x[0-9a-f]{6,}", b"0x", content)
    content = re.sub(rb"\b([su])\d+\b", rb"\1", content)
    return hashlib.sha256(content).hexdigest()


def exported(name: str, path: Path, guarded: bool) -> tuple[tuple[Any, ...], guarddiff.Report | None]:
    """What the export of a kind gives, and the report where it is guarded."""
    torch.manual_seed(0)
    made = KINDS[name]()
    if not guarded:
        return outcome(torch.onnx.export, made, _folder(path)), None
    found = outcome(functools.partial(guarddiff.export, on_finding="ignore"), made, _folder(path))
    report = guarddiff.last_report()
    assert report is not None
    report.program = None
    return found, report


@pytest.mark.parametrize("name", KINDS)
def test_the_export_is_torchs_own(name: str, tmp_path: Path) -> None:
    # Subgraphs get names by a counter of the process: each export begins with the same number in a child.
    run: Any = forked.run if name in ("cond", "while_loop") and forked.possible() else lambda task: task()
    first, _ = run(lambda: exported(name, tmp_path / "plain", guarded=False))
    second, report = run(lambda: exported(name, tmp_path / "guarded", guarded=True))
    assert second == first
    expects = KINDS[name]().expects
    if expects is None:
        assert first[0].endswith("Error")
        assert report.status != "clean"
        assert report.error is not None and report.error.startswith(first[0])
    else:
        assert tuple(finding.verdict for finding in report.findings) == expects
        assert report.missing == ()
