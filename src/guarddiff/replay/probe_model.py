"""An ONNX file as it describes itself: inputs and outputs, and nodes that can't fit every size that it declares."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx.shape_inference
from onnx import numpy_helper

MOST_BYTES = 2**31 - 1
"""protobuf's own limit for one file."""

Shape = tuple[int | str | None, ...]
_MOST_INFERRED = 64 * 1024 * 1024  # bytes of a model whose shapes are inferred
_FEW = 4096  # elements of a constant that is looked at


class NoModel(ValueError):
    """The file is no ONNX model that can be read; the message says why, in one line."""


@dataclass(frozen=True)
class Value:
    """An input or output: ``shape`` holds per axis a size, the name or text of a symbolic size, or None for unknown;
    it is None where no shape is declared."""

    name: str
    type: str
    shape: Shape | None


@dataclass(frozen=True)
class Suspect:
    """A node that can't fit every size that the file declares. ``source`` is the line of Python it came from, empty
    where the file does not tell."""

    node: str
    op: str
    why: str
    source: str = ""


@dataclass
class Model:
    """What the file says of itself."""

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    suspects: tuple[Suspect, ...] = ()
    numbers: tuple[int, ...] = ()  # whole numbers above 1 in shapes and kernels, most frequent first
    carriers: dict[int, list[tuple[str, str, str]]] = field(default_factory=dict)  # number → (node, op, where)


def read(path: str) -> Model:
    """Read the file without its weights. Raises NoModel."""
    graph = _inferred(_loaded(path)).graph
    shapes = _shapes(graph)
    constants = _constants(graph)
    initial = {tensor.name for tensor in graph.initializer}
    model = Model(
        inputs=tuple(_value(v) for v in graph.input if v.name not in initial),
        outputs=tuple(_value(v) for v in graph.output),
    )
    model.suspects = tuple(s for node in graph.node for s in _suspects(node, shapes, constants))
    for node in graph.node:
        for where, number in (*_numbers(node, constants), *_operands(node, initial, shapes)):
            model.carriers.setdefault(number, []).append((node.name, node.op_type, where))
    model.numbers = tuple(sorted(model.carriers, key=lambda n: (-len(model.carriers[n]), n)))
    return model


def _loaded(path: str) -> Any:
    try:
        size = os.path.getsize(path)
        with open(path, "rb") as file:
            head = file.read(2)
    except FileNotFoundError:
        raise NoModel("there is no such file") from None
    except OSError as error:
        raise NoModel(f"can't be read: {error.strerror or error}") from None
    if size > MOST_BYTES:
        raise NoModel("larger than 2 GB, which no ONNX file is: weights beyond that stand in files beside it")
    if not head or head[0] & 7 not in (0, 2) or not 1 <= head[0] >> 3 <= 15:
        raise NoModel("no ONNX model")
    try:
        model = onnx.load(path, load_external_data=False)
    except Exception as error:
        raise NoModel(f"no whole ONNX model, perhaps torn ({type(error).__name__})") from None
    if not model.graph.output or not model.opset_import or not model.ir_version:
        raise NoModel("no ONNX model: it has no outputs or no operator set")
    _check_external(model, os.path.dirname(os.path.abspath(path)))
    return model


def _inferred(model: Any) -> Any:
    """The model with the shapes of values inside, where it is small and they can be inferred."""
    if model.ByteSize() > _MOST_INFERRED:
        return model
    try:
        return onnx.shape_inference.infer_shapes(model)
    except Exception:
        return model


def _check_external(model: Any, folder: str) -> None:
    """Weights that stand in other files have to be there, and in this folder."""
    for tensor in model.graph.initializer:
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        entries = {entry.key: entry.value for entry in tensor.external_data}
        place = entries.get("location", "")
        if os.path.isabs(place) or ".." in place.replace("\\", "/").split("/"):
            raise NoModel(f"its weights stand outside its folder ({place[:80]!r})")
        file = os.path.join(folder, place)
        if not os.path.isfile(file):
            raise NoModel(f"the file with its weights is missing ({place[:80]!r})")
        needed = int(entries.get("offset", 0) or 0) + int(entries.get("length", 0) or 0)
        if os.path.getsize(file) < needed:
            raise NoModel(f"the file with its weights is torn ({place[:80]!r})")


def _value(value: Any) -> Value:
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        return Value(value.name, str(kind), None)
    element = value.type.tensor_type.elem_type
    name = onnx.TensorProto.DataType.Name(element).lower() if element else "unknown"
    return Value(value.name, name, _shape(value))


def _shape(value: Any) -> Shape | None:
    if value.type.WhichOneof("value") != "tensor_type" or not value.type.tensor_type.HasField("shape"):
        return None
    sizes: list[int | str | None] = []
    for dim in value.type.tensor_type.shape.dim:
        which = dim.WhichOneof("value")
        sizes.append(dim.dim_value if which == "dim_value" else dim.dim_param or None if which else None)
    return tuple(sizes)


def _shapes(graph: Any) -> dict[str, Shape]:
    found = {
        v.name: shape for v in (*graph.value_info, *graph.output, *graph.input) if (shape := _shape(v)) is not None
    }
    found.update((tensor.name, tuple(tensor.dims)) for tensor in graph.initializer)
    return found


def _constants(graph: Any) -> dict[str, tuple[int, ...]]:
    """Name to whole numbers, for small constants of whole numbers."""
    tensors = [(tensor.name, tensor) for tensor in graph.initializer]
    tensors += [
        (node.output[0], attribute.t)
        for node in graph.node
        if node.op_type == "Constant" and node.output
        for attribute in node.attribute
        if attribute.name == "value"
    ]
    found = {}
    for name, tensor in tensors:
        whole = tensor.data_type in (onnx.TensorProto.INT64, onnx.TensorProto.INT32)
        if whole and tensor.data_location != onnx.TensorProto.EXTERNAL and int(np.prod(tensor.dims or [1])) <= _FEW:
            try:
                found[name] = tuple(int(n) for n in numpy_helper.to_array(tensor).ravel())
            except (ValueError, TypeError):
                continue
    return found


# --- numbers that a node carries ---

_TAKES_SIZES = {"Reshape": (1,), "Expand": (1,), "Slice": (1, 2), "Tile": (1,), "Resize": (3,), "Split": (1,),
                "ConstantOfShape": (0,), "Pad": (1,), "Range": (0, 1)}  # fmt: skip


def _numbers(node: Any, constants: dict[str, tuple[int, ...]]) -> Iterator[tuple[str, int]]:
    for index in _TAKES_SIZES.get(node.op_type, ()):
        name = node.input[index] if index < len(node.input) else ""
        for number in dict.fromkeys(constants.get(name, ())):
            if 1 < number < 2**31:
                yield f"input {index}", number
    for attribute in node.attribute:
        if attribute.name in ("kernel_shape", "strides") and "Pool" in node.op_type:
            for number in dict.fromkeys(attribute.ints):
                if number > 1:
                    yield attribute.name, int(number)


def _operands(node: Any, initial: set[str], shapes: dict[str, Shape]) -> Iterator[tuple[str, int]]:
    """Sizes of constants that are added to or multiplied with something: position embeddings, masks."""
    if node.op_type in _BROADCASTS:
        for index, name in enumerate(node.input):
            if name in initial:
                for size in dict.fromkeys(shapes.get(name, ())):
                    if isinstance(size, int) and size > 1:
                        yield f"shape of input {index}", size


# --- nodes that clash with the shapes that the file declares ---

_POOLS = ("AveragePool", "MaxPool", "LpPool")
_BROADCASTS = ("Add", "Sub", "Mul", "Div", "Where", "Pow", "And", "Or", "Equal", "Less", "Greater", "Min", "Max")


def _suspects(node: Any, shapes: dict[str, Shape], constants: dict[str, tuple[int, ...]]) -> Iterator[Suspect]:
    if node.op_type in _POOLS:
        whys = _pool(node, shapes)
    elif node.op_type == "Reshape":
        whys = _reshape(node, shapes, constants)
    elif node.op_type in ("Gemm", "MatMul"):
        whys = _matrix(node, shapes)
    elif node.op_type in _BROADCASTS:
        whys = _broadcast(node, shapes)
    else:
        return
    for why in whys:
        yield Suspect(node.name, node.op_type, why, _source(node))


def _pool(node: Any, shapes: dict[str, Shape]) -> Iterator[str]:
    data = shapes.get(node.input[0], ())
    kernel = next((tuple(a.ints) for a in node.attribute if a.name == "kernel_shape"), ())
    moving = [axis for axis, size in enumerate(data) if axis >= 2 and not isinstance(size, int)]
    if moving and _adaptive(node):
        yield f"a fixed kernel of {_times(kernel)} where adaptive pooling of a dynamic size was asked for"
        return
    made = shapes.get(node.output[0], ())
    fixed = [axis for axis in moving if axis < len(made) and isinstance(made[axis], int)]
    if fixed:
        yield f"a fixed kernel of {_times(kernel)}, though a dynamic size is declared to become {made[fixed[0]]}"


def _reshape(node: Any, shapes: dict[str, Shape], constants: dict[str, tuple[int, ...]]) -> Iterator[str]:
    data = shapes.get(node.input[0])
    target = constants.get(node.input[1]) if len(node.input) > 1 else None
    if data is None or target is None or -1 in target or not any(isinstance(size, str) for size in data):
        return
    kept = {axis for axis, size in enumerate(target) if size == 0 and axis < len(data)}
    moving = [size for axis, size in enumerate(data) if isinstance(size, str) and axis not in kept]
    if moving:
        yield f"a fixed shape {target} for a value of size {_sizes(data)}"


def _matrix(node: Any, shapes: dict[str, Shape]) -> Iterator[str]:
    left, right = (shapes.get(name, ()) for name in node.input[:2])
    if not left or len(right) < 2:
        return
    flags = {a.name: a.i for a in node.attribute}
    taken = right[-1] if node.op_type == "Gemm" and flags.get("transB") else right[-2]
    given = left[0] if node.op_type == "Gemm" and flags.get("transA") else left[-1]
    if isinstance(given, str) and isinstance(taken, int):
        yield f"takes exactly {taken} features and is given {given}"
    elif isinstance(given, int) and isinstance(taken, str):
        yield f"is given exactly {given} features and takes {taken}"


def _broadcast(node: Any, shapes: dict[str, Shape]) -> Iterator[str]:
    known = [shapes[name] for name in node.input if name in shapes]
    for axis in range(1, 1 + max(map(len, known), default=0)):
        sizes = [shape[-axis] for shape in known if len(shape) >= axis]
        fixed = {size for size in sizes if isinstance(size, int) and size > 1}
        moving = [size for size in sizes if isinstance(size, str)]
        if fixed and moving:
            yield f"a size of exactly {max(fixed)} meets {moving[0]} on axis -{axis}"
            return


def _adaptive(node: Any) -> bool:
    texts = [p.value for p in node.metadata_props if p.key in (_STACK, "pkg.torch.onnx.class_hierarchy")]
    return any("adaptive" in text.lower() for text in texts)


_STACK = "pkg.torch.onnx.stack_trace"


def _source(node: Any) -> str:
    """The last line of Python that the node remembers."""
    trace = next((p.value for p in node.metadata_props if p.key == _STACK), "")
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    return lines[-1] if lines and not lines[-1].startswith("File ") else ""


def _times(sizes: tuple[int, ...]) -> str:
    return "×".join(map(str, sizes)) or "unknown size"


def _sizes(shape: Shape) -> str:
    return f"({', '.join('?' if size is None else str(size) for size in shape)})"
