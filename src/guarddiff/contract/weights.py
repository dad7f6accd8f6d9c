"""Weights of several ONNX models in files that they share: equal bytes are stored once.

A file holds what one model brings that none before it had. It is named by its content, written once and never changed,
so a set of models can grow, and a run that ends early leaves no file that is half written.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import onnx

from guarddiff.contract import external
from guarddiff.contract.external import Place

SMALL = 1024
"""Tensors of fewer bytes stay in the model."""
PAGE = 4096
"""Where large tensors begin, so that they can be mapped into memory; small ones are packed more densely."""

_LARGE = 64 * 1024
_DENSE = 64


class SharedWeights:
    """The weights of the models in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._places: dict[str, Place] = {}
        self._read: set[Place] = set()

    def learn(self, model: onnx.ModelProto) -> None:
        """Take over what a model of this folder, which was shared before, keeps outside."""
        for tensor in external.initializers(model, functions=False):
            place = external.place(tensor)
            if place is not None and place not in self._read:
                self._read.add(place)
                self._places.setdefault(_digest(external.pieces(self._folder, place)), place)

    def share(self, model: onnx.ModelProto, source: Path) -> tuple[str, ...]:
        """Let ``model``, whose own external files are in the folder ``source``, point to the shared files.

        Returns the names of those that it needs; one that it brings itself comes last. Never holds more than one
        tensor in memory. Raises ContractError for torn files, OSError.
        """
        # Of the model's own functions ONNX Runtime reads no external weights.
        found: list[tuple[onnx.TensorProto, str]] = []
        missing: dict[str, tuple[onnx.TensorProto, int]] = {}
        for tensor in external.initializers(model, functions=False):
            length = _length(tensor, source)
            if length is None:
                continue
            if length < SMALL:
                _keep_inside(tensor, source)
                continue
            digest = _digest(_content(tensor, source))
            found.append((tensor, digest))
            if digest not in self._places:
                missing[digest] = (tensor, length)
        for tensor in external.constants(model):
            _keep_inside(tensor, source)
        self._write(missing, source)
        for tensor, digest in found:
            _point(tensor, self._places[digest])
        return tuple(dict.fromkeys(self._places[digest].file for _, digest in found))

    @property
    def files(self) -> frozenset[str]:
        """Names of the files known."""
        return frozenset(place.file for place in self._places.values())

    def forget(self, file: str) -> None:
        """Leave a file out from now on."""
        self._places = {digest: place for digest, place in self._places.items() if place.file != file}

    def _write(self, missing: dict[str, tuple[onnx.TensorProto, int]], source: Path) -> None:
        """A new file with these tensors."""
        if not missing:
            return
        waiting = self._folder / f".weights-{secrets.token_hex(8)}.tmp"
        whole, offsets, at = hashlib.sha256(), {}, 0
        try:
            with open(waiting, "xb") as file:
                for digest, (tensor, length) in missing.items():
                    padding = bytes(-at % (PAGE if length >= _LARGE else _DENSE))
                    offsets[digest] = at + len(padding)
                    for piece in itertools.chain((padding,), _content(tensor, source)):
                        whole.update(piece)
                        at += file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            name = f"weights-{whole.hexdigest()[:16]}.bin"
            os.replace(waiting, self._folder / name)
        except BaseException:
            with suppress(OSError):
                os.unlink(waiting)
            raise
        for digest, (_, length) in missing.items():
            self._places[digest] = Place(name, offsets[digest], length)


def _length(tensor: onnx.TensorProto, folder: Path) -> int | None:
    """How many bytes a tensor has; None for one that is kept as numbers or texts in the model."""
    place = external.place(tensor)
    if place is not None:
        return external.length(folder, place)
    return len(tensor.raw_data) if tensor.HasField("raw_data") else None


def _content(tensor: onnx.TensorProto, folder: Path) -> Iterator[bytes]:
    place = external.place(tensor)
    return iter((tensor.raw_data,)) if place is None else external.pieces(folder, place)


def _digest(pieces: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def _keep_inside(tensor: onnx.TensorProto, folder: Path) -> None:
    if tensor.data_location != onnx.TensorProto.EXTERNAL:
        return
    content = b"".join(_content(tensor, folder))
    _clear(tensor)
    tensor.raw_data = content


def _point(tensor: onnx.TensorProto, place: Place) -> None:
    _clear(tensor)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", place.file), ("offset", place.offset), ("length", place.length)):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, str(value)


def _clear(tensor: onnx.TensorProto) -> None:
    for field in ("raw_data", "external_data", "data_location"):
        tensor.ClearField(field)
