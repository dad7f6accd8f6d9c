"""The call that a frame is in, by name: functions written in C (``float``, ``math.sqrt``) have no frame."""

from __future__ import annotations

import ast
import builtins
import linecache
from collections.abc import Mapping
from itertools import islice
from types import CodeType, ModuleType
from typing import Any

_NUMBERS = {builtins.int: "int()", builtins.float: "float()"}
_EXTREMES = ("max()", "min()")


def number_function(code: CodeType, instruction: int, line: int, names: Mapping[str, Any]) -> str | None:
    """``float()``, ``max()`` or ``math.sqrt()`` where that is what the instruction (its offset) at this line calls;
    None for anything else. ``names`` are the globals of the code. Before Python 3.11, and where the source is not
    there, only what is the one such call of the line is told."""
    text = _expression(code, instruction)
    found = set(_calls(text or linecache.getline(code.co_filename, line), names, whole=text is None))
    if text is None:
        found -= set(_EXTREMES)  # of another question on that line
    return found.pop() if len(found) == 1 else None


def _expression(code: CodeType, instruction: int) -> str | None:
    """The source of the expression that an instruction belongs to; None where that is not known."""
    positions = getattr(code, "co_positions", None)
    if positions is None:
        return None
    line, end_line, column, end_column = next(islice(positions(), instruction // 2, None), (None,) * 4)
    if line is None or end_line is None or column is None or end_column is None:
        return None
    lines = [linecache.getline(code.co_filename, number).encode() for number in range(line, end_line + 1)]
    lines[-1] = lines[-1][:end_column]
    lines[0] = lines[0][column:]
    return b"".join(lines).decode(errors="replace") or None


def _calls(text: str, names: Mapping[str, Any], whole: bool) -> list[str]:
    """The functions that make numbers among those that the text calls: its outermost call, or all of a ``whole``
    line."""
    try:
        tree = ast.parse(text.strip() if whole else f"({text})")
    except (SyntaxError, ValueError):
        return []
    statement = tree.body[0] if tree.body else None
    outermost = [statement.value] if isinstance(statement, ast.Expr) else []
    nodes = ast.walk(tree) if whole else outermost
    found = [_name(node.func, names) for node in nodes if isinstance(node, ast.Call)]
    return [name for name in found if name is not None]


def _name(function: ast.expr, names: Mapping[str, Any]) -> str | None:
    """What a number is made by, wherever it was imported from; ``math`` itself may be a local name."""
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        holder = names.get(function.value.id)
        if isinstance(holder, ModuleType):
            return _of(getattr(holder, function.attr, None))
        return f"math.{function.attr}()" if holder is None and function.value.id == "math" else None
    if isinstance(function, ast.Name):
        return _of(names.get(function.id, getattr(builtins, function.id, None)))
    return None


def _of(value: Any) -> str | None:
    if isinstance(value, type):
        return next((text for number, text in _NUMBERS.items() if value == number), None)
    name = getattr(value, "__name__", "")
    if getattr(value, "__module__", None) == "builtins" and f"{name}()" in _EXTREMES:
        return f"{name}()"
    return f"math.{name}()" if getattr(value, "__module__", None) == "math" else None
