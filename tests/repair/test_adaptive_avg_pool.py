"""Adaptive average pooling: real exports at sizes that the export never saw, against eager PyTorch in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.repair.pooling import POOLING, Call, Runner, error, export, table
from torch import nn

from guarddiff.repair.adaptive_avg_pool import STRICT_TRANSLATIONS
from guarddiff.repair.averaging import MOST_WINDOWS_BY_MATRIX

pytestmark = pytest.mark.usefixtures("shared_registry")

SIZES = {
    1: [(12,), (5,), (1,), (50,), (223,)],
    2: [(12, 12), (5, 7), (1, 1), (2, 50), (61, 83), (223, 451)],
    3: [(12, 12, 12), (5, 7, 9), (1, 2, 3), (31, 22, 17)],
}
EXAMPLE = {1: (6,), 2: (6, 6), 3: (6, 6, 6)}


def halves(x: torch.Tensor) -> torch.Tensor:
    return F.adaptive_avg_pool2d(x, (x.shape[2] // 2 + 1, x.shape[3] // 2 + 1))


CASES: dict[str, tuple[int, Callable[..., Any]]] = {
    "1d": (1, lambda x: F.adaptive_avg_pool1d(x, 3)),
    "1d_to_one": (1, nn.AdaptiveAvgPool1d(1)),
    "1d_large": (1, lambda x: F.adaptive_avg_pool1d(x, MOST_WINDOWS_BY_MATRIX + 1)),
    "1d_area": (1, lambda x: F.interpolate(x, size=5, mode="area")),
    "2d": (2, lambda x: F.adaptive_avg_pool2d(x, (2, 3))),
    "2d_module": (2, nn.AdaptiveAvgPool2d(7)),
    "2d_to_one": (2, lambda x: F.adaptive_avg_pool2d(x, 1)),
    "2d_to_one_row": (2, lambda x: F.adaptive_avg_pool2d(x, (1, 4))),
    "2d_none_first": (2, lambda x: F.adaptive_avg_pool2d(torch.relu(x), (None, 3))),
    "2d_none_last": (2, nn.AdaptiveAvgPool2d((1, None))),
    "2d_none": (2, lambda x: F.adaptive_avg_pool2d(x, (None, None))),
    "2d_large": (2, lambda x: F.adaptive_avg_pool2d(x, (MOST_WINDOWS_BY_MATRIX + 1, 130))),
    "2d_large_and_small": (2, lambda x: F.adaptive_avg_pool2d(x, (MOST_WINDOWS_BY_MATRIX + 1, 3))),
    "2d_area": (2, lambda x: F.interpolate(x, size=(5, 4), mode="area")),
    "3d": (3, lambda x: F.adaptive_avg_pool3d(x, (2, 3, 2))),
    "3d_module": (3, nn.AdaptiveAvgPool3d((5, None, 1))),
    "3d_to_one": (3, lambda x: F.adaptive_avg_pool3d(x, 1)),
    "3d_large": (3, lambda x: F.adaptive_avg_pool3d(x, (MOST_WINDOWS_BY_MATRIX + 1, 3, 2))),
    "3d_area": (3, lambda x: F.interpolate(x, size=(5, 4, 2), mode="area")),
}
# Their errors have tests of their own: one value for each plane leaves all to chance.
MEANS = ("1d_to_one", "2d_to_one", "3d_to_one")
BATCHED_ONLY = ("1d_area", "2d_area", "3d_area")


def check(run: Runner, function: Callable[..., Any], x: torch.Tensor, allowed: float = 1.0) -> None:
    """The error of ONNX Runtime is at most that of eager PyTorch, up to half a rounding of the result: few values leave
    much to chance. ``test_error_over_many_values`` has no such allowance."""
    expected = function(x)
    exact = function(x.double())
    (found,) = run(x)
    assert found.dtype == expected.dtype
    chance = torch.finfo(x.dtype).eps / 2 * float(exact.norm())
    assert error(found, exact) <= allowed * error(expected, exact) + chance, tuple(x.shape)


@pytest.mark.parametrize("batched", [True, False], ids=["batched", "unbatched"])
@pytest.mark.parametrize("name", CASES)
def test_sizes_not_seen_at_export(name: str, batched: bool) -> None:
    spatial, function = CASES[name]
    if not batched and name in BATCHED_ONLY:
        pytest.skip("interpolate wants a batch")
    lead = (2, 3) if batched else (3,)
    run = Runner(export(function, torch.randn(*lead, *EXAMPLE[spatial]), spatial))
    torch.manual_seed(1)
    for size in SIZES[spatial]:
        x = torch.randn(*((5, 3) if batched else (3,)), *size)
        if name in MEANS:
            torch.testing.assert_close(run(x)[0], function(x), rtol=1e-5, atol=2e-7)
        else:
            check(run, function, x)
    if batched:
        check(run, function, torch.randn(0, 3, *SIZES[spatial][1]))


@pytest.mark.parametrize("name", ["1d", "1d_area", "2d", "2d_to_one_row", "2d_none_first", "2d_large", "3d", "3d_area"])
def test_program_that_the_user_decomposed(name: str) -> None:
    spatial, function = CASES[name]
    run = Runner(export(function, torch.randn(2, 3, *EXAMPLE[spatial]), spatial, decomposed=True))
    torch.manual_seed(2)
    for size in SIZES[spatial]:
        check(run, function, torch.randn(4, 3, *size))


@pytest.mark.parametrize("offset", [0.0, 100.0])
@pytest.mark.parametrize("name", ["1d", "2d_module", "2d_large", "2d_area", "3d"])
def test_error_over_many_values_is_at_most_that_of_eager(name: str, offset: float) -> None:
    """Enough windows that chance does not decide."""
    spatial, function = CASES[name]
    run = Runner(export(function, torch.randn(2, 64, *EXAMPLE[spatial]), spatial))
    torch.manual_seed(3)
    for size in SIZES[spatial][-2:]:
        x = torch.randn(4, 64, *size) + offset
        exact = function(x.double())
        # 2 %: with an offset, which grid a sum is rounded to depends on the order of adding.
        assert error(run(x)[0], exact) <= 1.02 * error(function(x), exact)


@pytest.mark.parametrize("size", [(7, 7), (12, 12), (56, 56)], ids=str)
def test_error_of_means_is_about_that_of_eager(size: tuple[int, int]) -> None:
    function = CASES["2d_to_one"][1]
    run = Runner(export(function, torch.randn(2, 64, 6, 6), 2))
    torch.manual_seed(7)
    x = torch.randn(32, 64, *size)
    exact = function(x.double())
    assert error(run(x)[0], exact) <= 1.1 * error(function(x), exact)


@pytest.mark.parametrize(
    ("name", "size"), [("1d_to_one", (50000,)), ("2d_to_one", (224, 224)), ("3d_to_one", (40, 40, 40))]
)
def test_strict_means_are_as_exact_as_eager_at_any_length(name: str, size: tuple[int, ...]) -> None:
    spatial, function = CASES[name]
    run = Runner(
        export(function, torch.randn(2, 8, *EXAMPLE[spatial]), spatial, translations=table(STRICT_TRANSLATIONS))
    )
    torch.manual_seed(8)
    for offset in (0.0, 100.0):
        x = torch.randn(4, 8, *size) + offset
        exact = function(x.double())
        # 2 %: with an offset, which sums are rounded to which grid depends on their order.
        assert error(run(x)[0], exact) <= 1.02 * error(function(x), exact)


LARGE = MOST_WINDOWS_BY_MATRIX + 1


@pytest.mark.parametrize("translations", [None, table(STRICT_TRANSLATIONS)], ids=["fast", "strict"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize("name", ["1d_large", "2d_large", "3d_all_large"])
def test_large_outputs_that_divide_and_that_do_not(name: str, dtype: torch.dtype, translations: Any) -> None:
    """One graph, two ways: it looks at the sizes when it runs."""
    spatial, function, size = {
        "1d_large": (1, lambda x: F.adaptive_avg_pool1d(x, LARGE), (LARGE,)),
        "2d_large": (2, lambda x: F.adaptive_avg_pool2d(x, (LARGE, 40)), (LARGE, 40)),
        "3d_all_large": (3, lambda x: F.adaptive_avg_pool3d(x, (LARGE, 34, 35)), (LARGE, 34, 35)),
    }[name]
    run = Runner(export(function, torch.randn(2, 2, *EXAMPLE[spatial]).to(dtype), spatial, translations=translations))
    torch.manual_seed(9)
    inner = size[1:]
    for sizes in [
        size,
        (2 * size[0], *inner),
        (3 * size[0] + 1, *inner),
        (size[0], *(2 * n for n in inner)),
        EXAMPLE[spatial],
    ]:
        check(run, function, torch.randn(3, 2, *sizes).to(dtype), allowed=2.0 if dtype == torch.float16 else 1.0)
    assert run(torch.randn(0, 2, *size).to(dtype))[0].shape == (0, 2, *size)


def test_two_large_outputs_in_one_model() -> None:
    """Their branches share no names."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return F.adaptive_avg_pool2d(F.adaptive_avg_pool2d(x, (LARGE, 40)), (40, LARGE))

    run = Runner(export(function, torch.randn(2, 3, 6, 6), 2))
    for size in [(LARGE, 40), (61, 83)]:
        x = torch.randn(2, 3, *size)
        torch.testing.assert_close(run(x)[0], function(x))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("name", ["1d", "2d_module", "2d_to_one", "2d_none_last", "2d_large", "3d"])
def test_other_types(name: str, dtype: torch.dtype) -> None:
    spatial, function = CASES[name]
    run = Runner(export(function, torch.randn(2, 8, *EXAMPLE[spatial]).to(dtype), spatial))
    torch.manual_seed(4)
    for size in SIZES[spatial]:
        x = (torch.randn(3, 8, *size) + 1).to(dtype)
        if dtype == torch.float64:
            torch.testing.assert_close(run(x)[0], function(x), rtol=1e-13, atol=1e-15)
        else:
            check(run, function, x, allowed=2.0)
    assert run(torch.randn(0, 8, *SIZES[spatial][1]).to(dtype))[0].shape[0] == 0


@pytest.mark.parametrize(
    "function",
    [halves, lambda x: F.interpolate(x, scale_factor=0.5, mode="area")],
    ids=["floor_division", "scale"],
)
def test_output_size_over_symbols(function: Callable[..., Any]) -> None:
    run = Runner(export(function, torch.randn(2, 3, 8, 8), 2))
    torch.manual_seed(5)
    for size in [(12, 12), (5, 7), (2, 3), (61, 83)]:
        check(run, function, torch.randn(4, 3, *size))


class ToSizeOf(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.adaptive_avg_pool2d(x, y.shape[2:])


def test_output_size_of_another_input() -> None:
    args = (torch.randn(1, 3, 8, 8), torch.randn(1, 3, 4, 5))
    dims = ({2: "h", 3: "w"}, {2: "a", 3: "b"})
    program = torch.onnx.export(ToSizeOf(), args, dynamic_shapes=dims, custom_translation_table=POOLING, verbose=False)
    assert program is not None
    for size, to in [((9, 7), (4, 7)), ((30, 31), (2, 3)), ((3, 3), (5, 8))]:
        x, y = torch.randn(1, 3, *size), torch.randn(1, 3, *to)
        torch.testing.assert_close(program(x, y)[0], F.adaptive_avg_pool2d(x, to))


def operators(program: torch.onnx.ONNXProgram) -> list[str]:
    return [node.op_type for node in program.model.graph.all_nodes()]


def fixed(function: Callable[..., Any], x: torch.Tensor) -> torch.onnx.ONNXProgram:
    """All sizes but the batch as in the example."""
    program = torch.onnx.export(
        Call(function), (x,), dynamic_shapes=({0: "n"},), custom_translation_table=POOLING, verbose=False
    )
    assert program is not None
    return program


def test_fixed_size_that_divides_is_average_pool() -> None:
    function = nn.AdaptiveAvgPool2d(7)
    program = fixed(function, torch.randn(2, 3, 14, 21))
    assert operators(program) == ["AveragePool"]
    check(Runner(program), function, torch.randn(5, 3, 14, 21))


def test_fixed_size_that_divides_without_a_batch() -> None:
    function = nn.AdaptiveAvgPool2d(7)
    program = fixed(function, torch.randn(3, 14, 21))
    assert "AveragePool" in operators(program)
    check(Runner(program), function, torch.randn(5, 14, 21))


def test_fixed_size_in_float16() -> None:
    function = nn.AdaptiveAvgPool2d(7)
    check(Runner(fixed(function, torch.randn(2, 3, 14, 21).half())), function, torch.randn(5, 3, 14, 21).half(), 2.0)


def test_fixed_size_in_float64_has_no_average_pool() -> None:
    """ONNX Runtime has none for float64 on the CPU."""
    function = nn.AdaptiveAvgPool2d(7)
    program = fixed(function, torch.randn(2, 3, 14, 21).double())
    assert "AveragePool" not in operators(program)
    check(Runner(program), function, torch.randn(5, 3, 14, 21).double())


def test_to_one_is_a_mean_alone() -> None:
    assert operators(export(CASES["2d_to_one"][1], torch.randn(2, 3, 6, 6), 2)) == ["ReduceMean"] * 2


def test_none_leaves_the_axis_alone() -> None:
    assert operators(export(CASES["2d_none_last"][1], torch.randn(2, 3, 6, 6), 2)) == ["ReduceMean"]
    assert operators(export(CASES["2d_none"][1], torch.randn(2, 3, 6, 6), 2)) == ["Identity"]
    assert operators(export(CASES["2d_none_first"][1], torch.randn(2, 3, 6, 6), 2)).count("MatMul") == 1


@pytest.mark.parametrize("size", [7, 40])
@pytest.mark.parametrize("translations", [None, table(STRICT_TRANSLATIONS)], ids=["fast", "strict"])
def test_every_way_that_is_chosen_at_run_time(size: int, translations: Any) -> None:
    """Windows of two cells, large and small windows that divide, and others, in one model."""
    x = torch.randn(2, 3, 9, 11)
    program = export(nn.AdaptiveAvgPool2d(size), x, 2, translations=translations)
    assert operators(program).count("AveragePool") == 1
    assert operators(program).count("If") == 2
    runner = Runner(program)
    for height, width in ((2, 2), (1, 1), (3, 5), (8, 8), (9, 16), (2, 1), (2, 4)):
        check(runner, nn.AdaptiveAvgPool2d(size), torch.randn(2, 3, height * size, width * size) + 10)
    check(runner, nn.AdaptiveAvgPool2d(size), torch.randn(1, 3, 2 * size + 1, 2 * size))


def test_no_windows_where_half_a_size_is_none() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return F.adaptive_avg_pool2d(x, (x.shape[2] // 2, x.shape[3] // 2))

    runner = Runner(export(function, torch.randn(2, 3, 8, 12), 2))
    for height, width in ((1, 12), (8, 1), (1, 1), (9, 13), (2, 3)):
        check(runner, function, torch.randn(2, 3, height, width))


def test_graph_that_does_not_divide_is_small() -> None:
    x = torch.randn(1, 2, 223, 451)
    function = nn.AdaptiveAvgPool2d(7)
    dynamic = export(function, x, 2)
    assert len(operators(dynamic)) <= 60
    assert len(operators(fixed(function, x))) <= 60
    assert "If" not in operators(fixed(function, x))


# --- NaN and infinity ---


def spoiled(size: tuple[int, ...]) -> torch.Tensor:
    torch.manual_seed(6)
    x = torch.randn(2, 3, *size)
    flat = x.view(6, -1)
    flat[0, 5] = float("nan")
    flat[1, 7] = float("inf")
    flat[2, -1] = -float("inf")
    flat[3, 0], flat[3, 1] = float("inf"), -float("inf")
    return x


@pytest.mark.parametrize("name", ["1d", "2d", "2d_module", "2d_large", "2d_large_and_small", "3d"])
def test_strict_form_keeps_nan_and_infinity_where_they_are(name: str) -> None:
    spatial, function = CASES[name]
    program = export(function, torch.randn(2, 3, *EXAMPLE[spatial]), spatial, translations=table(STRICT_TRANSLATIONS))
    run = Runner(program)
    for size in [tuple(2 * n for n in EXAMPLE[spatial]), tuple(n + 7 for n in EXAMPLE[spatial])]:
        x = spoiled(size)
        torch.testing.assert_close(run(x)[0], function(x), equal_nan=True)
        check(run, function, torch.randn(2, 3, *size))


def test_fast_form_spreads_them_over_the_plane_and_no_further() -> None:
    function = CASES["2d"][1]
    run = Runner(export(function, torch.randn(2, 3, 6, 6), 2))
    x = spoiled((13, 11))
    found, expected = run(x)[0].view(6, -1), function(x).view(6, -1)
    torch.testing.assert_close(found[4:], expected[4:])
    assert not found[:4].isfinite().any()
    assert expected[:4].isfinite().any()


def test_gathered_cells_keep_nan_in_its_windows() -> None:
    function = CASES["2d_large"][1]
    run = Runner(export(function, torch.randn(2, 3, 6, 6), 2))
    x = spoiled((200, 211))
    found, expected = run(x)[0], function(x)
    assert torch.equal(found.isfinite(), expected.isfinite())
