"""TensorRT-RTX as a second reader of what is meant for a Jetson: it builds ahead of time without a GPU.

It shares TensorRT's ONNX parser and its rules (strong types, Q/DQ, no uint8 inside a network), and builds
for compute capability 8.6. It is a relative of the Jetson's TensorRT and not it: Orin is 8.7, its TensorRT
chooses other kernels, and nothing is executed here. Refuses to know how the network came about.

Source: https://docs.nvidia.com/deeplearning/tensorrt-rtx (PyPI: tensorrt-rtx-cu12-bindings, -libs).
"""

from __future__ import annotations

import ctypes
import importlib
from pathlib import Path
from typing import Any

from deploy.engine.build import Built, Recipe, build
from deploy.errors import GateError, InputError

CAPABILITY = "SM86"


def module() -> Any:
    """The module of TensorRT-RTX; its libraries are loaded first, as it does not find them itself."""
    libraries = Path(importlib.import_module("tensorrt_rtx_libs").__file__ or "").parent
    for path in sorted(libraries.glob("*.so*"), reverse=True):
        ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    return importlib.import_module("tensorrt_rtx_bindings")


def prove(network: Path, recipe: Recipe) -> Built:
    """Parse and build `network` as the Jetson would, for `CAPABILITY`.

    Raises:
        GateError: TensorRT-RTX refuses it.
    """
    rtx = module()

    def ahead_of_time(config: Any) -> None:
        config.num_compute_capabilities = 1
        config.set_compute_capability(getattr(rtx.ComputeCapability, CAPABILITY), 0)

    try:
        return build(rtx, network, recipe, configure=ahead_of_time)
    except InputError as error:
        raise GateError(f"{error}", fix="TensorRT would refuse it, too: export fp32, and compare") from error
