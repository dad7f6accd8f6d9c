"""The tables that are kept between exports: each export has its own copy, for the operators that it asks for."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import torch
from guarddiff.torch_bridge import workbench
workbench.prepare()
from torch.onnx._internal.exporter import _decomp, _registration

one = _registration.ONNXRegistry.from_torchlib(opset_version=18)
two = _registration.ONNXRegistry.from_torchlib(opset_version=18)
target = torch.ops.aten.relu.default
known = len(two.get_decomps(target))
one.register_op(target, lambda x: x, is_complex=False)
assert len(two.get_decomps(target)) == known, "one export's translation is in another's registry"
assert len(_registration.ONNXRegistry.from_torchlib(opset_version=18).get_decomps(target)) == known
assert set(one.functions) == set(two.functions)

pool = torch.ops.aten._adaptive_avg_pool2d.default
all_of_them = _decomp.create_onnx_friendly_decomposition_table(set())
but_one = _decomp.create_onnx_friendly_decomposition_table({pool})
assert pool in all_of_them and pool not in but_one, "an operator that is to stay whole is decomposed"
again = _decomp.create_onnx_friendly_decomposition_table(set())
again.clear()
assert _decomp.create_onnx_friendly_decomposition_table(set()) == all_of_them, "a table was changed by its user"
print("all as it should be")
"""


def test_tables_are_kept_and_not_shared() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "all as it should be", done.stderr[-2000:]
