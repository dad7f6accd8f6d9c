"""A reproduction as data, and its Python text."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Shape = tuple[int, ...]

RUN = """
for args in (example, other):
    want = [WANT]
    print(*[tuple(a.shape) for a in ARGS], "-> PyTorch", *[w.shape for w in want], end="; ")
    try:
        got = session.run(None, {i.name: a.numpy() for i, a in zip(session.get_inputs(), ARGS)})
    except Exception as error:
        print("ONNX Runtime raised", str(error).splitlines()[0])
        raise SystemExit(1)
    same = [g.shape for g in got] == [w.shape for w in want]
    same = same and all(np.allclose(g, w, RTOL, ATOL, equal_nan=True) for g, w in zip(got, want))
    print("ONNX Runtime", *[g.shape for g in got], end=": equal\\n" if same else ": different\\n")
raise SystemExit(0 if same else 1)
"""
FLATTEN = """def tensors(tree):
    return [leaf for leaf in torch.utils._pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]
"""
_BASE_IMPORTS = {"np": "import numpy as np", "onnxruntime": "import onnxruntime", "torch": "import torch"}


@dataclass(frozen=True)
class TensorLeaf:
    """A tensor among the inputs.

    ``make`` is its Python text with ``{sizes}`` (``1, 2``) or ``{shape}`` (``(1, 2)``) for its shape, ``shapes`` are
    its shapes in the example and in the other inputs, ``axes`` is what is declared for an axis.
    """

    make: str
    shapes: tuple[Shape, Shape]
    axes: Mapping[int, str] = field(default_factory=dict)

    def text(self, which: int) -> str:
        shape = self.shapes[which]
        sizes = ", ".join(map(str, shape)) or "()"
        last = str(shape[-1]) if shape else "1"
        return self.make.replace("{sizes}", sizes).replace("{shape}", str(shape)).replace("{last}", last)

    def declared(self) -> str:
        return "{" + ", ".join(f"{axis}: {what}" for axis, what in sorted(self.axes.items())) + "}"


@dataclass(frozen=True)
class Given:
    """One argument of ``forward``: a TensorLeaf, Python text of a constant, or a list, tuple or dict of such."""

    name: str
    value: Any
    keyword: bool = False


@dataclass(frozen=True)
class Sketch:
    """What a script holds.

    Attributes:
        definitions: Functions and classes; the class ``Model`` is the one that is exported.
        imports: Name → the line that imports it; lines whose name is not used are left out.
        given: The arguments of ``forward``.
        declaration: Keywords that declare the dynamic sizes, word for word; None to write them from the arguments.
        keywords: Further keywords of the export.
        training: Whether the module is in training mode.
        half: Whether it computes in float16.
        scope: ``operator``, ``statement``, ``module`` or ``model``.
        plain: ``forward`` gives a single tensor.
    """

    definitions: ast.Module
    imports: Mapping[str, str]
    given: tuple[Given, ...]
    scope: str
    build: str = "Model()"
    declaration: str | None = None
    keywords: str = ""
    training: bool = False
    half: bool = False
    plain: bool = False
    heading: str = ""

    @property
    def leaves(self) -> list[TensorLeaf]:
        """The tensors among the arguments, in order."""
        return [leaf for given in self.given for leaf in _leaves(given.value)]


def _leaves(value: Any) -> Iterator[TensorLeaf]:
    if isinstance(value, TensorLeaf):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _leaves(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _leaves(part)


def mapped(value: Any, change: Any) -> Any:
    """The value with every TensorLeaf changed."""
    if isinstance(value, TensorLeaf):
        return change(value)
    if isinstance(value, dict):
        return {key: mapped(part, change) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(part, change) for part in value)
    return value


def nested(value: Any, leaf: Any, constant: Any = str) -> str:
    """Python text of a nested value; ``leaf`` gives the text of a tensor, ``constant`` that of anything else."""
    if isinstance(value, TensorLeaf):
        return str(leaf(value))
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {nested(part, leaf, constant)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(nested(part, leaf, constant) for part in value) + "]"
    if isinstance(value, tuple):
        return _tuple([nested(part, leaf, constant) for part in value])
    return str(constant(value))


def _tuple(parts: list[str]) -> str:
    return "(" + ", ".join(parts) + ("," if len(parts) == 1 else "") + ")"


def render(sketch: Sketch, blank: bool = True) -> str:
    """The script; without ``blank`` its blank lines are left out."""
    body = _definitions(sketch, blank)
    run = _run(sketch)
    uses = _names(body + run)
    imports = {**_BASE_IMPORTS, "copy": "import copy", **sketch.imports}
    lines = sorted({line for name, line in imports.items() if name in uses or name in _BASE_IMPORTS})
    gap = "\n\n" if blank else ""
    parts = ([f"# {sketch.heading}\n"] if sketch.heading else []) + ["\n".join(lines) + "\n", gap, body, gap, run]
    return "".join(parts)


def _definitions(sketch: Sketch, blank: bool) -> str:
    pieces = [ast.unparse(node) + "\n" for node in sketch.definitions.body]
    if not _is_flat(sketch):
        pieces.append(FLATTEN)
    text = ("\n\n" if blank else "").join(pieces)
    return text if blank else "".join(line + "\n" for line in text.splitlines() if line.strip())


def _has_state(sketch: Sketch) -> bool:
    """Whether a run may change the module: then every run gets a copy of it."""
    stores = (
        part
        for node in sketch.definitions.body
        for method in ast.walk(node)
        if isinstance(method, ast.FunctionDef) and method.name != "__init__"
        for part in ast.walk(method)
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store)
    )
    return sketch.training or any(True for _ in stores)


def _is_flat(sketch: Sketch) -> bool:
    """Whether every argument is a tensor and the result is one too: then nothing has to be flattened."""
    return sketch.plain and all(isinstance(g.value, TensorLeaf) and not g.keyword for g in sketch.given)


def _run(sketch: Sketch) -> str:
    mode = "" if sketch.training else ".eval()"
    keyword = [g for g in sketch.given if g.keyword]
    lines = ["torch.manual_seed(0)", f"model = {sketch.build}{mode}"]
    for name, which in (("example", 0), ("other", 1)):
        parts = [(g, nested(g.value, lambda leaf, at=which: leaf.text(at))) for g in sketch.given]
        args = _tuple([text for g, text in parts if not g.keyword])
        if keyword:
            args = f"({args}, {{" + ", ".join(f'"{g.name}": {text}' for g, text in parts if g.keyword) + "})"
        lines.append(f"{name} = {args}")
    how = "*example" if not keyword else "*example[0], **example[1]"
    call = "example" if not keyword else "example[0], kwargs=example[1]"
    module = "copy.deepcopy(model)" if _has_state(sketch) else "model"
    lines.append(f"program = torch.onnx.export({module}, {call}, {_declaration(sketch)}, dynamo=True, verbose=False)")
    lines.append("session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())")
    model_call = f"{module}({how.replace('example', 'args')})"
    flat = _is_flat(sketch)
    text = RUN.strip("\n").replace("WANT", f"{model_call}.detach().numpy()" if flat else f"*WANTED({model_call})")
    if not flat:
        text = text.replace("[*WANTED(" + model_call + ")]", f"[t.detach().numpy() for t in tensors({model_call})]")
    text = text.replace("ARGS", "args" if flat else "tensors(args)")
    text = text.replace("RTOL", "2e-2" if sketch.half else "1e-3").replace("ATOL", "2e-3" if sketch.half else "1e-4")
    return "\n".join([*lines, text, ""])


def _declaration(sketch: Sketch) -> str:
    text = sketch.declaration
    if text is None:

        def asked(value: Any) -> str:
            return nested(value, lambda leaf: leaf.declared(), lambda _: "None")

        if any(g.keyword for g in sketch.given):
            text = "dynamic_shapes={" + ", ".join(f'"{g.name}": {asked(g.value)}' for g in sketch.given) + "}"
        else:
            text = "dynamic_shapes=" + _tuple([asked(g.value) for g in sketch.given])
    return text + (f", {sketch.keywords}" if sketch.keywords else "")


def _names(text: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
