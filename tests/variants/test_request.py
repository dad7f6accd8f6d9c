"""The hash by which a finished variant is known again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.variants.nets import Tagged, example, net
from torch import nn

from guarddiff.variants import request
from guarddiff.variants.examples import examples

SOURCE = Path(__file__).resolve().parents[2] / "src"


def keys(model: nn.Module | None = None, given: Any = None, told: Any = None, **keywords: Any) -> list[str]:
    points = examples(model or net(), example() if given is None else given, None, [(1, 3, 12, 12)], None, None)
    return request.keys(model or net(), points, keywords, told or {})


def test_equal_models_have_equal_hashes_and_values_of_inputs_do_not_count() -> None:
    torch.manual_seed(1)
    assert keys() == keys() == keys(given=torch.zeros(1, 3, 12, 12))


def edited(change: Callable[[nn.Module], Any]) -> nn.Module:
    model = net()
    with torch.no_grad():
        change(model)
    return model


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m[0].weight[0, 0, 0].add_(1),
        lambda m: m[1].running_mean.add_(1),
        lambda m: m.train(),
        lambda m: setattr(m[3], "output_size", (2, 3)),
        lambda m: m.add_module("6", nn.ReLU()),
        lambda m: m.half(),
        lambda m: m.register_buffer("more", torch.zeros(1), persistent=False),
        lambda m: setattr(m, "mask", torch.ones(2)),
    ],
)
def test_another_model_has_another_hash(change: Callable[[nn.Module], Any]) -> None:
    assert request.fingerprint(edited(change)) != request.fingerprint(net())


def test_settings_and_source_count() -> None:
    torch.manual_seed(0)
    one = Tagged(2.0)
    torch.manual_seed(0)
    assert request.fingerprint(one) == request.fingerprint(one)
    other = Tagged(3.0)
    other.load_state_dict(one.state_dict())
    assert request.fingerprint(one) != request.fingerprint(other)


def test_arguments_told_dtypes_and_versions_count(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = keys()
    assert keys(opset_version=18) != plain
    assert keys(told={"settings": {"a": 1}}) != plain
    assert keys(given=example().double()) != plain
    monkeypatch.setattr(request.probe, "versions", lambda: {"torch": "9"})
    assert keys() != plain


MIXED = "[{'b': {3, 1, 'x', 'y', None}, 'a': (1.5, None, torch.float16)}, object(), len, torch.relu, torch.ones(2)]"


def test_texts_are_equal_in_every_process() -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import torch\nfrom guarddiff.variants.request import plain\nprint(plain({MIXED}))"],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == request.plain(eval(MIXED))


def test_tensors_of_every_kind_have_a_text() -> None:
    tensors = [
        torch.tensor(1.5),
        torch.zeros(0, 3),
        torch.ones(2, 3).t(),
        torch.ones(2, dtype=torch.bfloat16),
        torch.ones(2, dtype=torch.complex64).conj(),
        torch.tensor([True, False]),
        torch.zeros(2, device="meta"),
        torch.eye(2).to_sparse(),
    ]
    assert len({request.plain(tensor) for tensor in tensors}) == len(tensors)


def test_what_has_no_text_counts_by_its_class() -> None:
    class Bad:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    assert request.plain(Bad()).endswith("Bad")
