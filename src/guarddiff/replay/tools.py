"""What the replay is given from outside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from guarddiff.replay import ladder


@dataclass
class Tools:
    """What the replay needs from outside.

    Attributes:
        program: The ONNXProgram; None when the export raised.
        captured: The captured program, from which operators are taken.
        mutated: Parameters that the model's forward changes.
        programs: What each stage made, for the ladder; None where there are no stages to tell apart.
        size_text: A symbolic size → int or text over dimension variables.
        export_operator: (module, args, dynamic_shapes) → ONNXProgram of one operator.
        fake_accepts: (module, call) → whether it accepts the inputs; None when it can't be told.
        flatten: Nested value → leaves.
    """

    program: Any
    captured: Any
    size_text: Callable[[Any], int | str]
    export_operator: Callable[[Any, tuple[Any, ...], Any], Any]
    fake_accepts: Callable[[Any, Callable[[Any], Any]], bool | None]
    flatten: Callable[[Any], Sequence[Any]]
    mutated: frozenset[str] = frozenset()
    programs: ladder.Programs | None = None
