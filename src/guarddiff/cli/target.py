"""TARGET: what is to be exported, as the user names it."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from guarddiff.cli.errors import Wrong, told

FORMS = "package.module:factory, path/to/file.py:factory or program.pt2"
RETURNS = (
    "(model, args), (model, args, {export keywords}), "
    "or a dict with 'model', 'args', perhaps 'kwargs', and export keywords"
)
_OURS = {
    "on_finding": "leave it out: the report is printed",
    "replay": "use --replay",
    "repair": "use --repair",
    "report_to": "use --out",
    "sizes": "use --sizes",
    "f": "use --save",
    "model": "the model comes first",
    "args": "the arguments come second",
}


@dataclass
class Target:
    """What goes to ``torch.onnx.export``: the model, its example inputs and the keywords."""

    model: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any] | None = None
    keywords: dict[str, Any] = field(default_factory=dict)


def load(text: str) -> Target:
    """The target that ``text`` names. Raises Wrong in one line for whatever stands in the way."""
    if text.endswith(".pt2"):
        from guarddiff.cli import pt2

        return Target(pt2.load(text), ())
    place, colon, name = text.rpartition(":")
    if not colon or not place or not name:
        kind = "is a file that is no .pt2" if os.path.isfile(text) and not text.endswith(".py") else "names no factory"
        raise Wrong(f"TARGET is {FORMS}; {text!r} {kind}")
    factory = _attribute(_module(place), name, text)
    return _target(_made(factory, text), text)


# --- finding the factory ---


def _module(place: str) -> ModuleType:
    is_path = place.endswith(".py") or os.sep in place or (os.altsep is not None and os.altsep in place)
    return _from_file(place) if is_path else _from_name(place)


def _from_file(place: str) -> ModuleType:
    path = os.path.abspath(place)
    if not os.path.isfile(path):
        raise Wrong(f"{place!r}: there is no such file")
    sys.path.insert(0, os.path.dirname(path))
    stem = os.path.splitext(os.path.basename(path))[0]
    name = stem if stem not in sys.modules and stem.isidentifier() else f"guarddiff_target_{len(sys.modules)}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Wrong(f"{place!r} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise Wrong(f"{place!r} can't be imported: {_raised(error)}") from error
    return module


def _from_name(name: str) -> ModuleType:
    if not all(name.split(".")):
        raise Wrong(f"{name!r} is no module's whole name: write package.module, or for a file path/to/file.py")
    sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and f"{name}.".startswith(f"{error.name}."):
            raise Wrong(f"there is no module {error.name!r} (for a file: path/to/file.py:factory)") from error
        raise Wrong(f"module {name!r} can't be imported: {_raised(error)}") from error
    except (Exception, SystemExit) as error:
        raise Wrong(f"module {name!r} can't be imported: {_raised(error)}") from error


def _attribute(module: ModuleType, name: str, text: str) -> Any:
    found: Any = module
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            own = [k for k, v in vars(module).items() if inspect.isfunction(v) and not k.startswith("_")]
            near = difflib.get_close_matches(name, own, 1) or own[:5]
            hint = f"; it has {', '.join(near)}" if near else ""
            raise Wrong(f"{text!r}: the module has no {name!r}{hint}") from None
        except (Exception, SystemExit) as error:
            raise Wrong(f"{text!r}: {part!r} can't be looked up: {_raised(error)}") from error
    if not callable(found):
        raise Wrong(f"{text!r}: {name!r} is no function but {_kind(found)}")
    return found


# --- what it returns ---


def _made(factory: Any, text: str) -> Any:
    try:
        inspect.signature(factory).bind()
    except TypeError as error:
        raise Wrong(f"{text!r}: a factory is called without arguments: {error}") from error
    except Exception:
        pass  # it tells nothing, or wrong things: calling it will
    try:
        return factory()
    except (Exception, SystemExit) as error:
        raise Wrong(f"{text!r}: the factory raised {_raised(error)}") from error


def _target(made: Any, text: str) -> Target:
    if isinstance(made, Mapping):
        rest = dict(made)
        missing = [name for name in ("model", "args") if name not in rest]
        if missing:
            raise Wrong(f"{text!r}: the factory's dict has no {missing[0]!r}; it returns {RETURNS}")
        parts = (rest.pop("model"), rest.pop("args"), rest)
    elif isinstance(made, (tuple, list)) and len(made) in (2, 3):
        parts = (made[0], made[1], made[2] if len(made) == 3 else {})
    else:
        raise Wrong(f"{text!r}: the factory returned {_kind(made)}; it returns {RETURNS}")
    model, args, keywords = parts
    if not isinstance(keywords, Mapping):
        raise Wrong(f"{text!r}: the export keywords are {_kind(keywords)} and no dict; the factory returns {RETURNS}")
    keywords = dict(keywords)
    kwargs = keywords.pop("kwargs", None)
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise Wrong(f"{text!r}: 'kwargs' is {_kind(kwargs)} and no dict of the model's keyword arguments")
    _check_model(model, text)
    _check_keywords(keywords, text)
    return Target(model, _arguments(args, text), dict(kwargs) if kwargs is not None else None, keywords)


def _check_model(model: Any, text: str) -> None:
    import torch

    kinds = (torch.nn.Module, torch.export.ExportedProgram, torch.jit.ScriptFunction)
    if isinstance(model, type) or not isinstance(model, kinds):
        raise Wrong(f"{text!r}: the model is {_kind(model)} and no torch.nn.Module; the factory returns {RETURNS}")


def _arguments(args: Any, text: str) -> tuple[Any, ...]:
    import torch

    if isinstance(args, torch.Tensor):
        return (args,)
    if not isinstance(args, (tuple, list)):
        raise Wrong(f"{text!r}: the example inputs are {_kind(args)} and no tuple; the factory returns {RETURNS}")
    return tuple(args)


def _check_keywords(keywords: Mapping[Any, Any], text: str) -> None:
    """Keywords that ``torch.onnx.export`` does not have, or that are options here."""
    import torch

    known = inspect.signature(torch.onnx.export).parameters
    open_ended = any(p.kind is p.VAR_KEYWORD for p in known.values())
    for name in keywords:
        if name in _OURS:
            raise Wrong(f"{text!r}: the factory gives {name!r}: {_OURS[name]}")
        if not isinstance(name, str) or not (name in known or open_ended):
            near = difflib.get_close_matches(str(name), list(known), 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise Wrong(f"{text!r}: torch.onnx.export has no keyword {name!r}{hint}")


def _kind(value: Any) -> str:
    """A value by its kind, never by its content."""
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    kind = type(value).__name__
    if isinstance(value, (tuple, list)):
        return f"a {kind} of {len(value)}"
    return f"a value of type {kind}"


def _raised(error: BaseException) -> str:
    """The exception with its place in the user's code."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{type(error).__name__}: {error.msg} ({os.path.basename(error.filename)}:{error.lineno})"
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or frames[-1].filename == __file__:
        return told(error)
    return f"{told(error)} ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})"
