from __future__ import annotations

import base64
import dataclasses
import hashlib
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.render.evidence_fixtures import EVIDENCE, OUTPUT, SCRIPT, full_evidence, translate_fault
from tests.render.fixtures import SAMPLES, adaptive_pool, clean_with_notes, dim, exactly, incomplete, quiet, snapshot

from guarddiff.core.finding import Finding
from guarddiff.core.origin import Origin, SourceLine
from guarddiff.core.proof import Decomposition, GraphLine, Ladder, Reproduction, Rung, Try
from guarddiff.core.report import Change, ReportData
from guarddiff.core.snapshot import Guard
from guarddiff.render.html import _environment, render

ALL = {**SAMPLES, **EVIDENCE}
BLOCKS = {"p", "div", "dt", "dd", "li", "h1", "h2", "h3", "h4", "h5", "td", "th", "details", "summary", "title", "a"}
VOID = {"meta", "input", "br", "hr", "img", "link"}


class Tree(HTMLParser):
    """Tags, attributes and text of a page; raises where a tag is not closed where it should be."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag in BLOCKS:
            self.texts.append(("", " "))
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), (tag, names)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag
        if tag in BLOCKS:
            self.texts.append(("", " "))

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))

    def values(self, name: str) -> list[str]:
        return [value for _, found, value in self.attributes if found == name]

    def inside(self, tag: str) -> str:
        return "".join(text for found, text in self.texts if found == tag)

    @property
    def text(self) -> str:
        """What is read, scripts and styles left out, with single spaces."""
        return " ".join("".join(text for tag, text in self.texts if tag not in ("style", "script")).split())


@pytest.mark.parametrize("name", ALL)
def test_looks_as_reviewed(name: str) -> None:
    html = render(ALL[name]())
    for tag in ("style", "script"):
        html = re.sub(rf"<{tag}>.*?</{tag}>", f"<{tag}></{tag}>", html, flags=re.DOTALL)
    snapshot(f"{name}.html", re.sub(r"sha256-[\w+/=]*", "sha256-…", html))


@pytest.mark.parametrize("name", ALL)
def test_is_well_formed_and_holds_together(name: str) -> None:
    html = render(ALL[name]())
    tree = Tree(html)
    ids = tree.values("id")
    assert len(ids) == len(set(ids))
    named = [part for value in tree.values("aria-labelledby") for part in value.split()]
    targets = [value.removeprefix("#") for value in tree.values("href")]
    for wanted in (*named, *targets, *tree.values("data-copies")):
        assert wanted in ids
    assert html.startswith("<!DOCTYPE html>")
    assert html.isprintable() or set(filter(lambda c: not c.isprintable(), html)) == {"\n"}
    assert html.encode("utf-8")
    assert html == render(ALL[name]()), "not the same text for the same report"


@pytest.mark.parametrize("name", ALL)
def test_asks_for_nothing_from_outside(name: str) -> None:
    tree = Tree(render(ALL[name]()))
    assert all(value.startswith("#") for value in tree.values("href"))
    assert not {"src", "srcset", "style", "data", "action", "poster", "xlink:href"} & {n for _, n, _ in tree.attributes}
    assert not [n for _, n, _ in tree.attributes if n.startswith("on")]
    assert not {"img", "iframe", "object", "embed", "link", "base", "form"} & set(tree.tags)
    assert tree.tags.count("script") == tree.tags.count("style") == 1
    assert not re.search(r"url\(|@import|https?:", tree.inside("style") + tree.inside("script"))


def test_a_template_that_forgets_to_clean_a_text_does_no_harm() -> None:
    page = _environment().from_string('<p title="{{ text }}">{{ text }}</p>').render(text='\x00\n"<b>' + "x" * 9000)
    assert page.startswith('<p title="\\x00\\n&#34;&lt;b&gt;x')
    assert len(page) < 8200


def test_the_policy_allows_exactly_the_own_style_and_script() -> None:
    tree = Tree(render(adaptive_pool()))
    policy = next(value for value in tree.values("content") if value.startswith("default-src"))
    for tag in ("style", "script"):
        digest = base64.b64encode(hashlib.sha256(tree.inside(tag).encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy


@settings(max_examples=30, deadline=None)
@given(st.text(min_size=1, max_size=60).filter(str.strip))
def test_no_text_changes_what_the_page_is_made_of(text: str) -> None:
    def page(word: str) -> Tree:
        origin = Origin(word, "m" + word, SourceLine(word, 1, word, word), SourceLine(word, 2, word, word), word)
        guards = (Guard(word, "guard", (word,), word, False, origin),)
        finding = Finding(
            (dim("x[0]", 2, exactly(2), name="n" + word),),
            "capture",
            word,
            origin,
            (word,),
            reason=word,
            repair=word,
            ladder=Ladder({"x": (3,)}, (Rung("eager", "agrees", word), Rung("onnx", "differs", word)), "translate"),
            reproduction=Reproduction(reason=word),
            decomposition=Decomposition((GraphLine(word),), (GraphLine(word, True),)),
        )
        report = ReportData(
            model=word,
            findings=(finding,),
            changes=(Change("capture", guards, "restricts", 0),),
            notes=(word,),
            environment={word: word},
            error=word,
        )
        return Tree(render(report))

    assert page(text).tags == page("a").tags


def test_holds_every_kind_of_evidence() -> None:
    tree = Tree(render(full_evidence()))
    for said in (
        "admitted 224–255 (finding 1)",
        "Tried: wrong at 256; could not be told at 1024; right at 240 and 255.",
        "torch/_decomp/decompositions.py:2825",
        "models/vgg.py:41",
        "Eq(Mod((s53//32), 7), 0)",
        "AveragePool node_avg_pool2d",
        "x=(1, 3, 256, 224)",
        "The first that does not agree with eager PyTorch: decomposed program (stage decompose).",
        "decomposed program raises first wrong RuntimeError: mat1 and mat2",
        "First node that differs FX node avg_pool2d: aten.avg_pool2d.default",
        "offending: avg_pool2d: f32[n, 512, h//32, w//32]",
        "Keep to the admitted sizes, or pool with a fixed kernel",
        "export again with repair=True",
        "Not seen being added: the origin is unknown.",
        "eager PyTorch refuses it RuntimeError: output size is too small",
        "output logits is declared with the fixed size 1000",
        "onnxruntime 1.22.0",
        "5 asserts",
    ):
        assert said in tree.text, said
    assert "".join(text for _, text in tree.texts).count(SCRIPT) == 1
    assert "".join(text for _, text in tree.texts).count(OUTPUT) == 1
    assert tree.tags.count("mark") == 3


def test_a_fault_of_translation_names_its_onnx_node() -> None:
    text = Tree(render(translate_fault())).text
    assert "ONNX before the optimizer (stage translate)" in text
    assert "ONNX before the optimizer raises first wrong" in text
    assert "ONNX node node_squeeze: Squeeze captured as squeeze: aten.squeeze.dims module root module (forward)" in text
    assert "No small script was found that shows the difference: the shrunk sizes no longer show the difference" in text


def test_guards_of_different_origins_each_show_their_own() -> None:
    report = adaptive_pool()
    finding = dataclasses.replace(report.findings[0], guards=("h % 2 == 0", "h // 2 == 3"))
    first = Guard("h % 2 == 0", "assert", ("h",), "", False, Origin("aten.first.default"))
    second = Guard("h // 2 == 3", "assert", ("h",), "", False, Origin("aten.second.default"))
    other = Guard("h % 2 == 0", "assert", ("h",), "", False, Origin("aten.other.default"))
    changes = (Change("capture", (other,), "none"), Change("decompose", (first, second), "restricts", 0))
    html = render(dataclasses.replace(report, findings=(finding,), changes=changes))
    card = Tree(
        html[html.index('<details class="card') : html.index('<section id="changes"')].rsplit("</section>", 1)[0]
    )
    assert re.search(
        r"h % 2 == 0 assert asked by aten\.first\.default h // 2 == 3 assert asked by aten\.second", card.text
    )
    assert "aten.other" not in card.text


def test_guards_of_one_origin_stand_together() -> None:
    report = adaptive_pool()
    first, *rest = report.changes[1].guards
    other = dataclasses.replace(first, text="h != 77", origin=Origin("aten.other.default"))
    finding = dataclasses.replace(report.findings[0], guards=(first.text, other.text, *(g.text for g in rest)))
    changes = (Change("decompose", (first, other, *rest), "restricts", 0),)
    text = Tree(render(dataclasses.replace(report, findings=(finding,), changes=changes))).text
    own = " assert Eq(h, 6)"
    listed = (
        f"h % 2 == 0{own} h // 2 == 3{own} w % 3 == 0 assert Eq(w, 6) w // 3 == 2 assert Eq(w, 6) asked by aten._ad"
    )
    assert text.count(listed) == 2, "once in the finding, once among the changes"
    assert text.count("h != 77 assert Eq(h, 6) asked by aten.other.default") == 2


def test_only_findings_that_warn_are_open() -> None:
    html = render(quiet())
    opened = re.findall(r'<details class="card item (\w+)" id="finding-(\d)"[^>]*?( open)?>', html)
    assert opened == [("confirmed", "2", " open"), ("harmless", "1", ""), ("inherent", "3", "")]


def test_never_says_that_the_unknown_is_fine() -> None:
    text = Tree(render(incomplete())).text
    assert "what is missing is unknown, not fine" in text
    assert "deferred runtime asserts" in text
    assert "admitted unknown" in text
    assert "The export raised: TorchExportError" in text
    assert "Findings None." in Tree(render(clean_with_notes())).text


def test_an_empty_report() -> None:
    tree = Tree(render(ReportData()))
    assert "No dimension was declared dynamic." in tree.text
    assert "svg" not in tree.tags


def test_very_long_reports_are_cut_and_say_so() -> None:
    guards = tuple(Guard(f"h != {n}", "guard", ("h",)) for n in range(150))
    finding = dataclasses.replace(adaptive_pool().findings[0], guards=tuple(g.text for g in guards))
    kept = Change("decompose", (Guard("w == 77777", "guard"),), "restricts", 0)
    report = dataclasses.replace(
        adaptive_pool(),
        findings=(finding,) * 250,
        changes=(*(Change("capture", (g,), "none") for g in guards * 20), kept),
        tries=tuple(Try({"x": (1, 2, n, 6)}, "agrees") for n in range(2000)),
        inputs=tuple(dataclasses.replace(adaptive_pool().inputs[0]) for _ in range(100)),
        notes=tuple(f"note {n}" for n in range(300)),
    )
    html = render(report)
    for said in (
        "50 findings left out; the JSON report has them.",
        "2501 changes left out",
        "1700 runs left out",
        "50 guards left out",
        "100 dimensions left out",
        "100 notes left out",
    ):
        assert said in html, said
    assert "w == 77777" in html, "what restricts has to stay"
    assert len(html) < 12_000_000


def test_long_scripts_are_cut_and_keep_their_lines() -> None:
    script = "\n".join(f"line_{n} = '\x1b[2J\t<b>'" for n in range(400))
    finding = dataclasses.replace(adaptive_pool().findings[0], reproduction=Reproduction(script, "", "model"))
    html = render(dataclasses.replace(adaptive_pool(), findings=(finding,)))
    assert "400 lines with the whole model" in html
    assert "# 100 more in the JSON report" in html
    assert "line_299 = &#39;\\x1b[2J" in html
    assert "line_300" not in html
