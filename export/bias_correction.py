"""Bias correction: rounding shifts the means of a convolution's output channels; its biases take that back.

From images, layer by layer in the graph's order, each measured behind all that are corrected already. Refuses
to know ranges, and what makes a graph int8. Source: Nagel et al., "Data-Free Quantization Through Weight
Equalization and Bias Correction", ICCV 2019 (arXiv 1906.04721), section 4.2, in its empirical form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import ModelProto, NodeProto, numpy_helper

from deploy.progress import track
from export.observe import session_showing
from export.trace import infer

Array = npt.NDArray[Any]
IMAGES = 32


def correct_biases(
    model: ModelProto,
    layers: Mapping[str, NodeProto],
    quantise: Callable[[ModelProto], ModelProto],
    inputs: Sequence[Array],
) -> None:
    """Change the biases of `layers` in `model`, in place; where a layer has none, it gets one.

    Args:
        layers: layer name -> Conv node of `model`, in the graph's order.
        quantise: gives a model in int8 but for the biases, with the same names of nodes and constants.
        inputs: arrays for the graph's one input.
    """
    for node in layers.values():
        _require_bias(model, node)
    wanted = _means(model, [node.output[0] for node in layers.values()], inputs)
    draft = infer(quantise(model))
    both = [{tensor.name: tensor for tensor in each.graph.initializer} for each in (model, draft)]
    drafted = {node.name: node.output[0] for node in draft.graph.node}
    parts = onnx.utils.Extractor(draft)
    for node in track(list(layers.values()), "biases"):
        tensor = drafted[node.name]
        part = parts.extract_model([draft.graph.input[0].name], [tensor])
        shift = _means(part, [tensor], inputs)[tensor] - wanted[node.output[0]]
        for constants in both:
            bias = constants[node.input[2]]
            bias.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(bias) - shift, bias.name))


def spread(inputs: Iterable[Array], most: int = IMAGES) -> list[Array]:
    """At most `most` of them, evenly spaced over all; never more than twice as many are held."""
    kept: list[Array] = []
    step = 1
    for index, array in enumerate(inputs):
        if index % step:
            continue
        kept.append(array)
        if len(kept) == 2 * most:
            kept, step = kept[::2], 2 * step
    return kept[:: -(-len(kept) // most)] if kept else kept


def _require_bias(model: ModelProto, node: NodeProto) -> None:
    if len(node.input) == 2:
        (channels,) = {t.dims[0] for t in model.graph.initializer if t.name == node.input[1]}
        name = f"{node.input[1]}_shift"
        model.graph.initializer.append(numpy_helper.from_array(np.zeros(channels, np.float32), name))
        node.input.append(name)


def _means(model: ModelProto, names: Sequence[str], inputs: Sequence[Array]) -> dict[str, Array]:
    """Tensor -> `[C]` float32, the mean over images and places of each channel."""
    session = session_showing(model, names)
    feed = model.graph.input[0].name
    totals = {name: np.zeros(1) for name in names}
    for array in inputs:
        for name, value in zip(names, session.run(names, {feed: array}), strict=True):
            totals[name] = totals[name] + value.mean((0, 2, 3), dtype=np.float64)
    return {name: (total / len(inputs)).astype(np.float32) for name, total in totals.items()}
