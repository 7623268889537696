"""The evaluator as a runtime session, so that parity and the golden treat it like any other runtime.

Refuses to know images: it does what Core ML does with a picture, which is to hand over its planes as
floats.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt

from deploy.bundle import Bundle
from deploy.runtimes.coreml import package_of
from export.mil.arithmetic import SAVED, Arithmetic
from export.mil.evaluate import evaluate
from export.mil.program import read_program


class EvaluatorSession:
    """The bundle's program, read back from its package; `threads` are NumPy's own affair."""

    def __init__(self, bundle: Bundle, threads: int | None = None, arithmetic: Arithmetic = SAVED) -> None:
        self._program = read_program(package_of(bundle))
        self._arithmetic = arithmetic
        self._input, self._output = bundle.manifest.inputs[0], bundle.manifest.outputs[0]

    def run(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """One inference: array of the manifest's first input -> array of its first output."""
        planes = array.transpose(0, 3, 1, 2) if self._input.layout == "NHWC" else array
        inputs = {self._input.name: planes.astype(np.float32)}
        found = evaluate(self._program, inputs, self._arithmetic)
        return np.asarray(found[self._output.name], self._output.dtype)

    def close(self) -> None:
        """Nothing to free."""

    def versions(self) -> dict[str, str]:
        """{"coremltools": version}: it defines the format that is read."""
        return {"coremltools": version("coremltools")}
