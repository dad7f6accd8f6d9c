from __future__ import annotations

import dataclasses
import re

import pytest
from tests.render.evidence_fixtures import EVIDENCE, OUTPUT, SCRIPT, full_evidence, translate_fault
from tests.render.fixtures import SAMPLES, adaptive_pool, clean_with_notes, kron, quiet, snapshot, untried
from tests.render.parsed import check_markup, fences, headings, prose, rows

from guarddiff.core.finding import Counterexample, Finding
from guarddiff.core.report import Missing, ReportData
from guarddiff.render import filing
from guarddiff.render.github import LIMIT, attachment, render

ALL = {**SAMPLES, **EVIDENCE}
LOUD = [name for name, make in ALL.items() if any(f.warns for f in make().findings)]


def with_finding(report: ReportData, **changes: object) -> ReportData:
    """The report with its first finding changed."""
    first = dataclasses.replace(report.findings[0], **changes)  # type: ignore[arg-type]
    return dataclasses.replace(report, findings=(first, *report.findings[1:]))


def huge() -> ReportData:
    """Every part far longer than an issue may be."""
    report = full_evidence()
    finding = report.findings[0]
    assert finding.decomposition is not None and finding.reproduction is not None
    lines = finding.decomposition.before * 400
    return dataclasses.replace(
        with_finding(
            report,
            guards=tuple(f"h % {i} == {'1' * 100}" for i in range(500)),
            decomposition=dataclasses.replace(finding.decomposition, before=lines, after=lines),
            onnx_nodes=finding.onnx_nodes * 500,
            reproduction=dataclasses.replace(finding.reproduction, script=SCRIPT * 100),
            counterexample=Counterexample({"x": (1,)}, "e" * 100_000, "g\n" * 100_000, "values"),
        ),
        missing=(Missing("part", "why " * 50),) * 300,
        environment={f"package{i}": "1" * 300 for i in range(500)},
    )


@pytest.mark.parametrize("name", ALL)
def test_looks_as_reviewed(name: str) -> None:
    snapshot(f"{name}.github.md", render(ALL[name]()))


@pytest.mark.parametrize("name", ALL)
def test_every_finding_is_a_valid_issue(name: str) -> None:
    report = ALL[name]()
    for number in range(1, len(report.findings) + 1):
        text = render(report, number)
        check_markup(text)
        assert len(text) <= LIMIT


@pytest.mark.parametrize("name", LOUD)
def test_the_fields_of_the_bug_template(name: str) -> None:
    found = headings(render(ALL[name]()))
    assert [title for level, title in found if level == 2] == [
        "Sign-off and disclosure",
        "Before filing: search words",
        "🐛 Describe the bug",
        "Versions",
    ]
    known = "Reproduction|The export call|Outcome|The program after each stage|Where it comes from|Guards"
    known += "|The operator before and after|ONNX nodes|What could not be read or tried|Other findings"
    known += "|What was declared, and read otherwise"
    assert [title for level, title in found if level == 3 and not re.fullmatch(known, title)] == []


@pytest.mark.parametrize("name", LOUD)
def test_the_empty_sign_off_forbids_to_file(name: str) -> None:
    text = render(ALL[name]())
    assert text.startswith("**Do not file this text as it is.**")
    assert "must not be filed before a person" in " ".join(text.split("\n\n")[0].split())
    slots = text.split("## Sign-off and disclosure\n\n")[1].split("\n\n")[0].split("\n")
    assert len(slots) == 4
    assert all(slot.startswith("- ") and slot.endswith(": \\_\\_\\_\\_") for slot in slots)
    for asked in ("Checked by hand by", "On which machine", "How this text was made: by the program guarddiff"):
        assert any(asked in slot for slot in slots)


def test_the_description_has_the_script_the_outcome_and_the_ladder() -> None:
    text = render(full_evidence())
    blocks = fences(text)
    assert ("python", SCRIPT) in blocks
    assert ("text", OUTPUT) in blocks
    assert ("text", "shape (1, 512, 8, 7)\n") in blocks
    assert ["decomposed program", "**raises**"] in [cells[:2] for cells in rows(text)]
    paragraph = text.split("## 🐛 Describe the bug\n\n")[1].split("\n\n")[0]
    assert "\n" not in paragraph
    for part in ("`x=(1, 3, 256, 224)`", "`shape (1, 512, 7, 7)`", "`shape (1, 512, 8, 7)`", "224–255", "decomposed"):
        assert part in paragraph
    assert "torch/_decomp/decompositions.py:2825 adaptive_avg_pool2d" in text
    assert any("# <-- this one" in content for _, content in blocks)


def test_the_outcome_is_not_shortened() -> None:
    proof = kron().findings[0].counterexample
    assert proof is not None
    long = f"{proof.got}\n  in {'f' * 900}"
    text = render(with_finding(kron(), counterexample=dataclasses.replace(proof, got=long)))
    assert ("text", f"{long}\n") in fences(text)


def test_an_unconfirmed_finding_says_that_nothing_was_confirmed() -> None:
    text = render(untried())
    assert text.split("\n\n")[1].startswith("**Nothing was confirmed by a run.**")
    assert "This was not confirmed: ONNX Runtime is not installed." in text
    assert "eager PyTorch gives" not in text


def test_several_findings_are_several_issues() -> None:
    one, two = adaptive_pool().findings[0], kron().findings[0]
    report = dataclasses.replace(adaptive_pool(), findings=(quiet().findings[0], one, two))
    first = render(report)
    assert first == render(report, 2)
    described, _, others = first.partition("### Other findings")
    assert "kron" not in described
    assert "file one issue for each" in others
    assert "- Finding 3, confirmed: Left to torch (Dim.AUTO), but" in others
    second = render(report, 3)
    assert "aten.kron.default" in second
    assert "- Finding 2, confirmed: x\\[2\\] (h)" in second
    assert "**This finding warns of nothing** (harmless)" in render(report, 1)


@pytest.mark.parametrize("number", [0, -1, 4])
def test_no_finding_of_that_number(number: int) -> None:
    for make in (render, attachment):
        with pytest.raises(ValueError, match=f"there is no finding {number}: the report has 3 findings"):
            make(quiet(), number)


def test_nothing_to_file() -> None:
    assert render(clean_with_notes()) == "Nothing to file: No specialized dimension was found.\n"
    assert attachment(clean_with_notes()) is None


def test_many_other_findings_are_counted() -> None:
    report = adaptive_pool()
    text = render(dataclasses.replace(report, findings=report.findings * 100))
    assert "- 79 more in the report" in text


def test_what_is_too_long_is_attached() -> None:
    report = huge()
    text, attached = render(report), attachment(report)
    assert len(text) <= LIMIT
    assert attached is not None
    check_markup(text)
    check_markup(attached)
    moved = text.count("In the attached file (`….github-attachment.md`, beside this one).")
    titles = [title for level, title in headings(attached) if level == 3]
    assert moved == len(titles) > 1
    for title in titles:
        assert f"### {title}\n\nIn the attached file" in text
    assert attached.count("h % ") == 500
    assert ("python", SCRIPT * 100) in fences(attached)


@pytest.mark.parametrize("char", "|&`*a\x00\U000e0001")
def test_no_text_is_escaped_beyond_the_limit(char: str) -> None:
    def filled(value: object) -> object:
        if isinstance(value, str):
            return char * 5000
        if isinstance(value, tuple):
            return tuple(map(filled, value))
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            kept = ("stage", "verdict", "kind", "scope", "state", "graph", "effect", "when")
            fields = {
                f.name: getattr(value, f.name) if f.name in kept else filled(getattr(value, f.name))
                for f in dataclasses.fields(value)
                if f.init
            }
            if "rungs" in fields:
                fields["rungs"] = value.rungs  # type: ignore[attr-defined]
            return type(value)(**fields)
        return value

    one = filled(full_evidence().findings[0])
    report = dataclasses.replace(
        full_evidence(),
        findings=(one,) * 50,  # type: ignore[arg-type]
        missing=(Missing(char * 500, char * 500),) * 50,
        environment={f"{char * 50}{i}": char * 500 for i in range(100)},
    )
    assert len(render(report)) <= LIMIT
    check_markup(render(report))


def test_as_much_as_fits_stays() -> None:
    guards = tuple(f"h % {i} == {'1' * 150}" for i in range(1000))
    report = with_finding(full_evidence(), guards=guards)
    text, attached = render(report), attachment(report)
    assert attached is not None
    assert ("python", SCRIPT) in fences(text)
    assert "### The program after each stage\n\nLadder at" in text
    assert "### Guards\n\nIn the attached file" in text
    assert [title for _, title in headings(attached)][1] == "Guards"
    assert attachment(full_evidence()) is None


@pytest.mark.parametrize("name", ALL)
def test_no_mention_and_no_reference_in_prose(name: str) -> None:
    assert not re.search(r"@\w|#\d|\bGH-\d", prose(render(ALL[name]())), re.IGNORECASE)


SEARCHES = [
    (
        full_evidence().findings[0],
        [
            "repo:pytorch/pytorch is:issue onnx adaptive_avg_pool2d",
            "repo:pytorch/pytorch is:issue onnx run_decompositions specialized dynamic shape",
            'repo:pytorch/pytorch is:issue onnx "avg_pool2d"',
            'repo:pytorch/pytorch is:issue "shapes cannot be multiplied"',
        ],
    ),
    (
        kron().findings[0],
        [
            "repo:pytorch/pytorch is:issue onnx kron",
            "repo:pytorch/pytorch is:issue onnx torch.export specialized dynamic shape",
            'repo:pytorch/pytorch is:issue onnx "reshape_view_helper"',
            'repo:pytorch/pytorch is:issue "The input tensor cannot be reshaped to the"',
        ],
    ),
    (
        translate_fault().findings[0],
        [
            "repo:pytorch/pytorch is:issue onnx squeeze",
            "repo:pytorch/pytorch is:issue onnx wrong output dynamic shape",
            "repo:microsoft/onnxscript is:issue onnx squeeze",
            "repo:microsoft/onnxscript is:issue onnx wrong output dynamic shape",
        ],
    ),
]


@pytest.mark.parametrize(("finding", "expected"), SEARCHES)
def test_search_words(finding: Finding, expected: list[str]) -> None:
    assert filing.queries(finding) == expected
    report = dataclasses.replace(adaptive_pool(), findings=(finding,))
    assert ("text", "\n".join(expected) + "\n") in fences(render(report))


@pytest.mark.parametrize("name", LOUD)
def test_search_words_are_queries_and_claim_nothing(name: str) -> None:
    for finding in ALL[name]().findings:
        for query in filing.queries(finding):
            assert re.fullmatch(r'repo:[\w/]+ is:issue [\w ."\']+', query)
            assert query.count('"') in (0, 2)


@pytest.mark.parametrize("name", LOUD)
def test_the_title_is_one_short_line(name: str) -> None:
    for finding in ALL[name]().findings:
        shown = filing.title(finding)
        assert shown.isprintable()
        assert len(shown) <= 200
        assert shown.startswith("[ONNX] torch.onnx.export ")


def test_versions_in_the_form_of_collect_env() -> None:
    found = filing.versions(
        {
            "torch": "2.14.1+cu128",
            "debug_build": "False",
            "cuda_build": "12.8",
            "rocm_build": "N/A",
            "os": "Debian GNU/Linux 12 (bookworm) (x86_64)",
            "libc": "glibc-2.36",
            "python": "3.11.9",
            "python_bits": "64",
            "python_platform": "Linux-6.1.0-x86_64-with-glibc2.36",
            "platform": "Linux x86_64",
            "cuda": "not asked",
            "onnx": "1.18.0",
            "guarddiff": "0.1.0",
        }
    )
    assert "\n".join(found) == (
        "PyTorch version: 2.14.1+cu128\n"
        "Is debug build: False\n"
        "CUDA used to build PyTorch: 12.8\n"
        "ROCM used to build PyTorch: N/A\n"
        "\n"
        "OS: Debian GNU/Linux 12 (bookworm) (x86_64)\n"
        "Libc version: glibc-2.36\n"
        "\n"
        "Python version: 3.11.9 (64-bit runtime)\n"
        "Python platform: Linux-6.1.0-x86_64-with-glibc2.36\n"
        "Is CUDA available: not asked\n"
        "\n"
        "Versions of relevant libraries:\n"
        "[pip3] guarddiff==0.1.0\n"
        "[pip3] onnx==1.18.0\n"
        "[pip3] torch==2.14.1+cu128"
    )


def test_versions_of_an_old_or_empty_report() -> None:
    assert filing.versions({}) == ["Versions of relevant libraries:"]
    assert filing.versions({"python": "3.11.9", "platform": "Linux x86_64"})[:2] == [
        "Python version: 3.11.9",
        "Python platform: Linux x86_64",
    ]


def test_the_torchscript_exporter_is_named() -> None:
    assert "`torch.onnx.export(dynamo=False)`" in filing.claim(dataclasses.replace(kron().findings[0], stage="run"))


@pytest.mark.parametrize(
    ("op", "name"),
    [
        ("aten._adaptive_avg_pool2d.default", "adaptive_avg_pool2d"),
        ("aten.to.dtype", "to"),
        ("torch.kron", "kron"),
        ("prims.broadcast_in_dim.default", "broadcast_in_dim"),
        ("Squeeze", "Squeeze"),
        ("int()", "int"),
        ("dynamic_axes", "dynamic_axes"),
        ("", ""),
        ("aten.default", ""),
        ("` __ ``", ""),
    ],
)
def test_the_name_to_search_for(op: str, name: str) -> None:
    assert filing.operator(op) == name
