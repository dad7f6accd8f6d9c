"""Contracts in ONNX files: written into the metadata and beside the file, and read back."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import onnx

from guarddiff.contract import asserts, codec, external
from guarddiff.contract.build import contract_of
from guarddiff.contract.contract import Condition, Contract
from guarddiff.contract.feeds import element_name
from guarddiff.core import files, graph
from guarddiff.core.dims import InputSpec
from guarddiff.core.errors import ContractError
from guarddiff.core.report import ReportData

KEY = "guarddiff.contract"
"""Name of the contract in a model's ``metadata_props``."""

NODE_KEY = "guarddiff.finding"
"""Name of the entry at a node that carries a baked size."""

SUFFIX = ".contract.json"
_MOST_BYTES = 2**31 - 1  # protobuf's own limit for one file
_OURS = "guarddiff."


def embed_contract(
    path: str | os.PathLike[str],
    report: ReportData,
    *,
    settings: Mapping[str, Any] | None = None,
    preprocessing: Mapping[str, Any] | None = None,
    embed: Literal["metadata", "asserts"] = "metadata",
    mark_nodes: bool = False,
    allow_incomplete: bool = False,
    conditions: Sequence[Condition] = (),
) -> Contract:
    """Write the contract of an exported model into its file and, as ``<name>.contract.json``, beside it.

    Weights in external files are read for the hash, never loaded or rewritten. The file is replaced whole or not at
    all.

    Args:
        path: The ONNX file.
        report: What its export showed: ``guarddiff.report_of(program)``, or one that was loaded.
        settings: What the model was constructed with; JSON-able.
        preprocessing: What is done to the inputs before (resizing, cropping, padding); JSON-able.
        embed: ``asserts`` also puts the conditions into the graph, so that any runtime fails at inputs that break
            them: see ``guarddiff.contract.asserts``.
        mark_nodes: Whether nodes that carry a baked size get a ``guarddiff.finding`` entry in their metadata, which
            viewers show.
        allow_incomplete: Whether a report that lacks evidence will do.
        conditions: What the model is held to besides what the report shows.

    Returns:
        The contract, with the hash of the file.

    Raises:
        ContractError: There is no contract (see ``contract_of``), the file is no ONNX model or that of another
            export, or a condition can't be put into a graph.
        OSError: The file can't be read or written.
    """
    if embed not in ("metadata", "asserts"):
        raise ValueError(f"embed is {embed!r}: there are 'metadata' and 'asserts'")
    file = Path(path)
    model = _load(file)
    contract = contract_of(
        report,
        tuple(_inputs(model)),
        settings=settings,
        preprocessing=preprocessing,
        allow_incomplete=allow_incomplete,
        conditions=conditions,
    )
    _same_export(report, model, file.name)
    _remove_ours(model)
    if embed == "asserts":
        asserts.insert(model, contract)
    contract = dataclasses.replace(contract, hash=_hash(model, file.parent))
    if mark_nodes:
        _mark(model, report)
    text = codec.dumps(contract)
    _set(model.metadata_props, KEY, text)
    files.replace(file.resolve(), model.SerializeToString(deterministic=True))
    files.replace(beside(file), text.encode())
    return contract


def _same_export(report: ReportData, model: onnx.ModelProto, name: str) -> None:
    """Raise where the report is known to be about another model than the file."""
    if report.graph and report.graph != _graph(model):
        raise ContractError(
            f"no contract: the report is about another model than '{name}', or the file was changed after the "
            "export: give the report of its own export, guarddiff.report_of(program)"
        )


def read_contract(path: str | os.PathLike[str] | bytes, *, trust: bool = False) -> Contract:
    """The contract of an ONNX file (or of its bytes), or the one in a ``.contract.json`` beside its model.

    Args:
        path: An ONNX file, its bytes, or the JSON file; the model of a JSON file is the one of its name beside it.
        trust: Whether to leave out the comparison of the hash with the model, which reads all weights.

    Raises:
        ContractError: There is none, it is torn, of a newer version, or the model was changed after it was made.
        OSError: The file can't be read.
    """
    if not isinstance(path, bytes) and os.fspath(path).endswith(".json"):
        return _read_json(Path(path), trust)
    model = _parse(path, "the bytes") if isinstance(path, bytes) else _load(Path(path))
    text = next((prop.value for prop in model.metadata_props if prop.key == KEY), None)
    if text is None:
        which = "the model" if isinstance(path, bytes) else os.fspath(path)
        raise ContractError(f"{which} has no contract: write one with guarddiff.embed_contract")
    contract = codec.loads(text)
    folder = None if isinstance(path, bytes) else Path(path).parent
    if not trust:
        _compare(contract, model, folder)
    return contract


def beside(file: Path) -> Path:
    """Where the contract of an ONNX file stands as JSON."""
    return file.with_name(file.name.removesuffix(".onnx") + SUFFIX)


def _read_json(file: Path, trust: bool) -> Contract:
    try:
        contract = codec.loads(_bytes(file, codec.MAX_SIZE).decode())
    except UnicodeDecodeError:
        raise ContractError(f"{file.name}: not a readable contract: it is not UTF-8 text") from None
    onnx_file = file.with_name(file.name.removesuffix(SUFFIX) + ".onnx")
    if not trust:
        if not onnx_file.exists():
            raise ContractError(f"{file.name}: its model {onnx_file.name} is not beside it; trust=True reads it alone")
        _compare(contract, _load(onnx_file), onnx_file.parent)
    return contract


def _compare(contract: Contract, model: onnx.ModelProto, folder: Path | None) -> None:
    if _hash(model, folder) != contract.hash:
        raise ContractError(
            "the contract does not match the model: its hash is another, so the model (or a file of its weights) was "
            "changed after the contract was made; export again, or embed the contract of the new model"
        )


def _load(file: Path) -> onnx.ModelProto:
    return _parse(_bytes(file, _MOST_BYTES), f"'{file.name}'")


def _bytes(file: Path, most: int) -> bytes:
    try:
        return files.read(file, most)
    except files.NotRead as err:
        raise ContractError(f"'{file.name}': {err}") from None


def _parse(content: bytes, name: str) -> onnx.ModelProto:
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except Exception as err:  # protobuf's DecodeError has no one place
        raise ContractError(f"{name}: not a readable ONNX model: {err}") from None
    if not model.HasField("graph"):
        raise ContractError(f"{name}: not an ONNX model: it has no graph")
    if not all(isinstance(text, str) for text in external.texts(model)):  # broken UTF-8 comes as bytes
        raise ContractError(f"{name}: not a readable ONNX model: it holds text that is not UTF-8")
    return model


# --- the hash -------------------------------------------------------------------------------------------


def fingerprint(path: str | os.PathLike[str]) -> str:
    """SHA-256 of an ONNX model with the external files of its weights, without guarddiff's own metadata."""
    file = Path(path)
    return _hash(_load(file), file.parent)


def _hash(model: onnx.ModelProto, folder: Path | None) -> str:
    """The hash of a model, from which guarddiff's own metadata is removed on the way."""
    _remove_ours(model)
    digest = hashlib.sha256(model.SerializeToString(deterministic=True))
    places = map(external.place, (*external.constants(model), *external.initializers(model)))
    for place in dict.fromkeys(places):
        if place is None:
            continue
        if folder is None:
            raise ContractError("the model has external weights: give its path, not its bytes")
        for piece in external.pieces(folder, place):
            digest.update(piece)
    return digest.hexdigest()


# --- metadata -------------------------------------------------------------------------------------------


def _inputs(model: onnx.ModelProto) -> Iterator[InputSpec]:
    """Name, dtype and shape of each input; inputs that are no tensors have no shape."""
    weights = {tensor.name for tensor in model.graph.initializer}
    for value in model.graph.input:
        if value.name in weights:
            continue
        kind = value.type.tensor_type
        shape = tuple(d.dim_value if d.HasField("dim_value") else d.dim_param or "?" for d in kind.shape.dim)
        yield InputSpec(value.name, element_name(kind.elem_type), shape)


def _graph(model: onnx.ModelProto) -> str:
    """``core.graph.digest`` of the model, without the asserts of a contract."""
    nodes = [node for node in model.graph.node if not asserts.added(node)]
    return graph.digest(
        ((node.domain, node.op_type, _whole(node)) for node in nodes), [value.name for value in model.graph.output]
    )


def _whole(node: onnx.NodeProto) -> dict[str, tuple[int, ...]]:
    kinds = onnx.AttributeProto
    return {
        attribute.name: (attribute.i,) if attribute.type == kinds.INT else tuple(attribute.ints)
        for attribute in node.attribute
        if attribute.type in (kinds.INT, kinds.INTS) and not attribute.ref_attr_name
    }


def _set(props: Any, key: str, value: str) -> None:
    for prop in props:
        if prop.key == key:
            prop.value = value
            return
    prop = props.add()
    prop.key, prop.value = key, value


def _remove_ours(model: onnx.ModelProto) -> None:
    for props in (model.metadata_props, *(node.metadata_props for node in external.nodes(model))):
        kept = [prop for prop in props if not prop.key.startswith(_OURS)]
        if len(kept) != len(props):
            copies = [(prop.key, prop.value) for prop in kept]
            del props[:]
            for key, value in copies:
                _set(props, key, value)


def _mark(model: onnx.ModelProto, report: ReportData) -> None:
    told: dict[str, list[str]] = {}
    for finding in report.findings:
        sizes = ", ".join(f"{dim.place}: {dim.admitted}" for dim in finding.dims if dim.admitted is not None)
        for node in finding.onnx_nodes:
            told.setdefault(node.name, []).append(f"{finding.verdict}: {node.where}; right only for {sizes or '?'}")
    for node in external.nodes(model):
        if node.name in told:
            _set(node.metadata_props, NODE_KEY, "\n".join(told[node.name]))
