from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.contract.exports import exported

import guarddiff

Say = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = exported(tmp_path_factory.mktemp("model"))
    guarddiff.embed_contract(made.path, made.report, settings={"size": [2, 3]})
    return made.path


def test_it_is_shown(say: Say, model: Path) -> None:
    code, out, err = say("contract", str(model))
    assert (code, err) == (0, "")
    assert out.startswith("contract of Pooled (SHA-256 ")
    assert "  images: float32[batch, 3, height, width]\n" in out
    assert "    images[2] (height): declared any size, admitted exactly 6\n" in out
    assert "because of adaptive_avg_pool2d at tests/contract/exports.py:" in out
    assert "(confirmed)" in out and "  settings: size = [2, 3]\n" in out


def test_shapes_are_admitted_or_not(say: Say, model: Path) -> None:
    assert say("contract", str(model), "--shape", "images=8,3,6,6") == (0, "admitted\n", "")
    code, out, _ = say("contract", str(model), "--shape", "images=8,3,6,7")
    assert code == 1
    assert out.startswith("images[3]=7: this model is right only for exactly 6, because of ")
    assert say("contract", str(model), "--shape", "images=")[0] == 1


@pytest.mark.parametrize(
    "shape",
    ["images", "=1,2", "images=1,,2", "images=-1", f"images={'9' * 5000},3,6,6", "images=1,3,6,\u0666", "images=²"],
)
def test_wrong_shapes(say: Say, model: Path, shape: str) -> None:
    code, out, err = say("contract", str(model), "--shape", shape)
    assert (code, out) == (2, "")
    assert err.startswith("guarddiff: --shape ") and "write NAME=N,N,…" in err


def test_one_shape_for_each_input(say: Say, model: Path) -> None:
    code, out, err = say("contract", str(model), "--shape", "images=8,3,6,7", "--shape", "images=8,3,6,6")
    assert (code, out, err) == (2, "", "guarddiff: --shape gives images twice: one shape for each input\n")


def test_what_can_not_be_read(say: Say, model: Path, tmp_path: Path) -> None:
    for name in ("nowhere.onnx", "nowhere.contract.json"):
        path = tmp_path / name
        assert say("contract", str(path)) == (2, "", f"guarddiff: '{path}': there is no such file\n")
    assert say("contract", str(tmp_path)) == (2, "", f"guarddiff: '{tmp_path}': can't be read: Is a directory\n")
    torn = tmp_path / "torn.onnx"
    torn.write_bytes(model.read_bytes()[:-30])
    code, _, err = say("contract", str(torn))
    assert code == 2 and "not a readable ONNX model" in err
    alone = tmp_path / "alone.contract.json"
    alone.write_bytes(model.with_name("model.contract.json").read_bytes())
    assert say("contract", str(alone))[0] == 2
    assert say("contract", str(alone), "--trust")[0] == 0


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
@pytest.mark.parametrize("name", ["pipe.onnx", "pipe.contract.json"])
def test_what_has_no_end_is_not_read(say: Say, tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    code, _, err = say("contract", str(tmp_path / name))
    assert (code, err) == (2, f"guarddiff: '{name}': not read: it is no plain file\n")


@pytest.mark.parametrize(("name", "limit"), [("huge.onnx", "2,048 MB"), ("huge.contract.json", "16 MB")])
def test_what_is_too_long_is_not_read(say: Say, tmp_path: Path, name: str, limit: str) -> None:
    with open(tmp_path / name, "wb") as file:
        file.truncate(5 * 1024**3)  # sparse: takes no place
    code, _, err = say("contract", str(tmp_path / name))
    assert (code, err) == (2, f"guarddiff: '{name}': not read: longer than the limit of {limit}\n")
