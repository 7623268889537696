"""What goes into and comes out of every convolution of an ONNX graph, over many images, in fixed memory.

The graph runs in onnxruntime with those tensors as further outputs, image by image. Refuses to know which
images, and what ranges are made of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt
import onnx

from export.histogram import Histogram
from export.layers import convolutions
from export.trace import infer


@dataclass(frozen=True)
class Observed:
    """A convolution's ends."""

    input: Histogram = field(default_factory=Histogram)
    output: Histogram = field(default_factory=Histogram)


def observe(model: onnx.ModelProto, inputs: Iterable[npt.NDArray[Any]]) -> dict[str, Observed]:
    """Layer name (`export/layers.py`) -> what it saw.

    Args:
        inputs: yields arrays for the graph's one input.

    Raises:
        InputError: a value that is not finite.
    """
    nodes = convolutions(model)
    ends = {layer: (node.input[0], node.output[0]) for layer, node in nodes.items()}
    feed = model.graph.input[0].name
    names = list(dict.fromkeys(name for pair in ends.values() for name in pair if name != feed))
    found = {layer: Observed() for layer in nodes}
    session = session_showing(model, names)
    for array in inputs:
        values = {feed: array, **dict(zip(names, session.run(names, {feed: array}), strict=True))}
        for layer, (taken, made) in ends.items():
            found[layer].input.add(values[taken], f"the input of {layer}")
            found[layer].output.add(values[made], f"the output of {layer}")
    return found


def session_showing(model: onnx.ModelProto, names: Sequence[str]) -> Any:
    """An onnxruntime session of the graph with these tensors as further outputs."""
    import onnxruntime

    shown = infer(model)
    known = {value.name: value for value in shown.graph.value_info}
    outputs = {value.name for value in shown.graph.output}
    shown.graph.output.extend(known[name] for name in names if name not in outputs)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(shown.SerializeToString(), options, ["CPUExecutionProvider"])
