"""Make a sketch smaller as long as its script still shows the difference."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from guarddiff.replay.script import Given, Sketch, TensorLeaf, mapped
from guarddiff.replay.workbench import Shown

Shows = Callable[[Sketch], Shown | None]
_FEW = (1, 2, 3, 4, 5, 6, 8)


class Shrinker:
    """Keeps the smallest sketch so far. ``go_on`` says whether there is time for another candidate."""

    def __init__(self, sketch: Sketch, shown: Shown, shows: Shows, go_on: Callable[[], bool]) -> None:
        self.best = sketch
        self.shown = shown
        self._shows = shows
        self._go_on = go_on

    def keep(self, candidate: Sketch) -> bool:
        """Whether the candidate shows the difference too, as the same kind; it is the best one then."""
        if not self._go_on():
            return False
        shown = self._shows(candidate)
        if shown is None or not self._alike(shown):
            return False
        self.best, self.shown = candidate, shown
        return True

    def _alike(self, shown: Shown) -> bool:
        """A shape or values that are wrong may have made ONNX Runtime fail further on; never the other way round."""
        return shown.kind == self.shown.kind or (self.shown.kind == "runtime_error" and shown.kind != "rejected_input")

    def first(self, candidates: Iterable[Sketch]) -> bool:
        """Keep the first candidate that shows the difference."""
        return any(self.keep(candidate) for candidate in candidates)


def sizes(shrinker: Shrinker) -> None:
    """Sizes made smaller: dimensions that need not vary stay as they are, numbers get smaller everywhere at once."""
    for pair in _varying(shrinker.best):
        if len(_varying(shrinker.best)) > 1:
            shrinker.keep(_resized(shrinker.best, pair, (pair[0], pair[0])))
    if shrinker.best.declaration is None:
        shrinker.keep(_only_varying(shrinker.best))
    for number in sorted(_numbers(shrinker.best), reverse=True):
        shrinker.first(_smaller(shrinker, number))
    for pair in _varying(shrinker.best):
        shrinker.first(_resized(shrinker.best, pair, new) for new in _pairs(pair))


def _varying(sketch: Sketch) -> list[tuple[int, int]]:
    """The pairs of different sizes (example, other) of the inputs' axes, each once."""
    pairs = (pair for leaf in sketch.leaves for pair in zip(*leaf.shapes))
    return list(dict.fromkeys(pair for pair in pairs if pair[0] != pair[1]))


def _numbers(sketch: Sketch) -> set[int]:
    """Sizes of the inputs that stay the same, and sizes in the module's own text."""
    fixed = {a for leaf in sketch.leaves for a, b in zip(*leaf.shapes) if a == b}
    return {n for n in fixed | set(_literals(sketch.definitions)) if n > 2}


def _literals(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and type(node.value) is int:
            yield node.value


def _smaller(shrinker: Shrinker, number: int) -> Iterator[Sketch]:
    """A number replaced everywhere, then in the inputs alone."""
    for new in (*(n for n in _FEW if n < number), number // 2):
        yield _renumbered(shrinker.best, number, new, text=True)
    for new in (1, 2):
        yield _renumbered(shrinker.best, number, new, text=False)


def _renumbered(sketch: Sketch, number: int, new: int, text: bool) -> Sketch:
    pair = (number, number)
    changed = _resized(sketch, pair, (new, new))
    if not text:
        return changed
    tree = copy.deepcopy(sketch.definitions)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value == number:
            node.value = new
    return replace(changed, definitions=tree)


def _resized(sketch: Sketch, old: tuple[int, int], new: tuple[int, int]) -> Sketch:
    """Every axis of these two sizes gets two others; one that does not vary any more is not declared any more."""

    def change(leaf: TensorLeaf) -> TensorLeaf:
        pairs = [new if pair == old else pair for pair in zip(*leaf.shapes)]
        axes = {axis: what for axis, what in leaf.axes.items() if pairs[axis] != new or new[0] != new[1]}
        if sketch.declaration is not None:
            axes = dict(leaf.axes)
        return replace(leaf, shapes=(tuple(a for a, _ in pairs), tuple(b for _, b in pairs)), axes=axes)

    return _changed(sketch, change)


def _only_varying(sketch: Sketch) -> Sketch:
    """Only dimensions that vary stay declared."""

    def change(leaf: TensorLeaf) -> TensorLeaf:
        one, two = leaf.shapes
        return replace(leaf, axes={axis: what for axis, what in leaf.axes.items() if one[axis] != two[axis]})

    return _changed(sketch, change)


def _changed(sketch: Sketch, change: Callable[[TensorLeaf], TensorLeaf]) -> Sketch:
    given = tuple(Given(g.name, mapped(g.value, change), g.keyword) for g in sketch.given)
    return replace(sketch, given=given)


def _pairs(pair: tuple[int, int]) -> list[tuple[int, int]]:
    """Smaller pairs of sizes, the smallest first; the relation of the two is kept where it is a simple one."""
    one, two = pair
    found = [(a, b) for a in (1, 2, 3, 4, 6, 8) for b in (2 * a, a + 1, 2 * a + 1) if a + b < one + two]
    found += [(one, b) for b in (one + 1, 2 * one) if b < two]
    if two < one:
        found = [(b, a) for a, b in found] + found
    while one % 2 == 0 and two % 2 == 0 and one > 2 and two > 2:
        one, two = one // 2, two // 2
        found.append((one, two))
    return list(dict.fromkeys(p for p in found if p != pair))[:16]


def reduce(shrinker: Shrinker) -> None:
    """Everything that makes a sketch smaller, in turn."""
    sizes(shrinker)
    shrinker.keep(replace(shrinker.best, plain=True))
