"""What an ONNX model is made of, and the bytes of its weights that are kept in files beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx

from guarddiff.core.errors import ContractError

_PIECE = 1 << 20


@dataclass(frozen=True)
class Place:
    """Bytes of a file; ``length`` None: to its end."""

    file: str
    offset: int
    length: int | None


def nodes(model: onnx.ModelProto, functions: bool = True) -> Iterator[onnx.NodeProto]:
    """Every node of the graph, of its subgraphs and, unless ``functions`` is False, of the model's own functions."""
    waiting: list[Iterable[onnx.NodeProto]] = [model.graph.node]
    waiting += [function.node for function in model.functions if functions]
    while waiting:
        for node in waiting.pop():
            yield node
            for attribute in node.attribute:
                waiting += [graph.node for graph in (attribute.g, *attribute.graphs) if graph.node]


def initializers(model: onnx.ModelProto, functions: bool = True) -> Iterator[onnx.TensorProto]:
    """Those of the graph and of all subgraphs, ``functions`` as for ``nodes``."""
    yield from model.graph.initializer
    for node in nodes(model, functions):
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from graph.initializer


def constants(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """The tensors in nodes."""
    for node in nodes(model):
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)


def texts(model: onnx.ModelProto) -> Iterator[str | bytes]:
    """Names, keys and values that are read of a model."""
    yield from (text for props in (model.metadata_props, model.graph.metadata_props) for text in _pairs(props))
    for node in nodes(model):
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output, *_pairs(node.metadata_props))
        yield from (attribute.name for attribute in node.attribute)
    for value in (*model.graph.input, *model.graph.output):
        yield from (value.name, *(dim.dim_param for dim in value.type.tensor_type.shape.dim))
    for tensor in (*initializers(model), *constants(model)):
        yield from (tensor.name, *_pairs(tensor.external_data))


def _pairs(entries: Iterable[onnx.StringStringEntryProto]) -> Iterator[str | bytes]:
    for entry in entries:
        yield from (entry.key, entry.value)


def place(tensor: onnx.TensorProto) -> Place | None:
    """Where a tensor is kept; None for one that is in the model. Raises ContractError for what is no place."""
    if tensor.data_location != onnx.TensorProto.EXTERNAL:
        return None
    entries = {entry.key: entry.value for entry in tensor.external_data}
    length = entries.get("length")
    return Place(
        entries.get("location", ""),
        _number(entries.get("offset", "0")),
        None if length is None else _number(length),
    )


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise ContractError(f"not a readable ONNX model: external weights at {text[:40]!r}")
    return int(text)


def pieces(folder: Path, at: Place) -> Iterator[bytes]:
    """The bytes of a place, piece by piece.

    Raises ContractError where the file is not inside ``folder``, is no plain file, or is too short; OSError where it
    can't be read.
    """
    with open(_checked(folder, at.file), "rb") as file:
        file.seek(at.offset)
        left = at.length
        while left is None or left > 0:
            piece = file.read(_PIECE if left is None else min(_PIECE, left))
            if not piece:
                if left:
                    raise ContractError(f"the weights in {at.file} are torn: {left} bytes are missing")
                return
            left = None if left is None else left - len(piece)
            yield piece


def length(folder: Path, at: Place) -> int:
    """How many bytes a place has. Raises as ``pieces`` does."""
    return at.length if at.length is not None else max(0, _checked(folder, at.file).stat().st_size - at.offset)


def _checked(folder: Path, location: str) -> Path:
    target = folder / location
    try:
        inside, plain = target.resolve().is_relative_to(folder.resolve()), not target.exists() or target.is_file()
    except (OSError, RuntimeError, ValueError) as err:  # a loop of links, a NUL
        raise ContractError(f"weights can't be read from {location!r}: {err}") from None
    if not inside:
        raise ContractError(f"weights outside the folder of the model are not read: {location}")
    if not plain:  # a pipe would be waited for
        raise ContractError(f"weights can't be read from {location!r}: it is no file")
    return target
