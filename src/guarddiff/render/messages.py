"""Messages of ONNX Runtime without what tells nothing: colours, places, C++ signatures."""

from __future__ import annotations

import re

from guarddiff.core.causes import LONGEST, uncoloured

_NODE = re.compile(
    r"(?:\b\w+: )?(?:\[ONNXRuntimeError\] : \d+ : )?(?:\b[A-Z_]+ : )?"
    r"Non-zero status code returned while running (\S+) node\.(?: Name:'([^']*)')?\s*(?:Status Message: )?"
)
_CODE = re.compile(r"\[ONNXRuntimeError\] : \d+ : |Non-zero status code returned while | Status Message:")
_PLACE = re.compile(r"(?:\S*/)?[\w.+-]+\.(?:h|hpp|cc|cpp|cu|cuh|inc):\d+:? ?")
_SIGNATURE = re.compile(
    r"(?:[\w:<>&*,~]+ ){0,6}[\w<>~]*::[\w:<>~]+\((?:[^()]|\([^()]*\)){0,600}\)"
    r"(?: const)?(?: \[with [^\]]*\])?(?:::<lambda\([^)]*\)>)?(?: const)? ?"
    r"|onnxruntime::[\w:<>~]+ "
)
_FALSE = re.compile(r"(.{0,400}?) was false\.?\s*")
_STACK = re.compile(r"\s*\bStack ?trace:.*", re.DOTALL | re.IGNORECASE)
_LEAD = re.compile(r"\S+ [^\s:]+: ")


def runtime(text: str) -> str:
    """A message of ONNX Runtime: operator, node and what it says, without places, signatures and assertions of its
    source. An assertion stays where nothing else is said. Any other text is left as it is."""
    shown = _STACK.sub("", uncoloured(text[:LONGEST]))
    shown = _NODE.sub(lambda m: f"{m[1]} {m[2]}: " if m[2] else f"{m[1]}: ", shown)
    shown = _CODE.sub("", shown)
    parts = _PLACE.split(shown)
    return (parts[0] + " ".join(filter(None, map(_said, parts[1:])))).strip() if len(parts) > 1 else shown.strip()


def _said(part: str) -> str:
    """What follows a place in the source, without the function and the assertion that failed there."""
    signature = _SIGNATURE.match(part)
    rest = part[signature.end() :] if signature else part
    failed = _FALSE.match(rest)
    if failed is None:
        return rest.strip()
    return rest[failed.end() :].strip() or f"{failed[1]} was false"


def fitted(text: str, limit: int) -> str:
    """``text`` in at most ``limit`` characters: what is left out is the middle, up to a sentence where there is one.

    The operator and node in front stay, and the end, which holds the sizes.
    """
    if len(text) <= limit:
        return text
    lead = _LEAD.match(text[:limit])
    head = lead[0] if lead else ""
    rest = text[len(head) :]
    for sentence in re.finditer(r"\. ", rest):
        short = f"{head}… {rest[sentence.end() :]}"
        if len(short) <= limit:
            return short
    if not lead or len(head) > limit // 2:
        return text[: limit - 1] + "…"
    return f"{head}… {rest[len(head) + 2 - limit :]}" if limit > len(head) + 2 else text[: limit - 1] + "…"
