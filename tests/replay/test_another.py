from __future__ import annotations

import dataclasses

from tests.replay.test_sizes import dim, finding, image, ranges

from guarddiff.core.domain import SizeRange
from guarddiff.core.finding import Counterexample
from guarddiff.replay import another, sizes

H, W = image()
EXAMPLE = {"h": 8, "w": 8}
BASE = {"x": (1, 3, 8, 8)}


def at(*findings: object) -> list[another.Shapes]:
    return another.examples(findings, (H, W), ranges((H, W)), EXAMPLE, BASE)  # type: ignore[arg-type]


def test_the_first_breaks_the_guards_of_all_findings() -> None:
    rows, columns = finding(("h == 8",), H), finding(("w % 2 == 0",), W)
    first = at(rows, columns)[0]["x"]
    assert first[2] != 8
    assert first[3] % 2 == 1


def test_of_one_finding_the_counterexample_comes_first() -> None:
    shown = Counterexample({"x": (1, 3, 13, 8)}, "", "", "shape")
    assert at(dataclasses.replace(finding(("h == 8",), H), counterexample=shown))[0] == {"x": (1, 3, 13, 8)}


def test_sizes_of_one_and_none_are_lifted_where_they_are_dynamic() -> None:
    batch = dim("b", 1, SizeRange(), 0)
    still = dim("c", 1, None, 1)
    dims = (batch, still)
    found = another.examples([finding(("b == 1",), batch)], dims, ranges(dims), {"b": 1, "c": 1}, {"x": (1, 1)})
    assert found
    assert all(shapes["x"][0] >= 2 and shapes["x"][1] == 1 for shapes in found)
    shown = Counterexample({"x": (0, 1)}, "", "", "shape")
    assert another.examples(
        [dataclasses.replace(finding((), batch), counterexample=shown)],
        dims,
        ranges(dims),
        {"b": 1, "c": 1},
        {"x": (1, 1)},
    )[0] == {"x": (2, 1)}


def test_each_once() -> None:
    found = at(finding(("h == 8",), H), finding(("w == 8",), W))
    assert len(found) == len({str(shapes) for shapes in found})
    assert all(sizes.shapes_at({"h": s["x"][2], "w": s["x"][3]}, (H, W), BASE) == s for s in found)
