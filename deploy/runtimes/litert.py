"""LiteRT (formerly TensorFlow Lite): executes the bundle's .tflite file on the CPU, with XNNPACK.

Refuses to know images; arrays in, arrays out. Source: https://ai.google.dev/edge/litert (Apache-2.0).
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from typing import Any

import numpy.typing as npt

from deploy.bundle import Bundle, TensorSpec
from deploy.errors import InputError
from deploy.runtimes._signature import require_same


def requires() -> str | None:
    """Why LiteRT cannot be used here, or None."""
    if importlib.util.find_spec("ai_edge_litert") is None:
        return "package ai-edge-litert is not installed: pip install ai-edge-litert"
    return None


def version() -> str:
    """Of the installed LiteRT."""
    return importlib.metadata.version("ai-edge-litert")


class Session:
    """The bundle's network, loaded; its input and output are compared with the manifest's.

    Raises:
        InputError: LiteRT cannot load the file, or the manifest says otherwise.
    """

    def __init__(self, bundle: Bundle, threads: int | None = None) -> None:
        from ai_edge_litert.interpreter import Interpreter

        model = bundle.model_file(".tflite")
        try:
            self._interpreter = Interpreter(str(model), num_threads=threads)
            self._interpreter.allocate_tensors()
        except (RuntimeError, ValueError) as error:
            raise InputError(f"LiteRT cannot load {model}", error, fix="update ai-edge-litert") from error
        inputs, outputs = self._interpreter.get_input_details(), self._interpreter.get_output_details()
        _compare(inputs, bundle.manifest.inputs[0], model.name)
        _compare(outputs, bundle.manifest.outputs[0], model.name)
        self._input, self._output = inputs[0]["index"], outputs[0]["index"]

    def run(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """One inference: array of the manifest's first input -> array of its first output."""
        assert self._interpreter is not None, "the session is closed"
        self._interpreter.set_tensor(self._input, array)
        self._interpreter.invoke()
        output: npt.NDArray[Any] = self._interpreter.get_tensor(self._output)
        return output

    def close(self) -> None:
        """Free the network."""
        self._interpreter = None

    def versions(self) -> dict[str, str]:
        """{"ai-edge-litert": version}."""
        return {"ai-edge-litert": version()}


def _compare(details: Any, spec: TensorSpec, model: str) -> None:
    found = [(detail["dtype"].__name__, tuple(map(int, detail["shape"]))) for detail in details]
    require_same(model, found, [(spec.dtype, spec.shape)])
