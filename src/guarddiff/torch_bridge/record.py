"""One recorded export: what the hooks saw, kept until it is turned into evidence."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import sympy

from guarddiff.core.errors import MEANT
from guarddiff.core.log import say
from guarddiff.core.privacy import scrub
from guarddiff.core.report import Missing
from guarddiff.core.stage import Stage
from guarddiff.torch_bridge import origin, probe, shape_env
from guarddiff.torch_bridge.probe import PrivateName


@dataclass
class Event:
    """One guard at the moment it was added: the ShapeEnv, the stage, the condition, and where that was."""

    env: Any
    stage: Stage
    expression: Any
    moment: origin.Moment


@dataclass
class Boundary:
    """ONNX inputs and outputs after a stage: (name, dtype, shape with ints, names or None)."""

    inputs: list[tuple[str, str, tuple[int | str | None, ...]]]
    outputs: list[tuple[str, str, tuple[int | str | None, ...]]]


@dataclass
class Recording:
    """What one call of the exporter did. ``on_program`` is called when torch has made the ONNX program, before
    the model file is written: what it gives takes that program's place (None: nothing does); of what it raises
    ``passing`` goes through to the caller. ``keep_unoptimized``: keep a copy of the ONNX graph before the optimizer
    changes it (weights are shared)."""

    on_program: Callable[[Recording], Any] | None = None
    passing: tuple[type[Exception], ...] = MEANT
    keep_unoptimized: bool = False
    stage: Stage = "declare"
    model: Any = None
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    asked: dict[str, Any] = field(default_factory=dict)
    asked_args: tuple[Any, ...] = ()
    asked_kwargs: dict[str, Any] = field(default_factory=dict)
    applied_shapes: Any = None
    opset_version: int | None = None
    optimize: bool = True
    core_call: tuple[tuple[Any, ...], dict[str, Any]] | None = None
    registry: Any = None
    decomposition_table: dict[Any, Any] | None = None
    captured: Any = None
    env: Any = None
    before: shape_env.State | None = None
    after: shape_env.State | None = None
    decomposed: Any = None
    translated: Boundary | None = None
    optimized: Boundary | None = None
    unoptimized: Any = None
    program: Any = None
    events: list[Event] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    _seen: set[Any] = field(default_factory=set)
    _asked: bool = False

    def failed(self, part: str, error: BaseException) -> None:
        """Keep an error of ours: logged with its traceback, told in the report, never raised."""
        say(logging.ERROR, f"guarddiff could not read {part}", error)
        entry = Missing(part, scrub(f"{type(error).__name__}: {str(error)[:300]}"))
        if entry not in self.missing:
            self.missing.append(entry)

    def guard(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """``ShapeEnv._log_guard`` was called."""
        if self.stage not in ("capture", "decompose"):
            return
        values = [*args[1:], *kwargs.values()]
        prefix = next((v for v in values if isinstance(v, str)), "")
        expression = next((v for v in values if isinstance(v, sympy.Basic)), None)
        if expression is None:
            raise TypeError(f"{probe.LOG_GUARD.path} was called with no condition that is known here")
        if "suppressed" in prefix:
            return
        key = (id(args[0]), self.stage, expression)
        if key in self._seen:
            return
        self._seen.add(key)
        moment = origin.observe(graph=self.stage == "decompose", depth=4)
        self.events.append(Event(args[0], self.stage, expression, moment))

    def around(self, name: PrivateName, call: Callable[[], Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One of the exporter's functions is called: note its arguments, call it, note its result."""
        before, after = _STEPS[name]
        self._quietly(name.loss, before, self, args, kwargs)
        result = call()
        self._quietly(name.loss, after, self, result, args)
        if name is probe.CORE_EXPORT and self.on_program is not None:
            instead = self.on_program(self)
            return result if instead is None else instead
        return result

    def _quietly(self, part: str, step: Callable[..., None], *args: Any) -> None:
        try:
            step(*args)
        except Exception as error:
            self.failed(part, error)


def _nothing(recording: Recording, *_: Any) -> None:
    del recording


def _given(name: PrivateName, names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by name. Raises TypeError where they are not those of the versions that are known."""
    given = dict(zip(names, args)) | kwargs
    if not callable(given.get("model")):
        raise TypeError(f"{name.path} was called with no model that is known here")
    return given


def _before_compat(recording: Recording, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if not recording._asked:
        recording._asked = True
        recording.asked = dict(kwargs)
        given = _given(probe.EXPORT_COMPAT, ("model", "args"), args, kwargs)
        recording.model = given.get("model")
        recording.args = tuple(given.get("args") or ())
        recording.kwargs = dict(given.get("kwargs") or {})
        recording.asked_args, recording.asked_kwargs = recording.args, recording.kwargs


def _before_core(recording: Recording, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    recording.stage = "capture"
    given = _given(probe.CORE_EXPORT, ("model", "args", "kwargs"), args, kwargs)
    recording.core_call = (args, kwargs)
    recording.model = given.get("model")
    recording.args = tuple(given.get("args") or ())
    recording.kwargs = dict(given.get("kwargs") or {})
    recording.applied_shapes = given.get("dynamic_shapes")
    recording.opset_version = given.get("opset_version")
    recording.optimize = bool(given.get("optimize", True))


def _after_core(recording: Recording, program: Any, args: tuple[Any, ...]) -> None:
    del args
    recording.stage = "run"
    recording.program = program
    recording.optimized = boundary(program)


def _before_decompose(recording: Recording, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    given = dict(zip(("exported_program", "registry"), args)) | kwargs
    recording.captured = given["exported_program"]
    recording.registry = given["registry"]
    recording.stage = "decompose"
    recording.env = shape_env.of_program(recording.captured)
    if recording.env is not None:
        recording.before = shape_env.read(recording.env, recording.captured.range_constraints)


def _after_decompose(recording: Recording, program: Any, args: tuple[Any, ...]) -> None:
    del args
    recording.stage = "translate"
    recording.decomposed = program
    if recording.env is not None:
        recording.after = shape_env.read(recording.env, program.range_constraints)


def _after_table(recording: Recording, table: Any, args: tuple[Any, ...]) -> None:
    del args
    recording.decomposition_table = table


def _after_translate(recording: Recording, program: Any, args: tuple[Any, ...]) -> None:
    del args
    recording.stage = "optimize"
    recording.program = program
    recording.translated = boundary(program)
    if recording.keep_unoptimized and recording.optimize:
        recording.unoptimized = program.model.clone()


_STEPS: dict[PrivateName, tuple[Callable[..., None], Callable[..., None]]] = {
    probe.EXPORT_COMPAT: (_before_compat, _nothing),
    probe.CORE_EXPORT: (_before_core, _after_core),
    probe.DECOMPOSE: (_before_decompose, _after_decompose),
    probe.DECOMPOSITION_TABLE: (_nothing, _after_table),
    probe.TRANSLATE: (_nothing, _after_translate),
    probe.OPTIMIZE: (_nothing, _nothing),
}


def boundary(program: Any) -> Boundary:
    """Names, dtypes and declared shapes of an ONNXProgram's inputs and outputs."""
    graph = program.model.graph
    held = set(graph.initializers)
    return Boundary(
        [_value(value) for value in graph.inputs if value.name not in held],
        [_value(value) for value in graph.outputs],
    )


def _value(value: Any) -> tuple[str, str, tuple[int | str | None, ...]]:
    shape = value.shape
    sizes = tuple(d if isinstance(d, int) else d.value for d in shape) if shape is not None else ()
    return str(value.name), str(getattr(value.dtype, "name", value.dtype)), sizes
