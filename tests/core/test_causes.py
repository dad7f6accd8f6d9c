from __future__ import annotations

import pytest

from guarddiff.core import causes
from guarddiff.core.errors import in_words

TORCH = (
    "Failed to export the model with torch.export. \x1b[96mThis is step 1/3\x1b[0m of exporting the model to ONNX. "
    "Next steps:\n- Modify the model code for `torch.export.export` to succeed.\n- Debug it\n\n## Exception summary\n\n"
    "<class 'torch._dynamo.exc.UserError'>: Constraints violated (h)! For more information, run with TORCH_LOGS\n"
    "(Refer to the full stack trace above for more information.)"
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            TORCH,
            "Failed to export the model with torch.export: UserError: Constraints violated (h)! For more information, "
            "run with TORCH_LOGS",
        ),
        (
            f"TorchExportError: {TORCH.splitlines()[0]}\ncaused by UserError: Constraints violated (h)!\n  more",
            "TorchExportError: Failed to export the model with torch.export: UserError: Constraints violated (h)!",
        ),
        (
            "TorchExportError: Failed. Next steps:\n- Modify\n- Debug\n…\ncaused by ValueError: no",
            "TorchExportError: Failed: ValueError: no",
        ),
        (
            "TorchExportError: Failed. Next steps:\ncaused by ValueError: Found the following conflicts:\n"
            "- tracing inferred a static shape of 7 for inputs['x'].shape[1]\n- another",
            "TorchExportError: Failed: ValueError: Found the following conflicts: tracing inferred a static shape of 7 "
            "for inputs['x'].shape[1]",
        ),
        ("caused by ValueError: nothing follows:", "caused by ValueError: nothing follows:"),
        ("\x1b[1;31mValueError\x1b[0m: no\nmore", "ValueError: no"),
        ("\n\nboom", "boom"),
        ("", ""),
        (" \n", ""),
        ("Next steps:", "Next steps:"),
    ],
)
def test_the_line_that_names_the_cause(text: str, said: str) -> None:
    assert causes.cause(text) == said


def test_only_colours_are_taken_out() -> None:
    assert causes.uncoloured("\x1b[31mred\x1b[0m \x1b[2J\x1b[1;4:3mx") == "red \x1b[2Jx"


@pytest.mark.parametrize("part", ["a.h:1 ", "a::b(", "(", "onnxruntime::a ", "running x node. ", "<class '", "a "])
def test_a_long_text_is_looked_at_in_part(part: str) -> None:
    said = causes.cause(f"a\nException summary\n{part * 100_000}")
    assert said.startswith("a: ")
    assert len(said) <= 4 * causes.LONGEST


def test_an_exception_in_words() -> None:
    said = "RuntimeError: Failed to export the model with torch.export: UserError: Constraints violated (h)!"
    assert in_words(RuntimeError(TORCH)).startswith(said)
    assert in_words(RuntimeError(TORCH), 20) == "RuntimeError: Faile…"
    assert in_words(KeyError()) == "KeyError"
