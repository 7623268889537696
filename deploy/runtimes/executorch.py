"""ExecuTorch: executes the bundle's .pte file on the host, with XNNPACK.

Its Python runtime takes and gives torch tensors, so it runs where torch is; a phone runs the same file by
ExecuTorch's native runner. Refuses to know images; arrays in, arrays out.
Source: https://pytorch.org/executorch (BSD-3-Clause).
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from typing import Any

import numpy.typing as npt

from deploy.bundle import Bundle
from deploy.errors import InputError
from deploy.runtimes._signature import require_same

METHOD = "forward"
_DTYPES = {0: "uint8", 3: "int32", 6: "float32"}  # ExecuTorch's scalar types

_RUN_FIX = "what it logged above says more; another precision or plan may run"


def requires() -> str | None:
    """Why ExecuTorch's Python runtime cannot be used here, or None."""
    missing = [name for name in ("executorch", "torch") if importlib.util.find_spec(name) is None]
    if missing:
        return (
            f"package {missing[0]} is not installed: hosts only; on a device use ExecuTorch's native runner"
        )
    return None


def version() -> str:
    """Of the installed ExecuTorch."""
    return importlib.metadata.version("executorch")


class Session:
    """The bundle's network, loaded; its input and output are compared with the manifest's.

    Raises:
        InputError: ExecuTorch cannot load the file, or the manifest says otherwise.
    """

    def __init__(self, bundle: Bundle, threads: int | None = None) -> None:
        runtime = importlib.import_module("executorch.runtime").Runtime.get()
        self._torch = importlib.import_module("torch")  # tensors only: this runtime has no other arrays
        if threads:
            bindings = importlib.import_module("executorch.extension.pybindings.portable_lib")
            bindings._unsafe_reset_threadpool(threads)  # its own name: no session may be running meanwhile
        model = self._model = bundle.model_file(".pte")
        try:
            self._program = runtime.load_program(model)
            self._method = self._program.load_method(METHOD)
        except RuntimeError as error:
            raise InputError(f"ExecuTorch cannot load {model}", error, fix="update executorch") from error
        meta = self._method.metadata
        ends = (meta.input_tensor_meta(0), meta.output_tensor_meta(0))
        for found, spec in zip(ends, (bundle.manifest.inputs[0], bundle.manifest.outputs[0]), strict=True):
            require_same(model.name, _signature(found), (spec.dtype, spec.shape))

    def run(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """One inference: array of the manifest's first input -> array of its first output.

        Raises:
            InputError: ExecuTorch refuses to execute the program.
        """
        assert self._method is not None, "the session is closed"
        try:
            (output,) = self._method.execute([self._torch.from_numpy(array)])
        except RuntimeError as error:
            raise InputError(f"ExecuTorch cannot execute {self._model.name}", error, fix=_RUN_FIX) from error
        found: npt.NDArray[Any] = output.numpy().copy()  # the runtime reuses its memory
        return found

    def close(self) -> None:
        """Free the network."""
        self._method = self._program = None

    def versions(self) -> dict[str, str]:
        """{"executorch": version, "torch": version}."""
        return {"executorch": version(), "torch": str(self._torch.__version__)}


def _signature(meta: Any) -> tuple[Any, tuple[int, ...]]:
    """A tensor's type and shape."""
    return _DTYPES.get(meta.dtype(), meta.dtype()), tuple(meta.sizes())
