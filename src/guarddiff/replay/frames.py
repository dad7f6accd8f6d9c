"""Which of the user's functions are running when a source line is reached, and what their variables hold then."""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from types import CodeType, FrameType
from typing import Any

import torch

_MOST_HITS = 40
_SMALL = 65536
"""Tensors with more elements are remembered by shape and dtype alone."""
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_STDLIB = sysconfig.get_paths()["stdlib"] + os.sep


@dataclass(frozen=True)
class Seen:
    """A tensor that was seen: its shape and dtype; the tensor itself where it is small."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    tensor: torch.Tensor | None = None


@dataclass
class Frame:
    """One call of a user's function.

    ``lines`` holds for each line reached the variables as they were before it ran for the first time; ``line`` is the
    line being run when the mark was reached (in a copy that a hit keeps). ``returned`` is None until it returned.
    """

    code: CodeType
    globals: dict[str, Any]
    arguments: dict[str, Any]
    line: int = 0
    lines: dict[int, dict[str, Any]] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)
    returned: Any = None

    @property
    def owner(self) -> Any:
        """The object whose method it is; None for a plain function."""
        names = self.code.co_varnames[: self.code.co_argcount]
        return self.arguments.get(names[0]) if names and names[0] == "self" else None

    def free(self) -> dict[str, Any]:
        """What its names from enclosing functions stood for."""
        known = self.lines[self.order[0]] if self.order else self.arguments
        return {name: known[name] for name in self.code.co_freevars if name in known}


@dataclass(frozen=True)
class Mark:
    """A source line: the file's last part, the number, and the text (empty when unknown)."""

    file: str
    line: int
    text: str = ""

    def is_at(self, filename: str, line: int) -> bool:
        if line != self.line or os.path.basename(filename) != self.file:
            return False
        return not self.text or linecache.getline(filename, line).strip()[:300] == self.text

    def inside(self, code: CodeType) -> bool:
        """Whether the line is one of this code's own lines."""
        return os.path.basename(code.co_filename) == self.file and any(n == self.line for *_, n in code.co_lines())


Hit = list[tuple[Frame, int]]
"""The frames on the stack, outermost first, each with the line that was being run."""


@cache
def is_user_file(filename: str) -> bool:
    """Whether code of this file is part of the model: not torch, not the standard library, not generated."""
    if filename.startswith("<"):
        return not filename.startswith(("<frozen", "<eval_with_key", "<string", "<lambda", "<__array"))
    if filename.startswith(_TORCH) or (os.sep + "numpy" + os.sep) in filename:
        return False
    if filename.startswith(_PACKAGE) and filename != _PACKAGE + "demo.py":  # its models are user code as any other's
        return False
    return not filename.startswith(_STDLIB) or "site-packages" in filename


Executed = dict[str, set[int]]
"""File to the numbers of its lines that were run."""


def watch(call: Callable[[], Any], mark: Mark | None, executed: Executed | None = None) -> list[Hit]:
    """Run ``call`` and note each time the marked line is reached; without a mark, the outermost call of user code.

    Lines of user code that are run are added to ``executed``. Raises what the call raises.
    """
    watcher = _Watcher(mark, {} if executed is None else executed)
    with watcher.on():
        call()
    return watcher.hits if mark is not None else [[(frame, frame.line)] for frame in watcher.outermost[:1]]


class _Watcher:
    def __init__(self, mark: Mark | None, executed: Executed) -> None:
        self.hits: list[Hit] = []
        self.outermost: list[Frame] = []
        self._mark = mark
        self._executed = executed
        self._stack: list[Frame] = []

    @contextmanager
    def on(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(before)

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        del event, argument
        code = frame.f_code
        if not is_user_file(code.co_filename):
            return None
        made = Frame(code, frame.f_globals, {k: remember(v) for k, v in frame.f_locals.items()}, frame.f_lineno)
        if not self._stack:
            self.outermost.append(made)
        self._stack.append(made)
        marked = self._mark is not None and self._mark.inside(code)
        executed = self._executed.setdefault(code.co_filename, set())

        def local(frame: FrameType, event: str, argument: Any) -> Any:
            if event == "line":
                made.line = line = frame.f_lineno
                if line not in made.lines:
                    made.lines[line] = {name: remember(value) for name, value in frame.f_locals.items()}
                made.order.append(line)
                executed.add(line)
                if marked and self._mark is not None and self._mark.is_at(code.co_filename, line):
                    self._hit()
            elif event == "return":
                made.returned = remember(argument)
                if made in self._stack:
                    del self._stack[self._stack.index(made) :]
            return local

        return local

    def _hit(self) -> None:
        if len(self.hits) < _MOST_HITS:
            self.hits.append([(frame, frame.line) for frame in self._stack])


def remember(value: Any, depth: int = 3) -> Any:
    """The value with tensors as ``Seen``; modules and other objects stay what they are."""
    if isinstance(value, torch.nn.Parameter):
        return value
    if isinstance(value, torch.Tensor):
        small = value.numel() <= _SMALL
        return Seen(tuple(value.shape), value.dtype, value.detach() if small else None)
    if depth and type(value) in (list, tuple):
        return type(value)(remember(part, depth - 1) for part in value)
    if depth and type(value) is dict:
        return {key: remember(part, depth - 1) for key, part in value.items()}
    return value
