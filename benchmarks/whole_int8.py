"""Targets whose int8 is what their converter makes of a network when nobody says what to leave in float.

Everything it knows how to quantise is quantised, the attention's products and its division too. The rivals in
`benchmarks/precision.py`; nothing here is ever shipped, so the graph's rules are not applied. TensorRT has no
such form: its strongly typed networks quantise what the file says. Refuses to know what comes of it.

Sources: onnxruntime.quantization (MIT), nncf (Apache-2.0), executorch and torchao (BSD-3-Clause), each with
the defaults of its documented entry point.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy.typing as npt
from onnxruntime.quantization import CalibrationDataReader, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from export.targets import BuildContext, Target, executorch, onnxruntime, openvino
from export.trace import to_onnx
from pipeline.models.labelmap import LabelMapper

Build = Callable[[LabelMapper, BuildContext], dict[str, Path]]


class Whole:
    """A target (`export.targets`) with another `build` and no rules; all else is the target's own."""

    def __init__(self, target: ModuleType, build: Build) -> None:
        self._target, self.build = target, build

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def count_ops(self, files: Mapping[str, Path]) -> Counter[str]:
        """Nothing to complain about."""
        return Counter()


class _Reader(CalibrationDataReader):  # type: ignore[misc]
    """Images one at a time, and again from the start when asked to rewind."""

    def __init__(self, images: Any, name: str) -> None:
        self.images, self.name = images, name
        self.rewind()

    def rewind(self) -> None:
        self.left: Iterator[npt.NDArray[Any]] = iter(self.images)

    def get_next(self) -> dict[str, npt.NDArray[Any]] | None:
        frame = next(self.left, None)
        return None if frame is None else {self.name: frame}


def _onnxruntime(net: LabelMapper, context: BuildContext) -> dict[str, Path]:
    graph = to_onnx(net, context.folder / "graph.onnx", context.shape)
    prepared, out = context.folder / "prepared.onnx", context.folder / onnxruntime.MODEL_FILE
    quant_pre_process(
        graph, prepared, skip_symbolic_shape=True
    )  # it trips over this graph; ONNX's own serves
    quantize_static(prepared, out, _Reader(context.calibration, "image"))
    return {onnxruntime.MODEL_FILE: out}


def _openvino(net: LabelMapper, context: BuildContext) -> dict[str, Path]:
    import nncf
    import openvino as runtime

    graph = runtime.convert_model(to_onnx(net, context.folder / "graph.onnx", context.shape))
    images = context.calibration
    assert images is not None, "int8 is listed as calibrated"
    model = nncf.quantize(graph, nncf.Dataset(images), subset_size=len(images))
    runtime.save_model(model, context.folder / openvino.MODEL_FILE, compress_to_fp16=False)
    return {name: context.folder / name for name in (openvino.MODEL_FILE, openvino.WEIGHTS_FILE)}


def _executorch(net: LabelMapper, context: BuildContext) -> dict[str, Path]:
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )

    config = get_symmetric_quantization_config(is_per_channel=True)

    class OfFloats(XNNPACKQuantizer):  # type: ignore[misc]
        """Its observers do not take a frame's or a label map's bytes."""

        def annotate(self, model: Any) -> Any:
            model = super().annotate(model)
            for node in model.graph.nodes:
                if not _of_floats(node):
                    node.meta.pop("quantization_annotation", None)
            return model

    with patch.object(executorch, "quantizer", lambda *_: OfFloats().set_global(config)):
        return executorch.build(net, context)


def _of_floats(node: Any) -> bool:
    """Whether a node of an fx graph reads and gives floats only."""
    values = [each.meta.get("val") for each in (node, *node.all_input_nodes)]
    return all(value.is_floating_point() for value in values if hasattr(value, "is_floating_point"))


_RIVALS = {
    "onnxruntime": (onnxruntime, _onnxruntime),
    "openvino": (openvino, _openvino),
    "executorch": (executorch, _executorch),
}


def whole(target: str) -> Target | None:
    """The target's rival, or None where its converter has no such form."""
    rival = _RIVALS.get(target)
    return Whole(*rival) if rival else None  # type: ignore[return-value]
