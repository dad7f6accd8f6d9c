"""The list of a set of static models: their sizes, files and hashes, as plain data and as JSON beside them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from guarddiff.contract import codec
from guarddiff.core import files
from guarddiff.core.errors import ContractError
from guarddiff.core.records import NOT_SAVED

FORMAT = "guarddiff-variants"
VERSION = 1
NAME = "variants.json"
UNFINISHED = "variants.unfinished.json"
"""What an export that is under way, or was interrupted, has finished so far."""

_PIECE = 1 << 20
_FORBIDDEN = frozenset('/\\:\0<>|?*"')


@dataclass(frozen=True)
class StoredFile:
    """A file of the set: its name in the folder of the manifest, its length in bytes, and SHA-256 of its content."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Variant:
    """One static model.

    Attributes:
        inputs: Name to shape, for every input of the model.
        file: The ONNX file.
        contract: The contract beside it, as JSON.
        weights: The files that hold its weights; others of the set may use them too.
        hash: Of the model with its weights, as the contract has it.
        request: Hash of what was exported: model, size, arguments of the export and versions.
        largest: Largest absolute difference between ONNX Runtime and eager PyTorch at one input of this size.
    """

    inputs: dict[str, tuple[int, ...]]
    file: str
    contract: str
    weights: tuple[str, ...]
    hash: str
    request: str
    largest: float

    @property
    def files(self) -> tuple[str, ...]:
        return (self.file, self.contract, *self.weights)

    def __str__(self) -> str:
        return sizes_text(self.inputs)


@dataclass(frozen=True)
class Manifest:
    """A set of static models of one module.

    Attributes:
        model: Class name of the module.
        variants: One for each size, in the order in which they were asked for.
        files: All files of the set.
        environment: Versions of the export.
        folder: Where the files are; None for a manifest that was not read from or written to a folder.
    """

    model: str
    variants: tuple[Variant, ...] = ()
    files: tuple[StoredFile, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    folder: Path | None = field(default=None, compare=False, metadata=NOT_SAVED)

    @property
    def path(self) -> Path:
        """The manifest's own file. Raises ContractError where ``folder`` is None."""
        if self.folder is None:
            raise ContractError("the manifest has no folder: read it from its file")
        return self.folder / NAME

    @property
    def sizes(self) -> tuple[dict[str, tuple[int, ...]], ...]:
        """Input name to shape, for each variant."""
        return tuple(dict(variant.inputs) for variant in self.variants)

    def missing(self) -> str | None:
        """Why the files can't be those of the manifest, seen from their names and lengths; None where they can."""
        for stored in self.files:
            path = self.path.with_name(stored.name)
            try:
                size = path.stat().st_size
            except OSError:
                return f"{stored.name} is not there"
            if size != stored.size:
                return f"{stored.name} has {size:,} bytes and should have {stored.size:,}"
        return None

    def changed(self, names: Iterable[str]) -> str | None:
        """Why these files are not those of the manifest, seen from their content; None where they are."""
        known = {stored.name: stored for stored in self.files}
        for name in names:
            try:
                now = stored_file(self.path.with_name(name))
            except OSError:
                return f"{name} is not there"
            if now != known[name]:
                return f"{name} was changed: its hash is another"
        return None


def sizes_text(shapes: Mapping[str, tuple[int, ...]]) -> str:
    """``x=(1, 3, 224, 224), mask=(1, 7)``."""
    return ", ".join(f"{name}={tuple(shape)}" for name, shape in shapes.items())


def stored_file(path: Path) -> StoredFile:
    """Length and hash of a file. Raises OSError."""
    digest, size = hashlib.sha256(), 0
    with open(path, "rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
            size += len(piece)
    return StoredFile(path.name, size, digest.hexdigest())


def write(manifest: Manifest, path: Path) -> None:
    """Write a manifest whole or not at all. Raises OSError."""
    files.replace(path, codec.seal(manifest, FORMAT, VERSION).encode())


def read(path: str | os.PathLike[str]) -> Manifest:
    """The manifest in a file, or in the folder of a set. The files that it lists are not looked at.

    Raises:
        ContractError: There is none, it is torn, of a newer version, or names files that it does not list.
        OSError: It can't be read.
    """
    file = Path(path)
    if file.is_dir():
        file = file / NAME
    try:
        content = files.read(file, codec.MAX_SIZE)
    except FileNotFoundError:
        raise ContractError(_absent(file)) from None
    except files.NotRead as err:
        raise ContractError(f"{file.name}: {err}") from None
    try:
        manifest = codec.unseal(content.decode(), Manifest, FORMAT, VERSION, "manifest")
    except UnicodeDecodeError:
        raise ContractError(f"{file.name}: not a readable manifest: it is not UTF-8 text") from None
    except ContractError as err:
        raise ContractError(f"{file.name}: {err}") from None
    wrong = _contradiction(manifest)
    if wrong:
        raise ContractError(f"{file.name}: not a readable manifest: {wrong}")
    object.__setattr__(manifest, "folder", file.absolute().parent)
    return manifest


def _absent(file: Path) -> str:
    if file.name == NAME and (file.parent / UNFINISHED).exists():
        return (
            f"there is no {NAME} yet: the export was interrupted; run guarddiff.export_variants again, and it goes on"
        )
    return f"there is no manifest {file}: export the set with guarddiff.export_variants"


def _contradiction(manifest: Manifest) -> str | None:
    names = [stored.name for stored in manifest.files]
    for name in names:
        if not name or name.startswith(".") or _FORBIDDEN & set(name):
            return f"{ascii(name)} is no name of a file in its folder"
    if len(set(names)) < len(names):
        return "a file is listed twice"
    for variant in manifest.variants:
        for name in variant.files:
            if name not in names:
                return f"{ascii(name)} is not among its files"
    shapes = [tuple(sorted(variant.inputs.items())) for variant in manifest.variants]
    return "two variants have the same size" if len(set(shapes)) < len(shapes) else None
