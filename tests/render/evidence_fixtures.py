"""Sample reports whose evidence is filled: tries, ladder, reproduction and decomposition. No torch is needed."""

from __future__ import annotations

import dataclasses

from tests.render.fixtures import CONTROL, HOSTILE, dim, exactly, report, spec

from guarddiff.core.declaration import Misdeclaration
from guarddiff.core.dims import InputSpec, OutputSpec
from guarddiff.core.domain import Admitted, SizeRange
from guarddiff.core.finding import Counterexample, Finding, OnnxNode
from guarddiff.core.origin import Origin, SourceLine
from guarddiff.core.proof import Decomposition, DifferingNode, GraphLine, Ladder, Repair, Reproduction, Rung, Try
from guarddiff.core.report import Change, Missing, ReportData
from guarddiff.core.snapshot import Guard, Snapshot

SCRIPT = """\
import numpy as np
import onnxruntime as ort
import torch
import torch.nn.functional as F


class Model(torch.nn.Module):
    def forward(self, x):
        return F.adaptive_avg_pool2d(x, (7, 7))


args = (torch.randn(1, 2, 7, 7),)
torch.onnx.export(Model(), args, "model.onnx", dynamo=True, dynamic_shapes={"x": {2: "h", 3: "w"}})
session = ort.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
for h, w in ((7, 7), (8, 7)):
    x = torch.randn(1, 2, h, w)
    expected = Model()(x).numpy()
    got = session.run(None, {"x": x.numpy()})[0]
    same = expected.shape == got.shape and np.allclose(expected, got, atol=1e-5)
    print(f"{h}x{w}: eager {expected.shape}, onnxruntime {got.shape}, {'same' if same else 'DIFFERENT'}")
"""

OUTPUT = """\
7x7: eager (1, 2, 7, 7), onnxruntime (1, 2, 7, 7), same
8x7: eager (1, 2, 7, 7), onnxruntime (1, 2, 8, 7), DIFFERENT
"""

WIDE = SizeRange(32, 1024)


def full_evidence() -> ReportData:
    """A VGG at 224×224: the decomposition of adaptive pooling admits 224–255, and every kind of proof is there."""
    finding = _pooling()
    symbolic = [form.format(s) for s in ("s53", "s77") for form in ("Eq(Mod(({}//32), 7), 0)", "Eq(({}//224), 1)")]
    guards = tuple(
        Guard(text, "assert", (text[0],), shown, False, finding.origin)
        for text, shown in zip(finding.guards, symbolic, strict=True)
    )
    conv = SourceLine("models/vgg.py", 38, "forward", "x = self.features(x)")
    captured = Guard(
        "1 < 3*h*w", "assert", ("h", "w"), "1 < 3*s53*s77", False, Origin("aten.conv2d.default", source=conv)
    )
    lower = Guard("32 <= h", "range", ("h",), "VR[32, oo]", False, None)
    shapes = (("x", ("n", 3, "h", "w")),)
    output = OutputSpec("logits", "float32", ("n", 1000))
    return report(
        status="specialized",
        model="VGG",
        findings=(finding, _harmless()),
        inputs=(_image(),),
        stages=(
            Snapshot("capture", "after", (captured,), shapes, (output,)),
            Snapshot("decompose", "before", (captured,), shapes, (output,)),
            Snapshot("decompose", "after", (captured, *guards), shapes, (output,)),
            Snapshot("translate", "after", (), shapes, (output,), False),
        ),
        changes=(
            Change("capture", (captured,), "none"),
            Change("capture", (lower,), "lower"),
            Change("decompose", guards, "restricts", 0),
        ),
        tries=_tries(),
        declarations=(_shared_name(),),
        notes=("output logits is declared with the fixed size 1000 at axis 1, as the model gives it",),
    )


def _shared_name() -> Misdeclaration:
    return Misdeclaration(
        "shared-name",
        "dynamic_shapes['x'][3]",
        "one name says that sizes are equal, and the example's differ: x[2]=224 and x[3]=256",
        "{3: 'x_h'}, or an example of equal sizes",
        ("x[2]", "x[3]"),
    )


def _image() -> InputSpec:
    return spec(
        "x",
        dim("x[0]", 1, name="n", text="Dim.AUTO"),
        dim("x[1]", 3, sizes=None),
        dim("x[2]", 224, name="h", sizes=WIDE, text="Dim('h', min=32, max=1024)"),
        dim("x[3]", 224, name="w"),
    )


def _pooling() -> Finding:
    admitted = Admitted("224–255", ((224, 255),), True, False)
    dims = (
        dim("x[2]", 224, admitted, name="h", sizes=WIDE, text="Dim('h', min=32, max=1024)"),
        dim("x[3]", 224, admitted, name="w"),
    )
    return Finding(
        dims=dims,
        stage="decompose",
        op="aten._adaptive_avg_pool2d.default",
        origin=Origin(
            op="aten._adaptive_avg_pool2d.default",
            module_path="avgpool",
            source=SourceLine("models/vgg.py", 41, "forward", "x = self.avgpool(x)"),
            rule=SourceLine("torch/_decomp/decompositions.py", 2825, "adaptive_avg_pool2d"),
            node="adaptive_avg_pool2d",
        ),
        guards=("h // 32 % 7 == 0", "h // 32 // 7 == 1", "w // 32 % 7 == 0", "w // 32 // 7 == 1"),
        onnx_nodes=(OnnxNode("node_avg_pool2d", "AveragePool", "kernel_shape=[1, 1], strides=[1, 1]"),),
        verdict="confirmed",
        reason="the shapes of output 0 differ",
        counterexample=Counterexample(
            {"x": (1, 3, 256, 224)},
            "shape (1, 512, 7, 7)",
            "shape (1, 512, 8, 7)",
            "shape",
            "operator",
            ((1, 512, 8, 7),),
        ),
        repair="guarddiff can write this pooling with sizes that stay dynamic: export again with repair=True",
        ladder=Ladder(
            {"x": (1, 3, 256, 224)},
            (
                Rung("eager", "agrees", "shape (1, 1000)"),
                Rung("captured", "agrees", "shape (1, 1000)"),
                Rung(
                    "decomposed",
                    "raises",
                    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (1x28672 and 25088x4096)",
                ),
                Rung("onnx", "raises", "FAIL : running Gemm node: dimension mismatch, 28672 and 25088"),
                Rung("optimized", "skipped", "the program before it raises already"),
            ),
            "decompose",
            DifferingNode(
                "fx",
                "avg_pool2d",
                "aten.avg_pool2d.default",
                fx_node="adaptive_avg_pool2d",
                module_path="avgpool",
                source=SourceLine("models/vgg.py", 41, "forward", "x = self.avgpool(x)"),
                expected="shape (1, 512, 7, 7)",
                got="shape (1, 512, 8, 7)",
            ),
        ),
        reproduction=Reproduction(SCRIPT, OUTPUT, "operator"),
        decomposition=Decomposition(
            (
                GraphLine("max_pool2d_4: f32[n, 512, h//32, w//32] = aten.max_pool2d.default(relu_7, [2, 2], [2, 2])"),
                GraphLine(
                    "adaptive_avg_pool2d: f32[n, 512, 7, 7] = aten.adaptive_avg_pool2d.default(max_pool2d_4, [7, 7])",
                    True,
                ),
                GraphLine("flatten: f32[n, 25088] = aten.flatten.using_ints(adaptive_avg_pool2d, 1)"),
            ),
            (
                GraphLine("getitem_8: f32[n, 512, h//32, w//32] = operator.getitem(max_pool2d_with_indices_4, 0)"),
                GraphLine(
                    "avg_pool2d: f32[n, 512, h//32, w//32] = aten.avg_pool2d.default(getitem_8, [1, 1], [1, 1])", True
                ),
                GraphLine("view: f32[n, 25088] = aten.view.default(avg_pool2d, [n, 25088])", True),
            ),
        ),
        inputs=_image().dims,
    )


def _harmless() -> Finding:
    batch = dim("x[0]", 1, exactly(1), name="n", text="Dim.AUTO")
    return Finding(
        dims=(batch,),
        stage="capture",
        op="aten.expand.default",
        origin=Origin(
            "aten.expand.default", "classifier", SourceLine("models/vgg.py", 44, "forward", "bias.expand(n, -1)")
        ),
        guards=("n == 1",),
        verdict="harmless",
        reason="batches 2, 3 and 8 agree",
    )


def _tries() -> tuple[Try, ...]:
    return (
        Try({"x": (1, 3, 256, 224)}, "differs", "operator", "shape (1, 512, 7, 7) and shape (1, 512, 8, 7)"),
        Try({"x": (1, 3, 256, 224)}, "differs", "model", "Gemm fails: 28672 and 25088"),
        Try({"x": (1, 3, 255, 224)}, "agrees"),
        Try({"x": (8, 3, 240, 230)}, "agrees"),
        Try({"x": (1, 3, 224, 448)}, "differs", "operator", "shape (1, 512, 7, 7) and shape (1, 512, 7, 14)"),
        Try({"x": (1, 3, 224, 16)}, "rejected", "model", "RuntimeError: output size is too small"),
        Try({"x": (1, 3, 1024, 1024)}, "unknown", "model", "more memory is needed than is free"),
    )


def translate_fault() -> ReportData:
    """``x.squeeze(1)`` where the example has size 1: no guard tells of it, the ladder finds the stage and the node."""
    channels = dim("x[1]", 1, Admitted("unknown", None, False, False), name="c")
    source = SourceLine("models/squeeze.py", 9, "forward", "return x.squeeze(1) * 2")
    sizes = {"x": (4, 3, 8)}
    finding = Finding(
        dims=(channels,),
        stage="translate",
        op="aten.squeeze.dims",
        origin=Origin("aten.squeeze.dims", "", source, None, "squeeze"),
        verdict="confirmed",
        reason="ONNX Runtime fails",
        counterexample=Counterexample(
            sizes,
            "shape (4, 3, 8)",
            "[ONNXRuntimeError] : 1 : FAIL : Non-zero status code returned while running Squeeze node. "
            "Name:'node_squeeze' Status Message: Dimension of input 1 must be 1 instead of 3",
            "runtime_error",
        ),
        ladder=Ladder(
            sizes,
            (
                Rung("eager", "agrees", "shape (4, 3, 8)"),
                Rung("captured", "agrees", "shape (4, 3, 8)"),
                Rung("decomposed", "agrees", "shape (4, 3, 8)"),
                Rung("onnx", "raises", "FAIL : running Squeeze node: dimension of input 1 must be 1 instead of 3"),
                Rung("optimized", "raises", "FAIL : running Squeeze node: dimension of input 1 must be 1 instead of 3"),
            ),
            "translate",
            DifferingNode(
                "onnx",
                "node_squeeze",
                "Squeeze",
                fx_node="squeeze",
                fx_op="aten.squeeze.dims",
                module_path="",
                source=source,
                expected="shape (4, 3, 8)",
                got="it raises",
            ),
        ),
        reproduction=Reproduction(reason="the shrunk sizes no longer show the difference"),
        decomposition=Decomposition(
            (GraphLine("squeeze: f32[n, c, t] = aten.squeeze.dims(x, [1])", True),),
            (GraphLine("node_squeeze: float32[n, t] = Squeeze(x, val_0=[1])", True),),
        ),
    )
    return report(
        status="specialized",
        model="SqueezeNet",
        findings=(finding,),
        inputs=(spec("x", dim("x[0]", 4, name="n"), dim("x[1]", 1, name="c"), dim("x[2]", 8, name="t")),),
        tries=(Try(sizes, "differs", "model", "ONNX Runtime fails"), Try({"x": (5, 1, 9)}, "agrees")),
    )


def repaired() -> ReportData:
    """The VGG, exported again with ``repair=True``: the returned model is right where the first one was not."""
    way = "averages over windows whose bounds are computed from the sizes"
    finding = dataclasses.replace(_pooling(), repaired=True, repair=f"adaptive average pooling: {way}")
    tries = (
        Try({"x": (1, 3, 224, 224)}, "agrees"),
        Try({"x": (1, 3, 256, 224)}, "agrees"),
        Try({"x": (1, 3, 224, 448)}, "agrees"),
        Try({"x": (1, 3, 224, 16)}, "rejected", "model", "RuntimeError: output size is too small"),
    )
    reason = "it agrees with eager PyTorch at the counterexamples and at all 3 sizes at which both ran"
    repair = Repair(True, ("adaptive average pooling",), (way,), tries, reason)
    return dataclasses.replace(
        full_evidence(), status="clean", findings=(finding, _harmless()), tries=tries, repair=repair
    )


def hostile_evidence() -> ReportData:
    """Every text field holds markup, control characters and an endless line; the model is named ``<script>``."""
    nasty = '</script></style></textarea></template></pre>"\'><img src=x onerror="pwned(1)">' + HOSTILE + CONTROL
    script = "\n".join(("# </script><script>pwned(2)</script>", f"print({nasty!r})", '"""', nasty, "x" * 5000))
    source = SourceLine(f"javascript:pwned(3)//{nasty}", 3, nasty, nasty)
    dims = (
        dim("x[0]", 2, Admitted(nasty, ((2, 2),), True, False), name=nasty, text=nasty),
        dim(f"{nasty}[1]", 3, Admitted(nasty, None, True, False), name=nasty, text=nasty),
    )
    rungs = (Rung("eager", "agrees", nasty), Rung("onnx", "differs", nasty * 100), Rung("optimized", "refuses", nasty))
    node = DifferingNode("onnx", nasty, nasty, nasty, nasty, nasty, source, nasty, nasty)
    finding = Finding(
        dims=dims,
        stage="translate",
        op="<script>pwned(4)</script>",
        origin=Origin(nasty, nasty, source, source, nasty, True),
        guards=(nasty, "```", nasty * 50),
        onnx_nodes=(OnnxNode(nasty, nasty, nasty),),
        verdict="confirmed",
        reason=nasty,
        counterexample=Counterexample({"x": (3, 2), nasty: (1, 4)}, nasty, nasty, "values", "operator", ((1, 4),)),
        repair=nasty,
        ladder=Ladder({nasty: (3, 2)}, rungs, "translate", node),
        reproduction=Reproduction(script, nasty, "operator"),
        decomposition=Decomposition((GraphLine(nasty, True), GraphLine(nasty)), (GraphLine(nasty * 40, True),)),
        inputs=dims,
    )
    quiet = dataclasses.replace(finding, verdict="harmless", counterexample=None, ladder=None, decomposition=None)
    guard = Guard(nasty, "guard", (nasty,), nasty, False, Origin(nasty, nasty, source, source, nasty))
    states = ("agrees", "differs", "rejected", "unknown")
    return report(
        status="specialized",
        model="<script>",
        findings=(finding, quiet),
        inputs=(spec("x", dims[0], dtype=nasty), spec(nasty, dims[1])),
        stages=(
            Snapshot("capture", "after", (guard,), ((nasty, (nasty, 2)),), (OutputSpec(nasty, nasty, (nasty, None)),)),
        ),
        changes=(Change("capture", (guard,) * 3, "restricts", 0), Change("decompose", (guard,), "unknown")),
        tries=tuple(Try({"x": (n, 2), nasty: (1, n)}, state, "model", nasty) for n, state in enumerate(states)),
        missing=(Missing(nasty, nasty),),
        notes=(nasty, "<script>pwned(5)</script>"),
        environment={nasty: nasty, "torch": "<script>"},
        error=nasty,
        repair=Repair(False, (nasty, nasty), (nasty,), (Try({nasty: (1,)}, "unknown", "model", nasty),), nasty),
    )


EVIDENCE = {
    "full_evidence": full_evidence,
    "translate_fault": translate_fault,
    "repaired": repaired,
    "hostile_evidence": hostile_evidence,
}
