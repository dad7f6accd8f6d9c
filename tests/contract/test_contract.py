from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from guarddiff.contract.contract import Condition, Contract
from guarddiff.core.dims import Declared, Dimension, InputSpec
from guarddiff.core.domain import Admitted, SizeRange

ANY = SizeRange()


def dim(name: str, axis: int, example: int, size: str = "", sizes: SizeRange = ANY, **more: Any) -> Dimension:
    source, label = name.split(".")
    return Dimension(source, axis, label, size or label, example, Declared(sizes), **more)


RANGE = Admitted("224–255", ((224, 255),), known=True, whole=False)
HEIGHT = dim("images.h", 2, 224, admitted=RANGE)
WIDTH = dim("images.w", 3, 224, sizes=SizeRange(32, 512))
VGG = Contract(
    inputs=(
        InputSpec("images", "float32", ("n", 3, "h", "w"), (dim("images.n", 0, 1), HEIGHT, WIDTH)),
        InputSpec("labels", "int64", ("n",), (dim("labels.n", 0, 1),)),
    ),
    conditions=(
        Condition(("h // 32 == 7",), "avgpool at models/vgg.py:66", (HEIGHT,), "confirmed"),
        Condition(("h == w",), "cat at models/vgg.py:70", (), "unconfirmed"),
    ),
)


def images(*shape: int) -> np.ndarray[Any, Any]:
    return np.zeros(shape, np.float32)


def told(feeds: dict[str, Any]) -> list[str]:
    return [str(broken) for broken in VGG.check(feeds)]


LABELS = np.zeros((2,), np.int64)


def test_what_it_admits() -> None:
    assert told({"images": images(2, 3, 255, 255), "labels": LABELS}) == []
    assert VGG.admits({"images": (7, 3, 224, 224), "labels": (7,)})


@pytest.mark.parametrize(
    ("feeds", "expected"),
    [
        (
            {"images": images(2, 3, 256, 256), "labels": LABELS},
            ["images[2]=256: this model is right only for 224–255, because of avgpool at models/vgg.py:66"],
        ),
        (
            {"images": images(2, 3, 230, 231), "labels": LABELS},
            ["images[2]=230, images[3]=231: this model is right only where h == w, because of cat at models/vgg.py:70"],
        ),
        (
            {"images": images(3, 3, 224, 224), "labels": LABELS},
            ["labels[0]=2: has to be equal to images[0]=3: both are n"],
        ),
        ({"images": images(2, 4, 224, 224), "labels": LABELS}, ["images[1]=4: this size is fixed to 3 in the model"]),
        ({"images": images(2, 3, 224), "labels": LABELS}, ["images: its rank is 3, and the model takes 4"]),
        (
            {"images": images(2, 3, 224, 224).astype(np.float64), "labels": LABELS},
            ["images: its dtype is float64, and the model takes float32"],
        ),
        ({"images": images(2, 3, 224, 224)}, ["labels: this input is missing"]),
        (
            {"image": images(2, 3, 224, 224), "labels": LABELS},
            ["image: the model has no such input; it has images, labels", "images: this input is missing"],
        ),
        ({"images": "a text", "labels": LABELS}, ["images: a str has no shape that could be checked"]),
        (
            {"images": (2, 3, 600, 600), "labels": (2,)},
            [
                "images[3]=600: declared as 32–512",
                "images[2]=600: this model is right only for 224–255, because of avgpool at models/vgg.py:66",
            ],
        ),
    ],
)
def test_every_broken_condition_is_named(feeds: dict[str, Any], expected: list[str]) -> None:
    assert told(feeds) == expected
    assert not VGG.admits(feeds)


def test_tensors_and_lists_are_looked_at_too() -> None:
    assert told({"images": torch.zeros(2, 3, 224, 224), "labels": torch.zeros(2, dtype=torch.int64)}) == []
    assert told({"images": torch.zeros(2, 3, 224, 224), "labels": [1, 2]}) == []
    assert told({"images": torch.zeros(2, 3, 224, 224), "labels": torch.zeros(2)}) == [
        "labels: its dtype is float32, and the model takes int64"
    ]


def test_a_size_that_is_made_of_others() -> None:
    inputs = (
        InputSpec("x", "float32", ("n",), (dim("x.n", 0, 4),)),
        InputSpec("y", "float32", ("2*n",), (dim("y.m", 0, 8, "2*n"),)),
    )
    contract = Contract(inputs)
    assert contract.admits({"x": (3,), "y": (6,)})
    assert [str(b) for b in contract.check({"x": (3,), "y": (7,)})] == ["x[0]=3, y[0]=7: these sizes don't go together"]


def test_what_can_not_be_decided_is_broken() -> None:
    inputs = (InputSpec("x", "float32", ("n",), (dim("x.n", 0, 4),)),)
    contract = Contract(inputs, (Condition(("8 % (n - 4) == 0",), "view at a.py:1"),))
    (broken,) = contract.check({"x": (4,)})
    assert str(broken) == "x[0]=4: can't be decided from the guard 8 % (n - 4) == 0, because of view at a.py:1"
    assert contract.admits({"x": (6,)})
