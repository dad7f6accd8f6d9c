"""ShapeEnv → core.Snapshot: what the symbolic-shape state says, as text over dimension variables."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import sympy

from guarddiff.core.snapshot import Guard, GuardKind
from guarddiff.torch_bridge import probe

_SIZE_SOURCE = re.compile(r"^(?P<base>.+)\.size\(\)\[(?P<axis>\d+)\]$")
_PATH = re.compile(r"\[(?:'([^']*)'|\"[^\"]*\"|(\d+))\]|\.(\w+)")
_UNBACKED = re.compile(r"(u|zuf)\d+$")
"""Symbols of data-dependent sizes and numbers."""
_INFINITIES = {"oo", "-oo", "int_oo", "-int_oo"}
_OWN_LOWER = 2


def of_program(program: Any) -> Any:
    """The ShapeEnv of an ExportedProgram's placeholders; None where no size is symbolic.

    Raises what torch raises when its private names have changed.
    """
    values = [node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"]
    own = next((value.fake_mode for value in values if hasattr(value, "fake_mode")), None)
    if own is not None:  # detect_fake_mode minds a mode of the user's that is on as well
        return own.shape_env
    mode = probe.DETECT_FAKE_MODE.get()(values)
    return getattr(mode, "shape_env", None)


@dataclass(frozen=True)
class State:
    """A copy of one ShapeEnv's state: sympy expressions, which never change.

    Programs before and after decomposition share one ShapeEnv, so what it says must be copied in between.
    """

    guards: tuple[Any, ...] = ()
    asserts: tuple[tuple[Any, Any], ...] = ()
    ranges: tuple[tuple[Any, Any, Any], ...] = ()
    replacements: tuple[tuple[Any, Any], ...] = ()
    constraints: tuple[tuple[Any, Any, Any], ...] = ()


def read(shape_env: Any, range_constraints: Mapping[Any, Any] | None = None) -> State:
    """Copy the guards, deferred runtime asserts, variable ranges and replacements of a ShapeEnv.

    ``range_constraints`` are the program's public ones; None leaves them out.
    """
    asserts = tuple(
        (symbol, item.expr) for symbol, items in shape_env.deferred_runtime_asserts.items() for item in items
    )
    return State(
        guards=tuple(guard.expr for guard in shape_env.guards),
        asserts=asserts,
        ranges=tuple((s, r.lower, r.upper) for s, r in shape_env.var_to_range.items()),
        replacements=tuple(shape_env.replacements.items()),
        constraints=tuple((s, r.lower, r.upper) for s, r in (range_constraints or {}).items()),
    )


def declared_ranges(state: State) -> dict[Any, tuple[int, int | None]]:
    """Symbol → range of a program's public constraints, as far as no guard of the state explains it: for a program that
    was exported before, that is what was declared. Lower bounds up to 2 are torch's own; an upper of None has no end.
    What is fixed to one size was not declared so."""
    conditions = (*state.guards, *(condition for _, condition in state.asserts))
    found = {}
    for symbol, lower, upper in state.constraints:
        alone = [guard for guard in conditions if getattr(guard, "free_symbols", None) == {symbol}]

        def guarded(size: int, symbol: Any = symbol, alone: Sequence[Any] = alone) -> bool:
            return any(guard.xreplace({symbol: sympy.Integer(size)}) == sympy.false for guard in alone)

        if lower == upper:
            continue
        last = None if str(upper) in _INFINITIES or guarded(int(upper) + 1) else int(upper)
        first = 0 if str(lower) in _INFINITIES or lower <= _OWN_LOWER or guarded(int(lower) - 1) else int(lower)
        found[symbol] = (first, last)
    return found


def size_sources(shape_env: Any) -> dict[Any, tuple[str, int]]:
    """Symbol → (placeholder name, axis) of the first input dimension it was made for.

    The source text ``L['past'][0][1].size()[2]`` names the input by its path, and torch names placeholders by
    the same path (``past_0_1``); strict capture numbers them (``flat_args_3``). Symbols without such a source
    (unbacked ones, roots of derived dimensions) are left out.
    """
    found: dict[Any, tuple[str, int]] = {}
    for text, expression in shape_env.source_to_var.items():
        match = _SIZE_SOURCE.match(text)
        if match and isinstance(expression, sympy.Symbol):
            found.setdefault(expression, (placeholder_name(match["base"]), int(match["axis"])))
    return found


def placeholder_name(source: str) -> str:
    """``L['past'][0][1]`` → ``past_0_1``, as torch.export names its placeholders."""
    parts = [quoted or number or attribute for quoted, number, attribute in _PATH.findall(source)]
    return "_".join("".join(c if c.isalnum() else "_" for c in part) for part in parts).lower()


def constants(shape_env: Any) -> set[Any]:
    """Symbols of inputs that are no sizes: Python numbers, which the exporter fixes by design."""
    return {
        expression
        for text, expression in shape_env.source_to_var.items()
        if isinstance(expression, sympy.Symbol) and not _SIZE_SOURCE.match(text)
    }


@dataclass
class Namer:
    """Prints sympy expressions as Python text over dimension variables.

    ``names`` maps a symbol to its text: a variable (``h``, ``x[2]``) or, for a derived dimension, an expression
    over one (``(2*h)``). ``variables`` maps it to that variable. Symbols that are not in it keep their own
    names; a guard on unbacked ones (``u0``) or on ``constants`` (Python numbers among the inputs) says so, one on
    others can't be evaluated.
    """

    names: dict[Any, str]
    variables: dict[Any, str]
    constants: set[Any] = field(default_factory=set)
    _texts: dict[Any, str] = field(default_factory=dict)

    @cached_property
    def _printer(self) -> Any:
        return _printer(self.names)

    def text(self, expression: Any) -> str:
        """Python text; torch's ``str`` where the printer does not know a function."""
        known = self._texts.get(expression)
        if known is None:
            try:
                known = _plain(self._printer.doprint(expression))
            except Exception:
                known = str(expression)
            self._texts[expression] = known
        return known

    def size(self, size: Any) -> int | str:
        """A size of a tensor's shape: an int, or the text of a symbolic one."""
        if isinstance(size, int):
            return size
        expression = expression_of(size)
        return int(expression) if expression.is_Integer else self.text(expression)

    def guard(self, expression: Any, kind: GuardKind, **more: Any) -> Guard:
        """A core Guard; ``more`` are its further fields."""
        symbols: set[Any] = getattr(expression, "free_symbols", set())
        variables = sorted({self.variables[s] for s in symbols if s in self.variables})
        outside = self.constants - self.variables.keys()
        unbacked = any(s in outside or _UNBACKED.match(str(s)) for s in symbols)
        return Guard(self.text(expression), kind, tuple(variables), str(expression), unbacked=unbacked, **more)

    def guards(self, state: State) -> list[Guard]:
        """All conditions of a state. Ranges that say nothing (from 0 up) are left out."""
        out = [self.guard(e, "guard") for e in state.guards]
        out += [self.guard(e, "assert") for _, e in state.asserts]
        for kind, rows in (("range", state.ranges), ("constraint", state.constraints)):
            for symbol, lower, upper in rows:
                out += [self.guard(e, kind) for e in bounds(symbol, lower, upper)]  # type: ignore[arg-type]
        out += [self.guard(sympy.Eq(s, e, evaluate=False), "replacement") for s, e in state.replacements]
        return out


def bounds(symbol: Any, lower: Any, upper: Any) -> Iterable[Any]:
    """A range as conditions: one equality for a singleton, none for a bound that is infinite, or a lower of 0 or 1."""
    bounded_below = str(lower) not in _INFINITIES and lower > 1
    if str(upper) in _INFINITIES:
        return [sympy.Ge(symbol, lower, evaluate=False)] if bounded_below else []
    if lower == upper:
        return [sympy.Eq(symbol, lower, evaluate=False)]
    low = [sympy.Ge(symbol, lower, evaluate=False)] if bounded_below else []
    return [*low, sympy.Le(symbol, upper, evaluate=False)]


def expression_of(size: Any) -> Any:
    """The sympy expression of a SymInt."""
    return size.node.expr


class _Differences(ast.NodeTransformer):
    """``a + -2 * b`` → ``a - 2 * b``: sympy knows no subtraction."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        positive = _positive(node.right) if isinstance(node.op, ast.Add) else None
        return node if positive is None else ast.BinOp(node.left, ast.Sub(), positive)


def _positive(node: ast.expr) -> ast.expr | None:
    """``-2 * b * c`` without its sign; None where its first factor is no negative number."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return node.operand
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)):
        return None
    first = _positive(node.left)
    if first is None:
        return None
    if isinstance(first, ast.Constant) and first.value == 1:
        return node.right
    return ast.BinOp(first, ast.Mult(), node.right)


def _plain(text: str) -> str:
    """The same condition without needless parentheses; the text itself where it is no Python."""
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, RecursionError, MemoryError, ValueError):
        return text
    return ast.unparse(_Differences().visit(tree))


def hint(size: Any) -> int:
    """The example size behind a SymInt; the int itself. Raises for unbacked symbols."""
    return size if isinstance(size, int) else int(size.node.hint)


def _printer(names: Mapping[Any, str]) -> Any:
    base: Any = probe.PRINTER.get()

    class DimensionPrinter(base):  # type: ignore[misc]
        """Plain Python: ``float``, ``math.sqrt`` and ``round`` in place of torch's own functions."""

        def _print_Symbol(self, expr: Any) -> str:
            return names.get(expr, str(expr))

        def _print_ToFloat(self, expr: Any) -> str:
            return f"float({self._print(expr.args[0])})"

        def _helper_sqrt(self, expr: Any) -> str:
            return f"math.sqrt({self._print(expr)})"

        def _print_RoundToInt(self, expr: Any) -> str:
            return f"round({self._print(expr.args[0])})"

        def _print_Not(self, expr: Any) -> str:
            return f"not ({self._print(expr.args[0])})"

    return DimensionPrinter()
