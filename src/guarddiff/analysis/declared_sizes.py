"""Names and ranges of dimensions held against the sizes of the example."""

from __future__ import annotations

from guarddiff.analysis.declared import Claim, Reading, some
from guarddiff.core.domain import SizeRange


def check(reading: Reading) -> None:
    """Tell what is wrong with the sizes that were claimed."""
    for claim in reading.claims:
        _number(reading, claim)
        if claim.size.dynamic:
            _example(reading, claim)
    by_name: dict[str, list[Claim]] = {}
    for claim in reading.claims:
        if claim.size.name:
            by_name.setdefault(claim.size.name, []).append(claim)
    for name, claims in by_name.items():
        if len(claims) > 1:
            _ranges(reading, name, claims)
            _shared(reading, name, claims)


def _number(reading: Reading, claim: Claim) -> None:
    size = claim.size
    if size.kind == "number" and size.number != claim.example:
        problem = f"{size.number} declares a fixed size, and the example has {claim.example} there"
        right = f"{{{claim.axis}: Dim.DYNAMIC}}, or {{{claim.axis}: None}} for a fixed one"
        reading.tell("fixed-size", claim.where, problem, right, [claim.place])


def _example(reading: Reading, claim: Claim) -> None:
    """Does the range hold the example?"""
    size, example = claim.size, claim.example
    if size.kind == "derived":
        _derived(reading, claim)
    elif not _holds(size.lower, size.upper, example):
        problem = f"{size.text} does not hold the example's size, {example}"
        declared = _wider(claim)
        right = f"{declared}, or an example of {SizeRange(size.lower, size.upper)} there"
        reading.tell("example-outside", claim.where, problem, right, [claim.place])
    if example == 0:
        problem = "the example has size 0 there: nothing is computed, so nothing can be compared at the example's sizes"
        reading.tell("example-zero", claim.where, problem, "an example of size 2 or more there", [claim.place])


def _holds(lower: int, upper: int | None, size: int) -> bool:
    return lower <= size and (upper is None or size <= upper)


def _wider(claim: Claim) -> str:
    """The range with the example in it."""
    size, example = claim.size, claim.example
    lower, upper = min(size.lower, example), None if size.upper is None else max(size.upper, example)
    bounds = ([f"min={lower}"] if lower else []) + ([f"max={upper}"] if upper is not None else [])
    if size.kind == "hint":
        kind = size.text.partition("(")[0]
        return f"{kind}({', '.join(bounds)})" if bounds else kind
    return f"Dim({', '.join([repr(size.name), *bounds])})"


def _derived(reading: Reading, claim: Claim) -> None:
    size = claim.size
    root, left = divmod(claim.example - size.offset, size.scale) if size.scale else (0, 0)
    least = size.scale * size.lower + size.offset
    if least < 0 and size.scale > 0:
        upper = f", max={size.upper}" if size.upper is not None else ""
        problem = f"{size.text} is {least} where {size.name} is {size.lower}: a size is never negative"
        right = f"Dim({size.name!r}, min={-(size.offset // size.scale)}{upper}) as its root"
        reading.tell("derived-size", claim.where, problem, right, [claim.place])
        return
    if left:
        problem = f"no whole {size.name} makes {size.text} the example's size, {claim.example}"
    elif not _holds(size.lower, size.upper, root):
        whole = SizeRange(size.lower, size.upper)
        problem = f"{size.name} would be {root} in the example, outside of what its Dim holds ({whole})"
    else:
        return
    fit = size.scale * max(root, size.lower, 1) + size.offset
    right = f"an example of {fit} there, or a Dim of its own"
    reading.tell("derived-size", claim.where, problem, right, [claim.place])


def _root(claim: Claim) -> int | None:
    """The size of the name's dimension in the example; None where no whole number is."""
    size = claim.size
    if size.kind != "derived":
        return claim.example
    root, left = divmod(claim.example - size.offset, size.scale) if size.scale else (0, 1)
    return None if left else root


def _ranges(reading: Reading, name: str, claims: list[Claim]) -> None:
    """One name, two definitions."""
    first, *others = [claim for claim in claims if claim.size.kind in ("dim", "derived")] or [claims[0]]
    for claim in others:
        if (claim.size.lower, claim.size.upper) != (first.size.lower, first.size.upper):
            problem = f"{name!r} has another range here than at {first.where}: it is one dimension, and has one range"
            reading.tell("two-ranges", claim.where, problem, first.size.text, [first.place, claim.place])
            return


def _shared(reading: Reading, name: str, claims: list[Claim]) -> None:
    """One name says that sizes are equal: are they, in the example?"""
    first = claims[0]
    roots = [(claim, _root(claim)) for claim in claims]
    differing = [claim for claim, root in roots if root is not None and root != _root(first)]
    if _root(first) is None or not differing:
        return
    sizes = some(f"{claim.place}={claim.example}" for claim in [first, *differing])
    other = differing[0]
    if any(claim.size.kind == "derived" for claim in (first, other)):
        problem = f"the example does not fit {other.size.text}: {sizes}, with {name}={_root(first)}"
        fit = other.size.scale * (_root(first) or 0) + other.size.offset
        reading.tell("derived-size", other.where, problem, f"an example of {fit} there, or a Dim of its own",
                     [first.place, other.place])  # fmt: skip
        return
    strings = any(claim.size.kind == "name" for claim in [first, *differing])
    says = "one name for two dimensions" if strings else "one name says that sizes are equal"
    problem = f"{says}, and the example's sizes differ: {sizes}"
    right = f"{{{other.axis}: {_renamed(reading, other)}}}, or an example of equal sizes"
    reading.tell("shared-name", other.where, problem, right, [claim.place for claim in [first, *differing]])


def _renamed(reading: Reading, claim: Claim) -> str:
    taken = {one.size.name for one in reading.claims}
    stem = f"{claim.leaf.onnx}_{claim.size.name}"
    name = next(one for one in (stem, *(f"{stem}_{number}" for number in range(2, 99))) if one not in taken)
    return repr(name) if claim.size.kind == "name" else claim.size.text.replace(repr(claim.size.name), repr(name), 1)
