"""Core ML: executes the bundle's .mlpackage on a Mac, through coremltools.

On an iPhone the same package is added to an application; see docs/targets.md. Manifest options:
`compute_units`, one of ALL (default), CPU_AND_NE, CPU_AND_GPU, CPU_ONLY. Refuses to know images beyond
wrapping a frame as Core ML asks. Source: https://apple.github.io/coremltools (BSD-3-Clause).
"""

from __future__ import annotations

import importlib.util
import platform
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from deploy.bundle import Bundle
from deploy.errors import InputError

PACKAGE = "model.mlpackage"
UNITS = ("ALL", "CPU_AND_NE", "CPU_AND_GPU", "CPU_ONLY")


def requires() -> str | None:
    """Why Core ML cannot be used here, or None."""
    if platform.system() != "Darwin":
        return "needs macOS 14 or later: Core ML runs on Apple's systems only"
    missing = [name for name in ("coremltools", "PIL") if importlib.util.find_spec(name) is None]
    return f"{', '.join(missing)} not installed: pip install coremltools pillow" if missing else None


def version() -> str:
    """Of coremltools."""
    import coremltools

    return str(coremltools.__version__)


def package_of(bundle: Bundle) -> Path:
    """The bundle's .mlpackage folder.

    Raises:
        InputError: there is none.
    """
    return bundle.path(f"{PACKAGE}/Manifest.json").parent


class Session:
    """The bundle's network, compiled by Core ML.

    Raises:
        InputError: Core ML cannot load the package, or an unknown `compute_units`.
    """

    def __init__(self, bundle: Bundle, threads: int | None = None) -> None:
        import coremltools

        units = str(bundle.manifest.target.options.get("compute_units", "ALL"))
        if units not in UNITS:
            raise InputError("option compute_units", got=units, expected=", ".join(UNITS))
        package = package_of(bundle)
        try:
            self._model = coremltools.models.MLModel(
                str(package), compute_units=coremltools.ComputeUnit[units]
            )
        except Exception as error:  # its exceptions share no public base
            raise InputError(f"Core ML cannot load {package}", got=error, fix="update macOS") from error
        self._input, self._output = bundle.manifest.inputs[0], bundle.manifest.outputs[0]

    def run(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """One inference: array of the manifest's first input -> array of its first output."""
        found = self._model.predict({self._input.name: _as_image(array)})[self._output.name]
        return np.asarray(found, self._output.dtype).reshape(self._output.shape)

    def close(self) -> None:
        """Free the network."""
        self._model = None

    def versions(self) -> dict[str, str]:
        """coremltools and the system, whose part Core ML is."""
        return {"coremltools": version(), "macOS": platform.mac_ver()[0]}


def _as_image(array: npt.NDArray[Any]) -> Any:
    """A frame `[1, H, W, 3]` uint8 as the picture that an image input takes; floats stay an array."""
    if array.dtype != np.uint8:
        return array
    from PIL import Image

    return Image.fromarray(array[0], "RGB")
