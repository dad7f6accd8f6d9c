"""``dynamic_shapes`` held against the example inputs: names, order, nesting."""

from __future__ import annotations

from collections.abc import Sequence

from guarddiff.analysis.declared import MOST, Reading, shapes_text, some, text
from guarddiff.core.declaration import Given, Row, Size, Spec, Table, nearest

_MIXED = "keys are names of parameters and whole numbers: torch reads names alone"


def read(reading: Reading, spec: Spec) -> None:
    """Note in ``reading`` what ``dynamic_shapes`` claims and what is wrong with it."""
    given = reading.request.given
    before = len(reading.wrong)
    if isinstance(spec, Table):
        _table(reading, spec, given)
    elif isinstance(spec, Row) and spec.made_of not in ("set", "frozenset"):
        _row(reading, spec, given)
    else:
        names = {value.key: value for value in given}
        problem = f"{text(spec)} is neither a dict by the parameters of forward nor a tuple"
        reading.tell("wrong-form", "dynamic_shapes", problem, _example(names))
    for index, wrong in enumerate(reading.wrong[before:], before):
        if not wrong.instead:  # known only when everything has been read
            whole = _whole(reading)
            reading.wrong[index] = type(wrong)(wrong.code, wrong.where, wrong.problem, whole, wrong.places)


def _whole(reading: Reading) -> str:
    given = reading.request.given
    if len(given) <= MOST:
        return shapes_text(given, reading.claims)
    return f"an entry for each of the {len(given)} parameters in their order, None where all is fixed"


def _example(names: dict[str | int, Given]) -> str:
    shown = ", ".join(
        f"{name!r}: {{0: Dim.DYNAMIC}}" if value.shape else f"{name!r}: None" for name, value in [*names.items()][:MOST]
    )
    return f"dynamic_shapes={{{shown}}}"


def _table(reading: Reading, spec: Table, given: Sequence[Given]) -> None:
    """A dict: its keys have to be the names of the parameters that are given, all of them."""
    names = {value.key: value for value in given}
    numbers = [key for key, _ in spec.entries if isinstance(key, int)]
    if not spec.entries and not spec.odd:
        return
    if numbers and len(numbers) == len(spec.entries):
        _by_number(reading, spec, given)
        return
    if numbers or spec.odd:
        reading.tell("mixed-keys", "dynamic_shapes", _MIXED, "")
    entries = [(_meant(given, key), key, value) for key, value in spec.entries]
    read_keys = []
    for parameter, key, value in entries:
        where = f"dynamic_shapes[{key!r}]"
        if isinstance(key, str) and key not in names:
            _unknown(reading, key, names, where)
            parameter = parameter or _near(names, key, {k for _, k, _ in entries})
        if parameter is not None:
            read_keys.append(parameter.key)
            _value(reading, parameter, value, where)
    left = [name for name in names if name not in read_keys]
    if left and len(read_keys) == len(entries):
        problem = f"torch wants an entry for every parameter that is given, and has none for {some(map(str, left))}"
        reading.tell("missing-input", "dynamic_shapes", problem, "")
    elif not left and read_keys != list(names) and _named(reading):
        problem = (
            "the entries stand in another order than the inputs: torch takes the right axes, and gives their names by "
            "position"
        )
        reading.tell("other-order", "dynamic_shapes", problem, "")


def _named(reading: Reading) -> bool:
    return any(claim.size.kind in ("name", "dim", "derived") for claim in reading.claims)


def _meant(given: Sequence[Given], key: str | int) -> Given | None:
    """The parameter of that name, or at that place; else the one whose ONNX input has that name."""
    if isinstance(key, int):
        return given[key] if 0 <= key < len(given) else None
    own = next((value for value in given if value.key == key), None)
    return own or next((value for value in given if value.kind == "tensor" and value.onnx == key), None)


def _near(names: dict[str | int, Given], key: str, taken: set[str | int]) -> Given | None:
    near = nearest(key, [str(name) for name in names if name not in taken])
    return names[near] if near is not None else None


def _unknown(reading: Reading, key: str, names: dict[str | int, Given], where: str) -> None:
    renamed = next((leaf for leaf in reading.request.tensors() if key in (leaf.onnx, leaf.path)), None)
    listed = [str(name) for name in names]
    if renamed is not None and renamed.place in names:
        problem = f"dynamic_shapes goes by the parameters of forward, where the input {key!r} is {renamed.place!r}"
        reading.tell("unknown-input", where, problem, f"dynamic_shapes[{renamed.place!r}]")
        return
    if renamed is not None:
        problem = f"{key!r} is a part of a parameter ({renamed.place}): declare it inside that one's entry"
        reading.tell("unknown-input", where, problem, "")
        return
    if key in reading.request.output_names:
        problem = f"{key!r} is an output: dynamic_shapes is for inputs, sizes of outputs follow from them"
        reading.tell("unknown-input", where, problem, "")
        return
    near = nearest(key, listed)
    problem = f"forward is given no parameter {key!r}: it is given {some(listed)}"
    right = f"dynamic_shapes[{near!r}]" if near else f"one of {some(map(repr, listed))}"
    reading.tell("unknown-input", where, problem, right)


def _by_number(reading: Reading, spec: Table, given: Sequence[Given]) -> None:
    """Keys that are numbers alone: axes without an input around them, or places of inputs."""
    sizes = all(isinstance(value, Size) for _, value in spec.entries)
    if sizes and len(given) == 1 and given[0].kind == "tensor":
        name = str(given[0].key)
        problem = "these are axes: the parameter that they belong to has to stand around them"
        reading.tell("wrong-form", "dynamic_shapes", problem, "")
        reading.axes_of(given[0], spec, f"dynamic_shapes[{name!r}]")
        return
    for key, value in spec.entries:
        parameter = _meant(given, key)
        if parameter is not None and not isinstance(value, Size):
            _value(reading, parameter, value, f"dynamic_shapes[{key!r}]")
    reading.tell("mixed-keys", "dynamic_shapes", "keys have to be names of parameters, not their places", "")


def _row(reading: Reading, spec: Row, given: Sequence[Given]) -> None:
    """A tuple or list: one entry for each parameter."""
    only = given[0] if len(given) == 1 else None
    flat = bool(spec.items) and all(isinstance(item, Size) for item in spec.items)
    dynamic = any(isinstance(item, Size) and item.dynamic for item in spec.items)
    if only is not None and only.kind == "tensor" and flat and dynamic:
        problem = "these are the axes of one input: the outer tuple holds the inputs, one entry each"
        reading.tell("wrong-form", "dynamic_shapes", problem, "")
        _value(reading, only, spec, f"dynamic_shapes[{0}]")
        return
    for index, (value, part) in enumerate(zip(given, spec.items)):
        _value(reading, value, part, f"dynamic_shapes[{index}]")
    _count(reading, len(spec.items), [str(value.key) for value in given], "dynamic_shapes")


def _count(reading: Reading, held: int, names: Sequence[str], where: str) -> None:
    wanted = len(names)
    if held < wanted:
        problem = f"it holds {held} of {wanted} entries: {some(names[held:])} has none"
        reading.tell("missing-input", where, problem, "")
    elif held > wanted:
        problem = f"it holds {held} entries for {wanted}: {some(names)}"
        reading.tell("surplus-input", where, problem, "")


def _value(reading: Reading, value: Given, spec: Spec, where: str) -> None:
    """What was written for one value, or a part of one."""
    if isinstance(spec, Size) and spec.kind == "nothing":
        return
    if value.kind == "tensor":
        _tensor(reading, value, spec, where)
    elif value.kind == "other":
        if not isinstance(spec, Size) or spec.kind not in ("hint", "number"):
            problem = f"{value.place} is no tensor: it has no axes"
            reading.tell("no-tensor", where, problem, f"{value.key!r}: None")
    else:
        _container(reading, value, spec, where)


def _tensor(reading: Reading, leaf: Given, spec: Spec, where: str) -> None:
    if isinstance(spec, Table):
        reading.axes_of(leaf, spec, where)
        return
    if isinstance(spec, Size) or spec.made_of in ("set", "frozenset"):
        shown = spec.text if isinstance(spec, Size) and spec.dynamic else "Dim.DYNAMIC"
        problem = f"{text(spec)} names no axis: {leaf.place} has the shape {leaf.shape}"
        reading.tell("wrong-form", where, problem, f"{{0: {shown}}}")
        return
    numbers = [item.number for item in spec.items if isinstance(item, Size) and item.kind == "number"]
    rank = len(leaf.shape)
    if len(spec.items) == rank:
        reading.axes_of(leaf, Table(tuple(enumerate(spec.items))), where)
    elif numbers and len(numbers) == len(spec.items) and all(0 <= number < rank for number in numbers):
        right = "{" + ", ".join(f"{number}: Dim.DYNAMIC" for number in numbers) + "}"
        problem = (
            f"a list of axes is the form of dynamic_axes: here {text(spec)} is {len(numbers)} sizes for {rank} axes"
        )
        reading.tell("wrong-form", where, problem, right)
    else:
        kept = ", ".join(f"{axis}: {text(item)}" for axis, item in enumerate(spec.items[:rank]) if _dynamic(item))
        problem = f"it holds {len(spec.items)} sizes for the {rank} axes of {leaf.place}, whose shape is {leaf.shape}"
        reading.tell("axis-range", where, problem, f"{{{kept or '0: Dim.DYNAMIC'}}}")


def _dynamic(item: Spec) -> bool:
    return isinstance(item, Size) and item.dynamic


def _container(reading: Reading, value: Given, spec: Spec, where: str) -> None:
    """A value with parts: the declaration has to have the same ones."""
    if value.kind == "mapping" and isinstance(spec, Table):
        _mapping(reading, value, spec, where)
        return
    if isinstance(spec, Row) and value.kind in ("sequence", "object"):
        pairs = list(zip(value.parts, spec.items))
    elif isinstance(spec, Table) and value.kind == "object":
        pairs = list(zip(value.parts, (part for _, part in spec.entries)))
    else:
        kinds = {"mapping": "a dict", "sequence": "a tuple or list", "object": "an object"}
        problem = f"{value.place} is {kinds[value.kind]} of {len(value.parts)} parts: each has to be declared by itself"
        reading.tell("wrong-form", where, problem, f"{value.key!r}: {_parts_text(value)}")
        return
    for index, (part, one) in enumerate(pairs):
        _value(reading, part, one, f"{where}[{index}]")
    if value.kind == "sequence" and isinstance(spec, Row):
        _count(reading, len(spec.items), [part.place for part in value.parts], where)


def _mapping(reading: Reading, value: Given, spec: Table, where: str) -> None:
    parts = {part.key: part for part in value.parts}
    for key, one in spec.entries:
        if key in parts:
            _value(reading, parts[key], one, f"{where}[{key!r}]")
            continue
        near = nearest(str(key), [str(part) for part in parts])
        problem = f"{value.place} has no {key!r}: it has {some(map(repr, parts))}"
        right = f"{where}[{near!r}]" if near else f"one of {some(map(repr, parts))}"
        reading.tell("unknown-input", f"{where}[{key!r}]", problem, right)
    written = [key for key, _ in spec.entries]
    left = [key for key in parts if key not in written]
    if left and all(key in parts for key in written):
        problem = f"torch wants an entry for every part of {value.place}, and has none for {some(map(repr, left))}"
        reading.tell("missing-input", where, problem, "")


def _parts_text(value: Given) -> str:
    """An entry for each part, the first axis of every tensor dynamic."""
    if value.kind in ("tensor", "other"):
        return "{0: Dim.DYNAMIC}" if value.shape else "None"
    shown = [_parts_text(part) for part in value.parts[:MOST]]
    if value.kind == "mapping":
        return "{" + ", ".join(f"{part.key!r}: {one}" for part, one in zip(value.parts, shown)) + "}"
    return f"({', '.join(shown)}{',' if len(shown) == 1 else ''})"
