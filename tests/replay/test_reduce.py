"""Candidates with less code and smaller sizes. Here a made-up check says what still shows the difference; that real
scripts do is tested in test_reproduce.py."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace

from guarddiff.replay import python_source, reduce, shrink
from guarddiff.replay.script import Given, Sketch, TensorLeaf, render
from guarddiff.replay.shrink import Shrinker
from guarddiff.replay.workbench import Shown

TEXT = """
def helper(x):
    return x * 2

class Unused(torch.nn.Module):
    def forward(self, x):
        return x

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(64, 32, 3)
        self.window = 7
        self.unused = torch.nn.Linear(5, 5)

    def forward(self, x, y):
        a = helper(x)
        b = self.conv(a)
        if b.shape[0] > 1:
            b = b + 1
        c = F.interpolate(b, size=(x.shape[2] // self.window, 9))
        d = torch.relu(c).transpose(1, 2)
        return self.conv(d + y)
"""
IMAGE = TensorLeaf("torch.randn({sizes})", ((4, 64, 28, 9), (4, 64, 56, 9)), {0: '"b"', 2: '"h"'})


def sketch(text: str = TEXT) -> Sketch:
    imports = {"F": "import torch.nn.functional as F"}
    return Sketch(ast.parse(text), imports, (Given("x", IMAGE), Given("y", IMAGE)), "model")


def shrunk(holds: Callable[[str], bool], start: Sketch | None = None) -> Sketch:
    """What is left when a script shows the difference as long as ``holds`` is true of it."""
    start = start or sketch()

    def shows(candidate: Sketch) -> Shown | None:
        return Shown("", "shape") if holds(render(candidate)) else None

    shrinker = Shrinker(start, Shown("", "shape"), shows, lambda: True)
    shrink.reduce(shrinker)
    return shrinker.best


def test_only_what_is_needed_is_left() -> None:
    best = shrunk(lambda text: "F.interpolate(" in text)
    text = ast.unparse(best.definitions)
    assert "class Unused" not in text
    assert "self.conv" not in text
    assert "helper" not in text
    assert "__init__" not in text
    assert best.scope == "statement"


def test_arguments_that_are_not_used_are_dropped() -> None:
    best = shrunk(lambda text: "F.interpolate(" in text)
    assert [given.name for given in best.given] == ["x"]
    forward = reduce.forward_of(best.definitions)
    assert forward is not None
    assert [a.arg for a in forward.args.args] == ["self", "x"]


def test_a_declaration_word_for_word_keeps_every_argument() -> None:
    start = sketch()
    best = shrunk(lambda text: "F.interpolate(" in text, replace(start, declaration="dynamic_axes={}"))
    assert [given.name for given in best.given] == ["x", "y"]


def test_marked_statements_stay() -> None:
    start = sketch()
    forward = reduce.forward_of(start.definitions)
    assert forward is not None
    python_source.mark(forward.body[2])
    assert "if b.shape[0] > 1:" in ast.unparse(shrunk(lambda _: True, start).definitions)
    assert "if b.shape[0] > 1:" not in ast.unparse(shrunk(lambda _: True).definitions)


def test_sizes_get_small_together_with_the_module() -> None:
    def fits(text: str) -> bool:
        weight = re.search(r"Conv2d\((\d+),", text)
        channels = re.findall(r"randn\(\d+, (\d+),", text)
        return "self.conv(" in text and weight is not None and set(channels) == {weight[1]}

    leaf = shrunk(fits).leaves[0]
    assert leaf.shapes[0][1] <= 2
    assert leaf.shapes[0][2] < leaf.shapes[1][2] <= 4


def test_dimensions_that_need_not_vary_are_not_declared() -> None:
    best = shrunk(lambda text: "F.interpolate(" in text)
    assert set(best.leaves[0].axes) == {2}


def test_an_example_size_does_not_become_one() -> None:
    best = shrunk(lambda _: True)
    assert best.leaves[0].shapes[0][2] == 2


def test_sizes_may_go_down_from_the_example() -> None:
    down = TensorLeaf("torch.randn({sizes})", ((8,), (4,)), {0: '"n"'})
    text = "class Model(torch.nn.Module):\n    def forward(self, x):\n        return x * 1"
    start = Sketch(ast.parse(text), {}, (Given("x", down),), "model")

    def smaller(text: str) -> bool:
        one, two = (int(line.split("randn(")[1].split(")")[0]) for line in text.splitlines() if "randn(" in line)
        return two < one

    (leaf,) = shrunk(smaller, start).leaves
    assert leaf.shapes[1] < leaf.shapes[0] < (8,)


def test_axes_are_no_sizes() -> None:
    text = (
        "class Model(torch.nn.Module):\n    def forward(self, x):\n        return x.transpose(1, 2)[:, 9].sum(3) * 12"
    )
    start = Sketch(ast.parse(text), {}, (Given("x", IMAGE),), "model")
    numbers = {node.value for node in shrink._literals(start.definitions)}
    assert numbers == {12}


def test_another_kind_of_difference_is_not_kept() -> None:
    kinds = iter(["values", "shape", "rejected_input"])
    shrinker = Shrinker(sketch(), Shown("", "shape"), lambda _: Shown("", next(kinds)), lambda: True)
    assert [shrinker.keep(sketch()) for _ in range(3)] == [False, True, False]
    kinds = iter(["shape", "rejected_input"])
    shrinker = Shrinker(sketch(), Shown("", "runtime_error"), lambda _: Shown("", next(kinds)), lambda: True)
    assert shrinker.keep(sketch())


def test_nothing_is_tried_when_the_time_is_up() -> None:
    tried = []
    shrinker = Shrinker(sketch(), Shown("", "shape"), lambda c: tried.append(c), lambda: False)  # type: ignore[func-returns-value]
    shrink.reduce(shrinker)
    assert tried == []
    assert "class Unused" in ast.unparse(shrinker.best.definitions)


def test_edits_leave_the_sketch_alone() -> None:
    start = sketch()
    before = ast.dump(start.definitions)
    for edits in (reduce.without_statements, reduce.without_nesting, reduce.without_calls, reduce.without_ends):
        assert len(list(edits(start))) > 0
    reduce.inlined(start)
    assert ast.dump(start.definitions) == before


def made(text: str, edits: Callable[[Sketch], Iterator[reduce.Edit]]) -> list[str]:
    start = sketch("class Model(torch.nn.Module):\n    def forward(self, x, y):\n" + textwrap.indent(text, " " * 8))
    return [ast.unparse(edit.made().definitions) for edit in edits(start)]


def test_a_function_may_return_early() -> None:
    found = made("a = x * 2\nb = a + y\nc = b - 1\nreturn c * 3", reduce.without_ends)
    assert found[0].endswith("a = x * 2\n        return a")
    assert found[1].endswith("b = a + y\n        return b")


def test_refusals_go_all_at_once() -> None:
    (found,) = made("if x.dim() != 2:\n    raise ValueError\nassert y.dim()\nreturn x", reduce.without_refusals)
    assert "raise" not in found
    assert "assert" not in found
    assert made("return x", reduce.without_refusals) == []


def test_tests_of_constants_are_decided() -> None:
    start = sketch(
        "class Model(torch.nn.Module):\n    def forward(self, x, y):\n        if not True:\n            x = x + 1\n"
        "        return x if None is None else y\n"
    )
    assert ast.unparse(reduce.pruned(start).definitions).endswith("def forward(self, x):\n        return x")


def test_constants_are_written_where_they_are_used() -> None:
    text = ast.unparse(reduce.inlined(sketch()).definitions)
    assert "x.shape[2] // 7" in text
    assert "self.window" not in text


def test_a_branch_that_is_sure_to_be_taken_stands_alone_also_around_the_mark() -> None:
    start = sketch(
        "class Model(torch.nn.Module):\n    def forward(self, x, y):\n        if not True:\n            pass\n"
        "        else:\n            n = x.shape[0]\n        return y * n\n"
    )
    forward = reduce.forward_of(start.definitions)
    assert forward is not None
    branch = forward.body[0]
    assert isinstance(branch, ast.If)
    python_source.mark(branch.orelse[0])
    assert ast.unparse(reduce.pruned(start).definitions).endswith("n = x.shape[0]\n        return y * n")
    assert "not True" not in ast.unparse(reduce.pruned(start).definitions)


def test_names_for_what_is_used_once() -> None:
    found = made("a = x * 2\nreturn a + y", reduce.without_names)
    assert [text.splitlines()[-1].strip() for text in found] == ["return x * 2 + y"]
    assert made("a = x * 2\nreturn a + a", reduce.without_names) == []
    (other,) = made("a = x\nb = a + y\nreturn a * b", reduce.without_names)[:1]
    assert other.endswith("b = x + y\n        return x * b")
