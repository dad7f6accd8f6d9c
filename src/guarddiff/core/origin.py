"""Where a change of the symbolic-shape state came from, as plain data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SourceLine:
    """One line of a Python file.

    ``file`` is shortened so that it names no home folder: relative to the working folder, or to
    the folder that holds the installed package (``torch/_decomp/decompositions.py``).
    ``text`` is the stripped source text, empty when it could not be read.
    """

    file: str
    line: int
    function: str = ""
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Origin:
    """The moment at which a guard was added.

    Attributes:
        op: The operator (``aten._adaptive_avg_pool2d.default``), or what the model's own code did
            (``int()``, ``if``); None when unknown.
        module_path: Path of the module (``features.3``; ``""`` is the model itself); None when unknown.
        source: The user's source line; None when no frame of user code was on the stack.
        rule: The decomposition rule or the part of torch that asked for the guard; None when the model's own
            code asked.
        node: Name of the FX node in the captured graph; None when unknown.
        branch: The model's own Python code asked for a concrete value (an ``if``, ``int()``, ``range()``).
    """

    op: str | None = None
    module_path: str | None = None
    source: SourceLine | None = None
    rule: SourceLine | None = None
    node: str | None = None
    branch: bool = False
