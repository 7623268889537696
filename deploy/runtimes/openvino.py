"""OpenVINO: executes the bundle's IR (`.xml` with its `.bin`) on the CPU.

An fp16 bundle computes in half precision where the processor can, else in float32 with half-precision
weights; `versions` says which. Refuses to know images; arrays in, arrays out. Source:
https://docs.openvino.ai (Apache-2.0).
"""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import numpy.typing as npt

from deploy.bundle import Bundle, TensorSpec
from deploy.errors import InputError
from deploy.runtimes._signature import require_same

DEVICE = "CPU"


def requires() -> str | None:
    """Why OpenVINO cannot be used here, or None."""
    if importlib.util.find_spec("openvino") is None:
        return "package openvino is not installed: pip install openvino"
    return None


def version() -> str:
    """Of the installed OpenVINO, such as "2026.4.1"."""
    import openvino

    return str(openvino.__version__).split("-")[0]


class Session:
    """The bundle's network, compiled; its input and output are compared with the manifest's.

    Raises:
        InputError: OpenVINO cannot load the file, or the manifest says otherwise.
    """

    def __init__(self, bundle: Bundle, threads: int | None = None) -> None:
        import openvino

        model = bundle.model_file(".xml")
        core = openvino.Core()
        self._arithmetic = _arithmetic(core, bundle.manifest.target.precision)
        config = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": self._arithmetic}
        try:
            network = core.read_model(model)
            self._compiled = core.compile_model(network, DEVICE, config | _threads(threads))
        except RuntimeError as error:
            raise InputError(f"OpenVINO cannot load {model}", error, fix="update openvino") from error
        dynamic = bool(bundle.manifest.target.options.get("dynamic"))
        _compare(network.inputs, bundle.manifest.inputs[0], dynamic, model.name)
        _compare(network.outputs, bundle.manifest.outputs[0], dynamic, model.name)

    def run(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """One inference: array of the manifest's first input -> array of its first output."""
        assert self._compiled is not None, "the session is closed"
        return np.array(self._compiled(array, share_inputs=True)[0])

    def close(self) -> None:
        """Free the network."""
        self._compiled = None

    def versions(self) -> dict[str, str]:
        """{"openvino": version, "arithmetic": f32 or f16}."""
        return {"openvino": version(), "arithmetic": self._arithmetic}


def _threads(threads: int | None) -> dict[str, int]:
    return {"INFERENCE_NUM_THREADS": threads} if threads else {}


def _arithmetic(core: Any, precision: str) -> str:
    """OpenVINO's name of the type that floats are computed in: never less than asked."""
    half = precision == "fp16" and "FP16" in core.get_property(DEVICE, "OPTIMIZATION_CAPABILITIES")
    return "f16" if half else "f32"


def _compare(ports: Any, spec: TensorSpec, dynamic: bool, model: str) -> None:
    fixed = 1 if dynamic else 0  # axes from here on have the manifest's sizes; before it, any
    sides = [[side.get_length() for side in list(port.partial_shape)[fixed:]] for port in ports]
    found = [
        (port.any_name, port.element_type.to_dtype().name, tuple(shape))
        for port, shape in zip(ports, sides, strict=True)
    ]
    require_same(model, found, [(spec.name, spec.dtype, spec.shape[fixed:])])
