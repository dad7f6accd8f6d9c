"""Corrupted, truncated, huge and foreign files of all three kinds: one clear line, exit code 2."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
import torch
from onnx import helper

from guarddiff.cli import pt2
from guarddiff.cli.errors import Wrong
from guarddiff.report import Report

Say = Callable[..., tuple[int, str, str]]


class Add(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.register_buffer("held", torch.ones(3), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x + self.weight * self.held).reshape(x.shape[0] * 3)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    shapes = ({0: torch.export.Dim.DYNAMIC},)
    exported = torch.export.export(Add(), (torch.ones(4, 3),), dynamic_shapes=shapes)
    buffer = io.BytesIO()
    torch.export.save(exported, buffer)
    return buffer.getvalue()


@pytest.fixture(scope="module")
def model() -> bytes:
    values = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["n", 3]) for n in ("x", "y")]
    held = helper.make_tensor("w", onnx.TensorProto.FLOAT, [3], [1.0, 2.0, 3.0])
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", values[:1], values[1:], [held])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()


@pytest.fixture(scope="module")
def report() -> bytes:
    return Report(model="Net").to_json().encode()


def other_zip() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("model/readme.txt", "hello")
    return buffer.getvalue()


def saved_tensor() -> bytes:
    buffer = io.BytesIO()
    torch.save({"x": torch.ones(2)}, buffer)
    return buffer.getvalue()


BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda whole: b"",
    "text": lambda whole: b"hello\n",
    "html": lambda whole: b"<!DOCTYPE html><html></html>",
    "zeros": lambda whole: bytes(5000),
    "random": lambda whole: bytes((i * 7919 + 13) % 251 for i in range(5000)),
    "half": lambda whole: whole[: len(whole) // 2],
    "without its start": lambda whole: whole[7:],
    "without its end": lambda whole: whole[:-5],
    "another zip": lambda whole: other_zip(),
    "a state dict": lambda whole: saved_tensor(),
    "a pickle": lambda whole: pickle.dumps({"a": 1}),
    "JSON": lambda whole: b'{"a": 1}',
    "a JSON list": lambda whole: b"[1, 2]",
}
KINDS = {"report": "show {}", "program": "check {}", "model": "probe {}"}
SUFFIX = {"report": "json", "program": "pt2", "model": "onnx"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", BROKEN)
def test_broken_and_foreign(say: Say, request: pytest.FixtureRequest, tmp_path: Path, kind: str, how: str) -> None:
    path = tmp_path / f"file.{SUFFIX[kind]}"
    path.write_bytes(BROKEN[how](request.getfixturevalue(kind)))
    refused(say, *KINDS[kind].format(path).split())


@pytest.mark.parametrize("kind", KINDS)
def test_each_other(say: Say, request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> None:
    for other in KINDS:
        if other != kind:
            path = tmp_path / f"{other}.{SUFFIX[kind]}"
            path.write_bytes(request.getfixturevalue(other))
            refused(say, *KINDS[kind].format(path).split())


@pytest.mark.parametrize("kind", KINDS)
def test_huge_missing_and_folders(say: Say, tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"huge.{SUFFIX[kind]}"
    with open(path, "wb") as file:
        file.truncate(5 * 1024**3)  # sparse: takes no place
    refused(say, *KINDS[kind].format(path).split())
    path.unlink()
    refused(say, *KINDS[kind].format(path).split())
    path.mkdir()
    refused(say, *KINDS[kind].format(path).split())


def refused(say: Say, *arguments: str) -> None:
    code, out, err = say(*arguments)
    assert (code, out) == (2, ""), err
    assert err.startswith("guarddiff: ")
    assert len(err.splitlines()) == 1
    assert arguments[-1] in err


def test_diff_names_the_broken_one(say: Say, tmp_path: Path, report: bytes) -> None:
    (tmp_path / "a.json").write_bytes(report)
    (tmp_path / "b.json").write_bytes(report[:40])
    for pair in (("a.json", "b.json"), ("b.json", "a.json")):
        code, out, err = say("diff", *(tmp_path / name for name in pair))
        assert (code, out) == (2, "")
        assert "b.json" in err
        assert "a.json" not in err


def test_whole_ones_are_taken(say: Say, tmp_path: Path, program: bytes, model: bytes, report: bytes) -> None:
    for kind, content in (("report", report), ("model", model), ("program", program)):
        (tmp_path / f"whole.{SUFFIX[kind]}").write_bytes(content)
    assert say("show", tmp_path / "whole.json")[0] == 0
    assert say("probe", tmp_path / "whole.onnx")[0] == 0
    code, out, err = say("check", tmp_path / "whole.pt2", "--replay", "off")
    assert code == 0, err
    assert "clean" in out


# --- programs that would run something when they are loaded ---

CALLED: list[str] = []


def called(what: str) -> str:
    CALLED.append(what)
    return what


class Bomb:
    def __reduce__(self) -> tuple[Callable[[str], str], tuple[str]]:
        return called, ("unpickled",)


def changed(program: bytes, entries: dict[str, bytes], edit: Callable[[str], str] = lambda text: text) -> bytes:
    """The archive with other or more entries, and an edited description."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(program)) as old, zipfile.ZipFile(buffer, "w") as new:
        root = old.namelist()[0].partition("/")[0]
        for name in old.namelist():
            inner = name.partition("/")[2]
            content = entries.get(inner, old.read(name))
            new.writestr(name, edit(content.decode()) if inner == "models/model.json" else content)
        for inner, content in entries.items():
            if f"{root}/{inner}" not in old.namelist():
                new.writestr(f"{root}/{inner}", content)
    return buffer.getvalue()


def load(tmp_path: Path, content: bytes) -> object:
    path = tmp_path / "p.pt2"
    path.write_bytes(content)
    return pt2.load(str(path))


def bomb(what: str) -> str:
    return f"__import__('os').environ.__setitem__('GUARDDIFF_TEST_BOMB', '{what}')"


def edited(key: str, value: str) -> Callable[[str], str]:
    """The description with every value of ``key`` replaced."""

    def replace(item: object) -> object:
        if isinstance(item, dict):
            return {k: value if k == key and isinstance(v, str) else replace(v) for k, v in item.items()}
        return [replace(part) for part in item] if isinstance(item, list) else item

    return lambda text: json.dumps(replace(json.loads(text)))


def with_guard(guard: str) -> Callable[[str], str]:
    return lambda text: json.dumps({**json.loads(text), "guards_code": [guard]})


EDITS = {
    "size": edited("expr_str", bomb("size")),
    "size by a call of sympy": edited("expr_str", "preview('x')"),
    "size by attributes": edited("expr_str", "().__class__.__bases__"),
    "target": edited("target", "torch.serialization.os.getcwd"),
    "target that loads": edited("target", "torch.ops.load_library"),
    "target of a class": edited("target", "torch.ops.aten.__class__.mro"),
    "target that writes": edited("target", "torch.ops.aten.from_file.default"),
    "operator that calls": edited("target", "_operator.methodcaller"),
    "guard": with_guard(f"{bomb('guard')} is None"),
    "guard with a lambda": with_guard("(lambda: 1)()"),
    "guard over lines": with_guard("1\n  import os"),
    "name": edited("name", "x = 1\n    import os"),
}


@pytest.mark.parametrize("what", EDITS)
def test_programs_that_run_text_are_refused(tmp_path: Path, program: bytes, what: str) -> None:
    with pytest.raises(Wrong, match="is not loaded: models/model.json holds"):
        load(tmp_path, changed(program, {}, EDITS[what]))
    assert "GUARDDIFF_TEST_BOMB" not in os.environ


def test_torch_alone_would_run_it(tmp_path: Path, program: bytes) -> None:
    """Why the archive is looked through: should this fail, torch has become safer and the rule can go."""
    path = tmp_path / "p.pt2"
    path.write_bytes(changed(program, {}, EDITS["size"]))
    try:
        with pytest.raises(Exception):  # noqa: B017
            torch.export.load(str(path))
        assert os.environ.get("GUARDDIFF_TEST_BOMB") == "size"
    finally:
        os.environ.pop("GUARDDIFF_TEST_BOMB", None)


def test_pickles_are_read_as_tensors_alone(tmp_path: Path, program: bytes) -> None:
    buffer = io.BytesIO()
    torch.save((((Bomb(),), {})), buffer)
    hostile = changed(program, {"data/sample_inputs/model.pt": buffer.getvalue()})
    CALLED.clear()
    with pytest.raises(Wrong, match="can't be loaded by torch"):
        load(tmp_path, hostile)
    assert CALLED == []


def test_pickled_objects_and_compiled_code_are_refused(tmp_path: Path, program: bytes) -> None:
    for name, told in (
        ("data/constants/opaque_obj_0", "a pickled object"),
        ("data/constants/custom_obj_0", "a pickled object"),
        ("data/aotinductor/model/x.so", "compiled code"),
        ("models/other.json", "more than one program"),
    ):
        with pytest.raises(Wrong, match=told):
            load(tmp_path, changed(program, {name: pickle.dumps(Bomb())}))
    config = json.dumps({"config": {"c": {"path_name": "opaque_obj_0", "use_pickle": True}}}).encode()
    with pytest.raises(Wrong, match="a pickled object"):
        load(tmp_path, changed(program, {"data/constants/model_constants_config.json": config}))


def test_entries_larger_than_the_file(tmp_path: Path, program: bytes) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("p/archive_format", "pt2")
        archive.writestr("p/models/model.json", " " * 50_000_000)
    with pytest.raises(Wrong, match="larger than the file"):
        load(tmp_path, buffer.getvalue())


def test_the_environment_is_put_back(tmp_path: Path, program: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    monkeypatch.delenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", raising=False)
    assert isinstance(load(tmp_path, program), torch.export.ExportedProgram)
    assert os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] == "1"
    assert "TORCH_FORCE_WEIGHTS_ONLY_LOAD" not in os.environ


def test_guards_and_sizes_of_real_programs_pass() -> None:
    plain = {
        "guards_code": ["L['x'].size()[0] >= 2", "L['x'].size()[1] % 2 == 0", "L['args'][0].stride()[1] == 1"],
        "graph": [
            {"expr_str": "Mul(Integer(2), Symbol('s0', positive=True, integer=True))"},
            {"expr_str": "FloorDiv(Symbol('s0'), Integer(32))"},
            {"expr_str": "Max(1, s0 // 2)"},
            {"target": "torch.ops.aten._adaptive_avg_pool2d.default"},
            {"target": "torch.ops.aten.__and__.Tensor"},
            {"target": "torch.ops.higher_order.cond"},
            {"target": "_operator.getitem"},
            {"target": "torch.sym_max"},
            {"name": "p_l_weight"},
        ],
    }
    assert pt2.unsafe(plain) == ""


# --- models whose weights stand elsewhere ---


def with_external(tmp_path: Path, location: str, length: int) -> Path:
    values = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["n", 3]) for n in ("x", "y")]
    held = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[3], data_location=1)
    for key, value in (("location", location), ("offset", "0"), ("length", str(length))):
        held.external_data.add(key=key, value=value)
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", values[:1], values[1:], [held])
    path = tmp_path / "m.onnx"
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    path.write_bytes(proto.SerializeToString())
    return path


def test_external_weights(say: Say, tmp_path: Path) -> None:
    path = with_external(tmp_path, "w.data", 12)
    code, _, err = say("probe", path)
    assert code == 2
    assert "the file with its weights is missing" in err
    (tmp_path / "w.data").write_bytes(struct.pack("<2f", 1, 2))
    code, _, err = say("probe", path)
    assert code == 2
    assert "torn" in err
    (tmp_path / "w.data").write_bytes(struct.pack("<3f", 1, 2, 3))
    assert say("probe", path)[0] == 0
    code, _, err = say("probe", with_external(tmp_path, "../w.data", 12))
    assert code == 2
    assert "outside its folder" in err
