"""Run the eager module and the ONNX program, leaving no trace on either."""

from __future__ import annotations

import contextlib
import copy
import dis
import os
import random
import re
import traceback
import warnings
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np
import torch

from guarddiff.core.child import Died
from guarddiff.core.finding import DifferenceKind
from guarddiff.core.forked import NotApart, step
from guarddiff.core.privacy import scrub
from guarddiff.core.proof import TryState
from guarddiff.replay import compare
from guarddiff.replay.compare import Difference, Result
from guarddiff.replay.inputs import Example, TooLarge

_MOST_BYTES = 1_500_000_000
_TORCH_RAISES = (RuntimeError, IndexError, NotImplementedError)
"""What torch's operators raise. (Those that are written in Python are seen by their frames.)"""
_VALUES = re.compile(r"tensor\(.*|-?\d+\.\d{3,}(?:e[+-]?\d+)?", re.DOTALL)
"""Parts of a message that are values of tensors."""
_NOT_FORKED = ("fork-based multiprocessing", "forked subprocess")
_FAULTS = ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL")
"""Signals that a fault of the program itself ends it with."""
_LONGEST = 900
"""ONNX Runtime tells the cause last, after the place in its own source."""


class Unavailable(Exception):
    """Something that a run needs is not there; the message says what."""


class Ended(Unavailable):
    """ONNX Runtime did not come to an end at some inputs; whether it is wrong there is not known."""


@contextlib.contextmanager
def undisturbed(seed: int) -> Iterator[None]:
    """No gradients, no warnings, and random states of torch, numpy and Python as they were."""
    numpy_state, python_state = np.random.get_state(), random.getstate()
    with warnings.catch_warnings(), torch.no_grad(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        torch.default_generator.manual_seed(seed)
        np.random.seed(seed)
        random.seed(seed)
        try:
            yield
        finally:
            np.random.set_state(numpy_state)
            random.setstate(python_state)


class Eager:
    """The user's module, run on a copy that shares the parameters and owns everything else.

    A forward that changes buffers or attributes (caches, counters) so leaves the user's module as it was.
    """

    def __init__(
        self, module: Any, flatten: Callable[[Any], Sequence[Any]], mutated: Container[str] = frozenset()
    ) -> None:
        self._module = module
        self._flatten = flatten
        self._mutated = mutated

    def run(self, example: Example, leaves: Sequence[Any], seed: int = 0) -> list[Result]:
        """Results at these inputs. Raises what the module raises; Unavailable when it can't be copied."""
        module = self.copied()
        args, kwargs = example.call([x.clone() if isinstance(x, torch.Tensor) else copy.copy(x) for x in leaves])
        with undisturbed(seed):
            try:
                with step():
                    output = module(*args, **kwargs)
            except Died as death:
                raise Unavailable(f"eager PyTorch {death}") from death
            except (Exception, KeyboardInterrupt) as error:
                _raise_if_forked(error)
                raise
            except BaseException as error:  # SystemExit: plain torch would not have run the model here
                raise RuntimeError(f"the module raised {type(error).__name__}") from error
        return compare.results(self._flatten(output))

    def copied(self) -> Any:
        """The copy; parameters are shared, except those that forward changes."""
        if not isinstance(self._module, torch.nn.Module):
            return self._module
        shared: dict[int, Any] = {id(p): p for name, p in self._module.named_parameters() if name not in self._mutated}
        for module in self._module.modules():  # computed weights, as weight_norm keeps them, can't be deep-copied
            computed = [v for v in vars(module).values() if isinstance(v, torch.Tensor) and not v.is_leaf]
            shared.update((id(value), value.detach().clone()) for value in computed)
        try:
            return copy.deepcopy(self._module, shared)
        except Exception as error:
            raise Unavailable(f"the module can't be copied, so it was not run ({one_line(error)})") from error


class Session:
    """ONNX Runtime on one program: ``names`` are its inputs."""

    def __init__(self, program: Any) -> None:
        self._session = self._open(program)
        self.names = [value.name for value in self._session.get_inputs()]

    @staticmethod
    def _open(program: Any) -> Any:
        try:
            import onnxruntime
        except ImportError as error:
            raise Unavailable("ONNX Runtime is not installed") from error

        opened: list[Any] = []

        def start(model: Any) -> Any:
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 4
            opened.append(onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]))
            return opened[-1]

        try:
            with step():
                if _fits_memory(program):
                    start(program.model_proto.SerializeToString())
                    return opened[-1]
                try:
                    program.initialize_inference_session(start)
                finally:
                    program.release()  # collects garbage, which takes longer than a small session
        except Died as death:
            raise Unavailable(f"ONNX Runtime {death} while it loaded the model") from death
        except Exception as error:
            raise Unavailable(f"ONNX Runtime can't load the model ({one_line(error)})") from error
        return opened[-1]

    def run(self, feeds: dict[str, Any]) -> list[Any]:
        """Outputs in order. Raises what ONNX Runtime raises; Died where it ended its process."""
        with step():
            outputs: list[Any] = self._session.run(None, {name: feeds[name] for name in self.names})
        return outputs


def _fits_memory(program: Any) -> bool:
    """Whether the model can be handed over as bytes: protobuf takes 2 GB at most, the rest goes through a file."""
    model = getattr(program, "model", None)
    if model is None:
        return False
    tensors = [value.const_value for value in model.graph.initializers.values()]
    held = sum(int(tensor.nbytes) for tensor in tensors if tensor is not None)
    return held < _MOST_BYTES


def feeds(example: Example, leaves: Sequence[Any]) -> dict[str, Any]:
    """ONNX input name to array, for every leaf that is an ONNX input."""
    found: dict[str, Any] = {}
    for name, leaf in zip(example.names, leaves):
        if name is None:
            continue
        if isinstance(leaf, torch.Tensor):
            tensor = leaf.detach().cpu().resolve_conj().resolve_neg()
            tensor = torch.view_as_real(tensor).contiguous() if tensor.is_complex() else tensor
            if tensor.dtype == torch.bfloat16:
                raise Unavailable("ONNX Runtime's Python interface takes no bfloat16 arrays")
            found[name] = tensor.numpy()
        else:
            found[name] = np.asarray(leaf)
    return found


@dataclass(frozen=True)
class Outcome:
    """One try at given shapes.

    ``state``: ``agrees``, ``differs``, ``rejected`` (eager PyTorch refuses these sizes) or ``unknown``;
    ``text`` says why for the last two. Of one that differs ``results`` are eager's and ``leaves`` the inputs, for
    further comparisons.
    """

    state: TryState
    difference: Difference | None = None
    text: str = ""
    results: tuple[Result, ...] = ()
    leaves: tuple[Any, ...] = ()


class Pair:
    """An eager module and its ONNX program, to be run at the same inputs."""

    def __init__(
        self, eager: Eager, open_session: Callable[[], Session], example: Example, steady: bool = False
    ) -> None:
        self.eager = eager
        self.steady = steady
        self.example = example
        self._open = open_session
        self._session: Session | None = None
        self._other_dtypes: frozenset[int] | None = None

    @property
    def session(self) -> Session:
        """Opened at first use, for all tries. Raises Unavailable when it can't be opened."""
        if self._session is None:
            self._session = self._open()
        return self._session

    def attempt(self, shapes: dict[str, tuple[int, ...]], seed: int = 0) -> Outcome:
        """Run both at these shapes and compare. A difference is looked at twice, with other values: a module that
        differs from itself, or that differs once only, is ``unknown``."""
        first = self._once(shapes, seed)
        if first.state != "differs" or first.difference is None:
            return first
        if first.difference.kind in ("runtime_error", "rejected_input") or self._settled(first.difference):
            return first
        again = self._once(shapes, seed + 1)
        if again.state == "differs":
            return first
        return Outcome("unknown", text="ONNX Runtime and eager PyTorch differ at one set of values and not at another")

    def _once(self, shapes: dict[str, tuple[int, ...]], seed: int) -> Outcome:
        try:
            leaves, expected = self._accepted(shapes, seed)
        except (TooLarge, Unavailable) as error:
            return Outcome("unknown", text=str(error))
        except Exception as error:
            return Outcome("rejected", text=one_line(error))
        try:
            found = self.compared(expected, leaves)
        except Ended as error:
            return Outcome("unknown", text=str(error))
        if found is None:
            return Outcome("agrees")
        if found.kind in ("values", "shape") and not self._settled(found):
            unstable = self._unstable(expected, leaves, seed)
            if unstable:
                return Outcome("unknown", text=unstable)
        return Outcome("differs", found, results=tuple(expected), leaves=tuple(leaves))

    def _settled(self, found: Difference) -> bool:
        """Whether other values could not change the difference: shapes of an operator that is ``steady``, whose shapes
        follow from its inputs' shapes alone."""
        return self.steady and found.kind == "shape"

    def _accepted(self, shapes: dict[str, tuple[int, ...]], seed: int) -> tuple[list[Any], list[Result]]:
        """Inputs at these shapes and eager's results. Where eager rejects them, whole numbers among the inputs may be
        positions or lengths that do not fit: then again with the smallest ones. Raises what eager raises."""
        leaves = self.example.at(shapes, seed)
        try:
            return leaves, self.eager.run(self.example, leaves, seed)
        except Unavailable:
            raise
        except Exception:
            if not self.example.has_integers:
                raise
        leaves = self.example.at(shapes, seed, smallest=True)
        return leaves, self.eager.run(self.example, leaves, seed)

    @classmethod
    def of(cls, other: Pair, program: Any) -> Pair:
        """The same eager module and example with another ONNX program."""
        return cls(other.eager, lambda: Session(program), other.example, other.steady)

    def compared(self, expected: list[Result], leaves: Sequence[Any]) -> Difference | None:
        """How ONNX Runtime's results at these inputs differ from ``expected``, eager's; None where they agree.
        Raises Unavailable."""
        session = self.session
        given = feeds(self.example, leaves)
        missing = [name for name in session.names if name not in given]
        if missing:
            raise Unavailable(f"no example value is known for the ONNX inputs {', '.join(missing)}")
        try:
            got = session.run(given)
        except Died as death:
            text = f"ONNX Runtime {death}"
            if death.signal not in _FAULTS:
                raise Ended(text) from death
            return _raised(expected, text)
        except Exception as error:
            return _raised(expected, one_line(error, _LONGEST))
        aligned = compare.align(expected, len(got))
        wrong = compare.other_dtypes(aligned, got)
        return compare.difference(aligned, got, self._always_other() if wrong else frozenset())

    def _always_other(self) -> frozenset[int]:
        """Outputs whose dtype differs from eager's at the example's own sizes: no matter of sizes."""
        if self._other_dtypes is None:
            leaves = self.example.at(self.example.shapes)
            expected = self.eager.run(self.example, leaves)
            got = self.session.run(feeds(self.example, leaves))
            self._other_dtypes = frozenset(compare.other_dtypes(compare.align(expected, len(got)), got))
        return self._other_dtypes

    def _unstable(self, expected: list[Result], leaves: Sequence[Any], seed: int) -> str | None:
        """Whether the module differs from itself under another random state."""
        try:
            second = self.eager.run(self.example, leaves, seed + 1000)
        except Exception as error:
            return f"the module raised in a second run at the same inputs ({one_line(error)})"
        if compare.difference(expected, [r.array for r in second]) is not None:
            return "the module differs from itself in two eager runs"
        return None


def _raised(expected: Sequence[Result], text: str) -> Difference:
    """What ONNX Runtime said in place of results."""
    kind: DifferenceKind = "rejected_input" if "invalid dimensions for input" in text else "runtime_error"
    return Difference(kind, f"shapes {', '.join(str(tuple(r.array.shape)) for r in expected)}", text)


def _raise_if_forked(error: BaseException) -> None:
    """Raises NotApart where torch refuses to work in a forked process (gradients, accelerators)."""
    if isinstance(error, RuntimeError) and any(words in str(error) for words in _NOT_FORKED):
        raise NotApart(str(error)) from error


def one_line(error: BaseException, length: int = 240) -> str:
    """An exception in one line that may go into a report."""
    text = told(error).split("\n", 1)[0].strip()
    return text if len(text) <= length else text[: length - 1] + "…"


def told(error: BaseException) -> str:
    """An exception in words that may go into a report: what the model's own code raised is told by type and place, for
    its words may hold anything, values included."""
    place = _raised_by_user(error)
    words = f"raised at {place}" if place is not None else _VALUES.sub("…", str(error))
    return scrub(f"{type(error).__name__}: {words}")


def _raised_by_user(error: BaseException) -> str | None:
    """Where code outside torch raised it: itself (``raise``, ``assert``, ``torch._check``), or by a call of something
    that is not torch's (``int("x")``, a missing key). None for what torch raised: its operators are written in C++, and
    leave no frame of their own behind the model's line."""
    steps = list(traceback.walk_tb(error.__traceback__))
    step = next((i for i in reversed(range(len(steps))) if not _is_torch(steps[i][0])), None)
    if step is None:
        return None
    frame, line = steps[step]
    below = steps[step + 1 :]
    if below:
        by_model = any(inner.f_code.co_name.startswith("_check") for inner, _ in below)
    else:
        by_model = type(error) not in _TORCH_RAISES or _raises(error, frame)
    return f"{os.path.basename(frame.f_code.co_filename)}:{line}" if by_model else None


def _is_torch(frame: FrameType) -> bool:
    name = str(frame.f_globals.get("__name__", ""))
    return name.split(".")[0] in ("torch", "guarddiff", "onnxruntime", "onnxscript", "onnx_ir") or (
        frame.f_code.co_filename.startswith((os.path.dirname(torch.__file__), "<eval_with_key>"))
    )


def _raises(error: BaseException, frame: FrameType) -> bool:
    """Whether the last step of ``frame`` is a ``raise`` (or ``assert``), not a call."""
    last = error.__traceback__
    while last is not None and last.tb_frame is not frame:
        last = last.tb_next
    while last is not None and last.tb_next is not None and last.tb_next.tb_frame is frame:
        last = last.tb_next
    if last is None:
        return True
    at = {step.offset: step.opname for step in dis.get_instructions(frame.f_code)}
    return at.get(last.tb_lasti, "RAISE") in ("RAISE", "RAISE_VARARGS", "RERAISE")
