"""``dynamic_axes`` held against the example inputs: by name, as it is written, and by position, as torch applies it."""

from __future__ import annotations

from guarddiff.analysis.declared import CONVERT, MOST, Reading, shapes_text, some, text
from guarddiff.core.declaration import Given, Row, Size, Spec, Table, by_name, nearest


def read(reading: Reading, spec: Spec) -> None:
    """Note in ``reading`` what ``dynamic_axes`` claims and what is wrong with it."""
    request = reading.request
    if not isinstance(spec, Table):
        problem = f"{text(spec)} is no dict: dynamic_axes maps names of inputs to axes"
        first = next(iter(request.tensors()), None)
        right = f"dynamic_axes={{{first.onnx if first else 'x'!r}: {{0: 'batch'}}}}"
        reading.tell("wrong-form", "dynamic_axes", problem, right)
        return
    names = by_name(request.given)
    if not request.dynamo:
        names = {name: leaf for name, leaf in names.items() if name in request.input_names}
    wrong = len(reading.wrong)
    found: list[Given] = []
    for key, value in spec.entries:
        where = f"dynamic_axes[{key!r}]"
        if isinstance(key, int):
            _number(reading, key, where)
        elif key in names:
            found.append(names[key])
            _input(reading, names[key], value, where)
        elif key not in request.output_names:
            _unknown(reading, key, value, where, {str(key) for key, _ in spec.entries})
    for odd in spec.odd:
        reading.tell("wrong-form", f"dynamic_axes[{odd}]", "a key is the name of an input, as text", "")
    if request.dynamo and len(reading.wrong) == wrong:
        _by_position(reading, [str(key) for key, _ in spec.entries], found)
    if not found and len(reading.wrong) == wrong and spec.entries:
        _outputs_only(reading, spec)
    _fill(reading)


def _fill(reading: Reading) -> None:
    """Write the whole declaration where a mistake has no shorter way out."""
    for index, wrong in enumerate(reading.wrong):
        if not wrong.instead:
            given = reading.request.given
            whole = shapes_text(given, reading.claims) if len(given) <= MOST else CONVERT
            if not reading.request.dynamo:
                whole = "dynamic_axes={" + ", ".join(_axes_text(reading)) + "}"
            reading.wrong[index] = type(wrong)(wrong.code, wrong.where, wrong.problem, whole, wrong.places)


def _axes_text(reading: Reading) -> list[str]:
    axes: dict[str, list[str]] = {}
    for claim in reading.claims:
        axes.setdefault(claim.leaf.onnx, []).append(f"{claim.axis}: {claim.size.text}")
    return [f"{name!r}: {{{', '.join(entries)}}}" for name, entries in axes.items()]


def _number(reading: Reading, key: int, where: str) -> None:
    tensors = reading.request.tensors()
    name = tensors[key].onnx if 0 <= key < len(tensors) else next((leaf.onnx for leaf in tensors), "x")
    reading.tell("mixed-keys", where, "a key is the name of an input, not its place", f"dynamic_axes[{name!r}]")


def _unknown(reading: Reading, key: str, value: Spec, where: str, taken: set[str]) -> None:
    """A key that is no input's and no output's name."""
    request = reading.request
    by_code = by_name(request.given, lenient=True).get(key)
    if by_code is not None:
        if not request.dynamo and not request.input_names:
            problem = "without input_names the exporter gives the inputs names of its own, and this key names none"
            names = ", ".join(repr(leaf.path) for leaf in request.tensors()[:MOST])
            reading.tell("unknown-input", where, problem, f"input_names=[{names}]")
        else:
            problem = f"input_names calls this input {by_code.onnx!r}"
            reading.tell("unknown-input", where, problem, f"dynamic_axes[{by_code.onnx!r}]")
        return
    parent = next((one for one in request.given if one.key == key), None)
    if parent is not None:
        problem = f"{key!r} has parts, each an input of its own: {some(leaf.onnx for leaf in parent.leaves())}"
        reading.tell("unknown-input", where, problem, _parts(parent, value))
        return
    _strange(reading, key, value, where, taken)


def _parts(parent: Given, value: Spec) -> str:
    shown = [f"{leaf.onnx!r}: {text(value)}" for leaf in parent.leaves() if leaf.kind == "tensor"]
    more = [f"and {len(shown) - MOST} more"] if len(shown) > MOST else []
    return "dynamic_axes={" + ", ".join([*shown[:MOST], *more]) + "}"


def _strange(reading: Reading, key: str, value: Spec, where: str, taken: set[str]) -> None:
    request = reading.request
    inputs = [leaf.onnx for leaf in request.tensors()]
    names = [*inputs, *request.output_names]
    listed = f"the inputs are {some(map(repr, inputs))}"
    if request.output_names:
        listed += f", the outputs {some(map(repr, request.output_names))}"
    near = nearest(key, [name for name in names if name not in taken])
    free = [name for name in inputs if name not in taken]
    if near is not None:
        right = f"dynamic_axes[{near!r}]"
    elif free and not (request.output_names or "out" in key.lower()):
        right = f"{free[0]!r}: {text(value)}; or output_names=[{key!r}, …] if it is an output"
    else:
        right = f"output_names=[{key!r}, …] if it is an output; else one of {some(map(repr, free or inputs))}"
    reading.tell("unknown-input", where, f"{key!r} names no input and no output: {listed}", right)


def _input(reading: Reading, leaf: Given, value: Spec, where: str) -> None:
    dynamo = reading.request.dynamo
    if isinstance(value, Size) and value.kind == "nothing" and value.text == "None" and dynamo:
        return
    if leaf.kind != "tensor":
        reading.tell("no-tensor", where, f"{leaf.place} is no tensor: it has no axes", "")
        return
    if isinstance(value, Table):
        if not dynamo and (odd := [size for _, size in value.entries if not _is_text(size)]):
            problem = f"{text(odd[0])} is no name: with dynamo=False every axis is given a name, as text"
            right = ", ".join(f"{axis}: 'dim_{axis}'" for axis, _ in value.entries)
            reading.tell("wrong-form", where, problem, f"{{{right}}}")
            return
        reading.axes_of(leaf, value, where)
        return
    if isinstance(value, Row) and value.made_of == "list":
        _list(reading, leaf, value, where)
        return
    problem = f"{text(value)} is neither a dict of axes to names nor a list of axes"
    reading.tell("wrong-form", where, problem, _as_list(leaf, value))


def _is_text(size: Spec) -> bool:
    return isinstance(size, Size) and (size.kind == "name" or size.text == "''")


def _as_list(leaf: Given, value: Spec) -> str:
    if isinstance(value, Size):
        if value.kind == "number" and 0 <= value.number < len(leaf.shape):
            return f"[{value.number}]"
        return f"{{0: {value.text if value.kind == 'name' else repr('batch')}}}"
    numbers = [text(item) for item in value.items] if isinstance(value, Row) else []
    return f"[{', '.join(numbers)}]" if numbers else "[0]"


def _list(reading: Reading, leaf: Given, value: Row, where: str) -> None:
    """A list of axes: they are dynamic without a name."""
    axes: list[tuple[str | int, Spec]] = []
    for item in value.items:
        if isinstance(item, Size) and item.kind == "number":
            axes.append((item.number, Size("hint", "Dim.DYNAMIC")))
            continue
        problem = f"{text(item)} is no axis: a list holds the numbers of axes, names go into a dict"
        shown = text(item) if isinstance(item, Size) and item.kind == "name" else "'batch'"
        reading.tell("axis-type", where, problem, f"{{0: {shown}}}")
    reading.axes_of(leaf, Table(tuple(axes)), where)


def _by_position(reading: Reading, keys: list[str], found: list[Given]) -> None:
    """torch takes the entries in their order, then those of ``input_names`` that are not among them, for the values in
    the order of the signature, whatever their names are."""
    request = reading.request
    ordered = sorted(request.given, key=lambda value: value.position)
    leaves = [leaf for value in ordered for leaf in value.leaves()]
    by_keyword = [str(value.key) for value in ordered if value.keyword_only]
    inputs = [key for key in keys if key not in request.output_names]
    rest = [name for name in request.input_names if name not in keys]
    if len(inputs) + len(rest) != len(leaves):
        named = some(map(repr, inputs)) if inputs else "none"
        problem = f"torch wants an entry for each of the {len(leaves)} inputs in their order, and finds {named}"
        reading.tell("missing-input", "dynamic_axes", problem, "" if keys else "no dynamic_axes at all")
    elif by_keyword:
        problem = f"torch gives the inputs by position here, and {some(by_keyword)} can only be given by name"
        reading.tell("keyword-only", "dynamic_axes", problem, "")
    elif [leaf.place for leaf in found] != [leaf.place for leaf in leaves[: len(found)]]:
        wanted = [leaf.onnx or leaf.path for leaf in leaves]
        problem = f"torch goes by position here: the entries stand in another order than the inputs ({some(wanted)})"
        places = [claim.place for claim in reading.claims]
        reading.tell("other-order", "dynamic_axes", problem, "", places)


def _outputs_only(reading: Reading, spec: Table) -> None:
    dynamic = [str(key) for key, value in spec.entries if not isinstance(value, Size)]
    if dynamic and any(dynamic):
        inputs = [leaf.onnx for leaf in reading.request.tensors()]
        name = repr(inputs[0]) if inputs else "'x'"
        problem = f"only outputs are declared dynamic ({some(dynamic)}), and no input makes them so"
        right = f"the axes of the inputs as well: dynamic_axes={{{name}: {{0: 'batch'}}, …}}"
        reading.tell("outputs-only", f"dynamic_axes[{dynamic[0]!r}]", problem, right)
