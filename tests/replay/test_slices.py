"""Statements around a marked line, cut out of their function."""

from __future__ import annotations

import ast
import functools
from pathlib import Path
from typing import Any

import pytest
import torch

from guarddiff.replay import frames, python_source
from guarddiff.replay.python_source import Unwritable
from guarddiff.replay.script import Sketch
from guarddiff.replay.slices import Pair, Slicer


def body(x: torch.Tensor, factor: int = 3) -> torch.Tensor:
    y = torch.relu(x) + 1
    rows = y.shape[0]
    half = rows // 2
    z = y[:half] * factor  # here
    parts = []
    for row in z:
        parts.append(row * 2)  # in a loop
    return torch.stack(parts).sum()


def early(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] > 100:  # never
        return x
    return x + 1


def by_number(x: torch.Tensor, count: int) -> torch.Tensor:
    return x * count  # numbers


def slicer(function: Any, text: str, one: tuple[Any, ...], two: tuple[Any, ...], scope: str = "module") -> Slicer:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    line = next(i for i, source in enumerate(lines, 1) if source.endswith("# " + text))
    mark = frames.Mark("test_slices.py", line)
    found = [frames.watch(functools.partial(function, *args), mark)[0][-1] for args in (one, two)]
    (frame, at), (other, _) = found
    return Slicer(Pair(frame, other, at), lambda value: value, lambda pair: f'"n{pair[0]}"', scope)


def texts(made: Slicer) -> list[str]:
    return [ast.unparse(sketch.definitions) for sketch in made.sketches()]


def long_and_short() -> Slicer:
    return slicer(body, "here", (torch.randn(6, 2),), (torch.randn(10, 2),))


def test_it_begins_where_the_variables_that_are_no_tensors_come_from() -> None:
    first = texts(long_and_short())[0]
    assert "def forward(self, y)" in first
    assert "rows = y.shape[0]" in first
    assert "relu" not in first
    assert "* 3" in first
    assert "return z" in first
    assert "stack" not in first


def test_the_last_one_goes_to_the_end() -> None:
    assert "stack" in texts(long_and_short())[-1]


def test_inputs_have_the_shapes_of_both_runs() -> None:
    sketch = next(iter(long_and_short().sketches()))
    (given,) = sketch.given
    assert given.value.shapes == ((6, 2), (10, 2))
    assert given.value.axes == {0: '"n6"'}
    assert sketch.scope == "statement"


def test_a_line_in_a_loop_takes_the_whole_loop() -> None:
    first = texts(slicer(body, "in a loop", (torch.randn(6, 2),), (torch.randn(10, 2),)))[0]
    assert "for row in z" in first
    assert "parts = []" in first
    assert "return parts" in first


def test_the_marked_statement_is_marked() -> None:
    sketch = next(iter(long_and_short().sketches()))
    marked = [node for node in ast.walk(sketch.definitions) if python_source.is_marked(node)]
    assert [ast.unparse(node) for node in marked] == ["z = y[:half] * 3"]


def test_the_whole_function() -> None:
    sketch: Sketch = long_and_short().whole()
    assert "relu" in ast.unparse(sketch.definitions)
    assert sketch.scope == "module"


def test_a_number_that_differs_can_not_be_an_input() -> None:
    made = slicer(by_number, "numbers", (torch.randn(2), 3), (torch.randn(4), 5))
    with pytest.raises(Unwritable, match="count differs between the sizes"):
        list(made.sketches())


def test_a_return_that_is_not_reached_takes_what_follows_along() -> None:
    made = slicer(early, "never", (torch.randn(2),), (torch.randn(4),))
    assert all("return x + 1" in text for text in texts(made))


def test_a_return_that_is_reached_at_one_size_only() -> None:
    made = slicer(early, "never", (torch.randn(2),), (torch.randn(200),))
    (text,) = texts(made)
    assert "return x + 1" in text
    assert "return x\n" in text
    assert "return x + 1" in ast.unparse(made.whole().definitions)


def test_what_stands_between_is_left_out() -> None:
    first = texts(slicer(apart, "far below", (torch.randn(6),), (torch.randn(10),)))[0]
    assert "def forward(self, x, y)" in first
    assert "rows = x.shape[0]" in first
    assert "relu" not in first


def apart(x: torch.Tensor) -> torch.Tensor:
    rows = x.shape[0]
    y = torch.relu(x)
    y = torch.relu(y)
    return y[: rows // 2]  # far below


def test_a_name_that_changes_its_meaning_takes_all_along() -> None:
    first = texts(slicer(rebound, "changed", (torch.randn(6),), (torch.randn(10),)))[0]
    assert "torch.relu(x)" in first


def rebound(x: torch.Tensor) -> torch.Tensor:
    rows = x.shape[0]
    x = torch.relu(x)
    return x[: rows // 2]  # changed


def test_branches_that_are_not_run_are_left_out() -> None:
    executed: frames.Executed = {}
    frames.watch(lambda: early(torch.randn(2)), None, executed)
    tree = python_source.function_tree(early.__code__)
    text = ast.unparse(python_source.only_executed(tree, executed[early.__code__.co_filename]))
    assert "return x + 1" in text
    assert "return x\n" not in text


def test_the_innermost_statement_is_marked() -> None:
    sketch = next(iter(slicer(body, "in a loop", (torch.randn(6, 2),), (torch.randn(10, 2),)).sketches()))
    marked = [node for node in ast.walk(sketch.definitions) if python_source.is_marked(node)]
    assert [ast.unparse(node) for node in marked] == ["parts.append(row * 2)"]


def test_statements_that_were_put_in_have_no_place() -> None:
    tree = ast.parse("if a:\n    pass\nelse:\n    b = 1\n")
    branch = tree.body[0]
    assert isinstance(branch, ast.If)
    branch.body = [ast.Pass()]
    python_source.mark_line(tree.body, 4)
    assert python_source.is_marked(branch.orelse[0])
