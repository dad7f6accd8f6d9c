"""A set of static models that runs as one."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from guarddiff.contract import manifest as listing
from guarddiff.contract.embed import read_contract
from guarddiff.contract.feeds import fed
from guarddiff.contract.manifest import Manifest, Variant, sizes_text
from guarddiff.contract.session import CheckedSession
from guarddiff.core.errors import ContractError, ContractViolation

_LISTED = 20

_Shapes = tuple[tuple[int, ...] | None, ...]


class VariantSession:
    """Runs each input with the static model of its size.

    Models are loaded when their size comes first, and at most ``most`` are kept: the one that was not used for the
    longest time gives way. Several threads may use one session. What is kept of each model are ONNX Runtime's own
    copies; the weights on disk are mapped, not stored again.

    Args:
        manifest: What ``guarddiff.export_variants`` returned, the path of a ``variants.json``, or its folder.
        most: How many models are kept loaded at most; at least 1.
        providers: As for ``onnxruntime.InferenceSession``; None is the CPU.
        session_options: As for ``onnxruntime.InferenceSession``; None for its defaults.
        trust: Whether not to compare the hashes of files, which reads each file once.

    Raises:
        ContractError: The manifest can't be read, or a file that it lists is not there or has another length. Hashes
            are compared when a model is loaded first, so this may also come from ``run``.
        OSError: The manifest can't be read.
        ValueError: ``most`` is less than 1.
    """

    def __init__(
        self,
        manifest: Manifest | str | os.PathLike[str],
        *,
        most: int = 4,
        providers: Sequence[Any] | None = None,
        session_options: Any = None,
        trust: bool = False,
    ) -> None:
        if most < 1:
            raise ValueError(f"most is {most}: at least one model has to be kept")
        self._manifest = manifest if isinstance(manifest, Manifest) else listing.read(manifest)
        if not self._manifest.variants:
            raise ContractError("the manifest lists no variant")
        wrong = self._manifest.missing()
        if wrong:
            raise ContractError(f"the manifest does not match its files: {wrong}")
        self._most = most
        self._providers = list(providers) if providers is not None else ["CPUExecutionProvider"]
        self._options = session_options
        self._trust = trust
        names = {tuple(sorted(variant.inputs)) for variant in self._manifest.variants}
        if len(names) > 1:
            raise ContractError("the variants of the manifest have different inputs")
        self._names = tuple(self._manifest.variants[0].inputs)
        self._routes: dict[_Shapes, Variant] = {
            tuple(variant.inputs[name] for name in self._names): variant for variant in self._manifest.variants
        }
        self._lock = threading.Lock()
        self._sessions: OrderedDict[str, CheckedSession] = OrderedDict()
        self._loading: dict[str, threading.Lock] = {}
        self._trusted: set[str] = set()

    @property
    def manifest(self) -> Manifest:
        """What the set consists of."""
        return self._manifest

    @property
    def sizes(self) -> tuple[dict[str, tuple[int, ...]], ...]:
        """The sizes that are supported: input name to shape, one mapping for each model."""
        return self._manifest.sizes

    @property
    def loaded(self) -> tuple[dict[str, tuple[int, ...]], ...]:
        """The sizes whose models are loaded now, the one used last at the end."""
        by_file = {variant.file: variant for variant in self._manifest.variants}
        with self._lock:
            return tuple(dict(by_file[file].inputs) for file in self._sessions)

    def run(self, output_names: Any, input_feed: Mapping[str, Any], run_options: Any = None) -> Any:
        """As ``onnxruntime.InferenceSession.run``, with the model of the inputs' size.

        Raises:
            ContractViolation: There is no model of this size (the message lists those there are), or the inputs have
                other names or dtypes than the models take.
            ContractError: The files were changed after the export.
        """
        feeds = {name: np.asarray(v) if isinstance(v, tuple) else v for name, v in input_feed.items()}
        return self.session_for(feeds).run(output_names, input_feed, run_options)

    def session_for(self, input_feed: Mapping[str, Any]) -> CheckedSession:
        """The loaded model for inputs of these sizes (arrays, tensors, OrtValues, or shapes as tuples).

        It stays usable after it gave way to others. Raises as ``run`` does.
        """
        return self._loaded(self._variant(input_feed))

    def get_inputs(self) -> Any:
        """Those of the first variant, which is loaded for it; the others differ in sizes only."""
        return self._loaded(self._manifest.variants[0]).get_inputs()

    def get_outputs(self) -> Any:
        """Those of the first variant, as ``get_inputs``."""
        return self._loaded(self._manifest.variants[0]).get_outputs()

    def get_providers(self) -> Any:
        """Those of the first variant, as ``get_inputs``."""
        return self._loaded(self._manifest.variants[0]).get_providers()

    def _variant(self, feeds: Mapping[str, Any]) -> Variant:
        if feeds.keys() != set(self._names):
            broken = [f"{name}: this input is missing" for name in self._names if name not in feeds]
            known = ", ".join(self._names)
            broken += [f"{n}: the models have no such input; they have {known}" for n in feeds if n not in self._names]
            raise ContractViolation("; ".join(broken), tuple(broken))
        shapes = tuple(_shape(feeds[name]) for name in self._names)
        variant = self._routes.get(shapes)
        if variant is not None:
            return variant
        given = ", ".join(
            f"{name}={shape}" if shape is not None else f"{name}: no tensor" for name, shape in zip(self._names, shapes)
        )
        told = [sizes_text(one.inputs) for one in self._manifest.variants]
        more = f"; and {len(told) - _LISTED} more" if len(told) > _LISTED else ""
        text = f"{given}: there is no model of this size; supported are {'; '.join(told[:_LISTED])}{more}"
        raise ContractViolation(text, (text,))

    def _loaded(self, variant: Variant) -> CheckedSession:
        with self._lock:
            found = self._sessions.get(variant.file)
            if found is not None:
                self._sessions.move_to_end(variant.file)
                return found
            mine = self._loading.setdefault(variant.file, threading.Lock())
        with mine:
            with self._lock:
                found = self._sessions.get(variant.file)
                if found is not None:  # another thread was quicker
                    self._sessions.move_to_end(variant.file)
                    return found
                self._keep(self._most - 1)
            session = self._load(variant)
            with self._lock:
                self._sessions[variant.file] = session
                self._keep(self._most)
            return session

    def _keep(self, most: int) -> None:
        while len(self._sessions) > most:
            self._sessions.popitem(last=False)

    def _load(self, variant: Variant) -> CheckedSession:
        if not self._trust:
            self._compare(variant)
        path = self._manifest.path.with_name(variant.file)
        contract = read_contract(path, trust=True)
        if contract.hash != variant.hash:
            raise ContractError(f"the manifest does not match its files: the contract of {variant.file} is another")
        return CheckedSession(path, self._options, self._providers, contract=contract)

    def _compare(self, variant: Variant) -> None:
        """Compare the hashes of the files that this model needs and that were not compared before."""
        names = [name for name in variant.files if name not in self._trusted]
        wrong = self._manifest.changed(names)
        if wrong:
            raise ContractError(f"the manifest does not match its files: {wrong}")
        self._trusted.update(names)


def _shape(value: Any) -> tuple[int, ...] | None:
    return value.shape if isinstance(value, np.ndarray) else fed(value).shape
