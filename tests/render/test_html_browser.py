"""HTML reports in a real browser: what they show, how they are used, and that text from a model does nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.render.browser import ENTER, ESCAPE, SPACE, TAB, Page, browser
from tests.render.evidence_fixtures import EVIDENCE, SCRIPT, full_evidence, hostile_evidence
from tests.render.fixtures import SAMPLES, clean_with_notes, quiet

from guarddiff.render.html import render

ALL = {**SAMPLES, **EVIDENCE}

STRANGERS = """(() => {
  const odd = [...document.querySelectorAll("img, iframe, object, embed, form, base, link, textarea, template")];
  const all = [...document.querySelectorAll("*")];
  odd.push(...all.filter((e) => [...e.attributes].some((a) => /^on|^style$|^src$|^srcset$|^xlink/i.test(a.name))));
  odd.push(...[...document.querySelectorAll("[href]")].filter((e) => !e.getAttribute("href").startsWith("#")));
  odd.push(...[...document.scripts].slice(1), ...[...document.querySelectorAll("style")].slice(1));
  return odd.map((e) => e.outerHTML.slice(0, 80));
})()"""
"""Elements that no report has."""


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("browser")) as page:
        yield page


@pytest.fixture
def page(tab: Page) -> Page:
    tab.media()
    tab.resize(1000)
    return tab


@pytest.mark.parametrize("name", ALL)
def test_renders_alone_and_quietly(page: Page, name: str) -> None:
    page.open(render(ALL[name]()))
    asked = page.requests()
    assert len(asked) == 1
    assert asked[0].endswith("report.html")
    assert page.messages() == []
    assert len(page.visible("h1, #findings-title")) == 2


@pytest.mark.parametrize("name", ["hostile", "hostile_evidence"])
def test_text_from_the_model_does_nothing(page: Page, name: str) -> None:
    page.open(render(ALL[name]()))
    page.driver.find_element("id", "expand").click()
    page.driver.find_element("id", "collapse").click()
    assert page.js(STRANGERS) == []
    assert page.js("typeof window.pwned") == "undefined"
    assert page.js("document.title").startswith(ALL[name]().model[:6])


def test_a_model_named_script_is_shown_as_it_is(page: Page) -> None:
    page.open(render(hostile_evidence()))
    assert page.js("document.querySelector('h1').textContent") == "<script>"
    assert "<script>pwned(4)</script>" in page.js("document.querySelector('#finding-1').textContent")


def test_the_check_for_strangers_sees_one(page: Page) -> None:
    html = render(clean_with_notes())
    page.open(html.replace("LSTM</h1>", '<img src="x" onerror="pwned=1"><script>pwned=2</script></h1>'))
    assert len(page.js(STRANGERS)) >= 2
    assert page.js("typeof window.pwned") == "undefined", "the policy did not stop it"
    assert page.messages()


def test_the_policy_refuses_other_scripts_styles_and_requests(page: Page) -> None:
    page.open(render(quiet()))
    page.driver.execute_script(
        "const s = document.createElement('script'); s.textContent = 'window.pwned = 1'; document.body.append(s);"
        "const i = document.createElement('img'); i.src = 'http://127.0.0.1:9/x.png'; document.body.append(i);"
        "document.body.setAttribute('style', 'outline: 9px solid red');"
    )
    assert page.js("typeof window.pwned") == "undefined"
    assert page.js("getComputedStyle(document.body).outlineWidth") != "9px"
    assert sum("Content Security Policy" in message for message in page.messages()) >= 2


def test_filters_by_text_stage_and_verdict(page: Page) -> None:
    page.open(render(quiet()))
    box = page.driver.find_element("id", "filter")
    assert page.visible(".card") == ["finding-2", "finding-1", "finding-3"]
    box.send_keys("GRU")
    assert page.visible(".card") == ["finding-1"]
    assert page.visible("#shown") == ["shown"]
    assert page.js("document.getElementById('shown').textContent") == "Showing 1 of 3 findings and 0 of 0 changes."
    box.send_keys(" nowhere")
    assert page.visible(".card") == []
    box.send_keys(ESCAPE)
    assert len(page.visible(".card")) == 3
    page.js("document.getElementById('by-stage').value = 'capture'")
    page.js("document.getElementById('by-stage').dispatchEvent(new Event('input'))")
    assert page.visible(".card") == ["finding-3"]
    page.js("document.getElementById('by-stage').value = ''")
    page.js("document.getElementById('by-verdict').value = 'confirmed'")
    page.js("document.getElementById('by-verdict').dispatchEvent(new Event('input'))")
    assert page.visible(".card") == ["finding-2"]


def test_filters_guards(page: Page) -> None:
    page.open(render(full_evidence()))
    assert len(page.visible(".change")) == 3
    page.driver.find_element("id", "filter").send_keys("vr[32")
    assert page.js("[...document.querySelectorAll('.change:not([hidden]) .what')].map((e) => e.textContent)") == [
        "32 <= h"
    ]


def test_warning_findings_are_open_and_the_rest_is_folded(page: Page) -> None:
    page.open(render(quiet()))
    assert page.js("[...document.querySelectorAll('.card')].map((e) => e.open)") == [True, False, False]
    assert len(page.visible(".card .next")) == 1
    page.driver.find_element("id", "expand").click()
    assert len(page.visible(".card .next")) == 3
    page.driver.find_element("id", "collapse").click()
    assert len(page.visible(".card .next")) == 0


def test_a_link_opens_the_finding_it_leads_to(page: Page) -> None:
    page.open(render(quiet()))
    page.driver.execute_script("location.hash = '#finding-3'")
    page.js("new Promise((done) => setTimeout(done, 50))")
    assert page.js("document.getElementById('finding-3').open") is True


def test_works_from_the_keyboard(page: Page) -> None:
    page.open(render(quiet()))
    page.keys(TAB)
    assert page.js("document.activeElement.className") == "skip"
    assert page.js("document.activeElement.getBoundingClientRect().left") >= 0
    page.keys(ENTER)
    page.keys("/")
    assert page.js("document.activeElement.id") == "filter"
    assert page.js("document.activeElement.value") == ""
    assert page.js("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keys("a", "/")
    assert page.js("document.activeElement.value") == "a/"
    assert page.visible(".card") == []
    page.keys(ESCAPE)
    page.js("document.querySelector('#finding-1 summary').focus()")
    page.keys(ENTER)
    assert page.js("document.getElementById('finding-1').open") is True
    page.keys(SPACE)
    assert page.js("document.getElementById('finding-1').open") is False


@pytest.mark.parametrize("name", ALL)
def test_a_phone_scrolls_no_page_sideways(page: Page, name: str) -> None:
    page.resize(360)
    page.open(render(ALL[name]()))
    page.js("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
    assert page.js("document.documentElement.scrollWidth") == 360
    beyond = (
        "[...document.querySelectorAll('body *')].filter((e) => !e.closest('.scroll, .sr, .skip, svg')"
        " && e.getBoundingClientRect().right > 360.5).map((e) => e.outerHTML.slice(0, 80))"
    )
    assert page.js(beyond) == []


def test_code_scrolls_inside_its_box(page: Page) -> None:
    page.resize(360)
    page.open(render(full_evidence()))
    assert page.js("document.querySelector('#script-1').scrollWidth > document.querySelector('#script-1').clientWidth")


def _contrast(page: Page, selector: str) -> float:
    """Contrast of a text with the page, as WCAG counts it."""
    colours = page.js(
        "[getComputedStyle(document.querySelector(arguments[0])).color,"
        " getComputedStyle(document.body).backgroundColor]",
        selector,
    )
    found = []
    for colour in colours:
        parts = [int(part) / 255 for part in colour.removeprefix("rgb(").rstrip(")").split(",")]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        found.append(sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True)))
    return (max(found) + 0.05) / (min(found) + 0.05)


def test_dark_mode_changes_colours_and_both_can_be_read(page: Page) -> None:
    page.open(render(full_evidence()))
    seen = {}
    for scheme in ("light", "dark"):
        page.media(scheme=scheme)
        seen[scheme] = page.js("getComputedStyle(document.body).backgroundColor")
        for selector in (
            "h1",
            ".muted",
            ".badge.specialized",
            "a[href='#findings']",
            ".state.unknown",
            ".state.agrees",
        ):
            assert _contrast(page, selector) >= 4.5, (scheme, selector)
    assert seen["light"] != seen["dark"]


def test_prints_everything_unfolded(page: Page) -> None:
    page.open(render(quiet()))
    page.js("document.getElementById('collapse').click()")
    page.media("print")
    assert len(page.visible(".card .next")) == 3
    assert page.visible("#tools, nav, .copy") == []
    page.js("dispatchEvent(new Event('beforeprint'))")
    assert page.js("[...document.querySelectorAll('.card')].every((e) => e.open)") is True
    page.js("dispatchEvent(new Event('afterprint'))")
    assert page.js("[...document.querySelectorAll('.card')].some((e) => e.open)") is False


def test_can_be_read_without_scripts(page: Page) -> None:
    page.cdp("Emulation.setScriptExecutionDisabled", value=True)
    try:
        page.open(render(full_evidence()))
        assert page.visible("#tools, .copy") == []
        assert page.visible("#finding-1, #finding-2, #script-1, .strip") != []
        assert "aten._adaptive_avg_pool2d.default" in page.js("document.querySelector('#finding-1').textContent")
    finally:
        page.cdp("Emulation.setScriptExecutionDisabled", value=False)


def test_the_script_is_copied_as_it_is(page: Page) -> None:
    page.open(render(full_evidence()))
    page.cdp("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    page.driver.find_element("css selector", ".copy").click()
    page.js("new Promise((done) => setTimeout(done, 100))")
    assert page.js("document.querySelector('.copy').textContent") == "Copied"
    assert page.js("navigator.clipboard.readText()") == SCRIPT


def test_a_strip_shows_each_kind_of_mark_in_its_place(page: Page) -> None:
    page.open(render(full_evidence()))
    left = (
        "(() => { const strip = document.querySelectorAll('svg.strip')[2];"
        " const at = (s) => strip.querySelector(s).getBoundingClientRect().left;"
        " return [at('.mark.rejected'), at('.admitted'), at('.mark.differs'), at('.mark.unknown')]; })()"
    )
    places = page.js(left)
    assert places == sorted(places)
    assert len(set(places)) == 4
