"""ONNX Runtime: executes the bundle's one .onnx or .ort file on the CPU.

Manifest options: `providers`, a comma-separated list of execution providers (default CPUExecutionProvider).
Refuses to know images; arrays in, arrays out. Source: https://onnxruntime.ai (MIT).
"""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy.typing as npt

from deploy.bundle import Bundle, TensorSpec
from deploy.errors import GateError, InputError
from deploy.runtimes._signature import require_same

_FATAL_ONLY = 4  # an error is raised, and told once


def requires() -> str | None:
    """Why ONNX Runtime cannot be used here, or None."""
    if importlib.util.find_spec("onnxruntime") is None:
        return "package onnxruntime is not installed: pip install onnxruntime"
    return None


def version() -> str:
    """Of the installed ONNX Runtime (whichever of its packages holds it)."""
    import onnxruntime

    return str(onnxruntime.__version__)


class Session:
    """The bundle's network, loaded; its input and output are compared with the manifest's.

    Raises:
        InputError: ONNX Runtime cannot load the file, lacks a provider, or the manifest says otherwise.
    """

    def __init__(self, bundle: Bundle, threads: int | None = None) -> None:
        import onnxruntime

        self._package = onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads or 0
        options.inter_op_num_threads = 1
        options.log_severity_level = _FATAL_ONLY
        own_format = any(entry.path.endswith(".ort") for entry in bundle.manifest.files)
        self._model = model = bundle.model_file(".ort" if own_format else ".onnx")
        try:
            self._session = onnxruntime.InferenceSession(str(model), options, providers=_providers(bundle))
        except Exception as error:  # its exception classes share no public base
            raise InputError(
                f"ONNX Runtime cannot load {model}",
                got=error,
                fix="copy or export the bundle again, or update onnxruntime",
            ) from error
        _require_active(self._session.get_providers(), _providers(bundle))
        self._input, self._output = bundle.manifest.inputs[0], bundle.manifest.outputs[0]
        dynamic = bool(bundle.manifest.target.options.get("dynamic"))
        _compare(self._session.get_inputs(), self._input, dynamic, model.name)
        _compare(self._session.get_outputs(), self._output, dynamic, model.name)

    def run(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """One inference: array of the manifest's first input -> array of its first output.

        Raises:
            GateError: the network fails on it.
        """
        assert self._session is not None, "the session is closed"
        try:
            output: npt.NDArray[Any] = self._session.run([self._output.name], {self._input.name: array})[0]
        except Exception as error:  # as above
            raise GateError(f"ONNX Runtime failed in {self._model}", got=error, fix="export again") from error
        return output

    def close(self) -> None:
        """Free the network."""
        self._session = None

    def versions(self) -> dict[str, str]:
        """{"onnxruntime": version}."""
        return {"onnxruntime": str(self._package.__version__)}


def _providers(bundle: Bundle) -> list[str]:
    import onnxruntime

    wanted = str(bundle.manifest.target.options.get("providers", "CPUExecutionProvider")).split(",")
    present = onnxruntime.get_available_providers()
    lacking = [name for name in wanted if name not in present]
    if lacking:
        raise InputError("execution provider", got=", ".join(lacking), expected=f"of {present}")
    return wanted


def _require_active(active: list[str], wanted: list[str]) -> None:
    """A provider whose libraries or device fail is dropped with a line on stderr only."""
    if wanted[0] not in active:
        fix = "install what the provider needs, or choose another --provider"
        raise InputError(f"execution provider {wanted[0]} does not start here", got=f"{active}", fix=fix)


def _compare(nodes: Any, spec: TensorSpec, dynamic: bool, model: str) -> None:
    fixed = 1 if dynamic else 0  # axes from here on have the manifest's sizes; before it, any
    found = {node.name: (node.type, tuple(node.shape)[fixed:]) for node in nodes}
    kind = {"float32": "float"}.get(spec.dtype, spec.dtype)
    expected = (f"tensor({kind})", spec.shape[fixed:])
    require_same(model, (spec.name, found.get(spec.name)), (spec.name, expected))
