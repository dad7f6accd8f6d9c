"""The list of a set of static models, as a file."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import pytest
from tests.contract.variant_sets import make_set

from guarddiff.contract import codec, manifest
from guarddiff.contract.manifest import Manifest
from guarddiff.core.errors import ContractError


@pytest.fixture
def made(tmp_path: Path) -> Manifest:
    return make_set(tmp_path, (1, 2), (1, 3))


def test_read_back_from_file_and_from_folder(made: Manifest) -> None:
    assert made.folder is not None
    for path in (made.path, made.folder, str(made.folder)):
        found = manifest.read(path)
        assert found == made and found.folder == made.folder
    assert found.sizes == ({"x": (1, 2, 512)}, {"x": (1, 3, 512)})
    assert found.missing() is None
    assert found.changed(stored.name for stored in found.files) is None


@pytest.mark.parametrize("cut", [2, 100, 1500])
def test_torn(made: Manifest, cut: int) -> None:
    made.path.write_bytes(made.path.read_bytes()[:-cut])
    with pytest.raises(ContractError, match=r"variants\.json: not a readable manifest: not valid JSON, perhaps torn"):
        manifest.read(made.path)


def test_changed_by_hand(made: Manifest) -> None:
    made.path.write_text(made.path.read_text().replace("m-1x2x512.onnx", "m-1x3x512.onnx"))
    with pytest.raises(ContractError, match="the manifest is torn or was changed: its checksum does not match"):
        manifest.read(made.path)


def test_of_a_newer_version(made: Manifest) -> None:
    made.path.write_text(codec.seal(made, manifest.FORMAT, 2))
    with pytest.raises(ContractError, match="the manifest has version 2 and comes from a newer guarddiff"):
        manifest.read(made.path)


def test_another_file(made: Manifest) -> None:
    for content, told in (
        (json.dumps({"a": 1}).encode(), 'not a guarddiff manifest: it has no "format": "guarddiff-variants"'),
        (b"\xff\xfe", "it is not UTF-8 text"),
    ):
        made.path.write_bytes(content)
        with pytest.raises(ContractError, match=told):
            manifest.read(made.path)


def test_none_there(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match=r"there is no manifest .*variants\.json: export the set"):
        manifest.read(tmp_path)
    (tmp_path / manifest.UNFINISHED).write_text("{}")
    with pytest.raises(ContractError, match="the export was interrupted; run guarddiff.export_variants again"):
        manifest.read(tmp_path)


def test_what_is_no_plain_file_or_too_long(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match="not read: it is no plain file"):
        manifest.read(os.devnull)
    with open(tmp_path / "variants.json", "wb") as file:
        file.truncate(17 * 1024**2)
    with pytest.raises(ContractError, match="longer than the limit of 16 MB"):
        manifest.read(tmp_path)


def test_names_that_lead_elsewhere_and_contradictions(made: Manifest) -> None:
    first, *others = made.files
    for wrong, told in (
        ({"files": (dataclasses.replace(first, name="../m.onnx"), *others)}, "is no name of a file in its folder"),
        ({"files": (*made.files, first)}, "a file is listed twice"),
        ({"files": tuple(others)}, "'m-1x2x512.contract.json' is not among its files"),
        ({"variants": (made.variants[0], made.variants[0])}, "two variants have the same size"),
    ):
        manifest.write(dataclasses.replace(made, **wrong), made.path)
        with pytest.raises(ContractError, match=told):
            manifest.read(made.path)


def test_missing_and_changed_files(made: Manifest) -> None:
    weights = made.path.with_name(made.variants[0].weights[0])
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + b"\x01")
    assert made.missing() is None
    assert made.changed([weights.name]) == f"{weights.name} was changed: its hash is another"
    weights.write_bytes(content[:-1])
    assert made.missing() == f"{weights.name} has 2,047 bytes and should have 2,048"
    weights.unlink()
    assert made.missing() == f"{weights.name} is not there"
    assert made.changed([weights.name]) == f"{weights.name} is not there"


def test_a_manifest_without_folder_has_no_path() -> None:
    with pytest.raises(ContractError, match="has no folder"):
        _ = Manifest("M").path
