"""Wrong and right declarations on small models: the tables that the tests on declarations share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.export import Dim

from guarddiff.analysis import declarations as rules
from guarddiff.core.declaration import Misdeclaration
from guarddiff.torch_bridge import declarations

D, A = Dim.DYNAMIC, Dim.AUTO


def ones(*sizes: int) -> torch.Tensor:
    return torch.ones(sizes)


class Image(nn.Module):
    def forward(self, images):
        return images * 2 + 1


class Two(nn.Module):
    def forward(self, x, y):
        return x * 2 + 1, y.relu()


class Add(nn.Module):
    def forward(self, x, y):
        return x + y


class Sum(nn.Module):
    """The second output is always 3 by 3."""

    def forward(self, x):
        return x * 2, x.new_ones(3, 3) * 2


class Past(nn.Module):
    def forward(self, x, past):
        return x + 1, past[0] * 2, past[1] * 3


class Parts(nn.Module):
    def forward(self, data, scale):
        return data["image"] * scale, data["mask"] * 2


class Keyword(nn.Module):
    def forward(self, x, *, y):
        return x + 1, y * 2


class Flag(nn.Module):
    def forward(self, x, flag):
        return x + 1 if flag else x - 1


class Optional(nn.Module):
    def forward(self, x, mask=None, y=None):
        return x + 1, y * 2


class Valid(nn.Module):
    """A kernel that has to fit."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 5)

    def forward(self, x):
        return self.conv(x)


IMAGE, TWO, EQUAL = (ones(2, 3, 6, 8),), (ones(2, 3), ones(4, 5)), (ones(2, 3), ones(2, 5))
PAST = (ones(2, 3), (ones(2, 3), ones(2, 4)))
PARTS = ({"image": ones(2, 3), "mask": ones(2, 4)}, ones(3))


@dataclass(frozen=True)
class Case:
    """A call: the model's class, its example inputs and what was declared."""

    model: Any
    args: Any
    declared: dict[str, Any]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    dynamo: bool = True


@dataclass(frozen=True)
class Wrong(Case):
    """``code``, ``where`` and a part of what the message says to write instead."""

    code: str = ""
    where: str = ""
    instead: str = ""


def told(case: Case) -> tuple[Misdeclaration, ...]:
    """What is told of it before the export."""
    found = declarations.request(case.model(), case.args, case.kwargs, case.declared, case.dynamo)
    return rules.before(found)


def _axes(code: str, where: str, instead: str, model: Any, args: Any, axes: Any, **more: Any) -> Wrong:
    kept = {name: more.pop(name) for name in ("kwargs", "dynamo") if name in more}
    return Wrong(model, args, {"dynamic_axes": axes, **more}, **kept, code=code, where=where, instead=instead)


def _shapes(code: str, where: str, instead: str, model: Any, args: Any, shapes: Any, **more: Any) -> Wrong:
    kept = {name: more.pop(name) for name in ("kwargs", "dynamo") if name in more}
    return Wrong(model, args, {"dynamic_shapes": shapes, **more}, **kept, code=code, where=where, instead=instead)


OUT = {"output_names": ["out"]}

WRONG: dict[str, Wrong] = {
    # names
    "axes: misspelt input": _axes(
        "unknown-input", "dynamic_axes['imges']", "dynamic_axes['images']", Image, IMAGE, {"imges": {0: "n"}}),
    "axes: misspelt input, named": _axes(
        "unknown-input", "dynamic_axes['pixel']", "dynamic_axes['pixels']", Image, IMAGE, {"pixel": {0: "n"}},
        input_names=["pixels"]),
    "axes: the model's name of a renamed input": _axes(
        "unknown-input", "dynamic_axes['images']", "dynamic_axes['pixels']", Image, IMAGE, {"images": {0: "n"}},
        input_names=["pixels"]),
    "axes: an output without output_names": _axes(
        "unknown-input", "dynamic_axes['output']", "output_names=['output'", Image, IMAGE,
        {"images": {0: "n"}, "output": {0: "n"}}),
    "axes: a misspelt output": _axes(
        "unknown-input", "dynamic_axes['ouput']", "dynamic_axes['output']", Image, IMAGE,
        {"images": {0: "n"}, "ouput": {0: "n"}}, output_names=["output"]),
    "axes: a parameter with parts": _axes(
        "unknown-input", "dynamic_axes['past']", "'past_0': {0: 'n'}, 'past_1': {0: 'n'}", Past, PAST,
        {"x": {0: "n"}, "past": {0: "n"}}),
    "axes: places in place of names": _axes(
        "mixed-keys", "dynamic_axes[1]", "dynamic_axes['y']", Two, TWO, {"x": {0: "n"}, 1: {0: "m"}}),
    "axes: one of two inputs": _axes(
        "missing-input", "dynamic_axes", "dynamic_shapes={'x': None, 'y': {0: 'm'}}", Two, TWO, {"y": {0: "m"}}),
    "axes: another order": _axes(
        "other-order", "dynamic_axes", "dynamic_shapes={'x': {0: 'n'}, 'y': {1: 'm'}}", Two, TWO,
        {"y": {1: "m"}, "x": {0: "n"}}),
    "axes: the second input by input_names": _axes(
        "other-order", "dynamic_axes", "dynamic_shapes={'x': None, 'y': {1: 'm'}}", Two, TWO, {"y": {1: "m"}},
        input_names=["x", "y"]),
    "axes: an input given by name alone": _axes(
        "keyword-only", "dynamic_axes", "dynamic_shapes={'x': {0: 'n'}, 'y': {0: 'm'}}", Keyword, (ones(2, 3),),
        {"x": {0: "n"}, "y": {0: "m"}}, kwargs={"y": ones(4, 5)}),
    "shapes: misspelt parameter": _shapes(
        "unknown-input", "dynamic_shapes['imges']", "dynamic_shapes['images']", Image, IMAGE, {"imges": {0: "n"}}),
    "shapes: the name of the ONNX input": _shapes(
        "unknown-input", "dynamic_shapes['pixels']", "dynamic_shapes['images']", Image, IMAGE, {"pixels": {0: D}},
        input_names=["pixels"]),
    "shapes: an output": _shapes(
        "unknown-input", "dynamic_shapes['out']", "dynamic_shapes={'images': {0: 'n'}}", Image, IMAGE,
        {"images": {0: "n"}, "out": {0: "n"}}, **OUT),
    "shapes: one of two parameters": _shapes(
        "missing-input", "dynamic_shapes", "dynamic_shapes={'x': {0: 'n'}, 'y': None}", Two, TWO, {"x": {0: "n"}}),
    "shapes: a parameter that is not given": _shapes(
        "unknown-input", "dynamic_shapes['mask']", "one of 'x' and 'y'", Optional, (ones(2, 3),),
        {"x": {0: D}, "mask": None, "y": {0: D}}, kwargs={"y": ones(4, 5)}),
    "shapes: integer keys beside names": _shapes(
        "mixed-keys", "dynamic_shapes", "dynamic_shapes={'x': {0: 'n'}, 'y': {0: 'm'}}", Two, TWO,
        {"x": {0: "n"}, 1: {0: "m"}}),
    "shapes: another order": _shapes(
        "other-order", "dynamic_shapes", "dynamic_shapes={'x': {0: 'n'}, 'y': {0: 'm'}}", Two, TWO,
        {"y": {0: "m"}, "x": {0: "n"}}),
    "shapes: too short a tuple": _shapes(
        "missing-input", "dynamic_shapes", "dynamic_shapes={'x': {0: 'n'}, 'y': None}", Two, TWO, ({0: "n"},)),
    "shapes: too long a tuple": _shapes(
        "surplus-input", "dynamic_shapes", "dynamic_shapes={'images': {0: 'n'}}", Image, IMAGE, ({0: "n"}, {0: "n"})),
    # nesting and form
    "shapes: one entry for a tuple": _shapes(
        "wrong-form", "dynamic_shapes['past']", "({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC})", Past, PAST,
        {"x": {0: "n"}, "past": {0: "n"}}),
    "shapes: a key of a dict": _shapes(
        "unknown-input", "dynamic_shapes['data']['img']", "dynamic_shapes['data']['image']", Parts, PARTS,
        {"data": {"img": {0: "n"}, "mask": None}, "scale": None}),
    "shapes: axes without the input": _shapes(
        "wrong-form", "dynamic_shapes", "dynamic_shapes={'images': {0: 'n'}}", Image, IMAGE, {0: "n"}),
    "shapes: a tuple of sizes without the input": _shapes(
        "wrong-form", "dynamic_shapes", "dynamic_shapes={'images': {0: 'n', 2: 'h'}}", Image, IMAGE,
        ("n", None, "h", None)),
    "shapes: a name for a whole tensor": _shapes(
        "wrong-form", "dynamic_shapes['images']", "{0: 'batch'}", Image, IMAGE, {"images": "batch"}),
    "shapes: a list of axes": _shapes(
        "wrong-form", "dynamic_shapes['images']", "{0: Dim.DYNAMIC, 2: Dim.DYNAMIC}", Image, IMAGE, {"images": [0, 2]}),
    "axes: a tuple of axes": _axes(
        "wrong-form", "dynamic_axes['images']", "[0, 2]", Image, IMAGE, {"images": (0, 2)}),
    "axes: both ways": _axes(
        "both-ways", "dynamic_axes", "dynamic_shapes={'images': {0: 'n', 2: 'h'}}", Image, IMAGE, {"images": {0: "n"}},
        dynamic_shapes={"images": {2: "h"}}),
    "axes: a value that is no tensor": _axes(
        "no-tensor", "dynamic_axes['flag']", "dynamic_shapes={'x': {0: 'n'}, 'flag': None}", Flag, (ones(2, 3), True),
        {"x": {0: "n"}, "flag": {0: "n"}}),
    # axes
    "axes: out of range": _axes(
        "axis-range", "dynamic_axes['images'][4]", "{3: 'w'}", Image, IMAGE, {"images": {4: "w"}}),
    "shapes: out of range": _shapes(
        "axis-range", "dynamic_shapes['images'][4]", "{3: Dim('w')}", Image, IMAGE, {"images": {4: Dim("w")}}),
    "shapes: sizes for fewer axes": _shapes(
        "axis-range", "dynamic_shapes[0]", "{0: 'n'}", Image, IMAGE, (("n", None),)),
    "shapes: a negative axis": _shapes(
        "negative-axis", "dynamic_shapes['images'][-1]", "{3: 'w'}", Image, IMAGE, {"images": {-1: "w"}}),
    "axes: a text for an axis": _axes(
        "axis-type", "dynamic_axes['images']['2']", "{2: 'h'}", Image, IMAGE, {"images": {"2": "h"}}),
    # sizes
    "shapes: a fixed size that is not the example's": _shapes(
        "fixed-size", "dynamic_shapes['images'][0]", "{0: Dim.DYNAMIC}", Image, IMAGE, {"images": {0: -1}}),
    "axes: one name, two sizes": _axes(
        "shared-name", "dynamic_axes['y'][0]", "{0: 'y_n'}", Two, TWO, {"x": {0: "n"}, "y": {0: "n"}}),
    "shapes: one Dim, two ranges": _shapes(
        "two-ranges", "dynamic_shapes['y'][0]", "Dim('n', max=4)", Two, EQUAL,
        {"x": {0: Dim("n", max=4)}, "y": {0: Dim("n", max=8)}}),
    "shapes: a range without the example": _shapes(
        "example-outside", "dynamic_shapes['images'][0]", "Dim('n', min=2, max=16)", Image, IMAGE,
        {"images": {0: Dim("n", min=4, max=16)}}),
    "shapes: a multiple that the example is not": _shapes(
        "derived-size", "dynamic_shapes['y'][1]", "an example of 4", Two, TWO,
        {"x": {0: Dim("n")}, "y": {1: 2 * Dim("n")}}),
    "shapes: a size that may be negative": _shapes(
        "derived-size", "dynamic_shapes['x'][1]", "Dim('n', min=1) as its root", Two, TWO,
        {"x": {0: "m", 1: Dim("n") - 1}, "y": {0: Dim("n")}}),
    "axes: an example of size 0": _axes(
        "example-zero", "dynamic_axes['images'][0]", "size 2 or more", Image, (ones(0, 3),), {"images": {0: "n"}}),
    "axes: outputs alone": _axes(
        "outputs-only", "dynamic_axes['out']", "dynamic_axes={'images': {0: 'batch'}", Image, IMAGE, {"out": {0: "n"}},
        input_names=["images"], **OUT),
    # the TorchScript exporter
    "legacy: dynamic_shapes": _shapes(
        "no-dynamo", "dynamic_shapes", "dynamic_axes={'images': {0: 'n'}}", Image, IMAGE, {"images": {0: "n"}},
        dynamo=False),
    "legacy: no input_names": _axes(
        "unknown-input", "dynamic_axes['images']", "input_names=['images']", Image, IMAGE, {"images": {0: "n"}},
        dynamo=False),
    "legacy: a negative axis": _axes(
        "negative-axis", "dynamic_axes['images'][-1]", "{3: 'w'}", Image, IMAGE, {"images": {-1: "w"}},
        input_names=["images"], dynamo=False),
    "legacy: a Dim": _axes(
        "wrong-form", "dynamic_axes['images']", "{0: 'dim_0'}", Image, IMAGE, {"images": {0: D}},
        input_names=["images"], dynamo=False),
}  # fmt: skip

RIGHT: dict[str, Case] = {
    "axes: names": Case(Image, IMAGE, {"dynamic_axes": {"images": {0: "n", 2: "h", 3: "w"}}}),
    "axes: a list": Case(Image, IMAGE, {"dynamic_axes": {"images": [0, 2]}}),
    "axes: a batch of 1": Case(Image, (ones(1, 3, 6, 8),), {"dynamic_axes": {"images": {0: "n"}}}),
    "axes: input and output names": Case(Image, IMAGE, {
        "dynamic_axes": {"pixels": {0: "n"}, "out": {0: "n"}}, "input_names": ["pixels"], "output_names": ["out"]}),
    "axes: one name, one size": Case(Two, EQUAL, {"dynamic_axes": {"x": {0: "n"}, "y": {0: "n"}}}),
    "axes: the first input by input_names": Case(Two, TWO, {
        "dynamic_axes": {"x": {0: "n"}}, "input_names": ["x", "y"]}),
    "axes: None": Case(Two, TWO, {"dynamic_axes": {"x": {0: "n"}, "y": None}}),
    "axes: parts": Case(Past, PAST, {"dynamic_axes": {"x": {0: "n"}, "past_0": {0: "n"}, "past_1": [1]}}),
    "shapes: a dict": Case(Two, TWO, {"dynamic_shapes": {"x": {0: "n"}, "y": {1: Dim("m", max=64)}}}),
    "shapes: a tuple": Case(Two, TWO, {"dynamic_shapes": ({0: D}, None)}),
    "shapes: a list": Case(Two, TWO, {"dynamic_shapes": [None, {0: A, 1: Dim.STATIC}]}),
    "shapes: sizes in a tuple": Case(Image, IMAGE, {"dynamic_shapes": (("n", None, "h", A),)}),
    "shapes: the example's own size": Case(Image, IMAGE, {"dynamic_shapes": {"images": {0: 2, 2: "h"}}}),
    "shapes: a batch of 1": Case(Image, (ones(1, 3, 6, 8),), {"dynamic_shapes": {"images": {0: Dim("n", max=32)}}}),
    "shapes: one Dim, one size": Case(Two, EQUAL, {"dynamic_shapes": {"x": {0: Dim("n")}, "y": {0: Dim("n")}}}),
    "shapes: a multiple": Case(Two, TWO, {
        "dynamic_shapes": {"x": {0: Dim("n", max=9)}, "y": {0: 2 * Dim("n", max=9)}}}),
    "shapes: nothing": Case(Two, TWO, {"dynamic_shapes": {}}),
    "shapes: parts": Case(Past, PAST, {"dynamic_shapes": {"x": {0: "n"}, "past": ({0: "n"}, None)}}),
    "shapes: a dict of parts": Case(Parts, PARTS, {
        "dynamic_shapes": {"data": {"image": {0: "n"}, "mask": None}, "scale": None}}),
    "shapes: given by name": Case(Keyword, (ones(2, 3),), {"dynamic_shapes": {"x": {0: "n"}, "y": {1: "k"}}},
        {"y": ones(4, 5)}),
    "shapes: None beside a tensor": Case(Optional, (ones(2, 3), None, ones(4, 5)), {
        "dynamic_shapes": {"x": {0: "n"}, "mask": None, "y": {0: "m"}}}),
    "shapes: another order of entries without names": Case(Two, TWO, {"dynamic_shapes": {"y": {0: D}, "x": {1: D}}}),
    "legacy: names in any order": Case(Two, TWO, {
        "dynamic_axes": {"b": {0: "m"}, "a": [1]}, "input_names": ["a", "b"]}, dynamo=False),
}  # fmt: skip
