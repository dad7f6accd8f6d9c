from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from tests.contract.exports import Exported

import guarddiff

RIGHT = np.random.default_rng(0).standard_normal((2, 3, 6, 6)).astype(np.float32)
WRONG = np.zeros((2, 3, 12, 6), np.float32)
MESSAGE = r"images\[2\]=12: this model is right only for exactly 6, because of adaptive_avg_pool2d at "


@pytest.fixture(scope="module")
def path(pooled: Exported, tmp_path_factory: pytest.TempPathFactory) -> Path:
    copied = pooled.copied_to(tmp_path_factory.mktemp("session"))
    guarddiff.embed_contract(copied, pooled.report)
    return copied


@pytest.fixture(scope="module")
def session(path: Path) -> guarddiff.CheckedSession:
    return guarddiff.CheckedSession(path, providers=["CPUExecutionProvider"])


def test_it_is_a_session_with_a_contract(session: guarddiff.CheckedSession, pooled: Exported) -> None:
    assert isinstance(session, onnxruntime.InferenceSession)
    assert [value.name for value in session.get_inputs()] == ["images"]
    with torch.no_grad():
        expected = pooled.model(torch.from_numpy(RIGHT)).numpy()
    for _ in range(2):  # the second time from memory
        np.testing.assert_allclose(session.run(None, {"images": RIGHT})[0], expected, atol=1e-5)


def ort(array: Any) -> Any:
    return onnxruntime.OrtValue.ortvalue_from_numpy(array)


def test_every_way_to_run_refuses(session: guarddiff.CheckedSession) -> None:
    with pytest.raises(guarddiff.ContractViolation, match=MESSAGE) as caught:
        session.run(None, {"images": WRONG})
    assert len(caught.value.broken) == 1
    with pytest.raises(guarddiff.ContractViolation, match=MESSAGE):
        session.run(None, {"images": ort(WRONG)})
    with pytest.raises(guarddiff.ContractViolation, match=MESSAGE):
        session.run_with_ort_values(None, {"images": ort(WRONG)})
    with pytest.raises(guarddiff.ContractViolation, match=MESSAGE):
        session.run_async(None, {"images": WRONG}, lambda *_: None, None)
    with pytest.raises(guarddiff.ContractViolation, match="images: this input is missing"):
        session.run(None, {})
    with pytest.raises(guarddiff.ContractViolation, match="no such input"):
        session.run(None, {"pictures": RIGHT})
    with pytest.raises(guarddiff.ContractViolation, match="its dtype is float64"):
        session.run(None, {"images": RIGHT.astype(np.float64)})


def test_what_is_right_runs_in_every_way(session: guarddiff.CheckedSession) -> None:
    expected = session.run(None, {"images": RIGHT})[0]
    (given,) = session.run_with_ort_values(None, {"images": ort(RIGHT)})
    np.testing.assert_array_equal(given.numpy(), expected)
    np.testing.assert_array_equal(session.run(None, {"images": RIGHT.tolist()})[0], expected)


def test_bindings(session: guarddiff.CheckedSession) -> None:
    expected = session.run(None, {"images": RIGHT})[0]
    name = session.get_outputs()[0].name

    def bound(array: Any, how: str) -> Any:
        binding = session.io_binding()
        if how == "cpu":
            binding.bind_cpu_input("images", array)
        elif how == "ortvalue":
            binding.bind_ortvalue_input("images", ort(array))
        else:
            kind = np.float32 if how == "numpy" else 1
            binding.bind_input("images", "cpu", 0, kind, array.shape, array.ctypes.data)
        binding.bind_output(name)
        return binding

    for how in ("cpu", "ortvalue", "numpy", "onnx"):
        binding = bound(RIGHT, how)
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], expected)
        with pytest.raises(guarddiff.ContractViolation, match=MESSAGE):
            session.run_with_iobinding(bound(WRONG, how))
    with pytest.raises(TypeError, match="its own io_binding"):
        session.run_with_iobinding(onnxruntime.IOBinding(session))


def test_another_byte_order_is_refused_also_after_the_shape_was_admitted(session: guarddiff.CheckedSession) -> None:
    session.run(None, {"images": RIGHT})
    with pytest.raises(guarddiff.ContractViolation, match="its dtype is .f4, and the model takes float32"):
        session.run(None, {"images": RIGHT.astype(RIGHT.dtype.newbyteorder())})


def test_a_bound_array_that_gets_another_shape_counts_as_it_was_bound(session: guarddiff.CheckedSession) -> None:
    array = np.zeros((1, 3, 12, 6), np.float32)
    binding = session.io_binding()
    binding.bind_cpu_input("images", array)
    binding.bind_output(session.get_outputs()[0].name)
    array.shape = (2, 3, 6, 6)
    with pytest.raises(guarddiff.ContractViolation, match=MESSAGE):
        session.run_with_iobinding(binding)


def test_without_a_contract_there_is_no_session(pooled: Exported, path: Path, tmp_path: Path) -> None:
    with pytest.raises(guarddiff.ContractError, match="has no contract"):
        guarddiff.CheckedSession(pooled.path)
    contract = guarddiff.read_contract(path)
    with pytest.raises(guarddiff.ContractViolation, match=MESSAGE):
        guarddiff.CheckedSession(pooled.path, contract=contract).run(None, {"images": WRONG})


def test_torch_is_not_needed(path: Path) -> None:
    program = f"""
import sys, numpy, guarddiff
session = guarddiff.CheckedSession({str(path)!r})
session.run(None, {{"images": numpy.zeros((1, 3, 6, 6), "float32")}})
try:
    session.run(None, {{"images": numpy.zeros((1, 3, 7, 6), "float32")}})
except guarddiff.ContractViolation as error:
    sys.stdout.write(str(error))
sys.exit("torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("images[2]=7: this model is right only for exactly 6")
