"""ExecuTorch: one .pte file for Android, iOS and embedded Linux, its arithmetic delegated to XNNPACK.

int8 quantises dense convolutions only, but for the first (PT2E, one scale a channel), with ranges from
calibration images; depthwise ones cost 1.3 points of mIoU. What XNNPACK does not take (argmax, reductions,
the copies around batched products) runs in the portable kernels, so the number of delegated parts is limited.
Refuses to know devices; they run the file by the native runner.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from export.graphrules import GraphRules, Most
from export.targets import Budget, BuildContext, Support, missing_packages

if TYPE_CHECKING:
    from export.precision_plan import PrecisionPlan
    from pipeline.models.labelmap import LabelMapper

NAME = "executorch"
BUDGET = {
    "fp32": Budget(0.999, None, 1e-3, "compare with --target onnxruntime"),
    "int8": Budget(0.95, 1.0, 1.5, "collect more calibration images, or fp32"),
}
PRECISIONS = tuple(BUDGET)
EXTENSION = ".pte"
RUNTIME = "executorch"
MIN_VERSION = "1.5"  # it builds with; a .pte is promised to run on its own release and later ones only
TOOLS = ("executorch", "torchao")
PROOF = "executed"
SUPPORT = Support(batch=True, calibrated=("int8",), plans=True)
RULES = GraphRules(
    allowed="delegate aten::alias_copy aten::amax aten::argmax aten::cat aten::expand_copy aten::reciprocal "
    "aten::split_with_sizes_copy aten::sum aten::unsqueeze_copy dim_order_ops::_to_dim_order_copy",
    most={
        "delegate": Most(3, linear=5, softmax=6, band=1),
        "aten::expand_copy": Most(6, linear=4, softmax=4, band=2),
    },
)
MODEL_FILE, LOGITS_FILE = "model.pte", "logits.pte"


def requires() -> str | None:
    """Why this target cannot build here, or None."""
    return missing_packages("torch", "executorch", "torchao")


def build(net: LabelMapper, context: BuildContext) -> dict[str, Path]:
    """Export, quantise if asked, lower; beside a label map's program one ending at the logits."""
    import torch

    from export.trace import example_input

    example = (example_input(net, context.shape.batch),)
    with _quiet(), _plain_attention(), torch.no_grad():
        graph: Any = torch.export.export(net, example).module()
        if context.precision == "int8":
            graph = _quantise(graph, context)
        path = _lower(graph, example, context.folder / MODEL_FILE)
        if net.output == "labels":
            _lower(_ending_at_logits(graph, net), example, context.folder / LOGITS_FILE)
    return {MODEL_FILE: path}


def count_ops(files: Mapping[str, Path]) -> Counter[str]:
    """Portable kernels by operator, and `delegate`: the parts that XNNPACK takes over."""
    from executorch.exir._serialize._program import deserialize_pte_binary

    (plan,) = deserialize_pte_binary(files[MODEL_FILE].read_bytes()).program.execution_plan
    calls = [instruction.instr_args for chain in plan.chains for instruction in chain.instructions]
    kernels = [plan.operators[call.op_index].name for call in calls if type(call).__name__ == "KernelCall"]
    return Counter({**Counter(kernels), "delegate": len(plan.delegates)})


def expose_logits(files: Mapping[str, Path], net: LabelMapper, folder: Path) -> dict[str, Path]:
    """The program that `build` lowered from the same graph, ending at the logits."""
    return {MODEL_FILE: files[MODEL_FILE].with_name(LOGITS_FILE)}


def _quantise(graph: Any, context: BuildContext) -> Any:
    """What the quantiser names in int8, with ranges from the calibration images; everything else as it is."""
    import torch
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    assert context.calibration is not None, "int8 is listed as calibrated"
    prepared = prepare_pt2e(graph, quantizer(graph, context.plan))
    for frames in context.calibration:
        prepared(torch.from_numpy(frames))
    return convert_pt2e(prepared)


def quantizer(graph: Any, plan: PrecisionPlan | None) -> Any:
    """PT2E's quantiser of dense convolutions, all but the first or those of the plan."""
    import torch
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )

    from export.layers import int8_layers, layer_of

    found = XNNPACKQuantizer()
    convolution = torch.ops.aten.conv2d.default
    found.set_operator_type(convolution, get_symmetric_quantization_config(is_per_channel=True))
    nodes = graph.graph.find_nodes(op="call_function", target=convolution)
    dense = {layer_of(node.args[1].target): node.name for node in nodes if _dense(node)}
    chosen = {dense[layer] for layer in int8_layers(list(dense), plan)}
    found.set_filter_function(lambda node: node.target != convolution or node.name in chosen)
    return found


def _dense(convolution: Any) -> bool:
    """Whether it has one group, the last of its arguments' default."""
    return len(convolution.args) < 7 or convolution.args[6] == 1


def _lower(graph: Any, example: tuple[Any, ...], path: Path) -> Path:
    """Write an fx graph as a program for XNNPACK."""
    import torch
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    program = torch.export.export(graph, example)
    lowered = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()]).to_executorch()
    path.write_bytes(lowered.buffer)
    return path


def _ending_at_logits(graph: Any, net: LabelMapper) -> Any:
    """A copy of the graph that returns the head's logits, the last tensor of their shape."""
    import copy

    cut = copy.deepcopy(graph)
    shape = net.logits_shape
    heads = [
        node for node in cut.graph.nodes if tuple(getattr(node.meta.get("val"), "shape", ()))[1:] == shape
    ]
    (output,) = cut.graph.find_nodes(op="output")
    output.args = ((_dequantised(heads[-1]),),)
    cut.graph.eliminate_dead_code()
    cut.recompile()
    return cut


def _dequantised(node: Any) -> Any:
    """What the rounding of an int8 network makes of the node; itself where nothing is rounded."""
    for user in node.users:
        if "quantize_per_tensor" in str(user.target):
            return _dequantised(user)
    return node


@contextmanager
def _plain_attention() -> Iterator[None]:
    """The softmax core as two products and a softmax instead of torch's fused operator.

    Its decomposition guards against masked rows that do not exist here, with operators XNNPACK lacks, and has
    other strides than the fused kernel, which a second torch.export then trips over. torch's function itself
    stays: ExecuTorch's own passes call it.
    """
    from torch.nn.functional import softmax

    from pipeline.models import attention

    def plain(q: Any, k: Any, v: Any, scale: float | None = None) -> Any:
        q = q * (scale or q.shape[-2] ** -0.5)
        return v @ softmax(q.transpose(-1, -2) @ k, dim=-1).transpose(-1, -2)

    fused = attention.softmax_attention
    attention.softmax_attention = plain
    try:
        yield
    finally:
        attention.softmax_attention = fused


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings that torch.export and the passes after it give about themselves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
