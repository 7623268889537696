"""TensorRT on a Jetson: builds the bundle's engine at the first run, keeps it, and executes it.

The first run takes minutes; later ones find the engine in the cache (`deploy/engine/cache.py`). Refuses to
know images; arrays in, arrays out. Source: https://docs.nvidia.com/deeplearning/tensorrt (Python API 10).
"""

from __future__ import annotations

import importlib.util
import platform
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from deploy.bundle import Bundle
from deploy.device._host import Host, Unreadable
from deploy.device.jetson import jetpack
from deploy.engine.build import RECIPE_FILE, build, load, read_recipe
from deploy.engine.cache import EngineKey, default_folder, digest, engine_for
from deploy.engine.cuda import Cuda
from deploy.errors import InputError


def requires() -> str | None:
    """Why TensorRT cannot be used here, or None."""
    if importlib.util.find_spec("tensorrt") is None:
        return "package tensorrt is not installed: JetPack brings it (sudo apt install nvidia-jetpack)"
    return None


def version() -> str:
    """Of TensorRT."""
    import tensorrt

    return str(tensorrt.__version__)


class Session:
    """The bundle's engine, ready; `threads` has no meaning on a GPU.

    Raises:
        InputError: no GPU, a bundle without a recipe, a network that TensorRT refuses, an engine that is not
            this device's, or a cache that cannot be written.
    """

    def __init__(self, bundle: Bundle, threads: int | None = None) -> None:
        import tensorrt

        self._cuda = Cuda()
        network, recipe_file = bundle.model_file(".onnx"), bundle.path(RECIPE_FILE)
        recipe = read_recipe(recipe_file)
        key = EngineKey(digest(network, recipe_file), version(), self._cuda.gpu(), software())

        def make(timing: bytes) -> tuple[bytes, bytes]:
            built = build(tensorrt, network, recipe, timing)
            return built.plan, built.timing

        plan = engine_for(key, default_folder(), make, lambda line: print(line, file=sys.stderr))
        self._engine = load(tensorrt, plan, f"{default_folder() / key.name}")
        self._input, self._output = bundle.manifest.inputs[0], bundle.manifest.outputs[0]
        self._result = np.empty(self._output.shape, self._output.dtype)
        self._context = self._engine.create_execution_context()
        self._memory = self._bind()

    def run(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """One inference: array of the manifest's first input -> array of its first output."""
        given = np.ascontiguousarray(array)
        if given.shape != self._input.shape or given.dtype != self._input.dtype:
            got, expected = f"{given.dtype} {given.shape}", f"{self._input.dtype} {self._input.shape}"
            raise InputError(f"input {self._input.name}", got, expected, "export for this size")
        self._cuda.upload(given, self._memory[0])
        if not self._context.execute_async_v3(self._cuda.stream):
            raise InputError("TensorRT could not execute the engine", fix="free memory on the device")
        self._cuda.download(self._memory[1], self._result)
        return np.array(self._result)

    def close(self) -> None:
        """Free the engine and its memory."""
        self._context = self._engine = None
        self._cuda.free(*self._memory)
        self._cuda.close()

    def versions(self) -> dict[str, str]:
        """TensorRT, the GPU and the software around it."""
        return {"tensorrt": version(), "gpu": self._cuda.gpu(), "software": software()}

    def _bind(self) -> list[int]:
        """Device memory of input and output, known to the engine; their types must be the manifest's."""
        import tensorrt

        memory = []
        for spec in (self._input, self._output):
            found = np.dtype(tensorrt.nptype(self._engine.get_tensor_dtype(spec.name)))
            if found != spec.dtype:
                raise InputError(f"engine: {spec.name}", got=found, expected=spec.dtype, fix="export again")
            memory.append(self._cuda.allocate(int(np.prod(spec.shape)) * found.itemsize))
            self._context.set_tensor_address(spec.name, memory[-1])
        return memory


def software() -> str:
    """JetPack and L4T, or the system's name elsewhere."""
    try:
        return jetpack(Host())
    except Unreadable:
        return platform.platform()
