"""Notes, from hand-made evidence. Needs no torch."""

from __future__ import annotations

import pytest

from guarddiff.analysis.notes import fixed_outputs
from guarddiff.core.dims import OutputSpec
from guarddiff.core.evidence import Evidence
from guarddiff.core.snapshot import Snapshot

Shape = tuple[int | str | None, ...]


def evidence(captured: list[Shape], *exported: tuple[str, list[Shape]]) -> Evidence:
    """Outputs as captured, and as declared after each stage."""
    snapshots = [Snapshot("capture", "after", outputs=_specs("fx", captured))]
    snapshots += [Snapshot(stage, "after", outputs=_specs("out", rows), state_read=False) for stage, rows in exported]
    return Evidence(snapshots=tuple(snapshots), symbolic_outputs=_specs("fx", captured))


def _specs(stem: str, shapes: list[Shape]) -> tuple[OutputSpec, ...]:
    return tuple(OutputSpec(f"{stem}{i}", "FLOAT", shape) for i, shape in enumerate(shapes))


def test_a_symbolic_size_that_became_a_number_is_told() -> None:
    found = fixed_outputs(evidence([("n", 8, "2 * t")], ("optimize", [("s0", 8, 12)])))
    assert found == ("ONNX output out0[2] is declared with the fixed size 12, although it was 2 * t when captured",)


def test_every_axis_of_every_output_is_told() -> None:
    found = fixed_outputs(evidence([("n",), ("t", "n")], ("optimize", [(2,), (5, 2)])))
    assert [text.split(" is ")[0] for text in found] == ["ONNX output out0[0]", "ONNX output out1[0]",
                                                         "ONNX output out1[1]"]  # fmt: skip


@pytest.mark.parametrize(
    ("captured", "exported"),
    [
        ([("n", 3)], [("s77", 3)]),
        ([("n", 3)], [(None, 3)]),
        ([(2, 3)], [(2, 3)]),
        ([(2, 3)], [(4, 3)]),
        ([(2, 3)], [("s77", 3)]),
        ([("n",)], [()]),
        ([], []),
    ],
    ids=str,
)
def test_nothing_to_tell(captured: list[Shape], exported: list[Shape]) -> None:
    assert fixed_outputs(evidence(captured, ("optimize", exported))) == ()


def test_the_last_stage_counts() -> None:
    made = evidence([("n",)], ("translate", [("s0",)]), ("optimize", [(4,)]))
    assert len(fixed_outputs(made)) == 1
    assert fixed_outputs(evidence([("n",)], ("translate", [(4,)]), ("optimize", [("s0",)]))) == ()
    assert len(fixed_outputs(evidence([("n",)], ("translate", [(4,)])))) == 1


def test_without_an_onnx_program_there_is_nothing_to_tell() -> None:
    assert fixed_outputs(evidence([("n",)])) == ()
    assert fixed_outputs(Evidence()) == ()


def test_another_number_of_outputs_is_not_compared() -> None:
    assert fixed_outputs(evidence([("n",)], ("optimize", [(4,), (4,)]))) == ()
