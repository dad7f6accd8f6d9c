"""What adaptive pooling costs in ONNX Runtime, form by form, on one thread.

    python tests/benchmarks/pooling.py [--repeats 20] [--crossover]

Every form is exported or built once, then all of them run in turn on the same input, so that the machine's drift meets
all alike. "mean alone" takes the mean over the inner axis and nothing else: about what reading the input costs. The
figure is the time of the calling thread (what other processes take is left out, what they do to the
caches is not), the least of all repeats; its ratio is to AveragePool with the right fixed kernel. ``--crossover``
shows from how many windows on their cells are gathered faster than a matrix multiplies them.
"""

from __future__ import annotations

import argparse
import functools
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime as ort
import torch
import torch.nn.functional as F
from torch import nn

from guarddiff.repair import averaging
from guarddiff.repair.windows import op, windows

SHAPES = [((2, 512, 14, 14), 7), ((1, 64, 448, 448), 7), ((1, 16, 512, 512), 256), ((1, 16, 511, 509), 256)]


class Pool(nn.Module):
    def __init__(self, size: tuple[int | None, int | None]) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.adaptive_avg_pool2d(x, self.size)


class InnerMean(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean(-1)


class Fixed(nn.Module):
    """AveragePool with the kernel that is right for one size."""

    def __init__(self, kernel: tuple[int, int]) -> None:
        super().__init__()
        self.kernel = kernel

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.avg_pool2d(x, self.kernel)


def summed_area(x: Any, output_size: Any) -> Any:
    """The other way to write it: a table of running sums, and four of its corners for each window."""
    table = op.Pad(x, op.Constant(value_ints=[0, 0, 1, 1, 0, 0, 0, 0]))
    count = None
    for axis in (-1, -2):
        table = op.CumSum(table, op.Constant(value_int=axis))
    for axis, size in ((-2, output_size[0]), (-1, output_size[1])):
        found = windows(x, axis, size)
        first, end = op.Squeeze(found.first, [1]), op.Squeeze(op.Add(found.last, 1), [1])
        table = op.Sub(op.Gather(table, end, axis=axis), op.Gather(table, first, axis=axis))
        cells = op.Cast(op.Sub(end, first), to=1)
        count = op.Unsqueeze(cells, [1]) if count is None else op.Mul(count, cells)
    return op.Div(table, count)


def form(name: str, strict: bool = False) -> Callable[..., Any]:
    def translation(x: Any, output_size: Any) -> Any:
        return averaging.average(x, output_size, form=name, strict=strict)  # type: ignore[arg-type]

    return translation


def chosen(x: Any, output_size: Any) -> Any:
    return averaging.average(x, output_size)


FORMS: dict[str, Callable[..., Any]] = {
    "as chosen": chosen,
    "matrix": form("matrix"),
    "gather": form("gather"),
    "gather, strict": form("gather", strict=True),
    "summed area": summed_area,
}


@functools.cache
def registry_once() -> None:
    """Build the exporter's registry once and copy it for each export."""
    import copy

    from torch.onnx._internal.exporter._registration import ONNXRegistry

    built = ONNXRegistry.from_torchlib()

    def again(*_: Any, **__: Any) -> Any:
        fresh = copy.copy(built)
        fresh.functions = {name: list(found) for name, found in built.functions.items()}
        return fresh

    ONNXRegistry.from_torchlib = staticmethod(again)  # type: ignore[method-assign]


def session(
    module: nn.Module, channels: int, translation: Callable[..., Any] | None, side: int = 24
) -> tuple[ort.InferenceSession, int]:
    """The module in ONNX Runtime, all sizes but the channels dynamic, and its number of nodes."""
    registry_once()
    table: Any = {torch.ops.aten.adaptive_avg_pool2d.default: translation} if translation else None
    dims = ({0: "n", 2: "h", 3: "w"},)
    example = (torch.randn(2, channels, side, side),)
    how: Any = {"dynamic_shapes": dims, "custom_translation_table": table, "verbose": False}
    program = torch.onnx.export(module.eval(), example, **how)
    assert program is not None
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    model = program.model_proto.SerializeToString()
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"]), sum(
        1 for _ in program.model.graph.all_nodes()
    )


def times(sessions: dict[str, ort.InferenceSession], x: np.ndarray, repeats: int) -> dict[str, float]:
    """Least milliseconds of each."""
    found: dict[str, list[float]] = {name: [] for name in sessions}
    for turn in range(repeats + 1):
        for name, one in sessions.items():
            start = time.thread_time()
            one.run(None, {"x": x})
            if turn:
                found[name].append(1000 * (time.thread_time() - start))
    return {name: min(values) for name, values in found.items()}


def measure(shape: tuple[int, ...], size: int, repeats: int) -> None:
    made = {name: session(Pool((size, size)), shape[1], translation) for name, translation in FORMS.items()}
    kernel = (shape[2] // size, shape[3] // size)
    divides = shape[2] % size == 0 and shape[3] % size == 0
    # For sizes that don't divide there is no right kernel: the nearest one, to have a measure.
    made["AveragePool" if divides else "AveragePool, nearest"] = session(Fixed(kernel), shape[1], None, shape[3])
    made["mean alone"] = session(InnerMean(), shape[1], None)
    x = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    exact = F.adaptive_avg_pool2d(torch.from_numpy(x).double(), size).numpy()
    eager = np.linalg.norm(F.adaptive_avg_pool2d(torch.from_numpy(x), size).numpy() - exact)
    spent = times({name: one for name, (one, _) in made.items()}, x, repeats)
    base = next(value for name, value in spent.items() if name.startswith("AveragePool"))
    print(f"\n{shape} to {size}\n")
    print("| form | ms | against AveragePool | error against eager's | nodes |\n|---|---|---|---|---|")
    for name, value in spent.items():
        (got,) = made[name][0].run(None, {"x": x})
        comparable = got.shape == exact.shape and (divides or not name.startswith("AveragePool"))
        lost = f"{np.linalg.norm(got - exact) / eager:.2f}" if comparable else ""
        print(f"| {name} | {value:.2f} | {value / base:.2f} | {lost} | {made[name][1]} |")


def crossover(repeats: int) -> None:
    """By matrix and gathered, for more and more windows."""
    print("\n(1, 16, side, side) to (size, size)\n\n| side | size | matrix, ms | gather, ms |\n|---|---|---|---|")
    for size in (7, 16, 24, 32, 48, 64, 128, 256):
        made = {name: session(Pool((size, size)), 16, FORMS[name])[0] for name in ("matrix", "gather")}
        for side in (65, 225, 513):
            x = np.random.default_rng(0).standard_normal((1, 16, side, side), dtype=np.float32)
            spent = times(made, x, repeats)
            print(f"| {side} | {size} | {spent['matrix']:.2f} | {spent['gather']:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--crossover", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, ONNX Runtime {ort.__version__}, one thread")
    for shape, size in SHAPES:
        measure(shape, size, options.repeats)
    if options.crossover:
        crossover(max(3, options.repeats // 4))


if __name__ == "__main__":
    main()
