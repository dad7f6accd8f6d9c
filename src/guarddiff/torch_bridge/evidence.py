"""A recording → core.Evidence: symbols become dimensions, events become groups of guards."""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.utils import _pytree

from guarddiff.core import diff
from guarddiff.core.dims import Declared, Dimension, InputSpec, OutputSpec
from guarddiff.core.domain import SizeRange
from guarddiff.core.evidence import Evidence, StaticDimension
from guarddiff.core.finding import dimension_sizes
from guarddiff.core.origin import Origin
from guarddiff.core.snapshot import Guard, Snapshot
from guarddiff.core.stage import Stage
from guarddiff.torch_bridge import groups, intent, shape_env
from guarddiff.torch_bridge.groups import Placeholder
from guarddiff.torch_bridge.intent import AxisIntent, Leaf
from guarddiff.torch_bridge.record import Boundary, Recording

_LONGEST_VARIABLE = 200
_RESERVED = frozenset(("min", "max", "abs", "int", "float", "round", "bool", "math", "torch", "None", "True", "False"))


@dataclass
class Inputs:
    """The inputs of one recording, and the names of everything symbolic."""

    leaves: list[Leaf]
    placeholders: list[Placeholder]
    namer: shape_env.Namer
    specs: list[InputSpec] = field(default_factory=list)
    declared: dict[str, SizeRange] = field(default_factory=dict)
    static: list[StaticDimension] = field(default_factory=list)


def build(recording: Recording) -> tuple[Evidence, Inputs]:
    """Evidence of a recording in which a program was captured. Errors are left to the caller."""
    inputs = _inputs(recording)
    paths = groups.module_paths(recording.model)
    dims = tuple(dim for spec in inputs.specs for dim in spec.dims)
    example, _ = dimension_sizes(dims, {spec.name: _example(inputs, spec.name) for spec in inputs.specs})
    snapshots, state = _snapshots(recording, inputs)
    return Evidence(
        inputs=tuple(inputs.specs),
        groups=tuple(groups.by_root_cause(recording, inputs.namer, paths)),
        state=tuple(state),
        static=tuple(groups.with_origins(recording, inputs.static, inputs.placeholders, paths)),
        declared=inputs.declared,
        example=example,
        snapshots=tuple(snapshots),
        symbolic_outputs=tuple(_outputs(recording.captured, inputs.namer)),
    ), inputs


def example_parts(
    recording: Recording, inputs: Inputs
) -> tuple[tuple[Any, ...], tuple[str | None, ...], Any, Callable[[Any, Any], Any]] | None:
    """Leaves of the example (args, kwargs), the ONNX name of each (None for no ONNX input), the tree, and how to put
    leaves back into it; None for a program that was exported before and keeps no example inputs."""
    if isinstance(recording.model, torch.export.ExportedProgram):
        if recording.model.example_inputs is None:
            return None
        given = recording.model.example_inputs
    else:
        given = (recording.args, recording.kwargs)
    leaves, tree = _pytree.tree_flatten(given)
    if isinstance(recording.model, torch.export.ExportedProgram):
        names = [placeholder.onnx for placeholder in inputs.placeholders]
        names += [None] * (len(leaves) - len(names))
    else:
        waiting: dict[int, list[str | None]] = {}
        for placeholder in inputs.placeholders:
            if placeholder.leaf is not None:
                waiting.setdefault(id(placeholder.leaf.value), []).append(placeholder.onnx)
        names = [queue.pop(0) if (queue := waiting.get(id(leaf))) else None for leaf in leaves]
    return tuple(leaves), tuple(names), tree, _pytree.tree_unflatten


def mutated_parameters(recording: Recording) -> frozenset[str]:
    """Names of parameters that the model's own forward changes: a replay must not share them."""
    if recording.decomposed is None:
        return frozenset()
    specs = recording.decomposed.graph_signature.output_specs
    return frozenset(str(spec.target) for spec in specs if spec.kind.name == "PARAMETER_MUTATION")


def declared_leaves(recording: Recording) -> list[Leaf]:
    """The leaves of the example inputs with what the user asked for each axis."""
    asked = recording.asked
    arguments = intent.bind(recording.model, recording.args, recording.kwargs)
    leaves = intent.leaves_of(arguments)
    shapes = asked.get("dynamic_shapes")
    if shapes is not None and hasattr(shapes, "dynamic_shapes"):  # torch.export.ShapesCollection, AdditionalInputs
        shapes = shapes.dynamic_shapes(recording.model, recording.args, recording.kwargs)
    unread = intent.declare(leaves, arguments, shapes, asked.get("dynamic_axes"), asked.get("input_names"))
    for part in unread:
        recording.failed("the user's declarations", TypeError(part))
    return leaves


def _inputs(recording: Recording) -> Inputs:
    is_program = isinstance(recording.model, torch.export.ExportedProgram)
    leaves = [] if is_program else declared_leaves(recording)
    placeholders = _placeholders(recording, leaves)
    symbols = _symbols(recording, placeholders)
    names: dict[Any, str] = {}
    variables: dict[Any, str] = {}
    fixed_numbers = shape_env.constants(recording.env) if recording.env is not None else set()
    inputs = Inputs(leaves, placeholders, shape_env.Namer(names, variables, fixed_numbers))
    taken = _names(placeholders)
    stems = _stems(placeholders, {name for name, _ in taken})
    ranges = _program_ranges(recording) if is_program else {}
    for placeholder in placeholders:
        if placeholder.onnx is None or not isinstance(placeholder.value, torch.Tensor):
            continue
        dims = []
        for axis, size in enumerate(placeholder.value.shape):
            dim = _dimension(placeholder, axis, size, taken, stems[placeholder.onnx])
            if dim is None:
                continue
            if is_program and not isinstance(size, int):
                dim = replace(dim, declared=_of_program(ranges.get(shape_env.expression_of(size))))
            dims.append(dim)
            variable = _declare(inputs, dim, _axis_intent(placeholder, axis))
            for symbol in symbols.get((placeholder.name, axis), ()):
                if symbol in names:
                    continue
                names[symbol] = dim.size if dim.size == dim.name else f"({dim.size})"
                variables[symbol] = variable
            fixed = placeholder.static[axis]
            if isinstance(fixed, int):
                inputs.static.append(StaticDimension(dim, fixed, "capture", Origin()))
        inputs.specs.append(InputSpec(placeholder.onnx, str(placeholder.value.dtype), (), tuple(dims)))
    _name_roots(recording, inputs)
    inputs.specs = [replace(spec, shape=_shape(inputs, spec)) for spec in inputs.specs]
    return inputs


def _placeholders(recording: Recording, leaves: list[Leaf]) -> list[Placeholder]:
    """User inputs in order, matched with leaves by name (torch orders keyword arguments in its own way)."""
    program = recording.captured
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    kinds = [spec for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    found = [Placeholder(spec.arg.name, values.get(spec.arg.name), None) for spec in kinds]
    by_path = {leaf.path: leaf for leaf in leaves}
    by_name = all(p.name in by_path for p in found if isinstance(p.value, torch.Tensor))
    for index, placeholder in enumerate(found):
        if by_name:
            placeholder.leaf = by_path.get(placeholder.name)
        elif len(leaves) == len(found):
            placeholder.leaf = leaves[index]
    graph = [
        placeholder
        for placeholder, spec in zip(found, kinds)
        if type(spec.arg).__name__ not in ("ConstantArgument", "CustomObjArgument")
    ]
    onnx = _onnx_inputs(recording)
    for placeholder, (name, _, shape) in zip(graph, onnx):
        placeholder.onnx, placeholder.static = name, shape
    if not onnx:  # the export raised before there was an ONNX program
        for placeholder in graph:
            placeholder.onnx = placeholder.name
            placeholder.static = (None,) * getattr(placeholder.value, "ndim", 0)
    return found


def _onnx_inputs(recording: Recording) -> list[tuple[str, str, tuple[int | str | None, ...]]]:
    boundary: Boundary | None = recording.optimized or recording.translated
    return boundary.inputs if boundary else []


def _symbols(recording: Recording, placeholders: list[Placeholder]) -> dict[tuple[str, int], list[Any]]:
    """(placeholder name, axis) → the symbols that stand for that size: the one it was made with, else the one it has
    now (two dimensions that were found equal share one then)."""
    found: dict[tuple[str, int], list[Any]] = {}
    known = {placeholder.name for placeholder in placeholders}
    sources = shape_env.size_sources(recording.env) if recording.env is not None else {}
    for symbol, (name, axis) in sources.items():
        number = re.fullmatch(r"flat_args_(\d+)", name)
        if name not in known and number and int(number[1]) < len(placeholders):
            name = placeholders[int(number[1])].name
        found.setdefault((name, axis), []).append(symbol)
    made = {symbol for symbols in found.values() for symbol in symbols}
    for placeholder in placeholders:
        for axis, size in enumerate(getattr(placeholder.value, "shape", ())):
            symbol = None if isinstance(size, int) else shape_env.expression_of(size)
            if symbol is not None and symbol.is_Symbol and symbol not in made:
                found.setdefault((placeholder.name, axis), []).append(symbol)
    return found


def _axis_intent(placeholder: Placeholder, axis: int) -> AxisIntent | None:
    return placeholder.leaf.declared.get(axis) if placeholder.leaf else None


def _names(placeholders: list[Placeholder]) -> dict[tuple[str, bool], int | None]:
    """User's names that may serve as variables, each with whether it is a plain string → its one example size; None
    where examples differ, and for a string that a Dim has too."""
    sizes: dict[tuple[str, bool], int | None] = {}
    for placeholder in placeholders:
        for axis, asked in (placeholder.leaf.declared if placeholder.leaf else {}).items():
            if asked.name is None or asked.root is not None:
                continue
            size = placeholder.leaf.value.shape[axis]  # type: ignore[union-attr]
            key = (asked.name, asked.string)
            sizes[key] = size if sizes.get(key, size) == size else None
    return {key: None if key[1] and (key[0], False) in sizes else size for key, size in sizes.items()}


def _is_variable(name: str) -> bool:
    plain = unicodedata.normalize("NFKC", name) == name  # Python's parser changes other identifiers
    short = len(name) <= _LONGEST_VARIABLE
    return short and plain and name.isidentifier() and not keyword.iskeyword(name) and name not in _RESERVED


def _stems(placeholders: list[Placeholder], taken: Container[str]) -> dict[str, str]:
    """ONNX input name → the identifier that stands for it in ``x[2]``: the name itself where it is one and not too
    long, never the same for two inputs, never a dimension's name."""
    found: dict[str, str] = {}
    names = [p.onnx for p in placeholders if p.onnx is not None]
    for name in sorted(names, key=lambda name: not _is_variable(name)):
        stem = name if _is_variable(name) else "_" + re.sub(r"\W", "_", name[:_LONGEST_VARIABLE])
        number = 2
        while stem in found.values() or (stem in taken and stem != name):
            stem, number = f"{stem}_{number}", number + 1
        found[name] = stem
    return found


def _dimension(
    placeholder: Placeholder, axis: int, size: Any, taken: dict[tuple[str, bool], int | None], stem: str
) -> Dimension | None:
    """The dimension, or None for one that is static and was meant to be."""
    asked = _axis_intent(placeholder, axis)
    if asked is None and isinstance(size, int):
        return None
    onnx = placeholder.onnx or placeholder.name
    place = f"{stem}[{axis}]"
    name = place
    derived = asked is not None and asked.root is not None
    if (
        asked is not None
        and not derived
        and asked.name
        and _is_variable(asked.name)
        and taken.get((asked.name, asked.string)) is not None
    ):
        name = asked.name
    example = placeholder.leaf.value.shape[axis] if placeholder.leaf else shape_env.hint(size)
    declared = asked.declared if asked else None if placeholder.leaf else _of_program(None)
    text = asked.name if derived and asked and asked.name else name
    leaf = placeholder.leaf
    parameter = leaf.parameter if leaf is not None and leaf.path == leaf.parameter.lower() else ""
    return Dimension(onnx, axis, name, text, int(example), declared, parameter=parameter)


def _program_ranges(recording: Recording) -> dict[Any, tuple[int, int | None]]:
    """What was declared for the symbols of a program that was exported before; empty for one that was saved and loaded,
    and so has lost the guards of its ShapeEnv, where the texts of guards that it kept may be what narrows them."""
    if recording.before is None or recording.env is None:
        return {}
    history = bool(recording.env.source_to_var) or getattr(recording.captured, "_guards_code", None) == []
    return shape_env.declared_ranges(recording.before) if history else {}


def _of_program(sizes: tuple[int, int | None] | None) -> Declared:
    """What was declared for a symbolic dimension of a program that was exported before: its range, else any size."""
    return Declared(SizeRange(*sizes) if sizes is not None else SizeRange(), "symbolic in the program")


def _declare(inputs: Inputs, dim: Dimension, asked: AxisIntent | None) -> str:
    """Note the declared range of a dimension's variable; returns the variable."""
    variable = dim.name if dim.size == dim.name else str(asked.root if asked else dim.name)
    sizes = dim.declared.sizes if dim.declared else SizeRange()
    if dim.size != dim.name:
        sizes = asked.root_sizes if asked else SizeRange()
    old = inputs.declared.get(variable, SizeRange())
    uppers = [u for u in (old.upper, sizes.upper) if u is not None]
    inputs.declared[variable] = SizeRange(max(old.lower, sizes.lower), min(uppers) if uppers else None)
    return variable


def _name_roots(recording: Recording, inputs: Inputs) -> None:
    """Roots of derived dimensions that are no input dimension themselves: torch names their source ``h``."""
    if recording.env is None:
        return
    for source, symbol in recording.env.source_to_var.items():
        if symbol not in inputs.namer.variables and source in inputs.declared:
            inputs.namer.names[symbol] = inputs.namer.variables[symbol] = source


def _shape(inputs: Inputs, spec: InputSpec) -> tuple[int | str, ...]:
    dims = {dim.axis: dim for dim in spec.dims}
    value = next(p.value for p in inputs.placeholders if p.onnx == spec.name)
    return tuple(dims[axis].size if axis in dims else inputs.namer.size(size) for axis, size in enumerate(value.shape))


def _example(inputs: Inputs, name: str) -> tuple[int, ...]:
    placeholder = next(p for p in inputs.placeholders if p.onnx == name)
    if placeholder.leaf is not None:
        return tuple(placeholder.leaf.value.shape)
    return tuple(shape_env.hint(size) for size in placeholder.value.shape)


def _snapshots(recording: Recording, inputs: Inputs) -> tuple[list[Snapshot], list[tuple[Stage, Guard]]]:
    namer = inputs.namer
    shapes = tuple((spec.name, spec.shape) for spec in inputs.specs)
    outputs = tuple(_outputs(recording.captured, namer))
    before = tuple(diff.unique(namer.guards(recording.before))) if recording.before else ()
    after = tuple(diff.unique(namer.guards(recording.after))) if recording.after else ()
    capture = Snapshot("capture", "after", before, shapes, outputs)
    snapshots = [capture, replace(capture, stage="decompose", when="before")]
    if recording.decomposed is not None:
        found = tuple(_outputs(recording.decomposed, namer))
        snapshots.append(Snapshot("decompose", "after", after, shapes, found))
    stages: list[tuple[Stage, Boundary | None]] = [
        ("translate", recording.translated),
        ("optimize", recording.optimized),
    ]
    for stage, boundary in stages:
        if boundary is not None:
            snapshots.append(_onnx_snapshot(stage, boundary, inputs))
    state: list[tuple[Stage, Guard]] = [("capture", guard) for guard in before]
    if recording.after:
        state += [("decompose", g) for g in diff.added(capture, Snapshot("decompose", "after", after))]
    return snapshots, state


def _onnx_snapshot(stage: Stage, boundary: Boundary, inputs: Inputs) -> Snapshot:
    names = {str(symbol): name for symbol, name in inputs.namer.names.items()}

    def size(value: int | str | None) -> int | str:
        """The text of a size over dimension variables; the exporter writes torch's symbols until it renames axes."""
        if isinstance(value, str):
            return re.sub(r"\b[su]\d+\b", lambda m: names.get(m[0], m[0]), value)
        return "?" if value is None else value

    def sizes(row: Sequence[int | str | None]) -> tuple[int | str, ...]:
        return tuple(map(size, row))

    shapes = tuple((name, sizes(row)) for name, _, row in boundary.inputs)
    outputs = tuple(
        OutputSpec(name, dtype, tuple(None if s is None else size(s) for s in row))
        for name, dtype, row in boundary.outputs
    )
    return Snapshot(stage, "after", (), shapes, outputs, state_read=False)


def _outputs(program: Any, namer: shape_env.Namer) -> list[OutputSpec]:
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    found = []
    for spec in program.graph_signature.output_specs:
        if spec.kind.name != "USER_OUTPUT" or type(spec.arg).__name__ == "ConstantArgument":
            continue
        value = values.get(spec.arg.name)
        if isinstance(value, torch.Tensor):
            shape = tuple(namer.size(size) for size in value.shape)
            found.append(OutputSpec(spec.arg.name, str(value.dtype), shape))
        else:
            found.append(OutputSpec(spec.arg.name, type(value).__name__, ()))
    return found
