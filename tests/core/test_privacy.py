from __future__ import annotations

from pathlib import Path

import pytest

from guarddiff.core import privacy
from guarddiff.core.privacy import scrub


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('File "/opt/venv/lib/python3.11/site-packages/torch/nn/rnn.py", line 3', 'File "torch/nn/rnn.py", line 3'),
        ("(0x7f in /srv/v/lib/python3.11/site-packages/torch/lib/libc10.so)", "(0x7f in torch/lib/libc10.so)"),
        (r"C:\Users\ann\v\Lib\site-packages\timm\layers.py:7", r"timm\layers.py:7"),
        ("site-packages are packages", "site-packages are packages"),
        (f'File "{privacy.__file__}", line 3', 'File "guarddiff/core/privacy.py", line 3'),
        ("/home/ann/project/net.py and /Users/bob/x", "~/project/net.py and ~/x"),
        (r"'C:\\Users\\alice\\m.onnx' and c:\users\bob\m.onnx", r"'~\\m.onnx' and ~\m.onnx"),
    ],
)
def test_folders_that_tell_of_the_machine(text: str, expected: str) -> None:
    assert scrub(text) == expected


def test_the_own_home_and_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TOKEN", "a-long-secret")
    monkeypatch.setenv("SHORT", "short")
    monkeypatch.setenv("KEY", "wJalr/K7MDENG/bPxRf")
    monkeypatch.setenv("DATABASE", "postgres://ann:password@db/x")
    monkeypatch.setenv("FOLDERS", "/usr:/usr/bin::/nowhere/at/all")
    monkeypatch.setenv("PLACE", "ftp://ann:word@host:/")
    assert scrub(f"{tmp_path}/net.py: a-long-secret, short") == "~/net.py: …, short"
    assert scrub("wJalr/K7MDENG/bPxRf at postgres://ann:password@db/x or ftp://ann:word@host:/") == "… at … or …"
    assert scrub("/usr:/usr/bin::/nowhere/at/all") == "/usr:/usr/bin::/nowhere/at/all"
