from __future__ import annotations

import json
import os
from pathlib import Path

import onnx
import onnxruntime
import pytest
from tests.contract.exports import Exported

import guarddiff
from guarddiff.contract import embed
from guarddiff.core.errors import ContractError

SHAPE = {"images": (1, 3, 6, 6)}


def metadata(path: Path) -> dict[str, str]:
    model = onnx.load(path, load_external_data=False)
    return {prop.key: prop.value for prop in model.metadata_props}


def test_there_and_back(pooled: Exported, tmp_path: Path) -> None:
    path = pooled.copied_to(tmp_path)
    before = metadata(path)
    written = guarddiff.embed_contract(path, pooled.report, settings={"size": [2, 3]}, preprocessing={"resize": 6})
    assert written.admits(SHAPE) and written.settings == {"size": [2, 3]} and written.preprocessing == {"resize": 6}
    assert guarddiff.read_contract(path) == written
    assert guarddiff.read_contract(tmp_path / "model.contract.json") == written
    assert {key: value for key, value in metadata(path).items() if key != embed.KEY} == before
    onnx.checker.check_model(path)
    onnxruntime.InferenceSession(path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model.contract.json", "model.onnx", "model.onnx.data"]


def test_the_report_may_be_the_newest_one_or_a_file(pooled: Exported, tmp_path: Path) -> None:
    path = pooled.copied_to(tmp_path)
    file = pooled.report.write(tmp_path / "reports", ["json"])[0]
    from_file = guarddiff.embed_contract(path, file)
    assert from_file == guarddiff.embed_contract(path, pooled.report)


def test_a_link_stays_a_link(pooled: Exported, tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    path = pooled.copied_to(tmp_path / "store")
    link = path.with_name("link.onnx")
    link.symlink_to(path.name)
    written = guarddiff.embed_contract(link, pooled.report)
    assert link.is_symlink()
    assert guarddiff.read_contract(path) == guarddiff.read_contract(link) == written


def test_twice_gives_the_same(pooled: Exported, tmp_path: Path) -> None:
    path = pooled.copied_to(tmp_path)
    first = guarddiff.embed_contract(path, pooled.report, mark_nodes=True)
    content = path.read_bytes()
    assert guarddiff.embed_contract(path, pooled.report, mark_nodes=True) == first
    assert path.read_bytes() == content


def test_nodes_that_carry_a_size_are_marked(pooled: Exported, tmp_path: Path) -> None:
    path = pooled.copied_to(tmp_path)
    names = {node.name for finding in pooled.report.findings for node in finding.onnx_nodes}
    assert names
    guarddiff.embed_contract(path, pooled.report, mark_nodes=True)
    marked = {
        node.name: prop.value
        for node in onnx.load(path, load_external_data=False).graph.node
        for prop in node.metadata_props
        if prop.key == embed.NODE_KEY
    }
    assert marked.keys() == names
    assert all(text.startswith("confirmed: ") and "images[2]: exactly 6" in text for text in marked.values())
    guarddiff.embed_contract(path, pooled.report)
    assert embed.NODE_KEY.encode() not in path.read_bytes()


def test_a_changed_model_is_refused(pooled: Exported, tmp_path: Path) -> None:
    path = pooled.copied_to(tmp_path)
    guarddiff.embed_contract(path, pooled.report)
    model = onnx.load(path, load_external_data=False)
    model.graph.node[0].attribute.append(onnx.helper.make_attribute("extra", 1))
    path.write_bytes(model.SerializeToString())
    for file in (path, tmp_path / "model.contract.json"):
        with pytest.raises(ContractError, match="does not match the model"):
            guarddiff.read_contract(file)
        assert guarddiff.read_contract(file, trust=True).admits(SHAPE)


def test_changed_weights_are_refused(pooled: Exported, tmp_path: Path) -> None:
    path = pooled.copied_to(tmp_path)
    guarddiff.embed_contract(path, pooled.report)
    weights = tmp_path / "model.onnx.data"
    content = bytearray(weights.read_bytes())
    content[5] ^= 1
    weights.write_bytes(content)
    with pytest.raises(ContractError, match="does not match the model"):
        guarddiff.read_contract(path)
    weights.write_bytes(content[:8])
    with pytest.raises(ContractError, match="are torn"):
        guarddiff.read_contract(path)


def test_bytes_without_weights_of_their_own(pooled: Exported, tmp_path: Path) -> None:
    path = pooled.copied_to(tmp_path)
    guarddiff.embed_contract(path, pooled.report)
    with pytest.raises(ContractError, match="give its path, not its bytes"):
        guarddiff.read_contract(path.read_bytes())
    inline = tmp_path / "inline.onnx"
    onnx.save(onnx.load(path), inline)
    written = guarddiff.embed_contract(inline, pooled.report)
    assert guarddiff.read_contract(inline.read_bytes()) == written


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[:-40], "torn"),
        (lambda text: text.replace('"version": 1', '"version": 2', 1), "comes from a newer guarddiff"),
        (lambda text: text.replace("guarddiff-contract", "something-else", 1), "not a guarddiff contract"),
        (lambda text: text.replace('"float32"', '"float64"'), "its checksum does not match"),
        (lambda text: text.replace('"model": "Pooled"', '"model": "Other"'), "its checksum does not match"),
        (lambda text: "[]", "not a guarddiff contract"),
        (lambda text: text.replace('"version": 1', '"version": "x"', 1), "its version is"),
    ],
)
def test_a_contract_that_can_not_be_trusted(pooled: Exported, tmp_path: Path, change: object, message: str) -> None:
    path = pooled.copied_to(tmp_path)
    guarddiff.embed_contract(path, pooled.report)
    file = tmp_path / "model.contract.json"
    text = file.read_text()
    changed = change(text)  # type: ignore[operator]
    file.write_text(changed)
    assert changed != text
    with pytest.raises(ContractError, match=message):
        guarddiff.read_contract(file)


def test_fields_are_read_by_their_types(pooled: Exported, tmp_path: Path) -> None:
    path = pooled.copied_to(tmp_path)
    guarddiff.embed_contract(path, pooled.report)
    file = tmp_path / "model.contract.json"
    body = json.loads(file.read_text())
    body["inputs"] = "all"
    kept = {key: value for key, value in body.items() if key not in ("format", "version", "checksum")}
    body["checksum"] = embed.codec._checksum(kept)
    file.write_text(json.dumps(body))
    with pytest.raises(ContractError, match=r"contract\.inputs is 'all', expected a list"):
        guarddiff.read_contract(file)


def test_what_has_no_contract(pooled: Exported, tmp_path: Path) -> None:
    path = pooled.copied_to(tmp_path)
    with pytest.raises(ContractError, match=r"has no contract: write one with guarddiff\.embed_contract"):
        guarddiff.read_contract(path)
    (tmp_path / "torn.onnx").write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ContractError, match="not a readable ONNX model"):
        guarddiff.embed_contract(tmp_path / "torn.onnx", pooled.report)
    (tmp_path / "empty.onnx").write_bytes(b"")
    with pytest.raises(ContractError, match="it has no graph"):
        guarddiff.embed_contract(tmp_path / "empty.onnx", pooled.report)
    with pytest.raises(FileNotFoundError):
        guarddiff.read_contract(tmp_path / "nowhere.onnx")
    (tmp_path / "alone.contract.json").write_text(embed.codec.dumps(embed.contract_of(pooled.report)))
    with pytest.raises(ContractError, match=r"its model alone\.onnx is not beside it"):
        guarddiff.read_contract(tmp_path / "alone.contract.json")


def test_text_that_is_not_utf_8(pooled: Exported, tmp_path: Path) -> None:
    path = pooled.copied_to(tmp_path)
    guarddiff.embed_contract(path, pooled.report)
    model = onnx.load(path, load_external_data=False)
    for holder in (model, model.graph.node[0]):
        prop = holder.metadata_props.add()
        prop.key = prop.value = "guarded"
        path.write_bytes(model.SerializeToString().replace(b"guarded", b"g\xffarded"))
        for read in (guarddiff.read_contract, guarddiff.CheckedSession):
            with pytest.raises(ContractError, match="text that is not UTF-8"):
                read(path)
        with pytest.raises(ContractError, match="text that is not UTF-8"):
            guarddiff.embed_contract(path, pooled.report)
        del holder.metadata_props[-1]


def test_weights_outside_the_folder_are_not_read(pooled: Exported, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    path = pooled.copied_to(tmp_path / "model")
    (tmp_path / "secret").write_bytes(b"x" * 4096)
    model = onnx.load(path, load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            entry.value = "../secret" if entry.key == "location" else entry.value
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ContractError, match="outside the folder of the model"):
        guarddiff.embed_contract(path, pooled.report)


def test_a_failed_write_leaves_the_file_as_it_was(
    pooled: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = pooled.copied_to(tmp_path)
    content = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        guarddiff.embed_contract(path, pooled.report)
    assert path.read_bytes() == content
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model.onnx", "model.onnx.data"]


@pytest.mark.parametrize(
    "entries",
    [
        {"location": "w", "offset": "abc"},
        {"location": "w", "offset": "-1"},
        {"location": "w", "length": "-5"},
        {"location": "w", "length": ""},
        {"location": "w", "length": "9" * 5000},
        {"location": "loop"},
        {"location": "pipe"},
        {"location": "w\0"},
        {},
    ],
)
def test_hostile_places_of_weights_are_told_and_never_waited_for(tmp_path: Path, entries: dict[str, str]) -> None:
    (tmp_path / "w").write_bytes(b"1234")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    tensor = onnx.TensorProto(name="w", data_type=1, dims=[1], data_location=onnx.TensorProto.EXTERNAL)
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    model = onnx.ModelProto(graph=onnx.GraphProto(initializer=[tensor]))
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ContractError):
        embed.fingerprint(tmp_path / "model.onnx")
