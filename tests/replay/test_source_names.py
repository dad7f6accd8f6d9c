"""Names of a user's code made usable in a script of its own."""

from __future__ import annotations

import ast
import functools
import importlib.util
import logging
import math
import sys
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from guarddiff.replay import python_source
from guarddiff.replay.module_source import Parts
from guarddiff.replay.python_source import Unwritable


def load(name: str) -> ModuleType:
    path = Path(__file__).parent / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


far_away = load("far_away")
enlarged = far_away.enlarged
WINDOW = 4


def written(function: FunctionType, owner: nn.Module | None = None, **free: Any) -> tuple[str, Parts]:
    """The script's definitions with the function as the model's forward, and a run of them."""
    parts = Parts()
    tree = python_source.function_tree(function.__code__)
    tree.name = "forward"
    if owner is None:
        tree.args.args.insert(0, ast.arg("self"))
    parts.model(tree, owner, {"globals": function.__globals__, "free": free})
    text = "\n".join([*parts.names.imports.values(), ast.unparse(parts.definitions())])
    return text, parts


def made(text: str) -> Any:
    space: dict[str, Any] = {"torch": torch}
    exec("import torch\n" + text, space)
    return space["Model"]()


def test_functions_of_other_files_come_along_with_what_they_need() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        """Makes it larger."""
        return enlarged(x) * far_away.FACTOR + WINDOW

    text, _ = written(forward)
    assert "logger" not in text
    assert "larger" not in text
    assert "mode='bilinear'" in text
    x = torch.randn(1, 2, 4, 4)
    assert torch.equal(made(text)(x), forward(x))


def test_constants_and_torch_names() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x).to(kind) * math.pi + nn.functional.softmax(x, -1)  # noqa: F821

    text, parts = written(forward, kind=torch.float64)
    assert ".to(torch.float64)" in text
    assert "import math" in parts.names.imports.values()
    made(text)


def test_no_tensor_value_is_written() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x * far_away.SECRET + table  # noqa: F821

    text, _ = written(forward, table=torch.full((2,), 0.123456))
    assert "123456" not in text
    assert "98765" not in text
    assert made(text)(torch.ones(2)).shape == (2,)


def test_a_partial_and_a_lambda() -> None:
    double = lambda x: x * 2  # noqa: E731

    def forward(x: torch.Tensor) -> torch.Tensor:
        return double(power(x))  # noqa: F821

    text, _ = written(forward, double=double, power=functools.partial(torch.pow, exponent=3))
    assert torch.equal(made(text)(torch.tensor([2.0])), torch.tensor([16.0]))


@pytest.mark.parametrize("value", [object(), logging.getLogger("x"), iter([])])
def test_what_can_not_be_written(value: Any) -> None:
    def forward(x: torch.Tensor) -> Any:
        return x, thing  # noqa: F821

    with pytest.raises(Unwritable):
        written(forward, thing=value)


def test_typed_code_has_no_source() -> None:
    space: dict[str, Any] = {}
    exec(compile("def forward(x):\n    return x", "<stdin>", "exec"), space)
    with pytest.raises(Unwritable, match="the source of forward is not at hand"):
        written(space["forward"])


# --- modules --------------------------------------------------------------------------------------------------------


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.conv = nn.Conv2d(3, width, 3)
        self.unused = nn.Linear(1000, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x).flatten(2) * self.width


class Whole(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(4), Block(2)])
        self.act = nn.Sequential(nn.ReLU(), nn.Dropout(0.5))
        self.register_buffer("index", torch.tensor([[1, 0]]))

    @property
    def count(self) -> int:
        return len(self.blocks)

    def joined(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([block(x) for block in self.blocks], 1)

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.joined(x)) * self.count + self.index.sum()


class Derived(far_away.Base):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * self.limit


class OwnLinear(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + self.in_features


class Uses(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = OwnLinear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


def same_shapes(owner: nn.Module, x: torch.Tensor) -> str:
    forward = python_source.plain_function(type(owner).forward)
    text, _ = written(forward, owner.eval())
    assert made(text).eval()(x).shape == owner(x).shape
    return text


def test_nested_modules_containers_methods_and_properties() -> None:
    text = same_shapes(Whole(), torch.randn(1, 3, 5, 5))
    assert "unused" not in text
    assert "Block(" in text
    assert "self.width = width" in text  # the two blocks differ in it


def test_super_calls_of_the_users_own_classes() -> None:
    text = same_shapes(Derived(), torch.randn(2))
    assert "forward_Base" in text
    assert "123456" not in text


def test_a_subclass_of_a_torch_module() -> None:
    text = same_shapes(Uses(), torch.randn(1, 3))
    assert "class OwnLinear(torch.nn.Linear)" in text


def test_writing_leaves_the_module_and_the_random_state_alone() -> None:
    module, state = Whole().eval(), torch.random.get_rng_state()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    written(python_source.plain_function(Whole.forward), module)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
