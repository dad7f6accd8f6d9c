"""The text of a reproduction."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest

from guarddiff.replay.script import Given, Sketch, TensorLeaf, render

POOL = ast.parse("class Model(torch.nn.Module):\n    def forward(self, x):\n        return F.avg_pool2d(x, 2)")
IMAGE = TensorLeaf("torch.randn({sizes})", ((1, 2, 6, 6), (1, 2, 12, 6)), {2: '"h"'})


def sketch(*given: Given, **more: object) -> Sketch:
    imports = {"F": "import torch.nn.functional as F", "math": "import math"}
    return replace(Sketch(POOL, imports, given or (Given("x", IMAGE),), "operator"), **more)


def test_one_tensor_in_and_out_needs_no_flattening() -> None:
    text = render(sketch(plain=True, heading="what it shows"))
    assert text.splitlines()[0] == "# what it shows"
    assert "example = (torch.randn(1, 2, 6, 6),)\nother = (torch.randn(1, 2, 12, 6),)\n" in text
    assert 'torch.onnx.export(model, example, dynamic_shapes=({2: "h"},), dynamo=True, verbose=False)' in text
    assert "tensors(" not in text
    assert "want = [model(*args).detach().numpy()]" in text
    ast.parse(text)


def test_only_what_is_used_is_imported() -> None:
    imports = [line for line in render(sketch()).splitlines() if line.startswith(("import", "from"))]
    assert imports == [
        "import numpy as np",
        "import onnxruntime",
        "import torch",
        "import torch.nn.functional as F",
    ]


def test_nested_and_keyword_arguments() -> None:
    pair = Given("pair", (IMAGE, IMAGE))
    flag = Given("scale", "None", keyword=True)
    text = render(sketch(pair, flag))
    assert 'example = (((torch.randn(1, 2, 6, 6), torch.randn(1, 2, 6, 6)),), {"scale": None})' in text
    assert "torch.onnx.export(model, example[0], kwargs=example[1]," in text
    assert 'dynamic_shapes={"pair": ({2: "h"}, {2: "h"}), "scale": None}' in text
    assert "tensors(model(*args[0], **args[1]))" in text
    ast.parse(text)


def test_declaration_word_for_word_and_training_mode() -> None:
    text = render(sketch(declaration="dynamic_axes={'x': {-1: 'w'}}", training=True, keywords="opset_version=18"))
    assert ", example, dynamic_axes={'x': {-1: 'w'}}, opset_version=18, dynamo=True" in text
    assert "model = Model()\n" in text
    assert "model = Model().eval()\n" in render(sketch())


def test_every_run_of_a_module_that_keeps_something_gets_a_copy() -> None:
    code = "class Model(torch.nn.Module):\n    def forward(self, x):\n        self.seen = x\n        return x"
    body = ast.parse(code)
    for text in (render(sketch(definitions=body)), render(sketch(training=True))):
        assert "import copy\n" in text
        assert "torch.onnx.export(copy.deepcopy(model), example" in text
        assert "tensors(copy.deepcopy(model)(*args))" in text
    assert "copy" not in render(sketch())


def test_float16_is_compared_less_strictly() -> None:
    assert "np.allclose(g, w, 1e-3, 1e-4" in render(sketch())
    assert "np.allclose(g, w, 2e-2, 2e-3" in render(sketch(half=True))


def test_without_blank_lines_it_is_the_same_program() -> None:
    with_blank, without = render(sketch()), render(sketch(), blank=False)
    assert "" not in without.splitlines()
    assert ast.dump(ast.parse(with_blank)) == ast.dump(ast.parse(without))


@pytest.mark.parametrize(
    ("make", "shape", "text"),
    [
        ("torch.randn({sizes})", (2, 3), "torch.randn(2, 3)"),
        ("torch.randn({sizes})", (), "torch.randn(())"),
        ("torch.randint(0, 9, {shape})", (4,), "torch.randint(0, 9, (4,))"),
        ("torch.arange({last}).expand({shape})", (2, 5), "torch.arange(5).expand((2, 5))"),
    ],
)
def test_shapes_in_text(make: str, shape: tuple[int, ...], text: str) -> None:
    assert TensorLeaf(make, (shape, shape)).text(0) == text
