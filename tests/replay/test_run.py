from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

from guarddiff.replay import run
from guarddiff.replay.inputs import Example
from guarddiff.replay.run import Eager, Outcome, Pair, Session, Unavailable


def flatten(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


def example(**tensors: Any) -> Example:
    return Example(tuple(tensors.values()), tuple(tensors), None, lambda leaves, _: (leaves, {}))


def export(module: nn.Module, args: tuple[Any, ...], shapes: Any) -> Any:
    return torch.onnx.export(module.eval(), args, dynamic_shapes=shapes, verbose=False, dynamo=True)


class Messy(nn.Module):
    """Changes everything of its own that a forward can change."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer("count", torch.zeros(1))
        self.cache: list[torch.Tensor] = []
        self.calls = 0
        self.fail = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.count += 1
        self.cache.append(x)
        x += 1
        self.training = not self.training
        torch.rand(1), np.random.rand(), random.random()  # noqa: B018
        torch.manual_seed(99)
        random.seed(99)
        if self.fail:
            raise ValueError("no such size")
        return self.norm(self.linear(x))


@pytest.fixture(params=[False, True], ids=["returns", "raises"])
def messy(request: pytest.FixtureRequest) -> Messy:
    module = Messy()
    module.fail = request.param
    return module


def run_once(module: nn.Module, x: torch.Tensor) -> None:
    try:
        Eager(module, flatten).run(example(x=x), [x])
    except ValueError as error:
        assert str(error) == "no such size"
    else:
        assert not module.fail


def test_a_run_leaves_the_module_as_it_was(messy: Messy) -> None:
    before = {name: tensor.clone() for name, tensor in messy.state_dict().items()}
    run_once(messy, torch.randn(4, 3))
    assert {n for n, tensor in messy.state_dict().items() if not torch.equal(tensor, before[n])} == set()
    assert (messy.calls, messy.cache, messy.training, messy.norm.training) == (0, [], True, True)
    assert all(parameter.requires_grad and parameter.grad is None for parameter in messy.parameters())


def test_a_run_leaves_the_inputs_as_they_were(messy: Messy) -> None:
    x = torch.zeros(4, 3)
    run_once(messy, x)
    assert x.tolist() == torch.zeros(4, 3).tolist()


def test_a_run_leaves_the_random_states_as_they_were(messy: Messy) -> None:
    states = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
    run_once(messy, torch.randn(4, 3, generator=torch.Generator().manual_seed(0)))
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.random.get_state()[1].tolist() == states[1]
    assert random.getstate() == states[2]


@pytest.mark.parametrize("enabled", [True, False])
def test_a_run_leaves_grad_mode_as_it_was(messy: Messy, enabled: bool) -> None:
    with torch.set_grad_enabled(enabled):
        run_once(messy, torch.randn(4, 3))
        assert torch.is_grad_enabled() is enabled


def test_parameters_are_shared_and_buffers_are_not() -> None:
    module = Messy()
    copied = Eager(module, flatten).copied()
    assert copied is not module
    assert [p.data_ptr() for p in copied.parameters()] == [p.data_ptr() for p in module.parameters()]
    assert copied.linear.weight is module.linear.weight
    assert copied.count.data_ptr() != module.count.data_ptr()
    assert copied.norm.running_mean.data_ptr() != module.norm.running_mean.data_ptr()


def test_each_run_starts_from_the_same_state() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count += 1
            return x + self.count

    eager, x = Eager(Counts(), flatten), torch.zeros(2)
    assert [eager.run(example(x=x), [x])[0].array.tolist() for _ in range(2)] == [[1.0, 1.0], [1.0, 1.0]]


def test_a_function_can_be_run() -> None:
    x = torch.ones(2)
    assert Eager(lambda x: (x, 3), flatten).run(example(x=x), [x])[0].array.tolist() == [1.0, 1.0]


def test_a_module_that_cannot_be_copied_is_not_run() -> None:
    class Stubborn(nn.Module):
        def __deepcopy__(self, memo: Any) -> Any:
            raise RuntimeError("not me")

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise AssertionError("must not be run")

    x = torch.ones(2)
    with pytest.raises(Unavailable, match=r"can't be copied, so it was not run \(RuntimeError: raised at test_run\.py"):
        Eager(Stubborn(), flatten).run(example(x=x), [x])


def test_seeds_decide_random_modules() -> None:
    x = torch.zeros(5)
    eager = Eager(lambda x: x + torch.rand(5), flatten)
    first, second, third = (eager.run(example(x=x), [x], seed)[0].array.tolist() for seed in (1, 1, 2))
    assert first == second != third


# --- sessions -------------------------------------------------------------------------------------------


class TwoInputs(nn.Module):
    def forward(self, left: torch.Tensor, right: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return left @ right, left.sum()


class Fixed(nn.Module):
    """Right at 4 rows only: the loop is unrolled."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = x[0] * 0
        for index in range(x.shape[0]):
            total = total + x[index]
        return total


class Noise(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand_like(x)


AUTO = {0: Dim.AUTO}


@pytest.fixture(scope="module")
def product() -> Any:
    return export(TwoInputs(), (torch.randn(2, 3), torch.randn(3, 4)), (AUTO, {1: Dim.AUTO}))


@pytest.fixture(scope="module")
def fixed() -> Any:
    return export(Fixed(), (torch.randn(4, 3),), (AUTO,))


@pytest.fixture(scope="module")
def noise() -> Any:
    return export(Noise(), (torch.randn(4, 3),), (AUTO,))


def pair(module: Any, program: Any, **tensors: torch.Tensor) -> Pair:
    return Pair(Eager(module, flatten), lambda: Session(program), example(**tensors))


def test_a_session_knows_its_inputs_and_gives_outputs_in_order(product: Any) -> None:
    session = Session(product)
    assert session.names == ["left", "right"]
    left, right = np.ones((5, 3), "f4"), np.ones((3, 2), "f4")
    outputs = session.run({"right": right, "left": left, "other": left})
    assert outputs[0].tolist() == [[3.0, 3.0]] * 5
    assert outputs[1] == 15.0


def test_feeds_are_arrays_by_onnx_name() -> None:
    x = torch.randn(2, 3, requires_grad=True)
    given = Example((x, None, 3, torch.tensor([1 + 2j])), ("x", None, "n", "z"), None, None)
    found = run.feeds(given, given.leaves)
    assert list(found) == ["x", "n", "z"]
    assert np.array_equal(found["x"], x.detach().numpy())
    assert found["n"].tolist() == 3
    assert found["z"].tolist() == [[1.0, 2.0]]


def test_conjugate_views_can_be_fed() -> None:
    assert run.feeds(example(z=None), [torch.tensor([1 + 2j]).conj()])["z"].tolist() == [[1.0, -2.0]]


def test_bfloat16_cannot_be_fed() -> None:
    with pytest.raises(Unavailable, match="takes no bfloat16"):
        run.feeds(example(x=None), [torch.ones(2, dtype=torch.bfloat16)])


def test_without_onnx_runtime_nothing_is_run(product: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(Unavailable, match=r"^ONNX Runtime is not installed$"):
        Session(product)


# --- tries ----------------------------------------------------------------------------------------------


def test_agreement(product: Any) -> None:
    tried = pair(TwoInputs(), product, left=torch.randn(2, 3), right=torch.randn(3, 4))
    outcome = tried.attempt({"left": (7, 3), "right": (3, 9)})
    assert outcome.state == "agrees"
    assert outcome.difference is None
    assert outcome.results == outcome.leaves == ()  # kept of tries that differ only


def test_rejected_by_eager(product: Any) -> None:
    tried = pair(TwoInputs(), product, left=torch.randn(2, 3), right=torch.randn(3, 4))
    outcome = tried.attempt({"left": (2, 5), "right": (3, 4)})
    assert outcome.state == "rejected"
    assert re.match(r"RuntimeError: (mm: )?mat1 and mat2 shapes cannot be multiplied", outcome.text)


def test_different_values(fixed: Any) -> None:
    outcome = pair(Fixed(), fixed, x=torch.randn(4, 3)).attempt({"x": (8, 3)})
    assert outcome.state == "differs"
    assert outcome.difference is not None
    assert outcome.difference.kind == "values"
    assert outcome.difference.expected == "output 0: shape (3,), dtype float32"
    assert [result.array.shape for result in outcome.results] == [(3,)]
    assert [tuple(leaf.shape) for leaf in outcome.leaves] == [(8, 3)]


def test_runtime_error(fixed: Any) -> None:
    outcome = pair(Fixed(), fixed, x=torch.randn(4, 3)).attempt({"x": (2, 3)})
    assert outcome.state == "differs"
    assert outcome.difference is not None
    assert outcome.difference.kind == "runtime_error"
    assert outcome.difference.expected == "shapes (3,)"
    assert "ONNXRuntimeError" in outcome.difference.got
    assert len(outcome.difference.got) <= 240


def test_rejected_input() -> None:
    program = export(Fixed(), (torch.randn(4, 3),), None)
    outcome = pair(Fixed(), program, x=torch.randn(4, 3)).attempt({"x": (5, 3)})
    assert outcome.state == "differs"
    assert outcome.difference is not None
    assert outcome.difference.kind == "rejected_input"


def test_a_random_module_is_unknown(noise: Any) -> None:
    outcome = pair(Noise(), noise, x=torch.randn(4, 3)).attempt({"x": (5, 3)})
    assert outcome == Outcome("unknown", text="the module differs from itself in two eager runs")


def test_dropout_in_training_mode_is_unknown(product: Any) -> None:
    class Dropping(TwoInputs):
        def forward(self, left: torch.Tensor, right: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return super().forward(nn.functional.dropout(left, 0.5, self.training), right)

    tensors = {"left": torch.randn(2, 3), "right": torch.randn(3, 4)}
    outcome = pair(Dropping().train(), product, **tensors).attempt({"left": (40, 3), "right": (3, 9)})
    assert outcome == Outcome("unknown", text="the module differs from itself in two eager runs")


def test_a_module_that_raises_the_second_time_is_unknown(fixed: Any) -> None:
    calls: list[int] = []

    def forward(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        if len(calls) > 1:
            raise RuntimeError("only once")
        return x.sum(0)

    outcome = pair(forward, fixed, x=torch.randn(4, 3)).attempt({"x": (8, 3)})
    line = forward.__code__.co_firstlineno + 3
    assert outcome == Outcome(
        "unknown",
        text=f"the module raised in a second run at the same inputs (RuntimeError: raised at test_run.py:{line})",
    )


class Scripted:
    """A session that gives these outputs, one a run."""

    names = ("x",)

    def __init__(self, outputs: Sequence[Callable[[Any], Any]]) -> None:
        self._outputs = list(outputs)

    def run(self, feeds: dict[str, Any]) -> list[Any]:
        return [self._outputs.pop(0)(feeds["x"])]


def scripted(*outputs: Callable[[Any], Any]) -> Pair:
    return Pair(Eager(lambda x: x * 2, flatten), lambda: Scripted(outputs), example(x=torch.ones(2)))  # type: ignore[arg-type,return-value]


def test_a_difference_at_one_set_of_values_only_is_unknown() -> None:
    outcome = scripted(lambda x: x, lambda x: x * 2).attempt({"x": (3,)})
    assert outcome == Outcome(
        "unknown", text="ONNX Runtime and eager PyTorch differ at one set of values and not at another"
    )


def test_a_difference_is_looked_at_twice() -> None:
    outcome = scripted(lambda x: x, lambda x: x).attempt({"x": (3,)})
    assert outcome.state == "differs"


def test_too_large_is_unknown() -> None:
    outcome = scripted().attempt({"x": (2**40,)})
    assert outcome.state == "unknown"
    assert outcome.text == "an input of shape (1099511627776,) has more than 67,108,864 elements"


def test_a_module_that_cannot_be_copied_is_unknown(fixed: Any) -> None:
    class Stubborn(Fixed):
        def __deepcopy__(self, memo: Any) -> Any:
            raise RuntimeError("not me")

    outcome = pair(Stubborn(), fixed, x=torch.randn(4, 3)).attempt({"x": (8, 3)})
    assert outcome.state == "unknown"
    line = Stubborn.__deepcopy__.__code__.co_firstlineno + 1
    assert outcome.text == f"the module can't be copied, so it was not run (RuntimeError: raised at test_run.py:{line})"


def test_an_input_without_a_value_is_named(product: Any) -> None:
    tried = Pair(Eager(lambda left: left, flatten), lambda: Session(product), example(left=torch.ones(2, 3)))
    with pytest.raises(Unavailable, match="no example value is known for the ONNX inputs right"):
        tried.attempt({"left": (2, 3)})


def test_a_session_is_opened_once() -> None:
    opened: list[int] = []

    def start() -> Any:
        opened.append(1)
        return Scripted([lambda x: x * 2] * 3)

    tried = Pair(Eager(lambda x: x * 2, flatten), start, example(x=torch.ones(2)))
    assert [tried.attempt({"x": (size,)}).state for size in (1, 2, 3)] == ["agrees"] * 3
    assert opened == [1]


# --- what may be told of an exception -------------------------------------------------------------------


def _raised(function: Any) -> str:
    try:
        function(torch.tensor([[0.25, 0.75]]))
    except Exception as error:
        return run.told(error)
    raise AssertionError("nothing was raised")


def _multi_line(x: torch.Tensor) -> None:
    raise ValueError(
        f"SECRET {x}"
    )  # fmt: skip


def _in_a_condition(x: torch.Tensor) -> None:
    if x.shape[0] == 1: raise RuntimeError(f"SECRET {x}")  # noqa: E701  # fmt: skip


def _made_by_exec(x: torch.Tensor) -> None:
    scope: dict[str, Any] = {"__name__": "made"}
    exec("def f(x):\n    raise RuntimeError(f'SECRET {x}')", scope)
    scope["f"](x)


@pytest.mark.parametrize(
    "function",
    [
        _multi_line,
        _in_a_condition,
        _made_by_exec,
        lambda x: {}[f"SECRET {float(x.sum())}"],
        lambda x: int(f"SECRET {x[0, 0].item()}"),
        lambda x: torch._check(False, lambda: f"SECRET {x}"),
        lambda x: (_ for _ in ()).throw(ValueError(f"SECRET {x}")),
    ],
)
def test_words_of_the_models_own_code_are_not_told(function: Any) -> None:
    text = _raised(function)
    assert "SECRET" not in text
    assert "0.25" not in text
    assert ": raised at " in text


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: x @ x, "mat1 and mat2 shapes cannot be multiplied (1x2 and 1x2)"),
        (lambda x: x.view(3), "shape '[3]' is invalid for input of size 2"),
        (lambda x: torch.nn.functional.max_pool2d(x[None], 9), "Output size is too small"),
        (lambda x: x.squeeze(7), "Dimension out of range"),
        (lambda x: torch.nn.functional.interpolate(x[None]), "either size or scale_factor should be defined"),
    ],
)
def test_words_of_torch_are_told(function: Any, words: str) -> None:
    assert words in _raised(function)


def test_values_in_words_of_torch_are_left_out() -> None:
    assert run.told(RuntimeError("got 0.123456 and 3 of tensor([0.1, 0.2])")) == "RuntimeError: got … and 3 of …"
