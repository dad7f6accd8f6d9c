from __future__ import annotations

import pytest

from guarddiff.core.proof import Try, TryState
from guarddiff.render.proofs import try_count, try_rows


def runs(state: TryState, sizes: range, scope: str = "model") -> list[Try]:
    return [Try({"x": (size,)}, state, scope) for size in sizes]  # type: ignore[arg-type]


def test_of_each_way_that_runs_went_the_first_are_shown() -> None:
    tries = [
        *runs("agrees", range(1, 3)),
        *runs("rejected", range(33, 60)),
        *runs("differs", range(3, 4)),
        *runs("agrees", range(4, 30)),
        *runs("rejected", range(33, 60), "operator"),
    ]
    shown, left = try_rows(tries, 9)
    assert [(row.scope, row.state, row.sizes) for row in shown] == [
        ("whole model", "differs", "x=(3,)"),
        ("whole model", "eager PyTorch refuses it", "x=(33,)"),
        ("whole model", "eager PyTorch refuses it", "x=(34,)"),
        ("whole model", "eager PyTorch refuses it", "x=(35,)"),
        ("whole model", "agrees", "x=(1,)"),
        ("whole model", "agrees", "x=(2,)"),
        ("whole model", "agrees", "x=(4,)"),
        ("operator by itself", "eager PyTorch refuses it by itself", "x=(33,)"),
        ("operator by itself", "eager PyTorch refuses it by itself", "x=(34,)"),
    ]
    assert left == len(tries) - 9


@pytest.mark.parametrize(
    ("tries", "said"),
    [
        ([], "0 runs"),
        (runs("agrees", range(1)), "1 run: 1 agrees"),
        (
            [*runs("rejected", range(2), "operator"), *runs("differs", range(1)), *runs("agrees", range(5))],
            "6 runs: 1 differs, 5 agree; 2 runs of an operator by itself: 2 refused by eager PyTorch",
        ),
    ],
)
def test_runs_of_an_operator_are_counted_apart(tries: list[Try], said: str) -> None:
    assert try_count(tries) == said
