"""A headless Chromium for the tests of HTML reports."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
DRIVERS = ("chromedriver", "/usr/lib/chromium/chromedriver", "/usr/lib/chromium-browser/chromedriver")
TAB, ENTER, ESCAPE, SPACE = "\ue004", "\ue007", "\ue00c", " "  # as WebDriver names the keys
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # it refuses to run as root otherwise, as in a container
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
)


def unavailable(reason: str) -> NoReturn:
    """Skip, or fail where ``GUARDDIFF_BROWSER_REQUIRED=1`` says that a browser must be there."""
    if os.environ.get("GUARDDIFF_BROWSER_REQUIRED") == "1":
        pytest.fail(f"GUARDDIFF_BROWSER_REQUIRED=1, but {reason}", pytrace=False)
    pytest.skip(reason)


def _found(names: tuple[str, ...], what: str) -> str:
    path = next(filter(None, map(shutil.which, names)), None)
    return path or unavailable(f"no {what} was found: apt-get install chromium chromium-driver")


class Page:
    """One browser tab."""

    def __init__(self, driver: Any, folder: Path) -> None:
        self.driver = driver
        self._folder = folder

    def open(self, html: str) -> None:
        """Show ``html`` from a file, with what was recorded before forgotten."""
        file = self._folder / "report.html"
        file.write_bytes(html.encode("utf-8"))
        self.driver.get("about:blank")
        self.requests(), self.messages()
        self.driver.get(file.as_uri())

    def js(self, expression: str, *args: Any) -> Any:
        """The value of a JavaScript expression over ``arguments``."""
        return self.driver.execute_script(f"return {expression}", *args)

    def visible(self, selector: str) -> list[str]:
        """The ids, or the texts of those without one, of the elements that are shown, folded ones left out."""
        shown = "[...document.querySelectorAll(arguments[0])].filter((e) => e.checkVisibility())"
        return self.js(f"{shown}.map((e) => e.id || e.textContent)", selector)  # type: ignore[no-any-return]

    def keys(self, *keys: str) -> None:
        """Press keys, wherever the focus is."""
        from selenium.webdriver import ActionChains

        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    def cdp(self, command: str, **params: Any) -> Any:
        return self.driver.execute_cdp_cmd(command, params)

    def resize(self, width: int, height: int = 800) -> None:
        self.cdp(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def media(self, medium: str = "screen", scheme: str = "light") -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.cdp("Emulation.setEmulatedMedia", media=medium, features=features)

    def requests(self) -> list[str]:
        """Addresses asked for since the last call."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]

    def messages(self) -> list[str]:
        """What the console was told since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]


@contextlib.contextmanager
def browser(folder: Path) -> Iterator[Page]:
    """A page in a fresh headless Chromium; skips or fails the test where there is none."""
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        unavailable("selenium is not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = _found(BROWSERS, "Chromium")
    for flag in (*FLAGS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(_found(DRIVERS, "chromedriver")))
    try:
        driver.set_page_load_timeout(60)
        yield Page(driver, folder)
    finally:
        driver.quit()
