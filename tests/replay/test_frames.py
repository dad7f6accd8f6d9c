"""Which of the user's functions run when a line is reached."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch

from guarddiff.replay import frames
from guarddiff.replay.frames import Mark, Seen


def inner(size: int, x: torch.Tensor) -> torch.Tensor:
    half = size // 2  # the mark
    return x[:half]


def outer(x: torch.Tensor) -> Any:
    y = x * 2
    x = torch.nn.functional.relu(y)
    return [inner(n, x) for n in (x.shape[0], 4)]


LINE = inner.__code__.co_firstlineno + 1
MARK = Mark("test_frames.py", LINE, "half = size // 2  # the mark")


def test_the_calls_that_lead_to_a_line() -> None:
    hits = frames.watch(lambda: outer(torch.ones(6)), MARK)
    assert [[f.code.co_name for f, _ in hit if f.code.co_name in ("outer", "inner")] for hit in hits] == [
        ["outer", "inner"],
        ["outer", "inner"],
    ]
    assert [hit[-1][0].arguments["size"] for hit in hits] == [6, 4]
    frame, line = hits[0][-1]
    assert line == LINE
    assert frame.lines[LINE + 1]["half"] == 3
    assert isinstance(frame.returned, Seen)


def test_variables_before_each_line() -> None:
    hits = frames.watch(lambda: outer(torch.ones(6)), MARK)
    frame = next(f for f, _ in hits[0] if f.code.co_name == "outer")
    first = outer.__code__.co_firstlineno + 1
    assert "y" not in frame.lines[first]
    assert frame.lines[first + 1]["y"].shape == (6,)


def test_without_a_mark_the_outermost_call() -> None:
    (hit,) = frames.watch(lambda: outer(torch.ones(6)), None)
    assert hit[0][0].code.co_name == "<lambda>"


@pytest.mark.parametrize("mark", [Mark("test_frames.py", LINE, "other text"), Mark("other.py", LINE), Mark("x", 1)])
def test_another_line_is_not_reached(mark: Mark) -> None:
    assert frames.watch(lambda: outer(torch.ones(6)), mark) == []


def test_a_trace_function_is_put_back_also_after_an_error() -> None:
    def fails() -> None:
        raise ValueError

    before = sys.gettrace()
    with pytest.raises(ValueError):
        frames.watch(fails, None)
    assert sys.gettrace() is before


def test_large_tensors_are_not_kept() -> None:
    seen = frames.remember([torch.zeros(1_000_000), {"a": torch.zeros(2)}])
    assert seen[0] == Seen((1_000_000,), torch.float32, None)
    assert seen[1]["a"].tensor is not None
