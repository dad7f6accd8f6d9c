"""The zoo of models: names without the packages, and a few models with them."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves

from guarddiff.sweep import models, sources
from guarddiff.sweep.case import Case

FEW = (
    "models/torchvision/squeezenet1_1",
    "models/timm/test_vit.dynamic",
    "models/timm/test_efficientnet_gn",
    "models/transformers/bert.types",
    "models/transformers/llama.cached",
    "models/transformers/t5",
    "models/transformers/segformer",
    "models/transformers/wav2vec2.masked",
    "models/transformers/clip",
)
"""One of each kind of inputs, all quick to make."""


def test_every_package_has_many_models() -> None:
    counted = Counter(key.split("/")[1] for key in models.every())
    assert counted["torchvision"] >= 75
    assert counted["timm"] >= 75
    assert counted["transformers"] >= 40


def test_cases_are_those_of_installed_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "find_spec", lambda package: object() if package == "timm" else None)
    assert {case.family for case in models.cases()} == {"timm"}
    monkeypatch.setattr(models, "find_spec", lambda package: None)
    assert models.cases() == []


def test_case_by_key() -> None:
    case = sources.case("models/torchvision/vgg11")
    assert case == Case("models", "torchvision", "vgg11", models.SECONDS)
    for unknown in ("models/torchvision/vgg12", "models/torchvision", "models/timm/vgg11/x"):
        with pytest.raises(KeyError):
            models.case(unknown)


def test_names_are_listed_without_the_packages() -> None:
    code = (
        "import sys; from guarddiff.sweep import models; models.every(); models.cases();"
        "print([name for name in ('torchvision', 'timm', 'transformers') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_shapes_and_declared_dimensions_agree() -> None:
    """An axis is declared dynamic exactly where some point has another size there."""
    wrong = []
    for key, net in models.every().items():
        example, *others = [net.shapes(point) for point in net.points]
        declared: Any = net.declared()
        dims = list(declared.values()) if isinstance(declared, dict) else list(declared)
        varying = [
            {axis for axis, size in enumerate(shape) if any(other[place][axis] != size for other in others)}
            for place, shape in enumerate(example)
        ]
        if not others or varying != [set(dim or {}) for dim in dims]:
            wrong.append(key)
    assert wrong == []


def test_inputs_are_the_same_at_every_call() -> None:
    state = torch.get_rng_state()
    for key, net in list(models.every().items())[::7]:
        shapes = net.shapes(net.points[-1])
        first, second = tree_leaves(net.at(shapes)), tree_leaves(net.at(shapes))
        assert tuple(tuple(tensor.shape) for tensor in first) == shapes, key
        assert all(torch.equal(one, other) for one, other in zip(first, second)), key
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.torch214
@pytest.mark.parametrize("key", FEW)
def test_model_runs_at_all_its_sizes_and_heeds_its_inputs(key: str) -> None:
    state = torch.get_rng_state()
    trial = sources.trial(sources.case(key))
    assert torch.equal(state, torch.get_rng_state())
    assert not trial.model.training
    for shapes in (trial.shapes, *trial.others):
        for tensor in run(trial, shapes):
            assert torch.isfinite(tensor).all()
    (once, *_), (again, *_) = run(trial, trial.shapes), run(sources.trial(sources.case(key)), trial.shapes)
    assert torch.equal(once, again)
    changed = next(run(trial, trial.shapes, change=True))
    scale = once.abs().max()
    assert once.std() > 1e-3 * scale
    assert (once - changed).abs().max() > 1e-3 * scale


def run(trial: Any, shapes: Any, *, change: bool = False) -> Iterator[torch.Tensor]:
    args, kwargs = trial.at(shapes)
    if change:
        args, kwargs = tuple(altered(one) for one in args), {name: altered(one) for name, one in kwargs.items()}
    with torch.no_grad():
        yield from (leaf for leaf in tree_leaves(trial.model(*args, **kwargs)) if isinstance(leaf, torch.Tensor))


def altered(tensor: torch.Tensor) -> torch.Tensor:
    """Other values that are as good; masks stay."""
    if tensor.is_floating_point():
        return tensor * 0.5 + 0.1
    return tensor.flip(-1) if tensor.max() > 1 else tensor
