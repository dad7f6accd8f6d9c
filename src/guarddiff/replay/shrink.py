"""Make a sketch smaller as long as its script still shows the difference."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from guarddiff.replay import reduce as reduce_code
from guarddiff.replay.script import Given, Sketch, TensorLeaf, mapped
from guarddiff.replay.workbench import Shown

_ROUNDS = 3
_EDITS = (
    reduce_code.without_refusals,
    reduce_code.without_ends,
    reduce_code.without_statements,
    reduce_code.without_nesting,
    reduce_code.without_calls,
    reduce_code.without_names,
)
Shows = Callable[[Sketch], Shown | None]


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

    def sweep(self, edits: Callable[[Sketch], Iterator[reduce_code.Edit]]) -> None:
        """Make edits until none keeps the difference; one that failed is not tried again."""
        failed: set[str] = set()
        while self._one_of(edits, failed):
            pass

    def _one_of(self, edits: Callable[[Sketch], Iterator[reduce_code.Edit]], failed: set[str]) -> bool:
        for edit in edits(self.best):
            if edit.key in failed:
                continue
            if not self._go_on():
                return False
            if self.keep(edit.made()):
                return True
            failed.add(edit.key)
        return False


def sizes(shrinker: Shrinker) -> None:
    """Sizes made smaller: dimensions that need not vary stay as they are, numbers get smaller everywhere at once."""
    for pair in _varying(shrinker.best):
        if len(_varying(shrinker.best)) > 1:
            shrinker.keep(_resized(shrinker.best, pair, (pair[0], pair[0])))
    if shrinker.best.declaration is None:
        shrinker.keep(_only_varying(shrinker.best))
    shrinker.first(_all_small(shrinker.best))
    for pair in _varying(shrinker.best):
        shrinker.first(_resized(shrinker.best, pair, new) for new in _pairs(pair))
    for number in sorted(_numbers(shrinker.best), reverse=True):
        shrinker.first(_smaller(shrinker, number))


def _all_small(sketch: Sketch) -> Iterator[Sketch]:
    """All sizes small in one go, with those that vary and without."""
    small = []
    for fixed in (1, 2):
        changed = sketch
        for number in _numbers(sketch):
            changed = _renumbered(changed, number, fixed, text=True)
        small.append(changed)
    for changed in small:
        varied = changed
        for pair in _varying(sketch):
            varied = _resized(varied, pair, next(iter(_pairs(pair)), pair))
        yield varied
    yield from small


def _varying(sketch: Sketch) -> list[tuple[int, int]]:
    """The pairs of different sizes (example, other) of the inputs' axes, each once."""
    pairs = (pair for leaf in sketch.leaves for pair in zip(*leaf.shapes))
    return list(dict.fromkeys(pair for pair in pairs if pair[0] != pair[1]))


def _numbers(sketch: Sketch) -> set[int]:
    """Sizes of the inputs that stay the same, and sizes in the module's own text."""
    fixed = {a for leaf in sketch.leaves for a, b in zip(*leaf.shapes) if a == b}
    return {n for n in fixed | {node.value for node in _literals(sketch.definitions)} if n > 2}


def _literals(tree: ast.AST) -> Iterator[Any]:
    """Numbers that may be sizes: those in constructors, elsewhere 4 and more where they are no index (a smaller one is
    an axis more often than not)."""
    indices = {id(part) for node in ast.walk(tree) if isinstance(node, ast.Subscript) for part in ast.walk(node.slice)}
    made = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
        for part in ast.walk(node)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or type(node.value) is not int or id(node) in indices:
            continue
        if node.value > 3 or id(node) in made:
            yield node


def _smaller(shrinker: Shrinker, number: int) -> Iterator[Sketch]:
    """A number replaced everywhere, then in the inputs alone."""
    for new in dict.fromkeys(n for n in (2, 3, 4, number // 2) if n < number):
        yield _renumbered(shrinker.best, number, new, text=True)
    yield _renumbered(shrinker.best, number, 1, text=False)


def _renumbered(sketch: Sketch, number: int, new: int, text: bool) -> Sketch:
    pair = (number, number)
    changed = _resized(sketch, pair, (new, new))
    if not text:
        return changed
    tree = copy.deepcopy(sketch.definitions)
    for node in _literals(tree):
        if node.value == number:
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
    """Smaller pairs of sizes, the smallest first. The example's size does not become 1: torch treats that apart."""
    one, two = pair
    larger = two > one
    found = [(a, b) for a in (2, 3, 4, 6, 8) for b in (2 * a, a + 1)]
    found = found if larger else [(b, a) for a, b in found] + [(2, 1), (3, 1)]
    if one == 1:
        found = [(1, 2), (1, 3), (1, 4)]
    found += [(one // 2, two // 2)] if one % 2 == 0 and two % 2 == 0 and one > 2 else []
    found += [(one, one + 1)]
    return [p for p in dict.fromkeys(found) if sum(p) < sum(pair) and p[0] <= one]


def reduce(shrinker: Shrinker) -> None:
    """Everything that makes a sketch smaller, in turn."""
    before = ast.dump(shrinker.best.definitions)
    shrinker.keep(reduce_code.pruned(shrinker.best))
    if not shrinker.best.plain:
        shrinker.keep(replace(shrinker.best, plain=True))
    shrinker.first(_all_small(shrinker.best))
    for _ in range(_ROUNDS):
        begun = ast.dump(shrinker.best.definitions)
        for edits in _EDITS:
            shrinker.sweep(edits)
        shrinker.keep(reduce_code.inlined(shrinker.best))
        if ast.dump(shrinker.best.definitions) == begun:
            break
    if shrinker.best.scope in ("module", "model") and ast.dump(shrinker.best.definitions) != before:
        shrinker.best = replace(shrinker.best, scope="statement")
    sizes(shrinker)
    if not shrinker.best.plain:
        shrinker.keep(replace(shrinker.best, plain=True))
