"""Run candidate scripts: many of them in one process of their own, the last one by itself in a fresh process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from guarddiff.core.child import Child, Died

CANDIDATE_SECONDS = 30.0
"""No candidate may take longer; most take less than a second."""
START_SECONDS = 90.0
FRESH_SECONDS = 120.0

_KEPT = re.compile(
    r"PATH|HOME|LANG|LC_\w+|TMPDIR|TEMP|TMP|SYSTEMROOT|WINDIR|COMSPEC|LD_\w+|DYLD_\w+|OMP_\w+|MKL_\w+|KMP_\w+"
    r"|OPENBLAS_\w+|CUDA_VISIBLE_DEVICES|TORCH_ONNX_\w+"
)
"""Environment variables that a script in its own process is given."""
_KINDS = {"shape": ("shape",), "values": ("values",), "rejected_input": ("rejected_input",)}
_AGREES, _DIFFERS, _RAISED = ": equal", ": different", "ONNX Runtime raised "


@dataclass(frozen=True)
class Shown:
    """What a script that shows the difference printed, and the kind of the difference: ``shape``, ``values``,
    ``runtime_error`` or ``rejected_input``."""

    output: str
    kind: str


def read(output: str, code: int) -> Shown | None:
    """What a script showed: None unless both agree at the example's sizes and differ at the others."""
    lines = [line for line in output.splitlines() if line.strip()]
    if code != 1 or len(lines) != 2 or not lines[0].endswith(_AGREES):
        return None
    last = lines[1]
    if _RAISED in last:
        return Shown(output, "rejected_input" if "invalid dimensions for input" in last else "runtime_error")
    if not last.endswith(_DIFFERS):
        return None
    torch_gave, _, runtime_gave = last.removesuffix(_DIFFERS).partition("; ONNX Runtime ")
    same = torch_gave.partition("PyTorch ")[2] == runtime_gave
    return Shown(output, "values" if same else "shape")


class Workbench:
    """A process that runs candidates. Use as a context manager; it starts at once and ends with the block.

    ``tried`` counts the candidates; ``last_error`` is the exception that ended the last one, for a reason.
    """

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.tried = 0
        self.last_error = ""
        self._known: dict[str, Shown | None] = {}
        self._child: Child | None = None
        self._ready = False
        self._pace = 0.0

    def __enter__(self) -> Workbench:
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def start(self) -> float:
        """Wait until the process is ready to run candidates; how many seconds that took, as a measure of the machine.

        Raises Died or OSError where it does not come up.
        """
        begun = time.monotonic()
        self._up(START_SECONDS)
        self._pace = time.monotonic() - begun
        return self._pace

    def shows(self, text: str) -> Shown | None:
        """The difference that the script shows; None where it shows none, fails, or no time is left."""
        if text not in self._known:
            answer = self._ask(text)
            self.last_error = str(answer.get("error", ""))
            usable = answer.get("steady", False) and not self.last_error
            self._known[text] = read(answer["output"], answer["code"]) if usable else None
        return self._known[text]

    def _ask(self, text: str) -> dict[str, Any]:
        left = self.deadline - time.monotonic()
        if left <= 0:
            return {"error": "the time was used up"}
        self.tried += 1
        try:
            child = self._up(min(START_SECONDS, left))
            most = max(CANDIDATE_SECONDS, 5 * self._pace)
            return child.ask({"text": text}, min(most, max(0.1, self.deadline - time.monotonic())))
        except (OSError, Died) as error:
            self._stop()
            return {"error": f"the script ended its process or took too long ({error})"}

    def _up(self, seconds: float) -> Child:
        """The process, ready to be asked."""
        child = self._child or self._start()
        if not self._ready:
            child.answer(seconds)
            self._ready = True
        return child

    def _start(self) -> Child:
        code = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); sys.argv[1:] = []\n"
        code += "from guarddiff.torch_bridge.workbench import serve; serve()"
        paths = [os.path.abspath(path) for path in sys.path if path]
        package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        self._ready = False
        child = self._child = Child([sys.executable, "-c", code, json.dumps([*paths, package])])
        return child

    def _stop(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.close()


def fresh(text: str, seconds: float = FRESH_SECONDS) -> Shown | None:
    """Run the script by itself as ``python script.py`` in an empty folder and with a small environment.

    What it showed; None where it did not. Raises TimeoutError.
    """
    with tempfile.TemporaryDirectory(prefix="reproduction-") as folder:
        script = Path(folder) / "reproduction.py"
        script.write_text(text, encoding="utf-8")
        try:
            done = subprocess.run(
                [sys.executable, script.name],
                cwd=folder,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
                errors="replace",
                timeout=max(1.0, seconds),
            )
        except subprocess.TimeoutExpired as error:
            raise TimeoutError("the script took too long in a fresh process") from error
        except OSError:
            return None
    return read(done.stdout, done.returncode)


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if _KEPT.fullmatch(name.upper())}
    paths = [os.path.abspath(p) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    holding = [p for p in paths if any(os.path.isdir(os.path.join(p, n)) for n in ("torch", "onnxruntime", "numpy"))]
    if holding:  # torch itself was put on the path that way
        kept["PYTHONPATH"] = os.pathsep.join(holding)
    return kept
