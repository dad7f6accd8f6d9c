"""Sample reports that the tests of all formats share, built by hand: no torch is needed."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from guarddiff.core.declaration import Misdeclaration
from guarddiff.core.dims import Declared, Dimension, InputSpec, OutputSpec
from guarddiff.core.domain import Admitted, SizeRange
from guarddiff.core.finding import Counterexample, Finding, OnnxNode
from guarddiff.core.origin import Origin, SourceLine
from guarddiff.core.report import Change, Missing, ReportData
from guarddiff.core.snapshot import Guard, Snapshot

SNAPSHOTS = Path(__file__).parent.parent / "snapshots"
ANY = SizeRange(0, None)
ENVIRONMENT = {
    "python": "3.11.9",
    "torch": "2.14.1",
    "onnx": "1.18.0",
    "onnxscript": "0.7.2",
    "onnxruntime": "1.22.0",
    "guarddiff": "0.1.0",
    "platform": "Linux x86_64",
}

HOSTILE = (
    "a|b `c` ``` **d** _e_ <script>alert(1)</script> [f](http://g.example) ![h](i.png) https://j.example "
    "@team #12 &lt; ~~k~~ $l$ \\| m\\"
)
CONTROL = "\x1b[31mred\x1b[0m\r\n# heading\n- item\n\n    code\n| x |\n|---|\n\x00\x07\u202egnp.exe\u2028\ud800\t---"


def snapshot(name: str, actual: str) -> None:
    """Compare ``actual`` with a stored file; ``GUARDDIFF_UPDATE_SNAPSHOTS=1`` writes the file instead."""
    path = SNAPSHOTS / name
    if os.environ.get("GUARDDIFF_UPDATE_SNAPSHOTS") == "1":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(actual.encode("utf-8"))
    assert path.is_file(), f"{path} is missing: run with GUARDDIFF_UPDATE_SNAPSHOTS=1 and read it"
    assert actual == path.read_bytes().decode("utf-8")


def exactly(size: int) -> Admitted:
    return Admitted(f"exactly {size}", ((size, size),), True, False)


UNKNOWN = Admitted("unknown", (), False, False)


def dim(
    place: str,
    example: int,
    admitted: Admitted | None = None,
    *,
    name: str = "",
    sizes: SizeRange | None = ANY,
    text: str = "",
) -> Dimension:
    """``dim("x[2]", 6, exactly(6), name="h")``; ``sizes=None``: declared static."""
    owner, _, axis = place.removesuffix("]").rpartition("[")
    declared = Declared(sizes, text or name) if sizes else None
    named = name or place
    return Dimension(owner, int(axis), named, named, example, declared, admitted, parameter=owner)


def spec(name: str, *dims: Dimension, dtype: str = "float32") -> InputSpec:
    return InputSpec(name, dtype, tuple(d.name if d.declared else d.example for d in dims), dims)


def report(**fields: object) -> ReportData:
    return ReportData(**{"environment": dict(ENVIRONMENT), **fields})  # type: ignore[arg-type]


def adaptive_pool() -> ReportData:
    """``F.adaptive_avg_pool2d(x, (2, 3))`` at 6×6: the decomposition fixes two dimensions."""
    origin = Origin(
        op="aten._adaptive_avg_pool2d.default",
        module_path="avgpool",
        source=SourceLine("models/pool.py", 12, "forward", "return F.adaptive_avg_pool2d(x, (2, 3))"),
        rule=SourceLine("torch/_decomp/decompositions.py", 2825, "adaptive_avg_pool2d"),
        node="adaptive_avg_pool2d",
    )
    texts = ("h % 2 == 0", "h // 2 == 3", "w % 3 == 0", "w // 3 == 2")
    guards = tuple(Guard(t, "assert", (t[0],), f"Eq({t[0]}, 6)", False, origin) for t in texts)
    harmless = Guard("1 < 3*h*w", "assert", ("h", "w"), "1 < 3*s53*s77", False, None)
    dims = (dim("x[2]", 6, exactly(6), name="h"), dim("x[3]", 6, exactly(6), name="w"))
    inputs = spec("x", dim("x[0]", 1, name="n"), dim("x[1]", 2, sizes=None), *(d for d in dims))
    finding = Finding(
        dims=dims,
        stage="decompose",
        op="aten._adaptive_avg_pool2d.default",
        origin=origin,
        guards=texts,
        onnx_nodes=(OnnxNode("node_avg_pool2d", "AveragePool", "kernel_shape=[3, 2], strides=[3, 2]"),),
        verdict="confirmed",
        reason="the shapes of output 0 differ",
        counterexample=Counterexample(
            {"x": (1, 2, 7, 9)},
            "shape (1, 2, 2, 3)",
            "shape (1, 2, 2, 4)",
            "shape",
            "operator",
            ((1, 2, 7, 9),),
        ),
        inputs=inputs.dims,
    )
    shapes = (("x", ("n", 2, "h", "w")),)
    return report(
        status="specialized",
        model="Pool",
        findings=(finding,),
        inputs=(dataclasses.replace(inputs, dims=tuple(dataclasses.replace(d, admitted=None) for d in inputs.dims)),),
        stages=(
            Snapshot("decompose", "before", (), shapes, (OutputSpec("y", "float32", ("n", 2, 2, 3)),)),
            Snapshot(
                "decompose",
                "after",
                (*guards, harmless),
                shapes,
                (OutputSpec("y", "float32", ("n", 2, None, 3)),),
            ),
            Snapshot("translate", "after", (), shapes, (), False),
        ),
        changes=(Change("decompose", (harmless,), "none"), Change("decompose", guards, "restricts", 0)),
    )


def kron() -> ReportData:
    """``torch.kron``: fixed while capturing, ONNX Runtime fails."""
    dims = tuple(
        dim(place, size, exactly(size), text="Dim.AUTO")
        for place, size in zip(("a[0]", "a[1]", "b[0]", "b[1]"), (2, 3, 4, 5), strict=True)
    )
    finding = Finding(
        dims=dims,
        stage="capture",
        op="aten.kron.default",
        origin=Origin(
            "aten.kron.default",
            "",
            SourceLine("models/kron.py", 7, "forward", "return torch.kron(a, b)"),
            SourceLine("torch/_refs/__init__.py", 4391, "_reshape_view_helper"),
            "kron",
        ),
        guards=("a[0] == 2", "a[1] == 3", "b[0] == 4", "b[1] == 5"),
        onnx_nodes=(OnnxNode("node_view", "Reshape", "shape initializer val_5 = [8, 15]"),),
        verdict="confirmed",
        reason="ONNX Runtime fails",
        counterexample=Counterexample(
            {"a": (3, 4), "b": (5, 6)},
            "shape (15, 24)",
            "[ONNXRuntimeError] : 1 : FAIL : Non-zero status code returned while running Reshape node. "
            "Name:'node_view' Status Message: /onnxruntime_src/onnxruntime/core/reshape_helper.h:47 "
            "The input tensor cannot be reshaped to the requested shape. "
            "Input shape:{3,5,4,6}, requested shape:{8,15}",
            "runtime_error",
        ),
        inputs=dims,
    )
    return report(
        status="specialized",
        model="Kron",
        findings=(finding,),
        inputs=(spec("a", *dims[:2]), spec("b", *dims[2:])),
    )


def static_dimension() -> ReportData:
    """``dynamic_axes`` in another order than the inputs: the size lands on the other input."""
    meant = dim("mask[1]", 10, exactly(10), name="length", text="{1: 'length'}")
    other = dim("x[1]", 16, sizes=None)
    finding = Finding(
        dims=(meant,),
        stage="declare",
        op="dynamic_axes",
        origin=Origin(op="dynamic_axes"),
        verdict="confirmed",
        reason="dynamic_axes names mask before x, and torch goes by position: x[1] became dynamic instead",
        counterexample=Counterexample(
            {"x": (1, 16), "mask": (1, 11)},
            "shape (1, 11)",
            "INVALID_ARGUMENT : Got invalid dimensions for input: mask index: 1 Got: 11 Expected: 10",
            "rejected_input",
        ),
        inputs=(meant, other),
    )
    return report(
        status="specialized",
        model="Masked",
        findings=(finding,),
        inputs=(spec("x", other), spec("mask", meant)),
    )


def untried() -> ReportData:
    """No ONNX Runtime: nothing can be tried. Dimensions admit different sizes."""
    rest = Admitted("multiples of 7", ((7, None),), True, False)
    dims = (
        dim("x[0]", 4, Admitted("equal to y[0]", (), True, False), name="batch"),
        dim("x[2]", 224, Admitted("224–255", ((224, 255),), True, False), name="h", sizes=SizeRange(32, 1024)),
        dim("x[3]", 224, Admitted("224–255", ((224, 255),), True, False), name="w", sizes=SizeRange(32, 1024)),
        dim("x[4]", 7, rest, name="t"),
    )
    finding = Finding(
        dims=dims,
        stage="capture",
        op="int()",
        origin=Origin(
            "int()",
            "features.3.window",
            SourceLine(
                "site-packages/vendor/models/window.py",
                208,
                "forward",
                "for i in range(int(x.shape[2]) // 32):",
            ),
            branch=True,
        ),
        guards=("h // 32 == 7", "w // 32 == 7", "batch == y[0]", "t % 7 == 0"),
        verdict="unconfirmed",
        reason="ONNX Runtime is not installed",
        inputs=dims,
    )
    return report(status="specialized", model="Windows", findings=(finding,), inputs=(spec("x", *dims),))


def quiet() -> ReportData:
    """One harmless and one inherent finding beside a confirmed one that leaves no guard."""
    source = SourceLine("models/seq.py", 31, "forward", "y, _ = self.rnn(x)")
    length = dim("x[1]", 6, exactly(6), name="length")
    batch = dim("x[0]", 3, Admitted("at most 8", ((0, 8),), True, False), name="batch")
    harmless = Finding(
        (length,),
        "decompose",
        "aten.gru.input",
        Origin("aten.gru.input", "gru", source),
        ("length == 6",),
        (),
        "harmless",
        "lengths 5, 7 and 12 agree",
    )
    inherent = Finding(
        (batch,),
        "capture",
        "aten.add.Tensor",
        Origin("aten.add.Tensor", "", None),
        ("batch <= 8",),
        (),
        "inherent",
        "eager PyTorch raises RuntimeError at batch 9",
    )
    unguarded = Finding(
        (dataclasses.replace(length, admitted=UNKNOWN),),
        "translate",
        "aten.roll.default",
        Origin("aten.roll.default", "head", SourceLine("models/seq.py", 40, "forward", "return x.roll(1, 1)")),
        (),
        (),
        "confirmed",
        "largest difference 0.93, tolerance 1e-05",
        Counterexample({"x": (3, 12, 8)}, "shape (3, 12, 8)", "shape (3, 12, 8), 41 of 288 values differ", "values"),
    )
    return report(
        status="specialized",
        model="Sequence",
        findings=(harmless, unguarded, inherent),
        inputs=(spec("x", dim("x[0]", 3, name="batch"), dim("x[1]", 6, name="length"), dim("x[2]", 8, sizes=None)),),
    )


def clean_with_notes() -> ReportData:
    """Nothing found; one thing to know."""
    return report(
        model="LSTM",
        inputs=(spec("x", dim("x[1]", 6, name="length")), InputSpec("scale", "float32", (1, 4))),
        notes=("output y is declared with the fixed size 6 at axis 1, but its values are right at other sizes",),
        changes=tuple(
            Change("capture", (Guard(f"0 < length + {i}", "guard", ("length",)),), "none") for i in range(40)
        ),
    )


def incomplete() -> ReportData:
    """A private name of torch is missing, and the export raised."""
    return report(
        status="incomplete",
        model="Net",
        inputs=(spec("x", dim("x[0]", 2, name="n")),),
        missing=(Missing("deferred runtime asserts", "torch 2.16.0 has no ShapeEnv.deferred_runtime_asserts"),),
        error="TorchExportError: Failed to export the model",
    )


def hostile() -> ReportData:
    """Text from the model that tries to be markup, or to move the cursor, or is endless."""
    nasty = HOSTILE + CONTROL
    endless = "x" * 1_000_000
    where = SourceLine(f"/models/{nasty}.py", 3, nasty, nasty)
    dims = (
        dim("x[0]", 2, Admitted(nasty, (), True, False), name=nasty, text=nasty),
        Dimension(nasty, 1, endless, "1", 3),
    )
    finding = Finding(
        dims,
        "capture",
        nasty,
        Origin(nasty, nasty, where, where, nasty),
        (nasty, endless, "```"),
        (OnnxNode(nasty, nasty, nasty),),
        "confirmed",
        nasty + endless,
        Counterexample({nasty: (1, 2)}, nasty, endless, "values", "operator", ((1,) * 5000,)),
        repair=nasty,
        inputs=dims,
    )
    quiet_one = dataclasses.replace(finding, verdict="harmless", counterexample=None)
    guard = Guard(nasty, "guard", (nasty,), nasty, False, Origin(nasty, None, where))
    return report(
        status="specialized",
        model=nasty,
        findings=(finding, quiet_one),
        inputs=(InputSpec(nasty, nasty, (1, nasty), dims), InputSpec("# y", "int64", (nasty,))),
        changes=(Change("capture", (guard,) * 5, "restricts", 0),),
        missing=(Missing(nasty, endless),),
        declarations=(Misdeclaration("unknown-input", nasty, nasty + endless, nasty, (nasty,)),),
        notes=(
            nasty,
            "# not a heading",
            "1. not a list",
            "> not a quote",
            "+ no",
            "    no code",
            "``` no fence",
            "www.a.example",
        ),
        environment={nasty: nasty, "torch": endless},
        error=nasty,
    )


SAMPLES = {
    "adaptive_pool": adaptive_pool,
    "kron": kron,
    "static_dimension": static_dimension,
    "untried": untried,
    "quiet": quiet,
    "clean_with_notes": clean_with_notes,
    "incomplete": incomplete,
    "hostile": hostile,
}
