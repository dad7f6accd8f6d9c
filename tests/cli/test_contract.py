from __future__ import annotations

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


@pytest.mark.parametrize("shape", ["images", "=1,2", "images=1,,2", "images=-1"])
def test_wrong_shapes(say: Say, model: Path, shape: str) -> None:
    code, out, err = say("contract", str(model), "--shape", shape)
    assert (code, out) == (2, "")
    assert "write NAME=N,N,…" in err


def test_what_can_not_be_read(say: Say, model: Path, tmp_path: Path) -> None:
    code, _, err = say("contract", str(tmp_path / "nowhere.onnx"))
    assert code == 2 and "No such file" in err
    torn = tmp_path / "torn.onnx"
    torn.write_bytes(model.read_bytes()[:-30])
    code, _, err = say("contract", str(torn))
    assert code == 2 and "not a readable ONNX model" in err
    alone = tmp_path / "alone.contract.json"
    alone.write_bytes(model.with_name("model.contract.json").read_bytes())
    assert say("contract", str(alone))[0] == 2
    assert say("contract", str(alone), "--trust")[0] == 0
