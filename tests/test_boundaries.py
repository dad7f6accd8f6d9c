"""The house rules, read off the source: direction of imports, torch's private names, lengths, printing.

Every rule is a function of one module's path (relative to src/guarddiff) and text, so that the second half of
this file can show on small made-up sources that each rule does report what it forbids.
"""

from __future__ import annotations

import ast
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest

HOUSE = Path(__file__).resolve().parent.parent / "src" / "guarddiff"

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60

ROOMS = ("torch_bridge", "analysis", "replay", "repair", "contract", "render")
# A part of the house may import itself and whatever stands lower; equals are siblings and stay apart.
LEVEL = {
    "core": 0,
    **dict.fromkeys(ROOMS, 1),
    "report": 2,  # the public Report: core's data with render's formats
    "options": 2,
    "apart": 2,  # what runs a model, in a process of its own
    "safety": 2,  # torch's own result where we fail
    "legacy": 3,  # the TorchScript exporter, which leaves no guards
    "proving": 3,  # from findings to proofs
    "repairing": 4,  # the export once more, repaired and proved
    "pipeline": 5,  # one export from recording to report
    "contracts": 6,  # contracts of this process's exports
    "rescuing": 6,  # an export that raised, repaired
    "watching": 6,  # guarded calls: one by one, in a block, in the whole process
    "api": 7,
    **dict.fromkeys(("sweep", "demo", "testing", "variants"), 8),
    "pytest_plugin": 9,
    "cli": 9,
    "__main__": 10,
}
ROOT = "__init__"  # guarddiff/__init__.py: public names, loaded lazily
ROOT_USERS_FROM = 8  # from this level on a part may use the public names as a user would

HEAVY = frozenset({"torch", "torchvision", "onnx", "onnxscript", "onnx_ir", "onnxruntime", "sympy"})
FORBIDDEN_PACKAGES = {
    "render": HEAVY,
    "report": HEAVY,
    "analysis": frozenset({"torch", "torchvision", "onnxruntime"}),
}
PRIVATE_WITHOUT_UNDERSCORE = ("torch.fx.experimental",)
DYNAMIC_IMPORTS = ("import_module", "__import__")
MAY_PRINT = ("cli/", "render/text.py", "demo.py")

Rule = Callable[["Module"], Iterator[str]]


@dataclass(frozen=True)
class Import:
    line: int
    name: str  # dotted, absolute; for `from a import b` it is `a.b`
    lazy: bool  # inside a function
    types_only: bool  # under `if TYPE_CHECKING`


class Module:
    """One source file, parsed."""

    def __init__(self, path: str, text: str) -> None:
        self.path = PurePosixPath(path)
        self.text = text
        self.tree = ast.parse(text)
        self.part = self.path.parts[0].removesuffix(".py")
        self.package = ("guarddiff", *self.path.parts[:-1])  # what one leading dot means
        self.imports = tuple(self._walk(self.tree.body, lazy=False, types_only=False))

    def _walk(self, nodes: Iterable[ast.AST], *, lazy: bool, types_only: bool) -> Iterator[Import]:
        for node in nodes:
            for name in self._names(node):
                yield Import(node.lineno, name, lazy, types_only)  # type: ignore[attr-defined]
            if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
                yield from self._walk(node.body, lazy=lazy, types_only=True)
                yield from self._walk(node.orelse, lazy=lazy, types_only=types_only)
                continue
            inside = lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from self._walk(ast.iter_child_nodes(node), lazy=inside, types_only=types_only)

    def _names(self, node: ast.AST) -> list[str]:
        if isinstance(node, ast.Import):
            return [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                start = self.package[: len(self.package) - node.level + 1]
                base = ".".join((*start, *filter(None, [base])))
            return [f"{base}.{alias.name}" for alias in node.names]
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in DYNAMIC_IMPORTS:
            literals = (arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant))
            return [value for value in literals if isinstance(value, str)]
        return []


# --- the rules ---


def direction_of_imports(module: Module) -> Iterator[str]:
    if module.part == ROOT:
        return
    if module.part not in LEVEL:
        yield f"{module.path} stands in no part of the house: give it a place in LEVEL, or move it"
        return
    here = LEVEL[module.part]
    for found in module.imports:
        parts = found.name.split(".")
        if parts[0] != "guarddiff":
            continue
        target = parts[1] if len(parts) > 1 and parts[1] in LEVEL else ROOT
        if target == ROOT:
            if here < ROOT_USERS_FROM:
                yield f"{module.path}:{found.line} {module.part} imports the public names ({found.name})"
        elif target != module.part and LEVEL[target] >= here:
            kind = "its sibling" if LEVEL[target] == here else "upwards:"
            yield f"{module.path}:{found.line} {module.part} imports {kind} {found.name}"


def root_is_lazy(module: Module) -> Iterator[str]:
    """Top-level names come on demand: nothing but the standard library when `import guarddiff` runs."""
    if module.path != PurePosixPath("__init__.py"):
        return
    for found in module.imports:
        package = found.name.split(".")[0]
        if not found.lazy and not found.types_only and package not in sys.stdlib_module_names:
            yield f"{module.path}:{found.line} {found.name} is imported eagerly"


def foreign_packages(module: Module) -> Iterator[str]:
    """core: standard library and numpy. render, report and analysis work on plain data: no torch."""
    for found in module.imports:
        package = found.name.split(".")[0]
        if module.part == "core":
            bad = package not in sys.stdlib_module_names and package not in ("numpy", "guarddiff")
        else:
            bad = package in FORBIDDEN_PACKAGES.get(module.part, ())
        if bad:
            yield f"{module.path}:{found.line} {module.part} imports {found.name}"


def is_private(dotted: str) -> bool:
    parts = dotted.split(".")
    if parts[0] != "torch":
        return False
    if any(dotted == name or dotted.startswith(name + ".") for name in PRIVATE_WITHOUT_UNDERSCORE):
        return True
    return any(part.startswith("_") and not part.endswith("__") for part in parts)


def torch_names(tree: ast.AST) -> dict[str, str]:
    """Local name → the dotted torch name it was imported as."""
    bound: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "torch":
                    bound[alias.asname or "torch"] = alias.name if alias.asname else "torch"
        elif isinstance(node, ast.ImportFrom) and not node.level and f"{node.module}.".startswith("torch."):
            for alias in node.names:
                bound[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return bound


def dotted_name(node: ast.AST, bound: dict[str, str]) -> str | None:
    """`torch.a.b`, seen through calls and subscripts, or None where the chain starts elsewhere."""
    if isinstance(node, ast.Name):
        return bound.get(node.id)
    if isinstance(node, ast.Call):
        return dotted_name(node.func, bound)
    if isinstance(node, ast.Subscript):
        return dotted_name(node.value, bound)
    if isinstance(node, ast.Attribute):
        base = dotted_name(node.value, bound)
        return base and f"{base}.{node.attr}"
    return None


def attribute_reads(node: ast.AST, bound: dict[str, str]) -> tuple[str, str] | None:
    """(owner, owner.attribute) of an attribute access, spelled with a dot or with getattr and its like."""
    if isinstance(node, ast.Attribute):
        owner, name = dotted_name(node.value, bound), node.attr
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("getattr", "hasattr", "setattr", "delattr")
        and len(node.args) > 1
        and isinstance(node.args[1], ast.Constant)
    ):
        owner, name = dotted_name(node.args[0], bound), str(node.args[1].value)
    else:
        return None
    return (owner, f"{owner}.{name}") if owner else None


def torch_private_names(module: Module) -> Iterator[str]:
    if module.part == "torch_bridge":
        return
    for found in module.imports:
        if is_private(found.name):
            yield f"{module.path}:{found.line} imports {found.name}"
    bound = torch_names(module.tree)
    for node in ast.walk(module.tree):
        read = attribute_reads(node, bound)
        if read and is_private(read[1]) and not is_private(read[0]):
            yield f"{module.path}:{node.lineno} names {read[1]}"  # type: ignore[attr-defined]


def lengths(module: Module) -> Iterator[str]:
    lines = len(module.text.splitlines())
    if lines > MAX_FILE_LINES:
        yield f"{module.path} has {lines} lines, more than {MAX_FILE_LINES}"
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                where = f"{module.path}:{node.lineno} {node.name}"
                yield f"{where} has {lines} lines, more than {MAX_FUNCTION_LINES}"


def printing(module: Module) -> Iterator[str]:
    path = str(module.path)
    if any(path == place or (place.endswith("/") and path.startswith(place)) for place in MAY_PRINT):
        return
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield f"{module.path}:{node.lineno} prints"


RULES: tuple[Rule, ...] = (
    direction_of_imports,
    root_is_lazy,
    foreign_packages,
    torch_private_names,
    lengths,
    printing,
)

# --- the house keeps them ---


def modules() -> list[Module]:
    return [
        Module(path.relative_to(HOUSE).as_posix(), path.read_text(encoding="utf-8"))
        for path in sorted(HOUSE.rglob("*.py"))
    ]


def test_the_house_is_found() -> None:
    parts = {module.part for module in modules()}
    assert {ROOT, "core", "torch_bridge", "analysis", "replay", "render", "api"} <= parts


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_house_keeps(rule: Rule) -> None:
    broken = [line for module in modules() for line in rule(module)]
    assert not broken, "\n" + "\n".join(broken)


# --- and each rule notices ---

LONG_FUNCTION = "def f():\n" + "    x = 1\n" * MAX_FUNCTION_LINES


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (direction_of_imports, "core/dims.py", "from guarddiff.render.text import render"),
        (direction_of_imports, "core/dims.py", "import guarddiff.api"),
        (direction_of_imports, "core/dims.py", "import guarddiff"),
        (direction_of_imports, "core/dims.py", "from ..analysis import attribute"),
        (direction_of_imports, "core/__init__.py", "from ..analysis import attribute"),
        (direction_of_imports, "analysis/attribute.py", "from guarddiff.torch_bridge import hooks"),
        (direction_of_imports, "analysis/attribute.py", "from guarddiff import replay"),
        (direction_of_imports, "render/text.py", "def f():\n    from guarddiff.replay.sizes import pick"),
        (direction_of_imports, "replay/sizes.py", "import_module('guarddiff.api')"),
        (direction_of_imports, "replay/sizes.py", "from .. import check"),
        (direction_of_imports, "api.py", "from guarddiff.cli import main"),
        (direction_of_imports, "api.py", "from guarddiff import SpecializationWarning"),
        (direction_of_imports, "api.py", "import guarddiff.testing"),
        (direction_of_imports, "watching.py", "from guarddiff.api import check"),
        (direction_of_imports, "testing.py", "import guarddiff.pytest_plugin"),
        (direction_of_imports, "pytest_plugin.py", "from guarddiff.cli import main"),
        (direction_of_imports, "report.py", "from guarddiff.api import check"),
        (direction_of_imports, "render/text.py", "from guarddiff.report import Report"),
        (direction_of_imports, "sweep/run.py", "from guarddiff.cli.main import main"),
        (direction_of_imports, "demo.py", "from guarddiff.testing import export_ok"),
        (direction_of_imports, "helpers.py", ""),
        (direction_of_imports, "helpers/shapes.py", ""),
        (root_is_lazy, "__init__.py", "from guarddiff.api import export"),
        (root_is_lazy, "__init__.py", "from .core.finding import Finding"),
        (root_is_lazy, "__init__.py", "try:\n    import torch\nexcept ImportError:\n    torch = None"),
        (foreign_packages, "core/domain.py", "import torch"),
        (foreign_packages, "core/domain.py", "from sympy import Symbol"),
        (foreign_packages, "core/domain.py", "def f():\n    import onnx"),
        (foreign_packages, "render/json.py", "import onnxruntime as ort"),
        (foreign_packages, "report.py", "import torch"),
        (foreign_packages, "analysis/attribute.py", "from torch.fx import Node"),
        (torch_private_names, "api.py", "import torch._dynamo"),
        (torch_private_names, "api.py", "from torch import _guards"),
        (torch_private_names, "api.py", "from torch._guards import detect_fake_mode"),
        (torch_private_names, "api.py", "from torch.fx.experimental.symbolic_shapes import ShapeEnv"),
        (torch_private_names, "api.py", "from torch.fx import experimental"),
        (torch_private_names, "api.py", "import torch.onnx._internal.exporter._core as core"),
        (torch_private_names, "api.py", "import torch\ntorch._C._log_api_usage_once('x')"),
        (torch_private_names, "api.py", "import torch as t\nx = t.utils._pytree.tree_map"),
        (torch_private_names, "api.py", "import torch.fx\nx = torch.fx.experimental.proxy_tensor"),
        (torch_private_names, "api.py", "from torch.fx import Node\nNode._private"),
        (torch_private_names, "api.py", "import torch\ntorch.export.export(m, a)._guards_code"),
        (torch_private_names, "api.py", "import torch\ngetattr(torch, '_C')"),
        (torch_private_names, "replay/isolate.py", "import importlib\nimportlib.import_module('torch._ops')"),
        (lengths, "core/dims.py", "x = 1\n" * (MAX_FILE_LINES + 1)),
        (lengths, "core/dims.py", LONG_FUNCTION),
        (lengths, "core/dims.py", "class A:\n" + textwrap.indent(LONG_FUNCTION, "    ")),
        (printing, "api.py", "print('x')"),
        (printing, "render/markdown.py", "def f():\n    print('x')"),
        (printing, "core/cli.py", "print('x')"),
    ],
)
def test_reports(rule: Rule, path: str, text: str) -> None:
    assert len(list(rule(Module(path, text)))) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("__init__.py", "if TYPE_CHECKING:\n    from guarddiff.api import export"),
        ("__init__.py", "if typing.TYPE_CHECKING:\n    from .core.finding import Finding"),
        ("__init__.py", "import importlib\ndef __getattr__(name):\n    from guarddiff import api"),
        ("core/domain.py", "import math\nimport numpy as np\nfrom guarddiff.core import dims"),
        ("core/domain.py", "from .stage import Stage"),
        ("core/__init__.py", "from . import dims\nfrom .dims import Dim"),
        ("analysis/constants.py", "import onnx\nfrom guarddiff.core import finding\nfrom . import attribute"),
        ("torch_bridge/hooks.py", "import torch\nfrom torch._guards import detect_fake_mode\ntorch._C.x"),
        ("replay/isolate.py", "import torch\ntorch.__version__\nself._x = torch.nn.Module()\nother._y = 1"),
        ("report.py", "from guarddiff.core import codec\nfrom guarddiff.render import text"),
        ("api.py", "from guarddiff import render, report, watching\nfrom guarddiff.torch_bridge import hooks"),
        ("pytest_plugin.py", "def f():\n    from guarddiff import testing, watching"),
        ("demo.py", "import guarddiff\nfrom guarddiff import check\nprint('x')"),
        ("cli/main.py", "from guarddiff.sweep import run\nfrom guarddiff import load_report\nprint('x')"),
        ("__main__.py", "from guarddiff.cli import main"),
        ("render/text.py", "print('x')"),
        ("core/dims.py", "def f():\n" + "    x = 1\n" * (MAX_FUNCTION_LINES - 1)),
        ("core/dims.py", "x = 1\n" * MAX_FILE_LINES),
    ],
)
def test_reports_nothing_else(path: str, text: str) -> None:
    assert [line for rule in RULES for line in rule(Module(path, text))] == []
