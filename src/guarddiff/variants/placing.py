"""From one plain export to a finished variant of the set: weights shared, contract embedded, results checked."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch

from guarddiff.contract import embed, manifest
from guarddiff.contract.manifest import Manifest, Variant
from guarddiff.contract.session import CheckedSession
from guarddiff.contract.weights import SharedWeights
from guarddiff.core import codec, files
from guarddiff.core.errors import ContractError
from guarddiff.replay import compare, run
from guarddiff.replay import inputs as replayed
from guarddiff.torch_bridge import replaying
from guarddiff.variants import work
from guarddiff.variants.examples import Example


class Set:
    """The variants of one folder that are finished so far; each is on the disk when ``add`` returns."""

    def __init__(
        self, folder: Path, model: torch.nn.Module, told: Mapping[str, Any], earlier: Sequence[Manifest] = ()
    ) -> None:
        """``earlier``: the manifests found in the folder. Their files stay as they are until ``finish``."""
        self._earlier = {stored.name: stored for old in earlier for stored in old.files}
        self._folder = folder
        self._model = model
        self._told = dict(told)
        self._weights = SharedWeights(folder)
        self._manifest = Manifest(type(model).__name__, folder=folder)

    @property
    def finished(self) -> dict[str, Variant]:
        """By the hash of what was asked for."""
        return {variant.request: variant for variant in self._manifest.variants}

    def free(self, name: str) -> str:
        """``name``, or one like it, that no file of the earlier sets has."""
        found, number = name, 2
        while f"{found}.onnx" in self._earlier:
            found, number = f"{name}-{number}", number + 1
        return found

    def keep(self, earlier: Manifest, wanted: Collection[str]) -> None:
        """Take over what an earlier run has finished, where it is wanted and its files are as they were."""
        for variant in earlier.variants:
            if variant.request not in wanted or variant.request in self.finished:
                continue
            if earlier.changed(variant.files) is None:
                self._weights.learn(onnx.load(self._folder / variant.file, load_external_data=False))
                self._list(variant, {stored.name: stored for stored in earlier.files})

    def add(self, name: str, raw: Path, report: str, example: Example, request: str) -> None:
        """Make a variant called ``name`` of what was exported into the folder ``raw``.

        Raises ContractError where it is not what eager PyTorch gives, or can have no contract; nothing of it is left
        then. OSError where a file can't be written.
        """
        target = self._folder / f"{name}.onnx"
        before = self._weights.files
        try:
            model = onnx.load(raw / work.RAW, load_external_data=False)
            weights = self._weights.share(model, raw)
            files.replace(target, model.SerializeToString(deterministic=True))
            contract = embed.embed_contract(target, codec.loads(report), **self._told)
            session = CheckedSession(target, _silent(), ["CPUExecutionProvider"], contract=contract)
            shapes, largest = _checked(self._model, session, example)
            beside = embed.beside(target).name
            variant = Variant(shapes, target.name, beside, weights, contract.hash, request, largest)
            self._list(variant, {})
        except BaseException:
            made = {target.name, embed.beside(target).name, *(self._weights.files - before)}
            self._remove(made - self._earlier.keys())
            raise

    def finish(self, wanted: Collection[str], environment: Mapping[str, str]) -> Manifest:
        """Write the manifest, with the variants in the order in which they are wanted, and remove what only the
        earlier ones list."""
        order = self.finished
        variants = tuple(order[request] for request in wanted)
        kept = {name for variant in variants for name in variant.files}
        files = tuple(stored for stored in self._manifest.files if stored.name in kept)
        found = dataclasses.replace(self._manifest, variants=variants, files=files, environment=dict(environment))
        manifest.write(found, found.path)
        with suppress(OSError):
            os.unlink(self._folder / manifest.UNFINISHED)
        self._remove(self._earlier.keys() - kept)
        return found

    def _list(self, variant: Variant, known: Mapping[str, manifest.StoredFile]) -> None:
        listed = {stored.name: stored for stored in self._manifest.files}
        for name in variant.files:
            if name not in listed:
                listed[name] = known.get(name) or manifest.stored_file(self._folder / name)
        self._manifest = dataclasses.replace(
            self._manifest, variants=(*self._manifest.variants, variant), files=tuple(listed.values())
        )
        old = tuple(stored for name, stored in self._earlier.items() if name not in listed)
        noted = dataclasses.replace(self._manifest, files=(*listed.values(), *old))  # so that they go in the end
        manifest.write(noted, self._folder / manifest.UNFINISHED)

    def _remove(self, names: Iterable[str]) -> None:
        for name in names:
            self._weights.forget(name)
            with suppress(OSError):
                os.unlink(self._folder / name)


def _silent() -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return options


def _checked(
    model: torch.nn.Module, session: CheckedSession, example: Example
) -> tuple[dict[str, tuple[int, ...]], float]:
    """Shapes by the names of the file's inputs, and the largest difference to eager PyTorch."""
    names = [value.name for value in session.get_inputs()]
    given = tuple(example.tensors)
    if len(names) != len(given):
        raise ContractError(f"the exported model has {len(names)} inputs, and {len(given)} tensors were given")
    try:
        expected = _eager(model, example)
        feeds = run.feeds(replayed.Example(given, tuple(names), None, None), given)
    except run.Unavailable as err:
        raise ContractError(f"it can't be compared with eager PyTorch: {err}") from err
    got = session.run(None, feeds)
    expected = compare.align(expected, len(got))
    wrong = compare.difference(expected, got)
    if wrong is not None:
        hint = "; the model is in training mode: call .eval() before" if model.training else ""
        raise ContractError(f"ONNX Runtime gives {wrong.got}, and eager PyTorch {wrong.expected}{hint}")
    shapes = {name: tuple(feed.shape) for name, feed in feeds.items()}
    return shapes, max(map(_largest, expected, got), default=0.0)


def _eager(model: torch.nn.Module, example: Example) -> list[compare.Result]:
    leaves, tree = replaying.flatten_with_tree((example.args, example.kwargs))
    whole = replayed.Example(tuple(leaves), (None,) * len(leaves), tree, replaying.unflatten)
    return run.Eager(model, replaying.flatten).run(whole, leaves)


def _largest(expected: compare.Result, got: Any) -> float:
    """Largest absolute difference of two elements that are finite."""
    with np.errstate(invalid="ignore"):
        gap = np.abs(expected.array.astype(np.float64) - compare.plain(got).astype(np.float64))
    finite = gap[np.isfinite(gap)]
    return float(finite.max()) if finite.size else 0.0
