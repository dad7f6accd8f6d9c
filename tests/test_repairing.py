"""``repair=True``: what takes the place of torch's model, and what does not."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch
from torch import nn
from torch.export import Dim

import guarddiff
from guarddiff.render import moves
from guarddiff.repair import registry
from guarddiff.repair.registry import Refusal, Repair

pytestmark = pytest.mark.usefixtures("shared_registry", "no_reproductions")


X = torch.randn(4, 3)
SHAPES = ({0: Dim.AUTO},)


def right(start: Any, end: Any, steps: Any) -> torch.Tensor:
    return torch.arange(steps) / torch.sym_max(steps - 1, 1) * (end - start) + start


def wrong(start: Any, end: Any, steps: Any) -> torch.Tensor:
    return right(start, end, steps) + 1


def nearly(start: Any, end: Any, steps: Any) -> Any:
    """Right at twice the example's size and wrong beyond."""
    found = right(start, end, steps)
    return found + (torch.arange(steps) > 7)


def known(monkeypatch: pytest.MonkeyPatch, *repairs: Repair, refusals: tuple[Refusal, ...] = ()) -> None:
    monkeypatch.setattr(registry, "every", lambda: repairs)
    monkeypatch.setattr(registry, "refusals", lambda: refusals)


def by(function: Callable[..., Any]) -> Repair:
    return Repair("linspace by size", ("linspace",), "counts up at run time", functions={torch.linspace: function})


def check(model: nn.Module, **more: Any) -> guarddiff.Report:
    return guarddiff.check(
        model.eval(), (X,), dynamic_shapes=SHAPES, verbose=False, on_finding="ignore", dynamo=True, repair=True, **more
    )


class Plain(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linspace(0, 1, x.shape[0]).unsqueeze(1) * x


def run(model: Any, x: torch.Tensor) -> torch.Tensor:
    source = model if isinstance(model, str) else model.model_proto.SerializeToString()
    session = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(None, {session.get_inputs()[0].name: x.numpy()})[0])


def test_a_right_repair_takes_the_models_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    known(monkeypatch, by(right))
    file = tmp_path / "m.onnx"
    program = guarddiff.export(
        Plain().eval(), (X,), str(file), dynamic_shapes=SHAPES, verbose=False, dynamo=True, repair=True
    )
    report = guarddiff.report_of(program)
    assert report.status == "clean"
    assert report.repair is not None
    assert report.repair.returned
    assert report.repair.names == ("linspace by size",)
    assert {made.state for made in report.repair.tries} <= {"agrees", "rejected", "unknown"}
    (finding,) = [f for f in report.findings if f.repaired]
    assert finding.verdict == "confirmed"
    assert not finding.warns
    assert finding.repair == "linspace by size: counts up at run time"
    x = torch.randn(9, 3)
    for model in (program, str(file)):
        assert torch.allclose(run(model, x), Plain()(x), atol=1e-6)
    assert guarddiff.report_of(program).to_json() == report.to_json()


@pytest.mark.parametrize(
    ("function", "words"),
    [(wrong, "not right at the example's sizes"), (nearly, "wrong at further sizes")],
)
def test_a_wrong_repair_is_not_returned(
    monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any], words: str
) -> None:
    known(monkeypatch, by(function))
    report = check(Plain())
    assert report.status == "specialized"
    assert report.repair is not None
    assert not report.repair.returned
    assert words in report.repair.reason
    assert not any(finding.repaired for finding in report.findings)
    assert report.program is not None
    assert not torch.allclose(run(report.program, X), wrong(0, 1, 4).unsqueeze(1) * X)


def test_a_repair_that_raises_leaves_torchs_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> torch.Tensor:
        raise ValueError("no")

    known(monkeypatch, by(fail))
    report = check(Plain())
    assert report.repair is not None
    assert not report.repair.returned
    assert report.repair.reason.startswith("the repaired export raised (")
    assert report.status == "specialized"
    assert torch.allclose(run(report.program, X), Plain()(X), atol=1e-6)


def test_a_repair_that_does_nothing_is_not_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch, by(lambda *_: NotImplemented))
    report = check(Plain())
    assert report.repair is not None
    assert report.repair.reason == "the repaired model differs from eager PyTorch at the counterexamples too"


def test_without_a_known_repair_the_report_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch)
    report = check(Plain())
    assert report.repair is None
    assert "repair=True: no repair is known for these findings; the model is torch's own" in report.notes
    (finding,) = report.findings
    assert finding.repair is not None
    assert finding.repair.startswith("no repair is known for this; keep to the admitted sizes")


def test_a_refusal_is_told_in_the_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch, refusals=(Refusal(("linspace",), "there is no such ONNX form", "use torch.arange"),))
    (finding,) = [f for f in check(Plain()).findings if f.warns]
    assert finding.repair == "there is no such ONNX form; use torch.arange"
    assert not finding.repairable


def test_without_repair_the_finding_says_that_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch, by(right))
    report = guarddiff.check(Plain().eval(), (X,), dynamic_shapes=SHAPES, verbose=False, on_finding="ignore")
    (finding,) = [f for f in report.findings if f.warns]
    assert finding.repair == "linspace by size: counts up at run time"
    assert finding.repairable
    (tried,) = check(Plain()).findings
    assert not tried.repairable


def test_a_clean_model_is_torchs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    class Right(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    known(monkeypatch, by(right))
    report = check(Right())
    assert (report.status, report.repair) == ("clean", None)


def test_a_translation_of_the_users_own_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def own(x: Any) -> Any:
        from onnxscript import opset18 as op

        return op.Abs(x)

    class Two(Plain):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(torch.relu(x))

    def theirs(x: Any) -> Any:
        raise AssertionError("the user's translation was to be used")

    known(monkeypatch, by(right), Repair("relu", ("*linspace*",), "", translations={"aten.relu.default": theirs}))
    report = check(Two(), custom_translation_table={torch.ops.aten.relu.default: own})
    assert report.repair is not None
    assert "AssertionError" not in report.repair.reason


def test_raise_is_for_what_remains(monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch, by(right))
    report = guarddiff.check(
        Plain().eval(), (X,), dynamic_shapes=SHAPES, verbose=False, dynamo=True, repair=True, on_finding="raise"
    )
    assert report.status == "clean"
    known(monkeypatch, by(wrong))
    with pytest.raises(guarddiff.SpecializationError):
        guarddiff.check(
            Plain().eval(), (X,), dynamic_shapes=SHAPES, verbose=False, dynamo=True, repair=True, on_finding="raise"
        )


class Resized(nn.Module):
    """Adds a row where the number of rows is odd: nothing that is right at both is known from an even example."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.shape[0] // 2 * 2
        half = x[:rows]
        if half.shape[0] != x.shape[0]:
            half = nn.functional.interpolate(half[None, None], size=tuple(x.shape))[0, 0]
        return half + x


class Levels(nn.Module):
    """A number worked out from a size."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[: int(math.log2(x.shape[0])) + 1] * 2


class Either(nn.Module):
    """Two branches with different results: no example will do."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] % 2 == 0 else x + 1


def test_another_example_takes_the_branch_that_is_right_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch)
    report = check(Resized())
    assert report.repair is not None
    assert report.repair.returned
    assert report.repair.names == ("another example",)
    assert report.status == "clean"
    (finding,) = [f for f in report.findings if f.repaired]
    assert finding.repair is not None
    assert finding.repair.startswith("another example: exported at x ")
    for rows in (1, 2, 4, 5, 9):
        x = torch.randn(rows, 3) if rows > 1 else torch.randn(4, 3)
        assert torch.allclose(run(report.program, x), Resized()(x), atol=1e-6)


def test_another_example_is_what_may_help_a_branch() -> None:
    report = guarddiff.check(Resized(), (X,), dynamic_shapes=SHAPES, verbose=False, on_finding="ignore")
    finding = next(one for one in report.findings if one.warns and one.op == "if")
    assert finding.repairable
    assert finding.repair is not None
    assert finding.repair.startswith("another example: only the branch that the example takes is exported")
    assert "repair=True, which tries other examples and proves the result" in moves.next_move(finding)


def test_a_branch_that_no_other_example_helps() -> None:
    report = check(Either())
    (finding,) = report.findings
    assert finding.warns
    assert not finding.repairable
    assert finding.repair is not None
    assert "no other example that was tried is right for all" in finding.repair
    assert report.notes[-1] == (
        "repair=True: no repair is known, and no other example right, for these findings; the model is torch's own"
    )


def test_another_example_that_is_wrong_where_the_first_was_right_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch)
    report = check(Either())
    assert report.status == "specialized"
    assert report.repair is None
    assert torch.allclose(run(report.program, X), X * 2)


def test_what_the_example_fixed_at_one_is_open_with_another_example(monkeypatch: pytest.MonkeyPatch) -> None:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.encoder(x)

    known(monkeypatch)
    model = Encoder().eval()
    report = guarddiff.check(
        model,
        (torch.randn(1, 3, 4),),
        dynamic_shapes=({0: Dim.AUTO, 1: Dim.AUTO},),
        verbose=False,
        on_finding="ignore",
        dynamo=True,
        repair=True,
    )
    assert report.repair is not None, report.missing
    assert report.repair.returned, report.repair.reason
    for shape in ((1, 3, 4), (2, 3, 4), (3, 6, 4)):
        x = torch.randn(shape)
        assert torch.allclose(run(report.program, x), model(x), atol=1e-5)


def test_what_leaves_no_guard_is_looked_for_and_repaired() -> None:
    class Repeated(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x.repeat_interleave(y.shape[0], dim=0)

    report = guarddiff.check(
        Repeated(),
        (torch.randn(1, 3), X),
        dynamic_shapes=({0: Dim.AUTO}, {0: Dim.AUTO}),
        verbose=False,
        on_finding="ignore",
        dynamo=True,
        repair=True,
    )
    assert report.repair is not None
    assert report.repair.returned
    assert report.status == "clean"
    (finding,) = report.findings
    assert (finding.stage, finding.op, finding.repaired) == ("translate", "aten.repeat_interleave.self_int", True)


def test_a_check_of_a_layer_does_not_hide_its_operator() -> None:
    """torch's layer compares the width first, at the same line of the model; both dimensions are declared open."""

    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.RNN(3, 4, batch_first=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.rnn(x)[0]

    model = Recurrent().eval()
    report = guarddiff.check(
        model,
        (torch.randn(2, 5, 3),),
        dynamic_shapes=({0: Dim.AUTO, 1: Dim.AUTO, 2: Dim.AUTO},),
        verbose=False,
        on_finding="ignore",
        repair=True,
    )
    assert [finding.op for finding in report.findings if finding.repaired] == ["aten.rnn_tanh.input"]
    x = torch.randn(3, 9, 3)
    assert torch.allclose(run(report.program, x), model(x), atol=1e-6)


def test_a_model_that_is_wrong_at_the_example_itself_is_repaired() -> None:
    """Nothing is specialized, so there is no finding: torchlib's translation is wrong at every size."""

    class Repeated(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.repeat_interleave(x.shape[0], dim=0)

    plain = guarddiff.check(Repeated(), (X,), dynamic_shapes=SHAPES, verbose=False, on_finding="ignore")
    assert run(plain.program, X).shape == (4, 3)
    assert Repeated()(X).shape == (16, 3)
    report = check(Repeated())
    assert report.repair is not None
    assert report.repair.returned
    assert report.repair.names == ("repeat_interleave by a size",)
    assert (report.status, report.missing) == ("clean", ())
    for rows in (1, 4, 7):
        x = torch.randn(rows, 3)
        assert torch.equal(run(report.program, x), Repeated()(x))


def test_what_is_worked_out_from_sizes_is_tried_at_telling_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A logarithm that is a little too small is right at nearly every size."""
    from guarddiff.repair import numbers, stand_ins

    def inexact(value: Any) -> Any:
        return torch.log(torch.scalar_tensor(value, dtype=torch.float64)).item() / (math.log(2) + 1e-9)

    def export() -> guarddiff.Report:
        return guarddiff.check(
            Levels(), (torch.randn(20, 3),), dynamic_shapes=SHAPES, verbose=False, on_finding="ignore", repair=True
        )

    report = export()
    assert report.repair is not None
    assert report.repair.returned
    for rows in (1, 2, 4, 16, 20, 64, 100):
        x = torch.randn(rows, 3)
        assert run(report.program, x).shape == Levels()(x).shape
    (repair,) = [one for one in numbers.REPAIRS if one.stand_ins]
    wrong = stand_ins._function(math.log2, inexact)
    stands = {**repair.stand_ins, math.log2: wrong, math: stand_ins._Math({**stand_ins._FUNCTIONS, "log2": wrong})}
    known(monkeypatch, dataclasses.replace(repair, stand_ins=stands))
    spoilt = export()
    assert spoilt.repair is not None
    assert not spoilt.repair.returned
    assert spoilt.repair.reason == "the repaired model is wrong at further sizes"


def test_wrong_at_the_example_and_specialized_as_well_is_no_repair() -> None:
    """Repeating is repaired with all repairs on; the branch, which nothing repairs, must not pass for repaired."""

    class Both(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            repeated = x.repeat_interleave(x.shape[0], dim=0)
            return repeated * 2 if x.shape[0] % 2 == 0 else repeated + 1

    report = check(Both())
    assert report.repair is not None
    assert not report.repair.returned
    loud = [finding for finding in report.findings if finding.warns]
    assert [(one.op, one.at_example) for one in loud] == [("if", False), ("aten.repeat_interleave.self_int", True)]
    assert report.status != "clean"
