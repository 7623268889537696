"""ncnn: executes the bundle's `.param` and `.bin` on the CPU, 64-bit Arm above all.

An fp16 bundle stores and computes in half precision where the processor can; anything else stays in float32,
which ncnn must be told. Refuses to know images; arrays in, arrays out. Source:
https://github.com/Tencent/ncnn (BSD-3-Clause).
"""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import numpy.typing as npt

from deploy.bundle import Bundle
from deploy.errors import InputError
from deploy.runtimes._signature import require_same

_HALF = ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic")


def requires() -> str | None:
    """Why ncnn cannot be used here, or None."""
    if importlib.util.find_spec("ncnn") is None:
        return "package ncnn is not installed: pip install ncnn"
    return None


def version() -> str:
    """Of the installed ncnn, such as "1.0.20261020"."""
    import ncnn

    return str(ncnn.__version__)


class Session:
    """The bundle's network, loaded; its output's shape is compared with the manifest's at each run.

    Raises:
        InputError: ncnn cannot load the files.
    """

    def __init__(self, bundle: Bundle, threads: int | None = None) -> None:
        import ncnn

        self._package, self._net = ncnn, ncnn.Net()
        for option in _HALF:
            setattr(self._net.opt, option, bundle.manifest.target.precision == "fp16")
        if threads:
            self._net.opt.num_threads = threads
        for load, suffix in ((self._net.load_param, ".param"), (self._net.load_model, ".bin")):
            if load(str(model := bundle.model_file(suffix))):
                raise InputError(f"ncnn cannot load {model}", fix="update ncnn")
        names = (self._net.input_names(), self._net.output_names())
        expected = [[spec.name] for spec in (bundle.manifest.inputs[0], bundle.manifest.outputs[0])]
        require_same(bundle.root, list(names), expected)
        self._input, self._output = bundle.manifest.inputs[0], bundle.manifest.outputs[0]

    def run(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """One inference: array of the manifest's first input -> array of its first output.

        Raises:
            InputError: the network refuses the input, or gives another shape than the manifest's.
        """
        assert self._net is not None, "the session is closed"
        with self._net.create_extractor() as extractor:
            extractor.input(self._input.name, self._package.Mat(array[0]))
            status, output = extractor.extract(self._output.name)
            found = np.array(output)[None]  # a copy: the Mat's memory is ncnn's
        if status or found.shape != self._output.shape:
            raise InputError("ncnn: output", got=(status, found.shape), expected=self._output.shape)
        return found

    def close(self) -> None:
        """Free the network."""
        self._net = None

    def versions(self) -> dict[str, str]:
        """{"ncnn": version}."""
        return {"ncnn": version()}
