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

    def find(self) -> Any:
        """The object itself; None when it isn't there, which ``missing_names`` tells of."""
        try:
            return self.get()
        except Exception:
            return None


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
OPERATOR = PrivateName("torch._ops", "OpOverload", "operators of guards that capture added")
TRACING = PrivateName("torch._guards", "TracingContext", "source lines of guards that a strict capture added")

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
    OPERATOR,
    TRACING,
)

PROBED: dict[str, tuple[PrivateName, ...]] = {"2.13": NAMES, "2.14": NAMES, "2.15": NAMES}
"""Which names were seen, by torch minor release; ``tests/torch_bridge/test_probe.py`` looks again on the one that is
installed, and fails where the package admits a release that is not here."""


def missing_names() -> tuple[Missing, ...]:
    """One entry per private name that this torch does not have."""
    lost = []
    for name in NAMES:
        try:
            name.get()
        except Exception as error:
            lost.append(Missing(f"{name.module}.{name.path}", f"{name.loss}: {error}"))
    return tuple(lost)


PACKAGES = (
    "torch",
    "torchvision",
    "torchaudio",
    "triton",
    "onnx",
    "onnxscript",
    "onnx-ir",
    "onnxruntime",
    "onnxruntime-gpu",
    "ml_dtypes",
    "numpy",
    "sympy",
    "guarddiff",
)


def versions() -> dict[str, str]:
    """Versions of what takes part in an export, the platform, and how torch was built; no host or user name."""
    return dict(_versions())


@lru_cache(maxsize=1)
def _versions() -> dict[str, str]:
    from importlib import metadata

    found = {**_python(), **_build()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return dict(sorted(found.items()))


def _python() -> dict[str, str]:
    """Python and the operating system. No process is started, and the kernel's own name is cut to its numbers."""
    import platform
    import re
    import sys

    libc, libc_version = platform.libc_ver()
    kernel = re.match(r"\d+(\.\d+)*", platform.release())
    with_libc = f"with-{libc}{libc_version}" if libc else ""
    parts = [platform.system(), kernel[0] if kernel else "", platform.machine(), with_libc]
    try:
        system = platform.freedesktop_os_release().get("PRETTY_NAME") or platform.system()
    except OSError:
        system = platform.system()
    found = {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "os": f"{system} ({platform.machine()})",
        "libc": f"{libc}-{libc_version}" if libc else "",
        "python_bits": str(sys.maxsize.bit_length() + 1),
        "python_platform": "-".join(filter(None, parts)),
    }
    return {key: value for key, value in found.items() if value}


def _build() -> dict[str, str]:
    """How torch was built. CUDA that is not in use is not asked for: that would start its driver."""
    torch: Any = importlib.import_module("torch")
    cuda, rocm = torch.version.cuda, torch.version.hip
    available = "not asked"
    if not cuda and not rocm:
        available = "False"
    elif torch.cuda.is_initialized():
        available = "True"
    return {
        "debug_build": str(torch.version.debug),
        "cuda_build": str(cuda or "None"),
        "rocm_build": str(rocm or "N/A"),
        "cuda": available,
    }
