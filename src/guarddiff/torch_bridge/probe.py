"""Which of torch's private names exist here, and what is lost when one is missing."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from guarddiff.core.report import Missing


@dataclass(frozen=True)
class PrivateName:
    """A private name of torch: ``module`` and dotted ``path`` in it; ``loss`` says what goes without it."""

    module: str
    path: str
    loss: str

    def owner(self) -> tuple[Any, str]:
        """The object that holds the name, and the name's last part. Raises when it isn't there."""
        holder: Any = importlib.import_module(self.module)
        *parents, last = self.path.split(".")
        for parent in parents:
            holder = getattr(holder, parent)
        getattr(holder, last)
        return holder, last

    def get(self) -> Any:
        """The object itself. Raises ImportError or AttributeError when it isn't there."""
        holder, last = self.owner()
        return getattr(holder, last)


_EXPORTER = "torch.onnx._internal.exporter."

LOG_GUARD = PrivateName("torch.fx.experimental.symbolic_shapes", "ShapeEnv._log_guard", "guards and their origins")
EXPORT_COMPAT = PrivateName(_EXPORTER + "_compat", "export_compat", "the user's declarations")
CORE_EXPORT = PrivateName(_EXPORTER + "_core", "export", "findings before the model file is written")
DECOMPOSE = PrivateName(_EXPORTER + "_fx_passes", "decompose_with_registry", "snapshots around decomposition")
DECOMPOSITION_TABLE = PrivateName(
    _EXPORTER + "_decomp", "create_onnx_friendly_decomposition_table", "fast replay of single operators"
)
TRANSLATE = PrivateName(_EXPORTER + "_core", "_exported_program_to_onnx_program", "the snapshot after translation")
OPTIMIZE = PrivateName(_EXPORTER + "_onnx_program", "ONNXProgram.optimize", "the snapshot after optimization")
DETECT_FAKE_MODE = PrivateName("torch._guards", "detect_fake_mode", "the ShapeEnv of a program")
PRINTER = PrivateName("torch.utils._sympy.printers", "PythonPrinter", "guards as text")
FAKE_MODE = PrivateName("torch._subclasses.fake_tensor", "FakeTensorMode", "cheap checks of what eager PyTorch accepts")
PYTREE = PrivateName("torch.utils._pytree", "tree_flatten_with_path", "nested inputs")

NAMES: tuple[PrivateName, ...] = (
    LOG_GUARD,
    EXPORT_COMPAT,
    CORE_EXPORT,
    DECOMPOSE,
    DECOMPOSITION_TABLE,
    TRANSLATE,
    OPTIMIZE,
    DETECT_FAKE_MODE,
    PRINTER,
    FAKE_MODE,
    PYTREE,
)

PROBED = ("2.13", "2.14", "2.15")
"""torch minor releases in which all of NAMES were seen."""


def missing_names() -> tuple[Missing, ...]:
    """One entry per private name that this torch does not have."""
    lost = []
    for name in NAMES:
        try:
            name.get()
        except Exception as error:
            lost.append(Missing(f"{name.module}.{name.path}", f"{name.loss}: {error}"))
    return tuple(lost)


def versions() -> dict[str, str]:
    """Versions of what takes part in an export, and the platform; no host or user name."""
    return dict(_versions())


@lru_cache(maxsize=1)
def _versions() -> dict[str, str]:
    import platform
    from importlib import metadata

    found = {"python": platform.python_version(), "platform": f"{platform.system()} {platform.machine()}"}
    for package in ("torch", "torchvision", "onnx", "onnxscript", "onnx-ir", "onnxruntime", "numpy", "guarddiff"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return dict(sorted(found.items()))
