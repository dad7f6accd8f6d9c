"""Names that lead elsewhere while a model is captured, and where they lead afterwards."""

from __future__ import annotations

import builtins
import functools
import math
import math as numbers
import sys
import threading
import types
from collections.abc import Callable, Iterator
from math import floor, sqrt
from math import sqrt as root
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from guarddiff.repair import capture
from guarddiff.repair.numbers import REPAIRS
from guarddiff.repair.shadowing import namespaces, shadowed
from guarddiff.repair.stand_ins import STAND_INS

HERE = globals()
LEFT = (floor, np)
BEFORE = {name: HERE.get(name) for name in ("int", "float", "max", "min", "math", "numbers", "sqrt", "root", "floor")}


def seen() -> tuple[Any, ...]:
    return int, float, max, min, math, numbers, sqrt, root


REAL = seen()
STANDING_IN = tuple(STAND_INS[real] for real in REAL)


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    assert {name: HERE.get(name) for name in BEFORE} == BEFORE and "int" not in HERE and "max" not in HERE
    assert (builtins.int, math.sqrt, torch.nn.functional.math) == (REAL[0], REAL[-1], math)


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[: int(x.shape[0] * 0.5)] / math.sqrt(x.shape[0])


def module_of(name: str, text: str) -> dict[str, Any]:
    space: dict[str, Any] = {"__name__": name}
    exec(compile(text, f"{name}.py", "exec"), space)
    return space


MODEL = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x[: int(x.shape[0] * 0.5)]
"""


def test_names_of_the_modules_that_hold_the_code() -> None:
    with shadowed([HERE], STAND_INS):
        assert tuple(map(id, seen())) == tuple(map(id, STANDING_IN))
        assert floor is LEFT[0] and builtins.int is REAL[0] and torch.nn.functional.math is REAL[4]
    assert tuple(map(id, seen())) == tuple(map(id, REAL))


def test_they_come_back_after_an_error() -> None:
    with pytest.raises(RuntimeError), capture.repairs(REPAIRS, model=Model()):
        assert "int" in HERE
        raise RuntimeError


def test_nesting_and_other_order() -> None:
    outer, inner = shadowed([HERE], STAND_INS), shadowed([HERE], STAND_INS)
    outer.__enter__()
    inner.__enter__()
    outer.__exit__(None, None, None)
    assert HERE["int"] is STANDING_IN[0] and math is STANDING_IN[4]
    inner.__exit__(None, None, None)


def test_a_name_that_was_set_meanwhile_stays() -> None:
    space: dict[str, Any] = {"__name__": "set_meanwhile", "math": math}
    with shadowed([space], STAND_INS):
        space["math"], space["int"] = "mine", "mine too"
        del space["float"]
    assert space == {"__name__": "set_meanwhile", "math": "mine", "int": "mine too"}


def test_a_builtin_that_the_module_hides_stays_hidden() -> None:
    space: dict[str, Any] = {"__name__": "hides", "int": str}
    with shadowed([space], STAND_INS):
        assert space["int"] is str and space["float"] is STANDING_IN[1]
    assert space == {"__name__": "hides", "int": str}


def test_without_a_model_no_name_is_touched() -> None:
    with capture.repairs(REPAIRS):
        assert "int" not in HERE
    with capture.repairs((), model=Model()):
        assert "int" not in HERE


def test_threads() -> None:
    """Where one thread captures, another calls the real ones; the last to end takes the names back."""
    started, go_on = threading.Event(), threading.Event()
    found: list[Any] = []

    def other() -> None:
        with capture.repairs(REPAIRS, model=Model()):
            started.set()
            go_on.wait(20)
            found.append(export_here())

    thread = threading.Thread(target=other)
    thread.start()
    assert started.wait(20)
    assert HERE["int"] is STANDING_IN[0]
    plain = export_here()
    go_on.set()
    thread.join()
    assert "TruncToInt" in found[0] and "TruncToInt" not in plain


def export_here() -> str:
    program = torch.export.export(Model(), (torch.ones(6),), dynamic_shapes=({0: torch.export.Dim.AUTO},), strict=False)
    (output,) = (node for node in program.graph.nodes if node.op == "output")
    return str(output.args[0][0].meta["val"].shape)


def test_many_threads_leave_nothing() -> None:
    def work() -> None:
        for _ in range(50):
            with capture.repairs(REPAIRS, model=Model()):
                pass

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def names(model: Any) -> set[str]:
    return {space["__name__"] for space in namespaces(model)}


def test_namespaces_of_classes_and_their_parents() -> None:
    base = module_of("package.base", MODEL)
    child = module_of("package.child", "")
    made = types.new_class("Child", (base["Model"],))
    assert names(made()) == {"package.base"}
    exec("def forward(self, x):\n    return x", child)
    made.forward = child["forward"]  # type: ignore[attr-defined]
    assert names(nn.Sequential(nn.Linear(1, 1), made())) == {"package.base", "package.child"}


def called(kind: str, function: Callable[..., Any]) -> Any:
    model = Model()
    if kind == "attribute":
        model.function = function
    elif kind == "partial":
        model.function = functools.partial(function, 1)
    elif kind == "closure":
        model.function = lambda x: function(x)
    elif kind == "wrapped":
        model.function = functools.wraps(function)(lambda x: x)
    elif kind == "function":
        return function
    return model


@pytest.mark.parametrize("kind", ["attribute", "partial", "closure", "wrapped", "function"])
def test_namespaces_of_functions(kind: str) -> None:
    function = module_of("package.functions", "def half(x):\n    return int(x)")["half"]
    assert names(called(kind, function)) - {__name__} == {"package.functions"}


@pytest.mark.parametrize(
    "text",
    [
        "from package.tools import half\ndef forward(self, x):\n    return half(x)",
        "from package.tools import half\ndef forward(self, x):\n    return [(lambda: half(v))() for v in x]",
        "import package.tools as tools\ndef forward(self, x):\n    return tools.half(x)",
        "from package.tools import Tools\ndef forward(self, x):\n    return Tools.half(x)",
    ],
)
def test_namespaces_of_what_is_called(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = types.ModuleType("package.tools")
    exec("def half(x):\n    return int(x)\nclass Tools:\n    half = staticmethod(half)", vars(tools))
    package = types.ModuleType("package")
    package.tools = tools  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "package", package)
    monkeypatch.setitem(sys.modules, "package.tools", tools)
    space = module_of("package.model", text)
    assert names(types.new_class("Made", (nn.Module,), exec_body=lambda body: body.update(space))()) == {
        "package.model",
        "package.tools",
    }


def test_torch_numpy_and_the_standard_library_are_left_alone() -> None:
    class Uses(nn.Transformer):
        def forward(self, x: torch.Tensor) -> Any:
            return nn.functional.relu(x), np.asarray(x), functools.reduce(max, [1, 2])

    assert names(Uses(d_model=2, nhead=1)) == {__name__}
    assert names(nn.Linear(1, 1)) == set()
    assert names(None) == set()
