"""Exports of models whose names, code and errors hold markup, escapes, line breaks, megabytes and secrets."""

from __future__ import annotations

import json
import linecache
import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from tests.render.parsed import NEVER, OWN_BLOCKS, OWN_HTML, tokens
from tests.render.test_html import Tree
from torch import nn
from torch.export import Dim

import guarddiff

pytestmark = [pytest.mark.usefixtures("no_reproductions"), pytest.mark.filterwarnings("ignore")]

HOSTILE = {
    "html": "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "closing": "</code></details></style>-->",
    "markdown": "](https://example.org) **b** `c` | d\n# Heading\n- [ ] task\n```\n",
    "ansi": "\x1b[31mred\x1b]8;;https://example.org\x07link\x1b[2J",
    "lines": "one\r\ntwo\u2028three\x00four\u202eeruof",
    "cdata": "]]>&amp;&lt;%%}}{{ 7*7 }}{% raw %}",
    "long": "x" * 1_000_000,
}
FORMATS = ("text", "markdown", "github", "html", "json", "junit", "github-annotations")
SOURCE = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Identity()

    def forward(self, x):
        return torch.nn.functional.adaptive_avg_pool2d(self.layer(x), (2, 3))  # {comment}
"""


def made(text: str, file: str) -> nn.Module:
    """A model whose class, module, source file and source line hold the text."""
    source = SOURCE.replace("{comment}", text.replace("\n", " ").replace("\r", " ").replace("\x00", " "))
    space: dict[str, Any] = {"nn": nn, "torch": torch, "__name__": "hostile"}
    exec(compile(source.replace("\u2028", " "), file, "exec"), space)
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    kind = type(text.replace("\x00", ""), (space["Model"],), {"__doc__": text, "__module__": text})
    model: nn.Module = kind()
    name = text.replace(".", "")
    model.add_module(name, nn.ReLU())
    model.layer = model._modules.pop(name)
    return model.eval()


def report_of(model: Any, **more: Any) -> guarddiff.Report:
    given: dict[str, Any] = {"dynamic_shapes": ({2: Dim.AUTO, 3: Dim.AUTO},), "dynamo": True, "verbose": False}
    try:
        guarddiff.export(model, (torch.ones(1, 2, 6, 6),), on_finding="ignore", **{**given, **more})
    except Exception as error:
        assert not isinstance(error, guarddiff.SpecializationError)
    report = guarddiff.last_report()
    assert report is not None
    return report


@pytest.fixture(scope="module")
def ordinary() -> dict[str, str]:
    report = report_of(made("Model", "model.py"))
    return {kind: report.render(kind) for kind in FORMATS}


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("name", HOSTILE)
def test_its_report_is_harmless_in_every_format(
    name: str, named: bool, ordinary: dict[str, str], tmp_path: Path
) -> None:
    text = HOSTILE[name]
    names = {"input_names": [text], "output_names": [f"{text}!"]} if named else {}
    report = report_of(made(text, f"/srv/{text[:200].replace(chr(0), '')}/model.py"), **names)
    assert [finding.verdict for finding in report.findings] == ["confirmed"]
    rendered = {kind: report.render(kind) for kind in FORMATS}
    for kind, shown in rendered.items():
        kept = 20 * len(text) if named and kind == "json" else 0  # the ONNX model's own name of its input
        assert len(shown) < len(ordinary[kind]) + 200_000 + kept, kind
        if kind != "json":
            assert not {"\x1b", "\x07", "\x00", "\u202e", "\u2028", "\r"} & set(shown), kind
    of_page = Tree(rendered["html"]).tags
    assert set(of_page) <= set(Tree(ordinary["html"]).tags)
    assert of_page.count("script") == 1
    for kind in ("markdown", "github"):
        for token in tokens(rendered[kind]):
            assert token.type not in NEVER, (kind, token.content)
            if token.type == "html_inline":
                assert token.content in OWN_HTML
            if token.type == "html_block":
                assert token.content.strip().startswith(OWN_BLOCKS) or token.content.strip() in OWN_HTML
    assert ElementTree.fromstring(rendered["junit"]).tag.startswith("testsuite")
    lines = rendered["github-annotations"].splitlines()
    assert len(lines) == len(ordinary["github-annotations"].splitlines())
    json.loads(rendered["json"])
    paths = report.write(tmp_path)
    assert all(Path(path).parent == tmp_path for path in paths)


class Leaking(nn.Module):
    """Raises what it should keep to itself."""

    def __init__(self, raises: bool) -> None:
        super().__init__()
        self.raises = raises

    def forward(self, x: Any) -> Any:
        if self.raises or x.shape[2] != 6:
            raise ValueError(f"token {os.environ['GUARDDIFF_TOKEN']} of {os.path.expanduser('~')}")
        return torch.nn.functional.adaptive_avg_pool2d(x, (2, 3))


@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("replay", ["findings", "full"])
def test_neither_user_nor_secret_is_in_it(
    raises: bool, replay: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = tmp_path / "home" / "jane.doe"
    (home / "work").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GUARDDIFF_TOKEN", "hunter2-hunter2")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
    monkeypatch.chdir(home / "work")
    file = str(home / "work" / "net.py")
    Path(file).write_text(SOURCE.replace("{comment}", "pooled"))
    space: dict[str, Any] = {"nn": nn, "torch": torch, "__name__": "net"}
    exec(compile(Path(file).read_text(), file, "exec"), space)
    for model in (space["Model"]().eval(), Leaking(raises).eval()):
        report = report_of(model, replay=replay)
        assert report.status != "clean"
        for kind in FORMATS:
            shown = report.render(kind)
            for secret in ("hunter2", "wJalrXUtnFEMI", "jane.doe", str(tmp_path)):
                assert secret not in shown, (kind, secret)
