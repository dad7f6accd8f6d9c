"""Cases of torch's operator database: which samples, what is dynamic, which other sizes."""

from __future__ import annotations

import itertools

import pytest
import torch

from guarddiff.sweep import operators, sources


def test_parameters_stay_static() -> None:
    for name, inputs in {"nn.functional.conv2d": 1, "nn.functional.linear": 1, "nn.functional.embedding": 1}.items():
        trial = sources.trial(sources.case(f"ops/{name}/{_first(name)}"))
        assert len(trial.shapes) == inputs, name
        assert len(trial.keywords["dynamic_shapes"][0]) == inputs
    embedding = sources.trial(sources.case(f"ops/nn.functional.embedding/{_first('nn.functional.embedding')}"))
    (args, _) = embedding.at(embedding.shapes)
    assert args[0].dtype == torch.int64  # the positions, not the table


def _first(name: str) -> int:
    return operators._chosen(name)[0][0]


def test_two_processes_would_make_the_same_inputs() -> None:
    case = sources.case(f"ops/add/{_first('add')}")
    one, two = sources.trial(case), sources.trial(case)
    for shapes in (one.shapes, one.others[0]):
        for a, b in zip(one.at(shapes)[0], two.at(shapes)[0], strict=True):
            assert torch.equal(a, b) and tuple(a.shape) in shapes


def test_samples_of_an_operator_differ_in_kind() -> None:
    chosen = operators._chosen("clamp")
    assert 1 < len(chosen) <= operators.MOST_SAMPLES
    kinds = [operators._kind(sample) for _, sample in chosen]
    assert len(set(kinds)) == len(kinds)


def test_the_other_sizes() -> None:
    shapes = ((5, 5), (10, 20))
    found = list(operators.others(shapes))
    assert len(set(found)) == len(found) and shapes not in found
    assert ((10, 10), (20, 40)) in found and ((6, 6), (11, 21)) in found  # all at once
    assert ((5, 5), (13, 20)) in found  # every ten
    assert ((11, 5), (10, 20)) in found  # one axis alone
    assert all(size > 0 for shapes in found for size in itertools.chain(*shapes))
    assert list(operators.others(((),))) == []


def test_resized_keeps_the_kind_of_values() -> None:
    floats = torch.rand(3, 4) + 1
    bigger = operators.resized(floats, (6, 5))
    assert bigger.shape == (6, 5) and bigger.unique().numel() == 30  # no ties
    assert bigger.min() >= 0.9 and bigger.max() <= 2
    positions = torch.tensor([2, 0, 1])
    assert operators.resized(positions, (5,)).tolist() == [2, 0, 1, 2, 0]
    assert torch.equal(operators.resized(floats, (3, 4)), floats)


def test_keys() -> None:
    assert sources.case("ops/kron/0").family == "kron"
    for wrong in ("ops/no such operator/0", "ops/kron/x", "elsewhere/kron/0"):
        with pytest.raises(KeyError):
            sources.case(wrong)
    with pytest.raises(KeyError):
        sources.trial(sources.case("ops/kron/100000"))


def test_what_is_sorted_stays_sorted() -> None:
    offsets = torch.tensor([0, 2, 3])
    assert operators.resized(offsets, (5,)).tolist() == [0, 0, 2, 2, 3]
    bounds = torch.arange(6.0).reshape(2, 3) + 1
    bigger = operators.resized(bounds, (2, 7))
    assert torch.equal(bigger, bigger.sort(dim=-1).values)
    assert not torch.equal(operators.resized(bounds.flip(-1), (2, 7)), bigger)


def test_operators_whose_values_are_undefined_are_left_out() -> None:
    assert operators._left_out("empty_like") and operators._left_out("jiterator_unary")
    assert not operators._left_out("emptyish") and not operators._left_out("abs")
