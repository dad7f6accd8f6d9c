"""The moment of a guard → operator, module path, the user's source line, the rule.

``ShapeEnv._log_guard`` runs when a guard is added. During decomposition ``torch.fx.traceback`` holds the FX
node's metadata then; during capture the Python stack holds the user's frames. Both are gone later: a
``RuntimeAssert``'s stack is emptied when decomposition returns.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
import sysconfig
from collections.abc import Container
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

import torch
import torch.fx.traceback

from guarddiff.core.origin import Origin, SourceLine
from guarddiff.core.own_models import own_model_files
from guarddiff.torch_bridge import probe
from guarddiff.torch_bridge.calls import number_function

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_MODELS = own_model_files(_PACKAGE)
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_SITE = os.path.dirname(os.path.dirname(_TORCH)) + os.sep
_STDLIB = sysconfig.get_paths()["stdlib"] + os.sep
_SYMBOLIC_PACKAGES = {"sympy", "mpmath", "numpy", "networkx", "onnxscript", "onnx_ir", "typing_extensions.py"}
_GUARD_MACHINERY = tuple(
    _TORCH + part
    for part in (
        "fx/experimental/symbolic_shapes.py",
        "fx/experimental/sym_node.py",
        "fx/experimental/recording.py",
        "fx/experimental/guard",
        "utils/_sympy/",
        "utils/_stats.py",
        "__init__.py",
    )
)
_GENERATED = ("<frozen", "<eval_with_key", "<string", "<lambda", "<dataclass", "<attrs", "<torch")
_DYNAMO = _TORCH + "_dynamo" + os.sep
_ONNX_EXPORTER = _TORCH + "onnx" + os.sep
_DUNDERS = {
    "__bool__": "if",
    "__int__": "int()",
    "__index__": "range() or index",
    "__float__": "float()",
    "__iter__": "for",
    "__round__": "round()",
}
_BY_CALLS = (_DUNDERS["__index__"], _DUNDERS["__float__"], _DUNDERS["__bool__"])
"""Questions that functions written in C ask as well: float(), math.sqrt(), max()."""
_ANSWERS = frozenset({"is_contiguous", "is_non_overlapping_and_dense", "is_same_size", "equal"})
"""Methods whose answer to the user's own code is a Python value: what is asked for one may decide a branch."""
_EXTREMES = (_TORCH + os.path.join("_export", "non_strict_utils.py"), "_tensor_min_max")
"""What torch.export puts in place of max and min."""
_FAKE_TENSORS = _TORCH + os.path.join("_subclasses", "fake_tensor.py")
_OPERATOR_CALL = (_TORCH + "_ops.py", "__call__")
_HOMES = re.compile(r"/|/home/|/Users/|[A-Za-z]:\\\\(Users\\\\)?")
_CALLS = {"__call__": "_ops.py", "proxy_call": "proxy_tensor.py", "__torch_dispatch__": "fake_tensor.py"}
"""Functions that hold the operator being called, by file."""
_STACK_LINE = re.compile(r'File "(?P<file>.+?)", line (?P<line>\d+), in (?P<function>\S+)')


def is_user_file(filename: str) -> bool:
    """Whether a frame of this file is the model's own code: not torch, not the standard library, not ours.

    Code typed at a prompt (``<stdin>``, ``<ipython-input-…>``) is; generated code (``<string>``) is not.
    """
    if filename.startswith("<"):
        return not filename.startswith(_GENERATED)
    if filename.startswith((_TORCH, _PACKAGE)):
        return filename.startswith(_MODELS)
    if filename.startswith(_SITE):
        return filename[len(_SITE) :].split(os.sep, 1)[0] not in _SYMBOLIC_PACKAGES
    return not filename.startswith(_STDLIB) or "site-packages" in filename


def _is_user_frame(frame: FrameType) -> bool:
    """As ``is_user_file``; what ``python -c`` runs is user code too."""
    filename = frame.f_code.co_filename
    if filename == "<string>":
        return frame.f_globals.get("__name__") == "__main__"
    return is_user_file(filename)


@lru_cache(maxsize=4096)
def shorten(filename: str) -> str:
    """The path without home folder or user name: relative to the package's or the working folder."""
    path = os.path.abspath(filename) if not filename.startswith("<") else filename
    if "site-packages" + os.sep in path:
        return path.rsplit("site-packages" + os.sep, 1)[1]
    if path.startswith(_TORCH):
        return "torch/" + path[len(_TORCH) :]
    if path.startswith(_PACKAGE):  # the models of the sweep and the demo, in a clone too
        return "guarddiff/" + path[len(_PACKAGE) :].replace(os.sep, "/")
    try:
        working = os.getcwd() + os.sep
    except OSError:
        working = ""
    home = os.path.expanduser("~").rstrip(os.sep) + os.sep
    below_home = home != os.sep and path.startswith(home)
    above = bool(working) and (home.startswith(working) or _HOMES.fullmatch(working) is not None)
    if working and path.startswith(working) and not above:
        return path[len(working) :]
    if below_home:
        return "~" + os.sep + path[len(home) :]
    return re.sub(r"^(/home|/Users|[A-Za-z]:\\Users)[/\\][^/\\]+", "~", path)


def source_line(filename: str, line: int, function: str) -> SourceLine:
    """A SourceLine with its text read from the file."""
    text = linecache.getline(filename, line).strip()[:300]
    return SourceLine(shorten(filename), line, function, text)


class Moment:
    """What is known while a guard is being added; kept small, turned into an Origin when one is needed."""

    __slots__ = (
        "asker",
        "branch",
        "call",
        "chain",
        "dunder",
        "module",
        "native",
        "node",
        "op",
        "path",
        "stack_trace",
        "torch_call",
        "answered",
        "traced",
        "user",
    )

    def __init__(self) -> None:
        self.user: tuple[str, int, str] | None = None
        self.traced = False
        self.asker: tuple[str, int, str] | None = None
        self.branch = False
        self.native = False
        self.dunder: str | None = None
        self.call: tuple[CodeType, int, int, dict[str, Any]] | None = None
        self.op: str | None = None
        self.torch_call: str | None = None
        self.answered = False
        self.module: Any = None
        self.path: str | None = None
        self.node: str | None = None
        self.chain: tuple[str, ...] = ()
        self.stack_trace: str | None = None

    def key(self) -> tuple[Any, ...]:
        """Equal for guards of one root cause: the FX node, else the user's line and module, else the asker."""
        if self.node is not None:
            return ("node", self.node)
        if self.user is not None:
            return ("line", self.user[:2], id(self.module))
        return ("asker", self.asker)

    def origin(self, paths: dict[int, str]) -> Origin:
        """The Origin; ``paths`` maps the id of each submodule to its path."""
        source = source_line(*self.user) if self.user else _from_stack_trace(self.stack_trace)
        rule = source_line(*self.asker) if self.asker and not self.branch else None
        path = self.path if self.path is not None else paths.get(id(self.module))
        op = self.op or (self._asked_by() if self.branch else None) or self.torch_call
        return Origin(op=op, module_path=path, source=source, rule=rule, node=self.node, branch=self.branch)

    def _asked_by(self) -> str | None:
        """What asked in the user's own code: a function that makes numbers, else what the question was."""
        return (number_function(*self.call) if self.call is not None else None) or self.dunder


def observe(graph: bool, depth: int = 2) -> Moment:
    """Read the FX metadata (``graph``: a captured graph is being retraced) and the Python stack as they are now."""
    moment = Moment()
    if graph:
        _read_meta(moment)
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None and not frame.f_code.co_filename.startswith(_ONNX_EXPORTER):
        _read_asker(moment, frame)
        if graph:
            _read_interpreter_frame(moment, frame)
        else:
            _read_capture_frame(moment, frame)
        frame = frame.f_back
    if graph:
        moment.branch = False
    elif moment.answered:
        moment.branch = True
    elif moment.user is None:
        _read_tracing_context(moment)
    return moment


def _read_meta(moment: Moment) -> None:
    meta = torch.fx.traceback.get_current_meta()
    if not meta or "from_node" not in meta:
        return
    moment.chain = node_chain(meta["from_node"])
    moment.node = moment.chain[-1] if moment.chain else None
    original = meta.get("original_aten")
    moment.op = str(original) if original is not None else None
    moment.stack_trace = meta.get("stack_trace")
    moment.path = module_path(meta)


def node_chain(from_node: Any) -> tuple[str, ...]:
    """Names of the nodes that a chain of ``from_node`` entries goes back through, the first graph's last."""
    names: list[str] = []
    while from_node:
        last = from_node[-1]
        name = getattr(last, "name", None)
        names += [str(name)] if name else []
        from_node = getattr(last, "from_node", None)
    return tuple(names)


def captured_name(chain: tuple[str, ...], known: Container[str]) -> str | None:
    """The node of the captured graph in a chain: the last name that ``known`` has (strict capture goes further back,
    to a graph of its own), else the last one; None for an empty chain."""
    return next((name for name in reversed(chain) if name in known), chain[-1] if chain else None)


def module_path(meta: dict[str, Any]) -> str | None:
    """Path of the innermost module in ``nn_module_stack``; ``""`` is the model itself."""
    stack = meta.get("nn_module_stack")
    if not stack:
        return None
    path = list(stack.values())[-1][0]
    return str(path).removeprefix("L['self'].").removeprefix("L['self']").removeprefix(".")


def _read_asker(moment: Moment, frame: FrameType) -> None:
    """The innermost frame that is not the guard machinery itself; none where an operator's C++ code asked, whose
    question arrives at the operator's call (torch 2.15) or through a nameless handler of the fake tensors (before)."""
    if moment.asker is not None or moment.native:
        return
    code = frame.f_code
    filename = code.co_filename
    if code.co_name.startswith("<") and filename == _FAKE_TENSORS or (filename, code.co_name) == _OPERATOR_CALL:
        moment.native = True
        return
    if (filename, code.co_name) == _EXTREMES:
        return
    if filename.startswith(_GUARD_MACHINERY):
        if filename == _TORCH + "__init__.py" and code.co_name in _DUNDERS:
            moment.dunder = _DUNDERS[code.co_name]
        return
    moment.branch = _is_user_frame(frame)
    if moment.branch or filename.startswith(_TORCH):
        moment.asker = (filename, frame.f_lineno, code.co_name)
    if moment.branch and moment.dunder in _BY_CALLS:
        moment.call = (code, frame.f_lasti, frame.f_lineno, frame.f_globals)
    moment.traced = filename.startswith(_DYNAMO) and code.co_name == "evaluate_expr"


def _read_capture_frame(moment: Moment, frame: FrameType) -> None:
    """The user's line, the module it is in, and the outermost operator below that line."""
    code = frame.f_code
    filename = code.co_filename
    if moment.user is None:
        if _is_user_frame(frame):
            moment.user = (filename, frame.f_lineno, code.co_name)
        elif filename.startswith(_TORCH):
            _read_operator(moment, frame)
    if moment.module is None and code.co_name == "_call_impl" and filename.endswith("nn/modules/module.py"):
        moment.module = frame.f_locals.get("self")


def _read_operator(moment: Moment, frame: FrameType) -> None:
    name = frame.f_code.co_name
    if name in _CALLS and frame.f_code.co_filename.endswith(_CALLS[name]):
        called = frame.f_locals.get("self" if name == "__call__" else "func")
        kind = probe.OPERATOR.find()
        if kind is not None and isinstance(called, kind):
            moment.op = str(called)
    elif name == "__torch_function__":
        function = frame.f_locals.get("func")
        moment.torch_call = getattr(function, "__name__", None) or moment.torch_call
        by_user = frame.f_back is not None and _is_user_frame(frame.f_back)
        moment.answered = moment.answered or (by_user and moment.torch_call in _ANSWERS)


def _read_interpreter_frame(moment: Moment, frame: FrameType) -> None:
    """The FX node that is being retraced, where the metadata did not tell."""
    if moment.node is None and frame.f_code.co_name == "run_node" and frame.f_code.co_filename.startswith(_TORCH):
        node = frame.f_locals.get("n")
        moment.node = getattr(node, "name", None)
        moment.op = moment.op or str(getattr(node, "target", ""))
        moment.stack_trace = getattr(node, "stack_trace", None)
        moment.path = module_path(getattr(node, "meta", {}))


def _read_tracing_context(moment: Moment) -> None:
    """Strict capture: the user's code is traced, not run; dynamo keeps its stack."""
    context = probe.TRACING.find()
    if context is None or context.try_get() is None:
        return
    for entry in reversed(context.extract_stack()):
        if is_user_file(entry.filename):
            moment.user = (entry.filename, entry.lineno or 0, entry.name)
            if moment.traced:
                moment.branch, moment.dunder = True, moment.dunder or "if"
            return


def _from_stack_trace(text: str | None) -> SourceLine | None:
    """The innermost line of the user's own code in an FX ``stack_trace``, else the innermost line."""
    places = [(m["file"], int(m["line"]), m["function"]) for m in _STACK_LINE.finditer(text or "")]
    own = [place for place in places if is_user_file(place[0])]
    chosen = own or places
    return source_line(*chosen[-1]) if chosen else None


def node_source(stack_trace: str | None) -> SourceLine | None:
    """The user's source line of an FX node, from its ``stack_trace``; None when it has none."""
    return _from_stack_trace(stack_trace)
