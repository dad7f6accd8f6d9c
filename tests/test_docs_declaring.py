"""``docs/declaring-dimensions.md``: its table is what is told, and its recipe runs."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import get_args

import pytest
from tests.torch_bridge.declaring import WRONG, Wrong, told

from guarddiff.analysis.declared import text
from guarddiff.core.declaration import TOLD_ONLY, Code
from guarddiff.render.commonmark import code, plain, table
from guarddiff.torch_bridge.declarations import read_spec

PAGE = Path(__file__).parents[1] / "docs" / "declaring-dimensions.md"
START, END = "<!-- table -->\n", "<!-- end of table -->\n"
AFTER = {"fixed-output", "output-axis", "range-exceeds", "example-one", "program"}


def written(case: Wrong) -> str:
    shown = [f"{key}={text(read_spec(value)) if 'dynamic' in key else value}" for key, value in case.declared.items()]
    return ", ".join([*shown, *([] if case.dynamo else ["dynamo=False"])])


def rows() -> str:
    lines = []
    for case in sorted(WRONG.values(), key=lambda case: get_args(Code).index(case.code)):
        (found,) = told(case)
        mark = "" if found.warns else " *"
        lines.append((f"{code(found.code)}{mark}", code(written(case)), plain(found.problem), code(found.instead)))
    return table(("code", "written", "told", "instead"), lines) + "\n"


def test_the_table_is_what_is_told() -> None:
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(START)
    kept, _, after = rest.partition(END)
    if os.environ.get("GUARDDIFF_UPDATE_SNAPSHOTS") == "1":
        kept = rows()
        PAGE.write_text(before + START + kept + END + after, encoding="utf-8")
    assert kept == rows(), "docs/declaring-dimensions.md is old: run with GUARDDIFF_UPDATE_SNAPSHOTS=1"


def test_every_code_is_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name in get_args(Code):
        assert f"`{name}`{' *' if name in TOLD_ONLY else ''} |" in page, name
    assert {case.code for case in WRONG.values()} | AFTER == set(get_args(Code))


def test_the_recipe_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = PAGE.read_text(encoding="utf-8")
    (recipe,) = [block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "class Net" in block]
    monkeypatch.chdir(tmp_path)
    exec(compile(recipe, str(PAGE), "exec"), {"__name__": "recipe"})
    assert (tmp_path / "net.onnx").is_file()
