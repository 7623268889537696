"""From a LabelMapper to one ONNX file: fixed size, no Resize, always the same bytes, nothing of this machine.

torch's exporter leaves stack traces with file paths in the graph; they are removed. What it must not change
is checked on the graph itself: every dimension is a number, nothing resizes, and the guard of every linear
attention's denominator is still there (the exporter's optimizer drops tiny added constants without a word).
Refuses to know: precisions, bundles, how the file is run.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import onnx
import torch
from onnx import ModelProto, NodeProto, ValueInfoProto, numpy_helper
from torch import Tensor

from deploy.errors import GateError
from deploy.files import atomic_write_bytes
from export.targets import Shape
from pipeline.models.attention import MultiScaleAttention
from pipeline.models.labelmap import LabelMapper

OPSET = 20
INPUT_NAME = "image"
ONE_FRAME = Shape("uint8", "labels")
_UNNEEDED = ("doc_string", "metadata_props")


def to_onnx(net: LabelMapper, path: Path, shape: Shape = ONE_FRAME, fold: bool = True) -> Path:
    """Write `net` as ONNX with one input `image` and one output named after `net.output`; returns `path`.

    Args:
        shape: frames a call; its ends are the network's.
        fold: whether constants may be computed from the weights, as BatchNorm's into a convolution's. If not,
            every weight stands in the graph as it is, under the network's own name for it.

    Raises:
        GateError: the exported graph breaks one of the rules above.
    """
    # an example of one frame would make the exporter take the number for a constant
    frames = 2 if shape.dynamic else shape.batch
    with _quiet():
        program = torch.onnx.export(
            net,
            (example_input(net, frames),),
            dynamic_shapes=({0: torch.export.Dim("batch", min=1)},) if shape.dynamic else None,
            dynamo=True,
            opset_version=OPSET,
            input_names=[INPUT_NAME],
            output_names=[net.output],
            optimize=fold,
            verbose=False,
        )
        assert program is not None, "dynamo=True returns a program"
        model = program.model_proto if fold else _optimised_around_weights(program.model_proto)
    strip(model)
    check(model, net, shape.dynamic)
    return write(model, path)


def _optimised_around_weights(model: ModelProto) -> ModelProto:
    """The exporter's own optimisation with the weights out of its reach: meanwhile they are inputs."""
    import onnxscript.optimizer

    weights = list(model.graph.initializer)
    model.graph.input.extend(
        onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims) for tensor in weights
    )
    del model.graph.initializer[:]
    model = onnxscript.optimizer.optimize(model)
    del model.graph.input[1:]
    model.graph.initializer.extend(weights)
    return model


def example_input(net: LabelMapper, batch: int = 1) -> Tensor:
    """Zeros of the network's input: `[batch, H, W, 3]` uint8 or `[batch, 3, H, W]` float32."""
    height, width = net.size
    if net.input == "uint8":
        return torch.zeros(batch, height, width, 3, dtype=torch.uint8)
    return torch.zeros(batch, 3, height, width)


def to_torchscript(net: LabelMapper, path: Path) -> Path:
    """Write `net` as TorchScript; returns `path`.

    It is traced from torch.export's graph: there the sizes are numbers already, as the trace needs them.
    """
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")
        example = example_input(net)
        program = torch.export.export(net, (example,))
        script = torch.jit.trace(program.module(), example, check_trace=False)  # type: ignore[no-untyped-call]
        script.save(str(path))
    return path


def write(model: ModelProto, path: Path) -> Path:
    """Serialise with a fixed field order, so that equal graphs are equal files."""
    atomic_write_bytes(path, model.SerializeToString(deterministic=True))
    return path


def strip(message: object) -> None:
    """Remove documentation strings and metadata (stack traces, paths) from a protobuf message and below."""
    for field, value in message.ListFields():  # type: ignore[attr-defined]
        if field.name in _UNNEEDED:
            message.ClearField(field.name)  # type: ignore[attr-defined]
        elif field.message_type is not None:
            for part in value if hasattr(value, "__len__") else (value,):
                strip(part)


def check(model: ModelProto, net: LabelMapper, dynamic: bool = False) -> None:
    """Raise GateError unless the graph is valid, static (but for the batch), free of Resize, and guarded."""
    inferred = infer(model)
    problems = [
        *(
            f"{node.op_type} {node.name}"
            for node in model.graph.node
            if node.op_type in ("Resize", "Upsample")
        ),
        *(f"dynamic shape of {name}" for name in _without_shape(inferred, dynamic)),
    ]
    expected = sum(isinstance(m, MultiScaleAttention) and m.core == "linear" for m in net.model.modules())
    found = len(guarded_divisions(model))
    if found != expected:
        problems.append(f"{found} guarded divisions for {expected} linear attentions")
    if problems:
        raise GateError(
            "exported graph breaks the rules",
            got="; ".join(problems[:4]),
            expected="no Resize, fixed sizes, max(denominator, eps) in each linear attention",
            fix="use the pinned torch and onnxscript",
        )


def _without_shape(model: ModelProto, dynamic: bool) -> list[str]:
    """Tensors without fixed sizes; of a dynamic graph only the ends are asked, and only behind the batch."""
    if dynamic:
        return [
            value.name
            for value in (*model.graph.input, *model.graph.output)
            if not all((sides(value) or (0, 0))[1:])
        ]
    return [value.name for value in _values(model) if static_shape(value) is None]


def infer(model: ModelProto) -> ModelProto:
    """The model after onnx's full check and strict shape inference.

    Raises:
        GateError: onnx refuses it.
    """
    try:
        onnx.checker.check_model(model, full_check=True)
        return onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise GateError("exported graph is not valid ONNX", got=error) from error


def static_shape(value: ValueInfoProto) -> tuple[int, ...] | None:
    """A tensor's shape, or None where it has no shape or a dimension that is not a number."""
    known = sides(value)
    return known if known is not None and all(known) else None


def sides(value: ValueInfoProto) -> tuple[int, ...] | None:
    """A tensor's shape with 0 for a dimension that is not a number; None where it has no shape."""
    tensor = value.type.tensor_type
    dimensions = tuple(dim.dim_value if dim.HasField("dim_value") else 0 for dim in tensor.shape.dim)
    return dimensions if tensor.HasField("shape") else None


def guarded_divisions(model: ModelProto) -> list[NodeProto]:
    """Div nodes whose denominator is max(x, positive constant)."""
    makers = {output: node for node in model.graph.node for output in node.output}
    constants = {tensor.name: tensor for tensor in model.graph.initializer}

    def floor(node: NodeProto | None) -> float:
        if node is None or node.op_type not in ("Clip", "Max"):
            return 0.0
        bounds = [numpy_helper.to_array(constants[name]) for name in node.input[:2] if name in constants]
        return min((float(bound.min()) for bound in bounds), default=0.0)

    divisions = [node for node in model.graph.node if node.op_type == "Div"]
    return [node for node in divisions if floor(makers.get(node.input[1])) > 0]


def cut_at_logits(path: Path, net: LabelMapper, out: Path) -> Path:
    """The same graph ending at the head's logits: the last tensor `[B, C, ceil(H/8), ceil(W/8)]`.

    It serves to measure errors of a label-map artifact in the artifact's own graph.
    """
    model = onnx.load(path)
    shape = net.logits_shape
    values = {value.name: value for value in _values(infer(model))}
    heads = [name for node in model.graph.node for name in node.output if name in values]
    last = [name for name in heads if (sides(values[name]) or ())[1:] == shape][-1]
    logits = onnx.ValueInfoProto()
    logits.CopyFrom(values[last])
    logits.name = "logits"
    model.graph.node.append(onnx.helper.make_node("Identity", [last], ["logits"]))
    del model.graph.output[:]
    model.graph.output.append(logits)
    onnx.checker.check_model(model)
    return write(model, out)


def _values(model: ModelProto) -> list[ValueInfoProto]:
    graph = model.graph
    return [*graph.input, *graph.value_info, *graph.output]


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's notes on packages that are not used here."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
