"""One static model for each size, in one process: real exports, run in ONNX Runtime."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from tests.variants.nets import SIZES, Tagged, example, net
from torch import nn

import guarddiff
from guarddiff.contract import manifest
from guarddiff.contract.manifest import Manifest
from guarddiff.contract.weights import SMALL
from guarddiff.core import codec
from guarddiff.core.dims import InputSpec
from guarddiff.core.report import ReportData
from guarddiff.variants import exporting, placing, work


def export(folder: Path, sizes: Any = SIZES, model: nn.Module | None = None, **more: Any) -> Manifest:
    return guarddiff.export_variants(model or net(), example(), folder, sizes=sizes, **{"jobs": 1, **more})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    folder = tmp_path_factory.mktemp("sets") / "net"
    return export(folder, settings={"cells": [3, 2]}, preprocessing={"resize": [12, 12]})


@pytest.fixture
def copied(made: Manifest, tmp_path: Path) -> Path:
    """The set once more, to be changed."""
    assert made.folder is not None
    shutil.copytree(made.folder, tmp_path / "net")
    return tmp_path / "net"


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch, made: Manifest) -> list[tuple[int, ...]]:
    """Exports that take no time: the models of ``made`` once more. The sizes that are exported from now on."""
    seen: list[tuple[int, ...]] = []
    files = {variant.inputs["input"]: made.path.with_name(variant.file) for variant in made.variants}

    def export(model: Any, args: Any, kwargs: Any, folder: Path, keywords: Any) -> str:
        shape = tuple(args[0].shape)
        seen.append(shape)
        onnx.save(
            onnx.load(files[shape]), folder / work.RAW, save_as_external_data=True, location="w", size_threshold=0
        )
        return codec.dumps(ReportData(model="Sequential", inputs=(InputSpec("input", "float32", shape),)))

    monkeypatch.setattr(work, "export", export)
    return seen


def usable(folder: Path, made: Manifest) -> bool:
    """Whether the set ``made`` is in the folder as it was."""
    found = manifest.read(folder)
    return found == made and found.changed(file.name for file in found.files) is None


def settings(folder: Path, **more: Any) -> Manifest:
    told: dict[str, Any] = {"settings": {"cells": [3, 2]}, "preprocessing": {"resize": [12, 12]}}
    return export(folder, **{**told, **more})


def test_each_size_is_equal_to_eager(made: Manifest) -> None:
    session, model = guarddiff.VariantSession(made), net()
    assert [size["input"] for size in session.sizes] == SIZES
    for shape in SIZES:
        x = torch.randn(shape)
        (got,) = session.run(None, {"input": x.numpy()})
        with torch.no_grad():
            np.testing.assert_allclose(got, model(x).numpy(), atol=1e-6)
    assert all(0 < variant.largest < 1e-6 for variant in made.variants)
    with pytest.raises(guarddiff.ContractViolation, match=r"supported are input=\(1, 3, 12, 12\); "):
        session.run(None, {"input": np.zeros((1, 3, 12, 13), np.float32)})


def test_weights_are_stored_once_and_nothing_else_is_there(made: Manifest) -> None:
    assert made.folder is not None
    parameters = sum(t.numel() * t.element_size() for t in net().parameters())
    stored = sum(file.size for file in made.files if file.name.endswith(".bin"))
    assert parameters * 0.9 < stored < parameters * 1.3
    for variant in made.variants:
        model = onnx.load(made.folder / variant.file, load_external_data=False)
        assert all(len(tensor.raw_data) < SMALL for tensor in model.graph.initializer)
        onnx.checker.check_model(str(made.folder / variant.file))
    assert {path.name for path in made.folder.iterdir()} == {file.name for file in made.files} | {manifest.NAME}


def test_each_has_its_contract(made: Manifest) -> None:
    for variant in made.variants:
        contract = guarddiff.read_contract(made.path.with_name(variant.file))
        assert contract == guarddiff.read_contract(made.path.with_name(variant.contract))
        assert contract.hash == variant.hash
        assert contract.settings == {"cells": [3, 2]} and contract.preprocessing == {"resize": [12, 12]}
        assert [tuple(spec.shape) for spec in contract.inputs] == list(variant.inputs.values())


def test_a_finished_set_is_not_exported_again(copied: Path, taken: list[Any], made: Manifest) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in copied.iterdir()}
    again = settings(copied, sizes=SIZES[::-1])
    assert taken == []
    assert again.variants == made.variants[::-1]
    assert {name for name, at in before.items() if (copied / name).stat().st_mtime_ns != at} == {manifest.NAME}


@pytest.mark.parametrize(
    ("damage", "more", "asked"),
    [
        (lambda file: file.write_bytes(file.read_bytes()[:-10]), {}, SIZES[1:2]),
        (lambda file: file.unlink(), {}, SIZES[1:2]),
        (lambda file: None, {"resume": False}, SIZES),
        (lambda file: None, {"opset_version": 18}, SIZES),
    ],
)
def test_what_is_not_as_it_was_is_exported_anew(
    copied: Path, monkeypatch: pytest.MonkeyPatch, made: Manifest, damage: Any, more: Any, asked: Any
) -> None:
    seen: list[Any] = []

    def refused(model: Any, args: Any, *_: Any) -> str:
        seen.append(tuple(args[0].shape))
        raise RuntimeError("not today")

    monkeypatch.setattr(work, "export", refused)
    damage(copied / made.variants[1].file)
    with pytest.raises(guarddiff.ContractError, match=rf"^{len(asked)} of 3 variants .*: RuntimeError: not today$"):
        settings(copied, sizes=SIZES, **more)
    assert seen == asked


def test_fewer_sizes_leave_no_files_behind(copied: Path, taken: list[Any], made: Manifest) -> None:
    found = settings(copied, sizes=SIZES[:1])
    assert taken == [] and len(found.variants) == 1
    assert {path.name for path in copied.iterdir()} == {*made.variants[0].files, manifest.NAME}


def test_an_interruption_keeps_what_is_finished(
    copied: Path, taken: list[Any], monkeypatch: pytest.MonkeyPatch, made: Manifest
) -> None:
    """A set with other settings takes the place of the one that is there: interrupted after one size, then resumed."""
    quick = work.export

    def interrupted(*given: Any) -> str:
        if len(taken) == 1:
            raise KeyboardInterrupt
        return quick(*given)

    monkeypatch.setattr(work, "export", interrupted)
    with pytest.raises(KeyboardInterrupt):
        export(copied, settings={"other": 1})
    assert usable(copied, made)
    assert not (copied / exporting.STAGING).exists()
    assert len(manifest.read(copied / manifest.UNFINISHED).variants) == 1
    monkeypatch.setattr(work, "export", quick)
    found = export(copied, settings={"other": 1})
    assert taken == SIZES
    assert {path.name for path in copied.iterdir()} == {file.name for file in found.files} | {manifest.NAME}
    assert manifest.read(copied) == found and found.variants != made.variants
    for size, contract in ((v.inputs["input"], guarddiff.read_contract(copied / v.file)) for v in found.variants):
        assert contract.settings == {"other": 1}
        guarddiff.VariantSession(copied).run(None, {"input": np.zeros(size, np.float32)})


@pytest.mark.parametrize("more", [{"settings": {"other": 1}}, {"resume": False}])
def test_an_earlier_set_is_as_it_was_after_a_failure(
    copied: Path, taken: list[Any], monkeypatch: pytest.MonkeyPatch, made: Manifest, more: Any
) -> None:
    """Also where the new one has the same weights, in a file of the same name, or the very same variants."""

    def wrong(*_: Any) -> Any:
        raise guarddiff.ContractError("wrong")

    with monkeypatch.context() as patched:
        patched.setattr(placing, "_checked", wrong)
        with pytest.raises(guarddiff.ContractError, match="^3 of 3 variants could not be made"):
            settings(copied, **more)
    assert usable(copied, made)
    assert {path.name for path in copied.iterdir()} == {file.name for file in made.files} | {manifest.NAME}
    found = settings(copied, **more)
    assert {path.name for path in copied.iterdir()} == {file.name for file in found.files} | {manifest.NAME}
    assert not {v.file for v in found.variants} & {v.file for v in made.variants} and found.missing() is None


def test_what_several_interrupted_exports_left_goes_in_the_end(copied: Path, taken: list[Any]) -> None:
    class Stop(BaseException):
        pass

    def stopping(name: str) -> None:
        raise Stop

    for number in range(2):
        with pytest.MonkeyPatch.context() as patched, pytest.raises(Stop):
            patched.setattr(exporting.progress, "bar", lambda *_: contextlib.nullcontext(stopping))
            export(copied, settings={"number": number})
    assert len(list(copied.glob("*.onnx"))) == len(SIZES) + 2
    found = export(copied, SIZES[:1], settings={"number": 2})
    assert {path.name for path in copied.iterdir()} == {*found.variants[0].files, manifest.NAME}


def test_a_wrong_variant_is_refused_and_nothing_of_it_stays(tmp_path: Path) -> None:
    """Dropout is drawn anew at each run; the second size is one that eager PyTorch can't run."""
    model = nn.Sequential(nn.Conv2d(3, 16, 9), nn.Dropout(0.5)).train()
    with pytest.raises(guarddiff.ContractError) as caught:
        export(tmp_path, [(2, 3, 12, 12), (1, 3, 8, 8)], model)
    text = str(caught.value)
    assert text.startswith("2 of 2 variants could not be made: input=(2, 3, 12, 12): ONNX Runtime gives output 0: ")
    assert "; the model is in training mode: call .eval() before; input=(1, 3, 8, 8): " in text
    assert "\x1b" not in text and "Kernel size can't be greater than actual input size" in text
    assert model.training and list(tmp_path.iterdir()) == []


def test_several_inputs_and_keywords(tmp_path: Path) -> None:
    ids, mask, model = torch.randint(0, 10, (2, 5)), torch.ones(2, 5), Tagged().eval()
    found = guarddiff.export_variants(
        model,
        (ids,),
        tmp_path,
        kwargs={"mask": mask},
        sizes=[{"ids": (2, 7), "mask": (2, 7)}],
        jobs=1,
        input_names=["tokens", "mask"],
        output_names=["sum"],
        report_to=tmp_path / "reports",
    )
    assert found.sizes == ({"tokens": (2, 7), "mask": (2, 7)},)
    feeds = {"tokens": torch.randint(0, 10, (2, 7)), "mask": torch.rand(2, 7)}
    (got,) = guarddiff.VariantSession(found).run(["sum"], {name: value.numpy() for name, value in feeds.items()})
    with torch.no_grad():
        np.testing.assert_allclose(got, model(feeds["tokens"], mask=feeds["mask"]).numpy(), rtol=1e-5)
    assert [path.name for path in (tmp_path / "reports").glob("*/*.json")] == ["guarddiff-report.json"]


@pytest.mark.parametrize(
    ("keywords", "kind", "told"),
    [
        ({"dynamic_shapes": None}, TypeError, "takes no dynamic_shapes: each model is static"),
        ({"external_data": False}, TypeError, "takes no external_data: weights are always shared"),
        ({"f": "m.onnx"}, TypeError, "takes no f: the files get their names from the sizes"),
        ({"dynamo": False}, TypeError, "takes no dynamo=False"),
        ({"jobs": 0}, ValueError, "jobs is 0"),
        ({"settings": {"a": {1}}}, guarddiff.ContractError, "settings or preprocessing is no JSON"),
        ({"model": len}, TypeError, r"model has to be a torch\.nn\.Module"),
    ],
)
def test_wrong_arguments_do_nothing(tmp_path: Path, keywords: Any, kind: type[Exception], told: str) -> None:
    with pytest.raises(kind, match=told):
        export(tmp_path / "new", **{"sizes": SIZES, **keywords})
    assert not (tmp_path / "new").exists()


def test_two_exports_into_one_folder_at_a_time(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    with (
        exporting._alone(tmp_path),
        pytest.raises(guarddiff.ContractError, match="another export_variants is at work in"),
    ):
        export(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_bar_is_shown_where_it_is_asked_for(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings(copied, progress=True)
    assert "3/3" in capsys.readouterr().err
    settings(copied)
    assert capsys.readouterr().err == ""


def test_the_module_is_as_it_was() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls.add_(1)
            return x + self.calls

    model, state = Counting(), torch.get_rng_state()
    example = placing.Example((torch.zeros(2),), {}, {"x": torch.zeros(2)})
    assert placing._eager(model, example)[0].array.tolist() == [1.0, 1.0]
    assert model.calls.item() == 0 and torch.equal(torch.get_rng_state(), state)
