"""Wording of an upstream bug filing: title, claim, search queries, and versions in ``collect_env``'s form."""

from __future__ import annotations

import re
from collections.abc import Mapping

from guarddiff.core.finding import Finding
from guarddiff.core.stage import Stage
from guarddiff.render import proofs, words
from guarddiff.render.commonmark import code, plain

_STAGE_WORDS: dict[Stage, str] = {
    "declare": "dynamic_shapes order",
    "capture": "torch.export specialized dynamic shape",
    "decompose": "run_decompositions specialized dynamic shape",
    "translate": "wrong output dynamic shape",
    "optimize": "onnx optimizer wrong output dynamic shape",
    "run": "wrong output dynamic axes",
}
"""What else to search for, by stage."""

_BLAME: dict[Stage, str] = {
    "declare": "does not make dynamic what was declared dynamic",
    "capture": "fixes sizes that were declared dynamic while capturing",
    "decompose": "fixes sizes that were declared dynamic while decomposing",
    "translate": "writes ONNX that is wrong at other sizes for",
    "optimize": "optimizes to ONNX that is wrong at other sizes for",
    "run": "writes a model that is wrong at other sizes for",
}

_BLAME_AUTO: dict[Stage, str] = {
    "capture": "fixes sizes that were left to it (Dim.AUTO) while capturing, without a warning",
    "decompose": "fixes sizes that were left to it (Dim.AUTO) while decomposing, without a warning",
}

_NAMESPACES = ("aten", "prims", "onnx", "torch", "default", "self")
_FRAGMENT = re.compile(r"[A-Za-z][A-Za-z']*(?: [A-Za-z][A-Za-z']*){3,}")
_MOST_WORDS = 8
_MOST_PACKAGES = 60
_TITLE = 200
_QUOTED = re.compile(r"\w*:?'[^']*'|\w*:?\"[^\"]*\"")

_ENVIRONMENT = (
    ("torch", "PyTorch version"),
    ("debug_build", "Is debug build"),
    ("cuda_build", "CUDA used to build PyTorch"),
    ("rocm_build", "ROCM used to build PyTorch"),
    (None, ""),
    ("os", "OS"),
    ("libc", "Libc version"),
    (None, ""),
    ("python", "Python version"),
    ("python_platform", "Python platform"),
    ("cuda", "Is CUDA available"),
)
"""Keys of the environment with their names in ``collect_env``'s output, in its order."""

_NOT_PACKAGES = {"platform", "python", *words.DETAILS}


def operator(op: str) -> str:
    """The name to search for: ``adaptive_avg_pool2d`` of ``aten._adaptive_avg_pool2d.default``; empty for none."""
    names = re.findall(r"[A-Za-z_]\w{1,60}", words.clean(op, 200), re.ASCII)
    chosen = next((name for name in names if name.lower() not in _NAMESPACES and name.strip("_")), "")
    return chosen.strip("_")


def title(finding: Finding) -> str:
    """One line for the title of the issue."""
    op = words.clean(finding.op, 80)
    dims = words.dimensions(finding.dims, 2)
    about = f"{op} ({dims})" if op and dims else op or dims or "a dynamic dimension"
    return words.clean(f"[ONNX] torch.onnx.export {_blame(finding)}: {about}", _TITLE)


def claim(finding: Finding) -> str:
    """One paragraph of Markdown: what is claimed, at which sizes, and which program is the first to be wrong."""
    exporter = "`torch.onnx.export(dynamo=False)`" if finding.stage == "run" else "`torch.onnx.export`"
    op = f" ({code(finding.op)})" if finding.op else ""
    parts = [f"{exporter} {_blame(finding).removesuffix(' for')}{op}. {plain(words.headline(finding), 1000)}."]
    parts += [plain(said)] if (said := words.by_design(finding)) else []
    proof = finding.counterexample
    if proof:
        at = code(words.shapes(proof.sizes)) or "the same inputs"
        gave = f"eager PyTorch gives {code(words.shorter(proof.expected))}"
        parts.append(f"At {at}, {gave} and ONNX Runtime gives {code(words.shorter(proof.got))}.")
    else:
        parts.append(f"This was not confirmed: {plain(finding.reason) or 'no reason was recorded'}.")
    if finding.ladder:
        parts.append(plain(proofs.ladder_claim(finding.ladder)))
        parts += [plain(said)] if (said := proofs.lost_earlier(finding)) else []
    return " ".join(parts)


def _blame(finding: Finding) -> str:
    """What the exporter does wrong; dimensions that were left to torch are not called declared dynamic."""
    return (_BLAME_AUTO if words.left_to_torch(finding) else _BLAME).get(finding.stage) or _BLAME[finding.stage]


def queries(finding: Finding) -> list[str]:
    """Search texts for GitHub, of which none claims anything: operator, rule, node, error text, stage."""
    op = operator(finding.op)
    rule = finding.origin.rule.function if finding.origin.rule else ""
    node = proofs.differing(finding)
    terms = [f"onnx {op}" if op else "", f"onnx {_STAGE_WORDS[finding.stage]}"]
    names = [operator(rule), *((operator(node.op), operator(node.fx_op or "")) if node else ())]
    terms += [f'onnx "{name}"' for name in names if name and name.lower() != op.lower()]
    terms += [f'"{fragment}"' for fragment in _fragments(finding)]
    homes = ["pytorch/pytorch"]
    if finding.stage in ("translate", "optimize"):
        homes.append("microsoft/onnxscript")
    return [f"repo:{home} is:issue {term}" for home in homes for term in dict.fromkeys(filter(None, terms))]


def _fragments(finding: Finding) -> list[str]:
    """Up to two runs of plain words from the messages of what failed: no names, no numbers."""
    proof = finding.counterexample
    texts = [proof.got] if proof and proof.kind in ("runtime_error", "rejected_input") else []
    if finding.ladder:
        texts += [rung.text for rung in finding.ladder.rungs if rung.state == "raises"]
    found = [run for text in texts for run in _FRAGMENT.findall(_QUOTED.sub("|", words.shorter(text)))]
    short = dict.fromkeys(" ".join(run.split()[:_MOST_WORDS]) for run in found)
    return sorted(short, key=len, reverse=True)[:2]


def versions(environment: Mapping[str, str]) -> list[str]:
    """``environment`` as ``python -m torch.utils.collect_env`` prints it, as far as it is known."""
    known = {words.clean(key, 60): words.clean(value, 120) for key, value in environment.items()}
    lines = []
    for key, name in _ENVIRONMENT:
        if key is None:
            lines.append("")
        elif key in known:
            lines.append(f"{name}: {known[key]}{_bits(known) if key == 'python' else ''}")
    if "python_platform" not in known and "platform" in known:
        lines.append(f"Python platform: {known['platform']}")
    packages = [key for key in sorted(known) if key not in _NOT_PACKAGES]
    lines += ["", "Versions of relevant libraries:"]
    return _without_gaps(lines) + [f"[pip3] {key}=={known[key]}" for key in packages[:_MOST_PACKAGES]]


def _bits(known: Mapping[str, str]) -> str:
    return f" ({known['python_bits']}-bit runtime)" if "python_bits" in known else ""


def _without_gaps(lines: list[str]) -> list[str]:
    """Lines with single empty ones between those that are not."""
    kept: list[str] = []
    for line in lines:
        if line or (kept and kept[-1]):
            kept.append(line)
    return kept
