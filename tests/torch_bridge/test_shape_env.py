from __future__ import annotations

from typing import Any

import pytest
import sympy
import torch
from tests.torch_bridge.exports import AUTO, exported
from torch.utils._sympy import functions as f
from torch.utils._sympy.numbers import int_oo

from guarddiff.core import domain
from guarddiff.core.snapshot import Guard
from guarddiff.torch_bridge import shape_env
from guarddiff.torch_bridge.shape_env import Namer, State

H = sympy.Symbol("s0", integer=True, nonnegative=True)
W = sympy.Symbol("s1", integer=True, nonnegative=True)
D = sympy.Symbol("s2", integer=True, nonnegative=True)
U = sympy.Symbol("u0", integer=True, nonnegative=True)


def namer() -> Namer:
    return Namer({H: "h", W: "x[2]", D: "(2*h)"}, {H: "h", W: "x[2]", D: "h"})


def after(name: str) -> State:
    state = exported(name).recording.after
    assert state is not None
    return state


def before(name: str) -> State:
    state = exported(name).recording.before
    assert state is not None
    return state


# --- bounds ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("infinity", [sympy.oo, int_oo])
@pytest.mark.parametrize(("lower", "expected"), [(0, []), (1, []), (2, ["h >= 2"]), (7, ["h >= 7"])])
def test_bounds_without_an_upper_one(lower: int, expected: list[str], infinity: Any) -> None:
    found = shape_env.bounds(H, sympy.Integer(lower), infinity)
    assert [namer().text(e) for e in found] == expected


@pytest.mark.parametrize(
    ("lower", "upper", "expected"),
    [
        (0, 6, ["h <= 6"]),
        (1, 6, ["h <= 6"]),
        (2, 6, ["h >= 2", "h <= 6"]),
        (6, 6, ["h == 6"]),
        (0, 0, ["h == 0"]),
        (1, 1, ["h == 1"]),
        (0, 1, ["h <= 1"]),
    ],
)
def test_bounds_with_an_upper_one(lower: int, upper: int, expected: list[str]) -> None:
    found = shape_env.bounds(H, sympy.Integer(lower), sympy.Integer(upper))
    assert [namer().text(e) for e in found] == expected


@pytest.mark.parametrize("infinity", [-sympy.oo, -int_oo])
def test_bounds_without_a_lower_one(infinity: Any) -> None:
    assert [namer().text(e) for e in shape_env.bounds(H, infinity, sympy.Integer(6))] == ["h <= 6"]
    assert list(shape_env.bounds(H, infinity, int_oo)) == []


# --- names ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("L['x']", "x"),
        ("L['past'][0][1]", "past_0_1"),
        ("L['data']['keys'][0]", "data_keys_0"),
        ("L['past'].keys[0]", "past_keys_0"),
        ("L['Images']", "images"),
        ("L['flat_args'][3]", "flat_args_3"),
    ],
)
def test_placeholder_name(source: str, expected: str) -> None:
    assert shape_env.placeholder_name(source) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("pool", {("x", 0), ("x", 1), ("x", 2), ("x", 3)}),
        ("nested", {("data_b", 0), ("data_a", 0), ("pair_0", 1), ("pair_1_0", 1), ("scale", 0)}),
        (
            "cache",
            {
                ("x", 0),
                ("past_keys_0", 0),
                ("past_keys_1", 0),
                ("past_keys_1", 1),
                ("past_values_0", 0),
                ("past_values_1", 0),
            },
        ),
        ("derived", {("x", 0), ("y", 0)}),
        ("strict", {("flat_args_0", 0), ("flat_args_0", 1), ("flat_args_1", 1)}),
    ],
)
def test_size_sources_are_places_of_placeholders(name: str, expected: set[tuple[str, int]]) -> None:
    found = shape_env.size_sources(exported(name).recording.env)
    assert set(found.values()) == expected
    assert len(found) == len(expected)
    assert all(isinstance(symbol, sympy.Symbol) for symbol in found)


class Odd(torch.nn.Module):
    def forward(self, Big, a__b, _x, data):
        return Big.relu(), a__b.relu(), _x.relu(), data["k.1"].relu(), data["k--2"].relu()


def test_size_sources_of_odd_names_are_those_of_torch() -> None:
    tensors = [torch.ones(size, 2) for size in (3, 4, 5, 6, 7)]
    args = (*tensors[:3], {"k.1": tensors[3], "k--2": tensors[4]})
    each = {0: AUTO}
    captured = torch.export.export(Odd(), args, dynamic_shapes=(each, each, each, {"k.1": each, "k--2": each}))
    env = shape_env.of_program(captured)
    names = [node.name for node in captured.graph.nodes if node.op == "placeholder"]
    assert len(set(names)) == 5
    assert sorted(name for name, _ in shape_env.size_sources(env).values()) == sorted(names)


# --- texts ----------------------------------------------------------------------------------------------

TEXTS: list[tuple[Any, str]] = [
    (sympy.Eq(f.Mod(f.FloorDiv(H, 32), 7), 0), "h // 32 % 7 == 0"),
    (sympy.Eq(H - 2 * f.FloorDiv(H, 3), 2), "h - 2 * (h // 3) == 2"),
    (sympy.Eq(H - f.FloorDiv(H, 2), 3), "h - h // 2 == 3"),
    (sympy.Eq(f.TruncToInt(0.5 * f.ToFloat(H)), 3), "math.trunc(0.5 * float(h)) == 3"),
    (sympy.Eq(f.RoundToInt(0.5 * f.ToFloat(H)), 3), "round(0.5 * float(h)) == 3"),
    (sympy.Eq(f.TruncToInt(f.OpaqueUnaryFn_sqrt(f.ToFloat(H))), 3), "math.trunc(math.sqrt(float(h))) == 3"),
    (sympy.Ne(H, 1), "h != 1"),
    (sympy.Gt(H, 4), "h > 4"),
    (sympy.And(sympy.Ge(f.FloorDiv(H, 3), 1), sympy.Lt(W, 9)), "x[2] < 9 and h // 3 >= 1"),
    (sympy.Or(sympy.Eq(H, 2), sympy.Eq(f.Mod(H, 2), 0)), "h == 2 or h % 2 == 0"),
    (sympy.Not(sympy.Or(sympy.Eq(H, 2), sympy.Eq(W, 3)), evaluate=False), "not (h == 2 or x[2] == 3)"),
    (sympy.Eq(H, W), "h == x[2]"),
    (sympy.Eq(f.Mod(H * W, 6), 0), "h * x[2] % 6 == 0"),
    (sympy.Eq(D, 8), "2 * h == 8"),
    (sympy.Eq(f.FloorDiv(D, 3), 2), "2 * h // 3 == 2"),
    (sympy.Ge(D - 1, W), "-1 + 2 * h >= x[2]"),
    (sympy.Lt(U, 100), "u0 < 100"),
]


@pytest.mark.parametrize(("expression", "expected"), TEXTS, ids=[text for _, text in TEXTS])
def test_text(expression: Any, expected: str) -> None:
    assert namer().text(expression) == expected


def same(one: str, other: str) -> bool:
    """Whether two guards say the same at every size that matters here."""
    names = sorted(domain.parse(other).variables)
    points = [dict(zip(names, (a, b))) for a in range(40) for b in (range(12) if len(names) > 1 else (0,))]
    return [domain.holds(one, point) for point in points] == [domain.holds(other, point) for point in points]


EXPRESSIONS = [
    *(expression for expression, _ in TEXTS),
    sympy.Eq(f.CeilToInt(f.IntTrueDiv(H, 3)), 2),
    sympy.Eq(f.FloorToInt(f.IntTrueDiv(H, 3)), 2),
    sympy.Gt(f.IntTrueDiv(H, 4), 1.5),
    sympy.Eq(f.PythonMod(H, 5), 3),
    sympy.Lt(f.PowByNatural(H, 2), 50),
    sympy.Eq(sympy.Max(4, H), 4),
    sympy.Eq(sympy.Min(4, H, W), 3),
    sympy.Eq(f.FloorDiv(H + 2 * W - 3, 2), 5),
    sympy.Eq(-f.FloorDiv(-H, 2), 4),
    sympy.Eq(f.CleanDiv(6 * H, 3), 8),
    sympy.Eq(H * W - 3 * H - 2 * W, 1),
    sympy.Le(3 * H * W, 60),
    sympy.Eq(f.FloorDiv(f.FloorDiv(H - 1, 2) + 1, 2), 2),
    sympy.Ne(f.Mod(H, f.Mod(W, 5) + 1), 0),
]


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=str)
def test_text_says_what_torch_says(expression: Any) -> None:
    text = Namer({H: "h", W: "x[2]", D: "d"}, {}).text(expression)
    for h in (0, 1, 2, 3, 5, 6, 7, 8, 13, 64, 224):
        for w in (0, 1, 2, 3, 7, 12):
            said = bool(expression.subs({H: h, W: w, D: h, U: h}))
            assert domain.holds(text, {"h": h, "x[2]": w, "d": h, "u0": h}) is said, (text, h, w)


def test_text_of_what_the_printer_does_not_know_is_torchs_own() -> None:
    unknown = sympy.Eq(sympy.Function("strange")(H), 2)
    assert namer().text(unknown) in ("Eq(strange(s0), 2)", "strange(h) == 2")


def test_guard_names_its_variables_and_keeps_torchs_text() -> None:
    found = namer().guard(sympy.Eq(f.Mod(W + H, 2), 0), "assert")
    assert found.kind == "assert"
    assert found.variables == ("h", "x[2]")
    assert found.unbacked is False
    assert found.symbolic == str(sympy.Eq(f.Mod(W + H, 2), 0))
    assert same(found.text, "(h + x[2]) % 2 == 0")


def test_a_derived_dimension_counts_as_its_root() -> None:
    assert namer().guard(sympy.Eq(D, 8), "guard") == Guard("2 * h == 8", "guard", ("h",), "Eq(s2, 8)")


@pytest.mark.parametrize(("expression", "variables"), [(sympy.Lt(U, 9), ()), (sympy.Lt(U, H), ("h",))])
def test_a_guard_on_an_unbacked_symbol_says_so(expression: Any, variables: tuple[str, ...]) -> None:
    found = namer().guard(expression, "guard")
    assert found.unbacked is True
    assert found.variables == variables


def test_size() -> None:
    captured = exported("pool").recording.captured
    names = exported("pool").inputs.namer
    shape = next(node.meta["val"].shape for node in captured.graph.nodes if node.name == "x")
    assert [names.size(size) for size in shape] == ["x[0]", "x[1]", "x[2]", "x[3]"]
    assert [shape_env.hint(size) for size in shape] == [1, 2, 6, 6]
    assert names.size(7) == 7
    assert shape_env.hint(7) == 7


# --- state ----------------------------------------------------------------------------------------------


def test_of_program() -> None:
    recording = exported("pool").recording
    assert shape_env.of_program(recording.captured) is recording.env
    assert shape_env.of_program(recording.decomposed) is recording.env  # they share one: a copy is needed


def test_of_a_program_without_symbols() -> None:
    captured = torch.export.export(torch.nn.ReLU(), (torch.ones(2, 3),))
    assert shape_env.read(shape_env.of_program(captured)) == State()


def test_a_state_is_a_copy_that_decomposition_does_not_change() -> None:
    recording = exported("pool").recording
    now = shape_env.read(recording.env, recording.captured.range_constraints)
    assert before("pool").asserts == ()
    assert {str(lower) for _, lower, _ in before("pool").ranges} == {"0"}
    assert len(now.asserts) == 7
    assert {str(lower) for _, lower, _ in now.ranges} == {"0", "2", "3"}
    assert now == after("pool")


def test_deferred_asserts_on_sizes_are_read() -> None:
    recording = exported("pool").recording
    assert set(recording.env.deferred_runtime_asserts) == {None}
    assert {symbol for symbol, _ in after("pool").asserts} == {None}
    texts = [g.text for g in exported("pool").inputs.namer.guards(after("pool")) if g.kind == "assert"]
    assert texts[:4] == ["x[2] % 2 == 0", "x[3] % 3 == 0", "x[2] // 2 == 3", "x[3] // 3 == 2"]
    assert len(texts) == 7


def test_deferred_asserts_on_unbacked_symbols_are_read() -> None:
    (row,) = before("unbacked").asserts
    assert (str(row[0]), str(row[1])) == ("u0", "u0 < 100")
    found = [g for g in exported("unbacked").inputs.namer.guards(before("unbacked")) if g.kind == "assert"]
    assert found == [Guard("u0 < 100", "assert", (), "u0 < 100", unbacked=True)]


def test_ranges_and_constraints_are_read() -> None:
    found = exported("kron").inputs.namer.guards(before("kron"))
    expected = ["a[0] == 2", "a[1] == 3", "b[0] == 4", "b[1] == 5"]
    assert [g.text for g in found if g.kind == "range"] == expected
    assert [g.text for g in found if g.kind == "constraint"] == expected
    assert [g.kind for g in found] == ["range"] * 4 + ["constraint"] * 4


def test_constraints_are_left_out_where_none_are_given() -> None:
    recording = exported("kron").recording
    state = shape_env.read(recording.env)
    assert state.constraints == ()
    assert state.ranges == after("kron").ranges
    assert len(after("kron").constraints) == 4


def test_replacements_are_read() -> None:
    ((symbol, target),) = before("sum").replacements
    sources = shape_env.size_sources(exported("sum").recording.env)
    assert {sources[symbol], sources[target]} == {("x", 0), ("y", 0)}
    found = [g for g in exported("sum").inputs.namer.guards(before("sum")) if g.kind == "replacement"]
    assert [g.variables for g in found] == [("x[0]", "y[0]")]
    assert found[0].text in ("x[0] == y[0]", "y[0] == x[0]")


def test_guards_of_a_program_exported_before_are_read() -> None:
    recording = exported("program").recording
    assert before("program").guards == ()
    names = exported("program").inputs.namer
    found = [g.text for g in names.guards(after("program")) if g.kind == "guard"]
    assert found[:4] == ["x[2] % 2 == 0", "x[3] % 3 == 0", "x[2] // 2 == 3", "x[3] // 3 == 2"]
    assert [str(guard.expr) for guard in recording.env.guards] == [str(e) for e in after("program").guards]
    assert after("program").asserts == ()
    ranges = {names.text(s): (str(low), str(up)) for s, low, up in before("program").constraints}
    assert ranges == {"x[2]": ("2", "int_oo"), "x[3]": ("2", "60")}


def test_ranges_that_no_guard_explains_were_declared() -> None:
    a, b, c, d = sympy.symbols("s0 s1 s2 s3", integer=True, positive=True)
    state = State(
        guards=(sympy.Le(b, 8), sympy.Ge(b, 5), sympy.Lt(a, d)),
        asserts=((c, sympy.Le(c, 20)),),
        constraints=((a, 3, 8), (b, 5, 8), (c, 2, 20), (d, 4, 4), (sympy.Symbol("s4"), 0, int_oo)),
    )
    ranges = {str(symbol): found for symbol, found in shape_env.declared_ranges(state).items()}
    assert ranges == {"s0": (3, 8), "s1": (0, None), "s2": (0, None), "s4": (0, None)}
