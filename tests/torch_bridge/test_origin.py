from __future__ import annotations

import os
import sysconfig
import typing
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import sympy
import torch
from tests.torch_bridge import exports
from tests.torch_bridge.exports import AUTO, HERE, Exported, exported, line_of

import guarddiff.demo
from guarddiff import demo
from guarddiff.core.evidence import Group
from guarddiff.core.origin import Origin, SourceLine
from guarddiff.sweep import measure, operators
from guarddiff.sweep.catalogue import pooling
from guarddiff.torch_bridge import hooks, origin
from guarddiff.torch_bridge.record import Recording

SITE = Path(torch.__file__).parent.parent
STDLIB = Path(sysconfig.get_paths()["stdlib"])


def forward(text: str) -> SourceLine:
    return SourceLine(HERE, line_of(text), "forward", text)


# --- files ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("filename", "expected"),
    [
        (__file__, True),
        (exports.__file__, True),
        ("/srv/project/model.py", True),
        (str(SITE / "transformers" / "models" / "bert.py"), True),
        (str(SITE / "torchvision" / "models" / "vgg.py"), True),
        (str(STDLIB / "site-packages" / "timm" / "layers.py"), True),
        (torch.__file__, False),
        (torch.nn.functional.__file__, False),
        (hooks.__file__, False),
        (guarddiff.__file__, False),
        (guarddiff.demo.__file__, True),
        (pooling.__file__, True),
        (operators.__file__, True),
        (measure.__file__, False),
        (typing.__file__, False),
        (str(STDLIB / "contextlib.py"), False),
        (sympy.__file__, False),
        (np.__file__, False),
        (str(SITE / "onnxscript" / "values.py"), False),
        (str(SITE / "typing_extensions.py"), False),
        ("<frozen importlib._bootstrap>", False),
        ("<eval_with_key>.7", False),
        ("<string>", False),
    ],
)
def test_is_user_file(filename: str, expected: bool) -> None:
    assert origin.is_user_file(filename) is expected


@pytest.mark.parametrize("filename", ["<stdin>", "<python-input-3>", "<ipython-input-12-0a1b2c>", "<input>"])
def test_what_is_typed_at_a_prompt_is_the_users(filename: str) -> None:
    assert origin.is_user_file(filename) is True


@pytest.mark.parametrize("package", ["numpyro", "sympy2jax", "networkx_models"])
def test_a_package_whose_name_begins_like_another_is_the_users(package: str) -> None:
    assert origin.is_user_file(str(SITE / package / "layers.py")) is True


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home folder ``home/alice`` with a working folder ``project`` in it."""
    home = tmp_path / "home" / "alice"
    (home / "project").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home / "project")
    origin.shorten.cache_clear()
    yield home
    origin.shorten.cache_clear()


def test_shorten_below_the_working_folder(folders: Path) -> None:
    assert origin.shorten(str(folders / "project" / "nets" / "vgg.py")) == "nets/vgg.py"
    assert origin.shorten("nets/vgg.py") == "nets/vgg.py"


def test_shorten_below_the_home_folder(folders: Path) -> None:
    assert origin.shorten(str(folders / "other" / "vgg.py")) == "~/other/vgg.py"
    assert origin.shorten("../other/vgg.py") == "~/other/vgg.py"


def test_shorten_takes_the_folder_of_installed_packages(folders: Path) -> None:
    installed = folders / ".venv" / "lib" / "python3.11" / "site-packages" / "timm" / "layers.py"
    assert origin.shorten(str(installed)) == "timm/layers.py"
    inside = folders / "project" / "site-packages" / "a" / "site-packages" / "b.py"
    assert origin.shorten(str(inside)) == "b.py"
    assert origin.shorten(torch.nn.functional.__file__) == "torch/nn/functional.py"
    assert origin.shorten(demo.__file__) == "guarddiff/demo.py"


@pytest.mark.parametrize("path", ["/srv/alice2/model.py", "/opt/model.py"])
def test_shorten_leaves_other_folders(folders: Path, path: str) -> None:
    assert origin.shorten(path) == path


def test_shorten_does_not_mistake_a_folder_that_begins_like_home(folders: Path) -> None:
    assert origin.shorten(f"{folders}2/model.py") == f"{folders}2/model.py"


@pytest.mark.parametrize("path", ["/home/bob/model.py", "/Users/bob/model.py"])
def test_shorten_hides_another_users_home(folders: Path, path: str) -> None:
    assert origin.shorten(path) == "~/model.py"


def test_shorten_hides_the_user_where_the_working_folder_holds_all_homes(
    folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folders.parent)
    assert origin.shorten(str(folders / "nets" / "vgg.py")) == "~/nets/vgg.py"


def test_shorten_works_without_a_working_folder(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = folders / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert origin.shorten(str(folders / "nets" / "vgg.py")) == "~/nets/vgg.py"


def test_shorten_leaves_what_is_no_file(folders: Path) -> None:
    assert origin.shorten("<eval_with_key>.3") == "<eval_with_key>.3"


def test_source_line_reads_the_text() -> None:
    number = line_of("return torch.kron(a, b)")
    assert origin.source_line(exports.__file__, number, "forward") == forward("return torch.kron(a, b)")
    assert str(origin.source_line(exports.__file__, number, "forward")) == f"{HERE}:{number}"
    assert origin.source_line("/no/such/file.py", 3, "f") == SourceLine("/no/such/file.py", 3, "f", "")
    assert origin.source_line(exports.__file__, 10**6, "f").text == ""


def test_a_long_source_line_is_cut(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text("    x = " + "1" * 1000 + "\n")
    assert origin.source_line(str(tmp_path / "long.py"), 1, "f").text == "x = " + "1" * 296


# --- origins of real exports ----------------------------------------------------------------------------


def place(found: Origin) -> tuple[str | None, str | None, str | None, bool]:
    return found.op, found.module_path, found.node, found.branch


def rule(found: Origin) -> tuple[str, str] | None:
    return (found.rule.file, found.rule.function) if found.rule else None


def test_adaptive_pooling_comes_from_a_decomposition_rule() -> None:
    group = exported("pool").group
    assert group.stage == "decompose"
    assert place(group.origin) == ("aten._adaptive_avg_pool2d.default", "", "adaptive_avg_pool2d", False)
    assert group.origin.source == forward("return F.adaptive_avg_pool2d(x, (2, 3))")
    assert rule(group.origin) == ("torch/_decomp/decompositions.py", "adaptive_avg_pool2d")
    assert group.origin.rule is not None
    assert "% output_size[-2] == 0" in group.origin.rule.text
    assert group.upstream == {"x"}


def test_each_guard_keeps_its_own_rule() -> None:
    guards = {guard.text: guard.origin for guard in exported("pool").group.guards}
    kernel = guards["x[2] // 2 == 3"]
    assert kernel is not None
    assert rule(kernel) == ("torch/_decomp/decompositions.py", "adaptive_avg_pool2d")
    assert kernel.rule is not None
    assert kernel.rule.text == "return torch.nn.functional.avg_pool2d(input, kernel, stride)"
    fit = guards["x[3] // 2 >= 1 and x[2] // 3 >= 1"]
    assert fit is not None
    assert fit.rule is not None
    assert fit.rule.file == "torch/_meta_registrations.py"


def test_adaptive_pooling_of_a_program_exported_before() -> None:
    group = exported("program").group
    assert group.stage == "decompose"
    assert place(group.origin) == ("aten._adaptive_avg_pool2d.default", "", "adaptive_avg_pool2d", False)
    assert group.origin.source == forward("return F.adaptive_avg_pool2d(x, (2, 3))")


def test_kron_comes_from_capture() -> None:
    group = exported("kron").group
    assert group.stage == "capture"
    assert place(group.origin) == ("aten.kron.default", "", "kron", False)
    assert group.origin.source == forward("return torch.kron(a, b)")
    assert group.origin.rule is None  # its C++ code asked
    assert group.upstream == {"a", "b"}


def test_pooling_over_the_whole_length() -> None:
    group = exported("max_over_all").group
    assert group.stage == "capture"
    assert place(group.origin) == ("max_pool1d", "", "max_pool1d", False)
    assert group.origin.source == forward("return F.max_pool1d(x, x.size(2))")
    assert rule(group.origin) == ("torch/nn/functional.py", "_max_pool1d")


@pytest.mark.parametrize(
    ("case", "op", "path", "text"),
    [
        ("half", "int()", "", "return x[:, : int(x.shape[1] * 0.5)]"),
        ("root", "math.sqrt()", "", "return x / math.sqrt(x.shape[1])"),
        ("float", "float()", "", "return x * float(x.shape[1])"),
        ("greatest", "max()", "", "return x * max(x.shape[1] * 0.5, 2)"),
        ("branch", "if", "", "if x.shape[1] > 4:"),
        ("loop", "range() or index", "", "for i in range(x.shape[1]):"),
        ("submodule", "if", "features.0", "if x.shape[1] % 2 == 0:"),
    ],
)
def test_the_models_own_code(case: str, op: str, path: str, text: str) -> None:
    group = exported(case).group
    assert group.stage == "capture"
    assert place(group.origin) == (op, path, None, True)
    assert group.origin.source == forward(text)
    assert group.origin.rule is None


def layers(stage: str) -> Group:
    (group,) = [group for group in exported("layers").evidence.groups if group.stage == stage]
    return group


def test_torchs_layer_at_capture_gives_the_users_line() -> None:
    found = layers("capture").origin
    assert place(found) == ("aten.unflatten.int", "features.1", "unflatten", False)
    assert found.source == self_features("InLayers")


def test_torchs_layer_at_decomposition_gives_the_users_line() -> None:
    found = layers("decompose").origin
    assert place(found) == ("aten._adaptive_avg_pool2d.default", "features.2", "adaptive_avg_pool2d", False)
    assert found.source == self_features("InLayers")
    assert rule(found) == ("torch/_decomp/decompositions.py", "adaptive_avg_pool2d")


def self_features(model: str) -> SourceLine:
    """The line ``return self.features(x)`` of one of the models that have it."""
    text = "return self.features(x)"
    lines = Path(exports.__file__).read_text().splitlines()
    start = lines.index(f"class {model}(nn.Module):")
    number = next(n for n, line in enumerate(lines[start:], start + 1) if line.strip() == text)
    return SourceLine(HERE, number, "forward", text)


def by_guard(case: Exported, text: str) -> Origin:
    (group,) = [group for group in case.evidence.groups if text in [guard.text for guard in group.guards]]
    return group.origin


@pytest.mark.parametrize(
    ("guard", "text"), [("x[0] > 2", "if x.shape[0] > 2:"), ("x[1] % 2 == 0", "if x.shape[1] % 2 == 0:")]
)
def test_strict_capture_names_the_line(guard: str, text: str) -> None:
    assert by_guard(exported("strict"), guard).source == forward(text)


@pytest.mark.parametrize("guard", ["x[0] > 2", "x[1] % 2 == 0"])
def test_strict_capture_knows_the_models_own_branches(guard: str) -> None:
    found = by_guard(exported("strict"), guard)
    assert found.branch is True
    assert found.op == "if"
    assert found.rule is None


def test_strict_capture_names_the_operator() -> None:
    found = by_guard(exported("strict"), "y[1] == 5")
    assert found.source == forward("return x, torch.kron(y, y)")
    assert found.branch is False
    assert (found.op, found.node) == ("aten.kron.default", "kron")


def test_a_branch_that_strict_capture_fixed_is_a_finding() -> None:
    assert {"x[0]": "at least 3"} in exported("strict").admitted()


def test_a_recording_around_a_capture_alone() -> None:
    recording = Recording(stage="capture")
    with hooks.recording(recording):
        torch.export.export(exports.Branch(), (torch.ones(2, 7),), dynamic_shapes=({1: AUTO},))
    (event,) = [event for event in recording.events if str(event.expression).endswith(" > 4")]
    assert event.stage == "capture"
    assert place(event.moment.origin({})) == ("if", None, None, True)
    assert event.moment.origin({}).source == forward("if x.shape[1] > 4:")
    assert recording.missing == []


def test_a_model_typed_at_a_prompt_has_its_branch() -> None:
    group = exported("typed").group
    assert place(group.origin) == ("if", "", None, True)
    assert group.origin.source is not None
    assert (group.origin.source.file, group.origin.source.line) == ("<stdin>", 3)
    assert exported("typed").admitted() == [{"x[1]": "at least 5"}]


def test_no_origin_names_a_folder_of_this_machine() -> None:
    for name in ("pool", "kron", "branch", "layers", "strict", "program"):
        for group in exported(name).evidence.groups:
            for line in (group.origin.source, group.origin.rule):
                assert line is None or not os.path.isabs(line.file)


# --- pieces ---------------------------------------------------------------------------------------------


def test_a_decomposed_node_goes_back_to_the_captured_one() -> None:
    recording = exported("pool").recording
    captured = {node.name for node in recording.captured.graph.nodes}
    nodes = {node.name: node for node in recording.decomposed.graph.nodes}
    chain = origin.node_chain(nodes["avg_pool2d"].meta["from_node"])
    assert chain[-1] == "adaptive_avg_pool2d"
    assert origin.captured_name(chain, captured) == "adaptive_avg_pool2d"


def test_the_captured_name_is_the_last_known_one() -> None:
    assert origin.captured_name(("c", "b", "a"), {"b", "c"}) == "b"
    assert origin.captured_name(("c", "b", "a"), {"z"}) == "a"
    assert origin.captured_name((), {"z"}) is None
    assert origin.node_chain(None) == origin.node_chain([]) == ()


def test_module_path_of_a_captured_node() -> None:
    graph = exported("layers").recording.captured.graph
    paths = {node.name: origin.module_path(node.meta) for node in graph.nodes}
    assert paths["relu"] == "features.0"
    assert paths["unflatten"] == "features.1"
    assert paths["adaptive_avg_pool2d"] == "features.2"
    assert paths["x"] is None
    assert origin.module_path({}) is None
    assert origin.module_path({"nn_module_stack": {"": ("", "Model")}}) == ""
    assert origin.module_path({"nn_module_stack": {"": ("L['self']", "M"), "a": ("L['self'].a", "A")}}) == "a"


@pytest.mark.parametrize("text", [None, "", "no stack at all"])
def test_no_source_without_a_stack_trace(text: str | None) -> None:
    assert origin.node_source(text) is None


def test_the_innermost_line_of_the_users_own_code_is_taken() -> None:
    number = line_of("return torch.kron(a, b)")
    trace = (
        f'File "{__file__}", line 1, in outer\n    one\n'
        f'File "{exports.__file__}", line {number}, in forward\n    two\n'
        f'File "{torch.nn.functional.__file__}", line 5, in inner\n    three\n'
    )
    assert origin.node_source(trace) == forward("return torch.kron(a, b)")
    only_torch = f'File "{torch.nn.functional.__file__}", line 5, in inner\n    three\n'
    found = origin.node_source(only_torch)
    assert found is not None
    assert (found.file, found.line, found.function) == ("torch/nn/functional.py", 5, "inner")
