"""Made-up outcomes in every state, so few that the figures can be counted by hand. No torch is needed."""

from __future__ import annotations

from typing import Any

from guarddiff.sweep.outcome import Found, Outcome, Repaired, Said, Wrong

ENVIRONMENT: dict[str, Any] = {
    "torch": "2.13.0",
    "onnx": "1.18.0",
    "onnxruntime": "1.22.0",
    "onnxscript": "0.7.2",
    "guarddiff": "0.1.0",
    "python": "3.11.9",
    "runs": [
        {
            "file": "results-ops.jsonl",
            "platform": "Linux x86_64",
            "cases": 14,
            "started": "2026-01-02T03:04:05Z",
            "seconds": 70.0,
            "jobs": 2,
        },
        {"file": "results-models.jsonl", "cases": 4},
    ],
}

RULE = "torch/_decomp/decompositions.py:2825 adaptive_avg_pool2d"
POOL = Found(
    "decompose",
    "aten._adaptive_avg_pool2d.default",
    "confirmed",
    ("x[2]: exactly 6", "x[3]: exactly 6"),
    ("h % 2 == 0", "h // 2 == 3"),
    "models/net.py:12",
    RULE,
    repairable=True,
)
KRON = Found("capture", "aten.kron.default", "unconfirmed", ("x[0]: exactly 2",), reason="no other size was accepted")
SQUEEZE = Found("translate", "aten.squeeze.dims", "confirmed", ("x[1]: any size",))
HARMLESS = Found("capture", "aten.mul.Tensor", "harmless", reason="3 sizes that break the guard agree")
VGG = Found("capture", "int()", "confirmed", ("x[2]: 224–255",), ("h // 32 == 7",), "vgg.py:66")

CLEAN = Said("clean", "none", False, seconds=0.5)


def said(*found: Found, verdict: str = "", warned: bool = True, missing: tuple[str, ...] = ()) -> Said:
    return Said("specialized", verdict or found[0].verdict, warned, found, missing, 0.5)


def wrong(*shapes: tuple[int, ...], state: str = "wrong shape", text: str = "3×3 instead of 3×4") -> tuple[Wrong, ...]:
    return (Wrong(shapes, state, text),)


def silent(key: str, state: Any, stage: str | None, **more: Any) -> Outcome:
    more.setdefault("wrong", wrong((1, 2, 7, 7), state=state))
    return Outcome(key, state, stage, ((1, 2, 6, 6),), 3, wrong_points=1, seconds=2.0, **more)


def right(key: str, default: Said = CLEAN, full: Said = CLEAN, **more: Any) -> Outcome:
    return Outcome(key, "ok", example=((1, 2, 6, 6),), tried=3, default=default, full=full, seconds=1.5, **more)


def outcomes() -> list[Outcome]:
    pool, kron = said(POOL), said(KRON)
    harmless = said(HARMLESS, warned=False)
    alarm = Found("capture", "aten.mul.Tensor", "unconfirmed", reason="too large to be run")
    proved = Found("capture", "aten.convolution.default", "confirmed")
    return [
        silent(
            "ops/pool/0", "wrong shape", "decompose", default=pool, full=pool, repair=Repaired(True, "", "ok", "", 2.0)
        ),
        silent(
            "ops/pool/1",
            "wrong values",
            "decompose",
            default=pool,
            full=pool,
            repair=Repaired(True, "", "wrong values", "off by 0.5"),
        ),
        right("ops/pool/2", repair=Repaired(True, "", "wrong shape", "1×2 instead of 1×3")),
        silent(
            "ops/kron/0",
            "runtime error",
            "capture",
            default=kron,
            full=said(KRON, verdict="confirmed"),
            repair=Repaired(False, "no repair is known", "runtime error"),
        ),
        silent("ops/squeeze/0", "wrong shape", "translate", default=CLEAN, full=said(SQUEEZE)),
        silent("ops/fold/0", "wrong values", "optimize", default=harmless, full=harmless),
        silent(
            "ops/div/0",
            "wrong values",
            "example",
            default=Said("incomplete", "none", False, missing=("replay: no onnxruntime",)),
            full=said(KRON),
            wrong=wrong((1, 2, 6, 6), state="wrong values", text="off by 1"),
        ),
        silent("ops/where/0", "wrong values", None, wrong=()),
        right("ops/add/0", memory=3 * 2**20),
        right("ops/mul/0", said(alarm), harmless),
        right("ops/conv/0", said(alarm), said(proved)),
        right("ops/topk/0", said(proved), said(proved), unsure=True),
        Outcome("ops/bernoulli/0", "not comparable", text="two runs of eager PyTorch differ", seconds=0.1),
        Outcome("ops/eig/0", "export error", text="no decomposition", seconds=0.2),
        Outcome("catalogue/branches/if on height", "static input", None, ((4, 4),), 1, default=kron, full=kron),
        Outcome(
            "catalogue/branches/assert",
            "refused input",
            None,
            ((4, 4),),
            1,
            wrong((5, 4), state="refused input", text="Got invalid dimensions"),
            1,
            default=CLEAN,
            full=kron,
        ),
        Outcome("catalogue/resizing/half", "crashed", text="the process ended with signal 11", seconds=90.0),
        right("catalogue/pooling/max"),
        silent(
            "models/timm/vgg11",
            "wrong shape",
            "capture",
            default=said(VGG),
            full=said(VGG, HARMLESS),
            repair=Repaired(True, "", "ok"),
            memory=2**30,
        ),
        Outcome("models/timm/slow", "timed out", text="120 s", seconds=120.0),
        Outcome("models/transformers/canine", "failed", text="KeyError: 'x'"),
        right("models/transformers/bert", repair=Repaired(True, "", "ok")),
    ]
