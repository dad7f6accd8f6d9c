from __future__ import annotations

import dataclasses

import pytest

from guarddiff.analysis import declarations
from guarddiff.analysis.declared import Claim, shapes_text, some, text
from guarddiff.core.declaration import (
    TOLD_ONLY,
    Code,
    Given,
    Misdeclaration,
    Request,
    Row,
    Size,
    Spec,
    Table,
    by_name,
    nearest,
)
from guarddiff.core.dims import Declared, Dimension, OutputSpec
from guarddiff.core.domain import Admitted, SizeRange
from guarddiff.core.finding import Finding
from guarddiff.core.origin import Origin
from guarddiff.core.report import ReportData
from guarddiff.core.snapshot import Snapshot

ANY = SizeRange()
N, H = Size("name", "'n'", "n"), Size("dim", "Dim('h', min=2)", "h", 2)


def tensor(name: str, *shape: int, onnx: str = "", **more: int) -> Given:
    return Given(name, "tensor", name, name.lower(), shape, onnx or name.lower(), **more)  # type: ignore[arg-type]


def axes(**entries: Spec) -> Table:
    return Table(tuple(entries.items()))


def at(*pairs: tuple[int | str, Spec]) -> Table:
    return Table(pairs)


X, Y = tensor("x", 2, 3), tensor("y", 4, 5, position=1)


def codes(request: Request) -> list[Code]:
    return [one.code for one in declarations.before(request)]


# --- before ---


def test_nothing_declared_is_nothing_told() -> None:
    assert declarations.before(Request((X, Y))) == ()


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (Table((), ("(1, 2)",)), ["wrong-form"]),
        (Row((N,), "list"), ["wrong-form"]),
        (Size("name", "'auto'", "auto"), ["wrong-form"]),
        (axes(x=at((0, N)), y=Size("nothing", "None")), []),
        (axes(x=at((0, at((1, N)))), y=Row((), "list")), ["wrong-form"]),
    ],
)
def test_forms_of_dynamic_axes(spec: Spec, expected: list[Code]) -> None:
    assert codes(Request((X, Y), axes=spec)) == expected


def test_no_entry_at_all_is_taken_by_torch_where_input_names_has_every_input() -> None:
    assert codes(Request((X, Y), axes=Table(()))) == ["missing-input"]
    assert codes(Request((X, Y), axes=Table(()), input_names=("x",))) == ["missing-input"]
    assert codes(Request((X, Y), axes=Table(()), input_names=("x", "y"))) == []


def test_names_of_outputs_are_no_inputs_of_torchs_count() -> None:
    asked = axes(out=at((0, N)), x=at((0, N)), y=at((0, H)))
    assert codes(Request((X, Y), axes=asked, output_names=("out",))) == []


@pytest.mark.parametrize(("size", "told"), [(2, False), (1, True), (3, True)])
def test_the_same_name_needs_the_same_size(size: int, told: bool) -> None:
    asked = axes(x=at((0, N)), y=at((0, N)))
    found = declarations.before(Request((X, tensor("y", size, 5, position=1)), shapes=asked))
    assert [one.code for one in found] == (["shared-name"] if told else [])
    if told:
        assert found[0].places == ("x[0]", "y[0]")


@pytest.mark.parametrize(
    ("offset", "example", "expected"),
    [(0, 4, []), (0, 5, ["derived-size"]), (1, 5, []), (1, 7, ["derived-size"]), (-5, 1, ["derived-size"] * 2)],
)
def test_derived_sizes(offset: int, example: int, expected: list[Code]) -> None:
    size = Size("derived", "2*n", "n", 0, 9, 2, offset)
    asked = axes(x=at((0, Size("dim", "Dim('n')", "n", 0, 9))), y=at((0, size)))
    assert codes(Request((X, tensor("y", example, 5)), shapes=asked)) == expected


def test_a_derived_size_outside_its_roots_range() -> None:
    size = Size("derived", "2*n", "n", 3, None, 2)
    (found,) = declarations.before(Request((Y,), shapes=axes(y=at((0, size)))))
    assert (found.code, found.instead) == ("derived-size", "an example of 6 there, or a Dim of its own")


def test_a_range_is_widened_to_hold_the_example() -> None:
    asked = axes(x=at((0, Size("hint", "Dim.AUTO(max=1)", "", 0, 1)), (1, Size("dim", "Dim('k', min=9)", "k", 9))))
    found = declarations.before(Request((X,), shapes=asked))
    assert [one.instead.partition(", or")[0] for one in found] == ["Dim.AUTO(max=2)", "Dim('k', min=3)"]


# --- after ---


def dimension(place: str, example: int, declared: str = "", sizes: SizeRange = ANY, least: int = 0) -> Dimension:
    name, axis = place[:-1].split("[")
    admitted = Admitted(f"at least {least}", ((least, None),), True, False) if least else None
    return Dimension(name, int(axis), place, place, example, Declared(sizes, declared), admitted)


def finding(*dims: Dimension, verdict: str = "confirmed", stage: str = "capture", op: str = "aten.conv2d") -> Finding:
    return Finding(dims, stage, op, Origin(), ("x",), verdict=verdict, reason="r")  # type: ignore[arg-type]


TOLD = {code: Misdeclaration(code, "w", "p", "i") for code in ("negative-axis", "other-order", "shared-name")}  # type: ignore[misc]


@pytest.mark.parametrize(
    ("report", "dynamo", "kept"),
    [
        (ReportData(), True, ["other-order", "shared-name"]),
        (ReportData(), False, ["negative-axis", "other-order", "shared-name"]),
        (ReportData(error="E: e"), True, ["negative-axis", "other-order", "shared-name"]),
        (ReportData(findings=(finding(dimension("x[0]", 2), stage="declare"),)), True, ["shared-name"]),
        (ReportData(findings=(finding(dimension("x[0]", 2)),)), True, ["other-order", "shared-name"]),
    ],
)
def test_what_the_export_shows_is_not_told_twice(report: ReportData, dynamo: bool, kept: list[str]) -> None:
    found = declarations.after(tuple(TOLD.values()), Request((X,), dynamo=dynamo), report)
    assert [one.code for one in found] == kept


ONE = Request((tensor("x", 1, 3),), shapes=axes(x=at((0, N))))


@pytest.mark.parametrize(
    ("report", "told"),
    [
        (ReportData(), False),
        (ReportData(error="E: e"), True),
        (ReportData(findings=(finding(dimension("x[0]", 1)),)), True),
        (ReportData(findings=(finding(dimension("x[0]", 1), verdict="harmless"),)), False),
        (ReportData(findings=(finding(dimension("x[1]", 3)),)), False),
    ],
)
def test_an_example_of_size_1_where_it_matters(report: ReportData, told: bool) -> None:
    found = declarations.after((), ONE, report)
    assert [(one.code, one.where) for one in found] == ([("example-one", "dynamic_shapes['x'][0]")] if told else [])
    assert not any(one.warns for one in found)


def test_another_mistake_explains_the_error_better() -> None:
    found = declarations.after((TOLD["shared-name"],), ONE, ReportData(error="E: e"))
    assert [one.code for one in found] == ["shared-name"]


def with_outputs(*outputs: OutputSpec, **more: object) -> ReportData:
    return dataclasses.replace(ReportData(stages=(Snapshot("optimize", "after", (), (), outputs, False),)), **more)  # type: ignore[arg-type]


ASKED = Request((X,), axes=axes(x=at((0, N)), out=at((0, N), (1, N))), output_names=("out",))


@pytest.mark.parametrize(
    ("report", "told"),
    [
        (with_outputs(OutputSpec("out", "f", ("n", 3))), ["fixed-output"]),
        (with_outputs(OutputSpec("out", "f", ("n", "k"))), []),
        (with_outputs(OutputSpec("out", "f", ("n", None))), []),
        (with_outputs(OutputSpec("out", "f", ("n",))), ["output-axis"]),
        (with_outputs(OutputSpec("other", "f", ("n", 3))), []),
        (with_outputs(OutputSpec("out", "f", ("n", 3)), error="E: e"), []),
        (with_outputs(OutputSpec("out", "f", ("n", 3)), findings=(finding(dimension("x[0]", 2)),)), []),
        (with_outputs(OutputSpec("out", "f", ("n", 3)),
                      notes=("ONNX output out[1] is declared with the fixed size 3, although",)), []),
    ],
)  # fmt: skip
def test_outputs(report: ReportData, told: list[Code]) -> None:
    found = declarations.after((), ASKED, report)
    assert [one.code for one in found] == told
    assert [one.instead for one in found] == ["'out': {0: 'n'}"] * len(told)


def test_ranges_that_begin_too_low() -> None:
    lower = [
        finding(dimension("x[0]", 9, "Dim('h', min=2)", SizeRange(2, 64), least=5)),
        finding(dimension("x[0]", 9, "Dim('h', min=2)", SizeRange(2, 64), least=7), op="unknown"),
        finding(dimension("x[1]", 9, "'w'", SizeRange(), least=5)),
    ]
    (found,) = declarations.after((), Request((X,)), ReportData(), lower)
    assert (found.code, found.where, found.instead) == ("range-exceeds", "x[0]", "Dim('x[0]', min=7, max=64)")
    covered = ReportData(findings=(finding(dimension("x[0]", 9)),))
    assert declarations.after((), Request((X,)), covered, lower) == ()


@pytest.mark.parametrize(
    ("fix", "instead"),
    [("h = Dim('h', min=5, max=64)", "Dim('h', min=5, max=64)"), ("h = 6", "None: it takes 6 alone"), ("k = 6", None)],
)
def test_what_torch_suggests(fix: str, instead: str | None) -> None:
    error = f"UserError: Constraints violated (h)!\nSuggested fixes:\n  {fix}\n\nThe error above"
    request = Request((X,), shapes=axes(x=at((0, H))))
    found = declarations.after((), request, ReportData(error=error))
    assert [one.instead for one in found] == ([instead] if instead else [])


# --- words ---


def test_every_kind_is_warned_of_or_told_only() -> None:
    assert {one.code: one.warns for one in TOLD.values()} == {
        "negative-axis": True,
        "other-order": False,
        "shared-name": True,
    }
    assert "example-one" in TOLD_ONLY


def test_declarations_as_text() -> None:
    spec = axes(
        x=Row((N, Size("nothing", "None"))), y=Row((N,)), z=Row((N,), "list"), s=Row((N,), "set"), t=Row((), "set")
    )
    assert text(spec) == "{'x': ('n', None), 'y': ('n',), 'z': ['n'], 's': {'n'}, 't': set()}"
    assert text(None) == "None"


def test_nested_declarations_are_written_as_the_inputs_are() -> None:
    parts = tuple(Given(f"p[{i}]", "tensor", i, f"p_{i}", (2,), f"p_{i}") for i in range(2))
    nested = Given("p", "sequence", "p", "p", parts=parts)
    table = Given("d", "mapping", "d", "d", parts=(Given("d['a']", "tensor", "a", "d_a", (2,), "d_a"),))
    claims = [Claim(parts[1], 0, N, ""), Claim(table.parts[0], 0, H, "")]
    written = "dynamic_shapes={'x': None, 'p': (None, {0: 'n'}), 'd': {'a': {0: Dim('h', min=2)}}}"
    assert shapes_text((X, nested, table), claims) == written


def test_names() -> None:
    assert nearest("Imges", ["x", "images"]) == "images"
    assert nearest("q", ["x", "images"]) is None
    renamed = tensor("x", 2, onnx="pixels")
    assert set(by_name([renamed])) == {"pixels"}
    assert set(by_name([renamed], lenient=True)) == {"pixels", "x"}
    assert set(by_name([tensor("Big", 2)])) == {"big", "Big"}
    assert some(["a"]) == "a"
    assert some(["a", "b", "c"]) == "a, b and c"
    assert some([]) == "none"
    assert some([str(number) for number in range(10)]) == "0, 1, 2, 3, 4, 5, 6, 7 and 2 more"
