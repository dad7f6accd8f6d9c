"""A set of small models that is made without an export: x + 1 for each size, with a bias that all share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from guarddiff.contract import embed, manifest
from guarddiff.contract.manifest import Manifest, Variant
from guarddiff.contract.weights import SharedWeights
from guarddiff.core.dims import InputSpec
from guarddiff.core.report import ReportData

Shape = tuple[int, ...]


def make_set(folder: Path, *shapes: Shape, width: int = 512) -> Manifest:
    """Models of ``x`` with these shapes (and ``width`` more as the last), listed in ``variants.json``."""
    weights, variants, names = SharedWeights(folder), [], set()
    for shape in ((*shape, width) for shape in shapes):
        spec = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "y")]
        bias = numpy_helper.from_array(np.ones(width, np.float32), "bias")
        graph = helper.make_graph([helper.make_node("Add", ["x", "bias"], ["y"])], "add", spec[:1], spec[1:], [bias])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
        shared = weights.share(model, folder)
        file = folder / f"m-{'x'.join(map(str, shape))}.onnx"
        file.write_bytes(model.SerializeToString())
        contract = embed.embed_contract(file, ReportData(model="M", inputs=(InputSpec("x", "float32", shape),)))
        beside = embed.beside(file).name
        variants.append(Variant({"x": shape}, file.name, beside, shared, contract.hash, f"asked {shape}", 0.0))
        names.update(variants[-1].files)
    files = tuple(manifest.stored_file(folder / name) for name in sorted(names))
    found = Manifest("M", tuple(variants), files, {"onnx": "1"}, folder)
    manifest.write(found, found.path)
    return found
