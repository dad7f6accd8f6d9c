"""Draw the pictures of the documentation: the terminal, and the HTML report.

    python docs/make_pictures.py

A small model whose adaptive pooling is exported with dynamic height and width is checked with ``replay="full"``. What
a terminal shows becomes an SVG; the HTML report is opened in a headless Chromium (``chromium`` on the PATH, or
``CHROMIUM``) and becomes a PNG, in light and dark.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import torch
from rich.console import Console
from rich.text import Text

import guarddiff
from guarddiff.demo import SmallVGG
from guarddiff.render import text

PICTURES = Path(__file__).resolve().parent / "pictures"
WIDTH = 112


def main() -> int:
    """Write all pictures; 1 where there is no Chromium for the last ones."""
    PICTURES.mkdir(exist_ok=True)
    torch.manual_seed(0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report = guarddiff.check(
            SmallVGG().eval(),
            (torch.randn(2, 3, 224, 224),),
            dynamic_shapes=({0: "n", 2: "h", 3: "w"},),
            dynamo=True,
            verbose=False,
            replay="full",
        )
    told = [str(w.message) for w in caught if issubclass(w.category, guarddiff.SpecializationWarning)]
    terminal("warning.svg", "python export.py", "\n\n".join(told))
    terminal("report.svg", "guarddiff check model.py:make", text.render(report, color=True))
    browser = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        sys.stderr.write("no Chromium: the pictures of the HTML report were not drawn\n")
        return 1
    page(browser, report.to_html(), "report-light.png", dark=False)
    page(browser, report.to_html(), "report-dark.png", dark=True)
    return 0


def terminal(name: str, title: str, shown: str) -> None:
    """An SVG of ``shown`` (with ANSI colours) in a terminal window, with no fonts from elsewhere."""
    console = Console(record=True, width=WIDTH, file=open(os.devnull, "w"), force_terminal=True)  # noqa: SIM115
    console.print(Text.from_ansi(shown))
    drawn = console.export_svg(title=title, unique_id=name.split(".")[0])
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)
    (PICTURES / name).write_text(drawn, encoding="utf-8")


def page(browser: str, html: str, name: str, dark: bool) -> None:
    """A PNG of the first screens of the page."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.html"
        file.write_text(html, encoding="utf-8")
        command = [browser, "--headless=new", "--disable-gpu", "--hide-scrollbars", "--window-size=1100,1900"]
        command += ["--no-sandbox", f"--user-data-dir={folder}/profile", f"--screenshot={PICTURES / name}"]
        command += ["--blink-settings=preferredColorScheme=0"] if dark else []
        subprocess.run([*command, file.as_uri()], check=True, capture_output=True, timeout=120)


if __name__ == "__main__":
    sys.exit(main())
