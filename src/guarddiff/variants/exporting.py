"""The public call: one static model for each size."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from guarddiff.contract import manifest, tensors
from guarddiff.contract.manifest import Manifest, sizes_text
from guarddiff.core.errors import ContractError, in_words
from guarddiff.torch_bridge import probe
from guarddiff.variants import pool, progress, request
from guarddiff.variants.examples import Example, Size, examples
from guarddiff.variants.placing import Set

try:
    import fcntl
except ImportError:  # not there on Windows: nothing keeps a second export away
    fcntl = None  # type: ignore[assignment]

STAGING = ".guarddiff-variants"
"""Folder of what is under way."""

_LONGEST = 60
_TAKEN = {
    "f": "the files get their names from the sizes",
    "dynamic_shapes": "each model is static",
    "dynamic_axes": "each model is static",
    "external_data": "weights are always shared",
    "export_params": "weights are always shared",
    "keep_initializers_as_inputs": "weights are always shared",
}


def export_variants(
    model: torch.nn.Module,
    args: Any,
    directory: str | os.PathLike[str],
    *,
    sizes: Sequence[Size],
    inputs: Callable[[Any], Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    jobs: int | None = None,
    progress: bool | None = None,
    resume: bool = True,
    settings: Mapping[str, Any] | None = None,
    preprocessing: Mapping[str, Any] | None = None,
    **export_keywords: Any,
) -> Manifest:
    """Export one static ONNX model for each size, which ``guarddiff.VariantSession`` runs as one.

    Each is exported by ``guarddiff.export``, carries its contract, and is run once in ONNX Runtime against eager
    PyTorch; one that differs is refused. Equal weights are stored once. ``variants.json`` lists sizes, files and
    hashes. What was finished before an interruption is kept, and taken over by the same call later. An earlier set in
    the folder stays usable until the new one is complete; then its files are removed.

    Args:
        model: The module, in the mode (``eval``) in which it is to run.
        args: Example inputs: a tuple of positional ones, or one tensor.
        directory: Where the files go; made where it is missing.
        sizes: For each variant a mapping of inputs to shapes, or one shape where the model has one tensor. Inputs that
            are not named keep the example's shape.
        inputs: Called with each size, gives ``args`` of that size. None makes them from ``args``: other shapes are
            filled with values like those there.
        kwargs: Example inputs by keyword.
        jobs: How many processes export at a time; None for as many as there are processors and sizes. With 1, or where
            the model can't be pickled, it is this process. As with any process pool, a script needs
            ``if __name__ == "__main__":`` around the call.
        progress: Whether a bar is shown on stderr; None for only where that is a terminal.
        resume: Whether variants that are finished already are kept.
        settings: What the model was constructed with, for the contracts; JSON-able.
        preprocessing: What is done to the inputs before, for the contracts; JSON-able.
        export_keywords: Further keywords of ``guarddiff.export``.

    Returns:
        The manifest; ``.path`` is its file.

    Raises:
        ContractError: A size could not be exported, or its model is not what eager PyTorch gives; the others are
            finished. Also where another export is at work in the folder, or a process was killed.
        TypeError, ValueError: For a wrong size or argument.
        OSError: A file can't be written.
    """
    told = {"settings": settings, "preprocessing": preprocessing}
    _look(model, jobs, export_keywords, told)
    points = examples(model, args, kwargs, sizes, inputs, export_keywords.get("input_names"))
    return _make(model, points, Path(directory).absolute(), jobs, progress, resume, told, export_keywords)


def _make(
    model: torch.nn.Module,
    points: Sequence[Example],
    folder: Path,
    jobs: int | None,
    shown: bool | None,
    resume: bool,
    told: Mapping[str, Any],
    keywords: Mapping[str, Any],
) -> Manifest:
    keywords = {"verbose": False, **keywords}
    folder.mkdir(parents=True, exist_ok=True)
    wanted = dict(zip(request.keys(model, points, keywords, told), points))
    with _alone(folder):
        earlier = _earlier(folder)
        found = Set(folder, model, told, earlier)
        for old in earlier if resume else ():
            found.keep(old, wanted)
        _export(model, found, wanted, folder, keywords, jobs, shown)
        return found.finish(wanted, probe.versions())


def _look(model: Any, jobs: int | None, keywords: Mapping[str, Any], told: Mapping[str, Any]) -> None:
    """Refuse what can't be right before anything is done."""
    tensors.module(model, "model")
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs is {jobs}: give at least 1, or None")
    for name, why in _TAKEN.items():
        if name in keywords:
            raise TypeError(f"export_variants takes no {name}: {why}")
    if keywords.get("dynamo") is False:
        raise TypeError("export_variants takes no dynamo=False: that exporter leaves no evidence for a contract")
    try:
        json.dumps(told, allow_nan=False)
    except (TypeError, ValueError) as err:
        raise ContractError(f"settings or preprocessing is no JSON: {err}") from None
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RuntimeError(
            "a process that is to export imports this script, and came to export_variants: put the call under "
            "`if __name__ == '__main__':`"
        )


def _earlier(folder: Path) -> list[Manifest]:
    """What was finished here before; a manifest that can't be read counts for nothing."""
    found = []
    for name in (manifest.NAME, manifest.UNFINISHED):
        with contextlib.suppress(ContractError):
            found.append(manifest.read(folder / name))
    return found


def _export(
    model: torch.nn.Module,
    found: Set,
    wanted: Mapping[str, Example],
    folder: Path,
    keywords: Mapping[str, Any],
    jobs: int | None,
    shown: bool | None,
) -> None:
    """Export what is missing. Raises ContractError with all that failed, after the others are finished."""
    left = {key: example for key, example in wanted.items() if key not in found.finished}
    names = {found.free(_name(model, example, key)): key for key, example in left.items()}
    todo = [pool.Job(name, left[key], _apart(keywords, name)) for name, key in names.items()]
    failed: dict[str, Exception] = {}
    staging = folder / STAGING
    processes = jobs if jobs is not None else pool.cores()
    with (
        _staged(staging),
        progress.bar(shown, len(wanted), len(wanted) - len(left)) as tell,
        contextlib.closing(pool.run(model, todo, staging, processes)) as results,
    ):
        for done in results:
            name, size = done.job.name, sizes_text(done.job.example.shapes)
            raw = staging / name
            try:
                if done.error is not None:
                    raise done.error
                found.add(name, raw, done.report, done.job.example, names[name])
            except OSError:
                raise
            except Exception as err:
                failed[size] = err
            shutil.rmtree(raw, ignore_errors=True)
            tell(size)
    if failed:
        raise _failure(failed, len(wanted)) from next(iter(failed.values()))


def _failure(failed: Mapping[str, Exception], wanted: int) -> ContractError:
    told = "; ".join(f"{size}: {_line(error)}" for size, error in failed.items())
    return ContractError(f"{len(failed)} of {wanted} variants could not be made: {told}")


def _line(error: Exception) -> str:
    return str(error).strip() if isinstance(error, ContractError) else in_words(error, 400)


def _name(model: torch.nn.Module, example: Example, key: str) -> str:
    """A name for files: class, sizes, and the beginning of the request's hash."""
    sizes = "_".join("x".join(map(str, shape)) or "scalar" for shape in example.shapes.values())
    plain = re.sub(r"[^A-Za-z0-9_.-]", "-", f"{type(model).__name__.lstrip('_')}-{sizes}")
    return f"{plain[:_LONGEST]}-{key[:10]}"


def _apart(keywords: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The keywords for one variant: its reports get a folder of their own."""
    if keywords.get("report_to") is None:
        return dict(keywords)
    return {**keywords, "report_to": Path(keywords["report_to"]) / name}


@contextlib.contextmanager
def _staged(staging: Path) -> Iterator[None]:
    """An empty folder, which is removed in the end; what a killed run left goes first."""
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir()
    try:
        yield
    finally:
        shutil.rmtree(staging, ignore_errors=True)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Nobody else exports into the folder meanwhile. The system lets go when this process ends, however it does."""
    if fcntl is None:
        yield
        return
    held = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ContractError(f"another export_variants is at work in '{folder.name}'") from None
        except OSError:  # a file system without locks
            pass
        yield
    finally:
        os.close(held)
