"""Things to know that are no fault."""

from __future__ import annotations

from guarddiff.core.evidence import Evidence


def fixed_outputs(evidence: Evidence) -> tuple[str, ...]:
    """Outputs whose size was symbolic at capture and is declared as a fixed number in the ONNX file.

    The values can be right all the same (an LSTM over a dynamic length): runtimes that allocate outputs by their
    declared shape are misled, ONNX Runtime warns at most.
    """
    last = next((s for s in reversed(evidence.snapshots) if not s.state_read), None)
    if last is None or len(last.outputs) != len(evidence.symbolic_outputs):
        return ()
    found = []
    for captured, exported in zip(evidence.symbolic_outputs, last.outputs):
        for axis, (was, now) in enumerate(zip(captured.shape, exported.shape)):
            if isinstance(was, str) and isinstance(now, int):
                found.append(
                    f"ONNX output {exported.name}[{axis}] is declared with the fixed size {now}, "
                    f"although it was {was} when captured"
                )
    return tuple(found)
