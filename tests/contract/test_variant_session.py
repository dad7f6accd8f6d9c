"""A set of static models that runs as one."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from tests.contract.variant_sets import make_set

import guarddiff
from guarddiff.contract import manifest, variant_session
from guarddiff.contract.manifest import Manifest

SOURCE = Path(__file__).resolve().parents[2] / "src"


@pytest.fixture
def made(tmp_path: Path) -> Manifest:
    return make_set(tmp_path, (1, 2), (1, 3), (4, 4))


def x(*shape: int, dtype: Any = np.float32) -> dict[str, Any]:
    return {"x": np.zeros((*shape, 512), dtype)}


def test_each_size_runs_with_its_model(made: Manifest) -> None:
    session = guarddiff.VariantSession(made.path)
    assert session.sizes == made.sizes and session.manifest == made
    for shape in ((1, 2), (4, 4), (1, 3), (1, 2)):
        (got,) = session.run(None, x(*shape))
        assert got.shape == (*shape, 512) and (got == 1).all()
    (named,) = session.run(["y"], x(1, 2))
    assert named.shape == (1, 2, 512)
    with pytest.raises(Exception, match="z"):
        session.run(["z"], x(1, 2))


def test_a_size_that_is_not_there_is_refused_with_those_that_are(made: Manifest) -> None:
    session = guarddiff.VariantSession(made)
    with pytest.raises(guarddiff.ContractViolation) as caught:
        session.run(None, x(1, 4))
    assert str(caught.value) == (
        "x=(1, 4, 512): there is no model of this size; supported are x=(1, 2, 512); x=(1, 3, 512); x=(4, 4, 512)"
    )
    assert caught.value.broken == (str(caught.value),)
    assert session.loaded == ()


def test_long_lists_are_cut(tmp_path: Path) -> None:
    session = guarddiff.VariantSession(make_set(tmp_path, *((n, 1) for n in range(1, 24))))
    with pytest.raises(guarddiff.ContractViolation, match=r"x=\(20, 1, 512\); and 3 more$"):
        session.run(None, x(1, 4))


def test_other_names_and_dtypes_are_refused(made: Manifest) -> None:
    session = guarddiff.VariantSession(made)
    with pytest.raises(guarddiff.ContractViolation, match="x: this input is missing; z: the models have no such input"):
        session.run(None, {"z": x(1, 2)["x"]})
    with pytest.raises(guarddiff.ContractViolation, match="x: its dtype is float64, and the model takes float32"):
        session.run(None, x(1, 2, dtype=np.float64))
    with pytest.raises(guarddiff.ContractViolation, match="x: no tensor"):
        session.run(None, {"x": object()})


def test_ort_values_and_shapes_find_their_model(made: Manifest) -> None:
    session = guarddiff.VariantSession(made)
    value = onnxruntime.OrtValue.ortvalue_from_numpy(x(1, 3)["x"])
    found = session.session_for({"x": value})
    assert found is session.session_for({"x": (1, 3, 512)})
    (got,) = found.run_with_ort_values(None, {"x": value})
    assert (got.numpy() == 1).all()


def test_models_are_loaded_when_they_are_needed_and_at_most_so_many(made: Manifest) -> None:
    session = guarddiff.VariantSession(made, most=2)
    assert session.loaded == ()

    def loaded() -> list[tuple[int, ...]]:
        return [size["x"][:2] for size in session.loaded]

    for shape, expected in (
        ((1, 2), [(1, 2)]),
        ((1, 3), [(1, 2), (1, 3)]),
        ((1, 2), [(1, 3), (1, 2)]),
        ((4, 4), [(1, 2), (4, 4)]),
        ((1, 3), [(4, 4), (1, 3)]),
    ):
        session.run(None, x(*shape))
        assert loaded() == expected
    with pytest.raises(ValueError, match="most is 0"):
        guarddiff.VariantSession(made, most=0)


def test_inputs_and_outputs_are_those_of_the_first(made: Manifest) -> None:
    session = guarddiff.VariantSession(made)
    assert [(value.name, value.shape) for value in session.get_inputs()] == [("x", [1, 2, 512])]
    assert [(value.name, value.shape) for value in session.get_outputs()] == [("y", [1, 2, 512])]
    assert session.get_providers() == ["CPUExecutionProvider"]
    assert [size["x"] for size in session.loaded] == [(1, 2, 512)]


def test_session_options_reach_onnx_runtime(made: Manifest) -> None:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    found = guarddiff.VariantSession(made, session_options=options).session_for(x(1, 2))
    assert found.get_session_options().intra_op_num_threads == 1


def test_threads_that_ask_for_one_size_load_it_once(made: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    class Slow(variant_session.CheckedSession):
        def __init__(self, path: Any, *args: Any, **kwargs: Any) -> None:
            opened.append(Path(path).name)
            time.sleep(0.1)
            super().__init__(path, *args, **kwargs)

    monkeypatch.setattr(variant_session, "CheckedSession", Slow)
    session = guarddiff.VariantSession(made)
    got: list[Any] = []
    shapes = [(1, 2), (1, 2), (1, 3), (1, 2), (1, 3)]
    threads = [threading.Thread(target=lambda s=shape: got.append(session.run(None, x(*s))[0])) for shape in shapes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(opened) == ["m-1x2x512.onnx", "m-1x3x512.onnx"]
    assert sorted(value.shape for value in got) == sorted((*shape, 512) for shape in shapes)


def test_a_load_that_fails_is_tried_again(made: Manifest) -> None:
    session = guarddiff.VariantSession(made)
    file = made.path.with_name("m-1x2x512.onnx")
    content = file.read_bytes()
    file.write_bytes(b"\0" * len(content))
    for _ in range(2):
        with pytest.raises(guarddiff.ContractError, match=r"m-1x2x512\.onnx was changed"):
            session.run(None, x(1, 2))
    file.write_bytes(content)
    assert session.run(None, x(1, 2))[0].shape == (1, 2, 512)


def test_missing_files_are_refused_at_once_and_changed_ones_at_the_first_use(made: Manifest) -> None:
    weights = made.path.with_name(made.variants[0].weights[0])
    content = weights.read_bytes()
    weights.write_bytes(content[:-4] + np.float32(7).tobytes())
    session = guarddiff.VariantSession(made)
    told = f"the manifest does not match its files: {weights.name} was changed: its hash is another"
    with pytest.raises(guarddiff.ContractError, match=told):
        session.run(None, x(1, 2))
    trusting = guarddiff.VariantSession(made, trust=True)
    assert trusting.run(None, x(1, 2))[0][0, 0, -1] == 7
    weights.unlink()
    with pytest.raises(guarddiff.ContractError, match=f"the manifest does not match its files: {weights.name}"):
        guarddiff.VariantSession(made, trust=True)


def test_files_are_compared_once(made: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    real = manifest.stored_file

    def counted(path: Path) -> manifest.StoredFile:
        read.append(path.name)
        return real(path)

    monkeypatch.setattr(manifest, "stored_file", counted)
    session = guarddiff.VariantSession(made, most=1)
    for shape in ((1, 2), (1, 3), (1, 2)):
        session.run(None, x(*shape))
    assert len(read) == len(set(read)) == 5


def test_an_empty_manifest_is_refused(made: Manifest) -> None:
    with pytest.raises(guarddiff.ContractError, match="lists no variant"):
        guarddiff.VariantSession(Manifest("M", folder=made.folder))


def test_torch_is_not_needed(made: Manifest) -> None:
    code = (
        "import sys, numpy as np, guarddiff\n"
        f"session = guarddiff.VariantSession({str(made.folder)!r})\n"
        "print(session.run(None, {'x': np.zeros((1, 2, 512), 'f')})[0].sum(), 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["1024.0", "False"]
