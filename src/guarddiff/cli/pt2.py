"""Saved programs (``.pt2``), looked through before torch reads them.

``torch.export.load`` is not made for files from strangers: it falls back to full unpickling, and it runs text of the
file as Python in several places. So that a file can be checked that nobody vouches for, the archive is read here first
without torch, and refused where it holds what a plain exported program does not need: pickled objects other than
tensors, compiled code, and texts that are no operator, no name, no size expression or no guard. Then it is loaded with
``TORCH_FORCE_WEIGHTS_ONLY_LOAD``, under which torch unpickles tensors and plain containers alone.
"""

from __future__ import annotations

import ast
import contextlib
import json
import logging
import os
import re
import threading
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

from guarddiff.cli.errors import Wrong, debugging, told

MOST_JSON = 256 * 1024 * 1024
"""Longest description of a program that is read, in bytes."""

_OPERATORS = re.compile(
    r"torch\.ops\.(?!load_|import_)[A-Za-z]\w*\.(?:_?[A-Za-z]\w*|__(?:and|or|xor|lshift|rshift|iand|ior|ixor|ilshift|irshift)__)"
    r"(?:\.[A-Za-z]\w*)?"
    r"|_operator\.(?:add|sub|mul|floordiv|truediv|mod|pow|neg|pos|abs|eq|ne|lt|le|gt|ge|and_|or_|xor|not_|lshift|rshift"
    r"|getitem)"
    r"|math\.(?:ceil|floor|trunc|sqrt|pow|log2|log|exp|round)"
    r"|torch\.sym_(?:int|float|ite|max|min|sqrt|not|sum)|torch\._sym_sqrt|torch\.utils\._sympy\.\w+"
)
_NAME = re.compile(r"[\w.\[\]'\"/:-]*")
_ALLOWED = (
    ast.Expression, ast.Call, ast.Name, ast.Load, ast.Constant, ast.UnaryOp, ast.BinOp, ast.Compare, ast.BoolOp,
    ast.IfExp, ast.keyword, ast.operator, ast.unaryop, ast.cmpop, ast.boolop,
)  # fmt: skip
_GUARDS_TOO = (ast.Subscript, ast.Attribute)
_METHODS = re.compile(r"size|stride|storage_offset|shape|item|sqrt|ceil|floor|trunc|isnan|inf|pow|log2")
_FUNCTIONS = re.compile(
    r"Symbol|Integer|Rational|Float|Add|Mul|Pow|Mod|Max|Min|Abs|FloorDiv|CleanDiv|CeilDiv|CeilToInt|FloorToInt"
    r"|TruncTo(?:Int|Float)|RoundToInt|RoundDecimal|ToFloat|IntTrueDiv|FloatTrueDiv|FloatPow|PowByNatural|PythonMod"
    r"|ModularIndexing|[LR]Shift|BitwiseFn_bitwise_(?:and|or|xor)|Where|Piecewise|ExprCondPair|Identity"
    r"|Eq|Ne|Lt|Le|Gt|Ge|Equality|Unequality|(?:Strict)?(?:Less|Greater)Than|And|Or|Not"
    r"|IsNonOverlappingAndDenseIndicator|floor|ceiling|sqrt|OpaqueUnaryFn_(?:sqrt|log2)"
    r"|max|min|abs|round|float|int|bool"
)
_FILES = re.compile(r"torch\.ops\.\w+\.(?:from_file|save|load|\w*(?:read|write)_file\w*)(?:\.\w+)?")
_lock = threading.Lock()


def load(path: str) -> Any:
    """The ``ExportedProgram`` in the file. Raises Wrong in one line where there is none that may be read."""
    examine(path)
    import torch

    with _weights_only(), _quiet():
        try:
            return torch.export.load(path)
        except Exception as error:
            raise Wrong(f"{path!r} can't be loaded by torch {torch.__version__}: {told(error)}") from error


def examine(path: str) -> None:
    """Look through the archive without torch. Raises Wrong where it is no saved program, or holds what could run."""
    try:
        size = os.path.getsize(path)
        with zipfile.ZipFile(path) as archive:
            _examine(path, archive, size)
    except Wrong:
        raise
    except FileNotFoundError:
        raise Wrong(f"{path!r}: there is no such file") from None
    except zipfile.BadZipFile:
        raise Wrong(f"{path!r} is no saved program: no whole zip archive, perhaps torn") from None
    except OSError as error:
        raise Wrong(f"{path!r} can't be read: {error.strerror or error}") from error
    except (ValueError, KeyError, NotImplementedError, RecursionError, EOFError, RuntimeError) as error:
        raise Wrong(f"{path!r} is no saved program: {told(error)}") from error


def _examine(path: str, archive: zipfile.ZipFile, size: int) -> None:
    entries = archive.infolist()
    if sum(entry.file_size for entry in entries) > size:
        raise Wrong(f"{path!r} is no saved program: its entries are larger than the file")
    names = {entry.filename.partition("/")[2]: entry for entry in entries}
    if "archive_format" not in names or archive.read(names["archive_format"]).strip() != b"pt2":
        raise Wrong(f"{path!r} is no program saved by torch.export.save of torch 2.8 or newer")
    if "models/model.json" not in names:
        raise Wrong(f"{path!r} holds no exported program named 'model'")
    for name, entry in names.items():
        refuse = _refusal(name)
        if refuse:
            raise Wrong(f"{path!r} is not loaded: it holds {refuse} ({name})")
        if name.endswith(".json") and not name.startswith("extra/"):
            if entry.file_size > MOST_JSON:
                raise Wrong(f"{path!r} is not loaded: {name} is longer than {MOST_JSON // 1024**2} MB")
            reason = unsafe(json.loads(archive.read(entry)))
            if reason:
                raise Wrong(f"{path!r} is not loaded: {name} holds {reason}")


def _refusal(name: str) -> str:
    """What an entry holds that is not loaded; empty where it may be."""
    base = name.rpartition("/")[2]
    if name.startswith("data/aotinductor/") or base.endswith((".so", ".cubin", ".pyd", ".dll", ".dylib")):
        return "compiled code"
    if name.startswith("data/constants/") and base.startswith(("custom_obj_", "opaque_obj_")):
        return "a pickled object that is no tensor"
    if name.startswith("models/") and base != "model.json":
        return "more than one program"
    return ""


def unsafe(value: Any) -> str:
    """What text of the description torch would run and that is none of the kinds it should be; empty for none."""
    waiting: list[tuple[str, Any]] = [("", value)]
    while waiting:
        key, item = waiting.pop()
        if isinstance(item, Mapping):
            waiting += item.items()
            if key in ("tensor_values", "sym_int_values", "sym_bool_values", "sym_float_values", "range_constraints"):
                waiting += (("name", name) for name in item)
        elif isinstance(item, list):
            waiting += ((key, part) for part in item)
        elif isinstance(item, str):
            reason = _unsafe_text(key, item)
            if reason:
                return reason
    return ""


def _unsafe_text(key: str, text: str) -> str:
    if key == "target" and (not _OPERATORS.fullmatch(text) or _FILES.fullmatch(text)):
        return f"a call of {text[:80]!r}, which is no operator of a model"
    if key == "name" and not _NAME.fullmatch(text):
        return f"the name {text[:80]!r}"
    if key == "expr_str" and not _harmless(text, _ALLOWED):
        return f"a size that is no plain expression: {text[:80]!r}"
    if key == "guards_code" and not _harmless(text, (*_ALLOWED, *_GUARDS_TOO)):
        return f"a guard that is no plain condition: {text[:80]!r}"
    if key == "path_name" and (text.startswith(("custom_obj_", "opaque_obj_")) or ".." in text):
        return "a pickled object that is no tensor"
    if key in ("in_spec", "out_spec") and "__enum__" in text:
        return "a name of a class to be imported"
    return ""


def _harmless(text: str, allowed: tuple[type[ast.AST], ...]) -> bool:
    """Whether the text is an expression of these kinds of nodes that calls functions of sizes alone."""
    if len(text) > 100_000 or "\n" in text:
        return False
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return all(isinstance(node, allowed) and _plain(node) for node in ast.walk(tree))


def _plain(node: ast.AST) -> bool:
    if isinstance(node, ast.Name):
        return not node.id.startswith("__")
    if isinstance(node, ast.Attribute):
        return bool(_METHODS.fullmatch(node.attr))
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) or (
            isinstance(node.func, ast.Name) and bool(_FUNCTIONS.fullmatch(node.func.id))
        )
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return bool(re.fullmatch(r"[\w.-]*", node.value))
    return True


@contextlib.contextmanager
def _weights_only() -> Iterator[None]:
    """torch unpickles tensors and plain containers alone, whatever its callers ask for."""
    name, other = "TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"
    with _lock:
        before = {key: os.environ.pop(key, None) for key in (name, other)}
        os.environ[name] = "1"
        try:
            yield
        finally:
            del os.environ[name]
            os.environ.update({key: value for key, value in before.items() if value is not None})


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """torch tells its loading errors in the log with tracebacks; the error itself is told here."""
    before = logging.root.manager.disable
    if not debugging():
        logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
