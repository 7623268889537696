"""`python -m benchmarks.operators`: where the time of our graph goes, and how near it comes to the processor.

ONNX Runtime's profile of the uint8 frame to label map graph, summed by operator type, and its slowest nodes.
For convolutions and matrix products the useful multiply-accumulates follow from the shapes; the GFLOP/s
reached stand beside those of one large matrix product with the same threads. ONNX Runtime pads channels to
its blocks and merges activations and additions into convolutions: their time is in, their arithmetic is not.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks import network, record
from benchmarks.profiled import WHOLE
from benchmarks.rounds import Effort, Figures, alternate, child, medians
from deploy.errors import run_cli
from deploy.manifest import IMAGENET_MEAN, IMAGENET_STD
from deploy.preprocess import Size
from export.trace import infer, static_shape
from pipeline.models.labelmap import LabelMapper

SIZES = ((512, 1024),)
ROUNDS = 5
GEMM_SIDE = 2048
TOP = 15
PRODUCTS = ("MatMul", "FusedMatMul", "Gemm")
Node = dict[str, Any]


def gemm_graph(side: int, path: Path) -> Path:
    """One `side` x `side` matrix product whose right matrix is constant (ONNX Runtime packs it once)."""
    right = np.random.default_rng(0).standard_normal((side, side)).astype(np.float32)
    tensor = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, (side, side))  # noqa: E731
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["left", "right"], ["out"])],
        "gemm",
        [tensor("left")],
        [tensor("out")],
        [numpy_helper.from_array(right, "right")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    return path


def convolutions(model: onnx.ModelProto) -> dict[str, Node]:
    """Each Conv by its own name and by its output's: useful MACs, and what it is in words."""
    inferred = infer(model)
    values = [*inferred.graph.value_info, *inferred.graph.output]
    shapes = {value.name: static_shape(value) for value in values}
    weights = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    found = {}
    for node in model.graph.node:
        if node.op_type == "Conv":
            (out, per_group, *kernel), shape = weights[node.input[1]], shapes[node.output[0]]
            kind = "depthwise " if per_group == 1 and out > 1 else ""
            text = f"Conv {kind}{_by(kernel)}, to {out} x {_by(shape[2:])}"
            entry = {"macs": math.prod(shape) * per_group * math.prod(kernel), "what": text}
            found[node.name] = found[node.output[0]] = entry
    return found


def described(name: str, node: Node, known: Mapping[str, Node]) -> Node:
    """MACs of a profiled node (None: not a convolution or product), and what it is in words."""
    inputs, outputs = node["inputs"], node["outputs"]
    if node["op"] == "Conv":
        return known[name.removesuffix("_nchwc").split("/")[0]]
    shape = outputs[0] if outputs else []
    text = f"{node['op']}, to {_by(shape)}"
    if node["op"] not in PRODUCTS:
        return {"macs": None, "what": text}
    inner = math.prod(inputs[0][-2:]) // shape[-2]  # also where the left matrix is transposed
    return {"macs": math.prod(shape) * inner, "what": f"{text}, inner {inner}"}


def by_operator(nodes: list[Node], peak: float) -> list[Node]:
    """Nodes summed by operator type, slowest first."""
    rows = []
    for op in {node["op"] for node in nodes}:
        mine = [node for node in nodes if node["op"] == op]
        ms, macs = sum(node["ms"] for node in mine), [node["macs"] for node in mine]
        total = None if None in macs else sum(macs)
        rows.append({"op": op, "nodes": len(mine), "ms": ms, "macs": total, **speed(ms, total, peak)})
    return sorted(rows, key=lambda row: -row["ms"])


def speed(ms: float, macs: int | None, peak: float) -> Figures:
    """GFLOP/s (two operations a MAC) and its share of the peak; nothing for nodes that are neither."""
    if macs is None:
        return {}
    gflops = 2 * macs / ms / 1e6
    return {"gflops": gflops, "share_of_peak": gflops / peak}


def measure(size: Size, folder: Path, effort: Effort) -> Node:
    """Profile and peak, alternating; medians over the rounds."""
    net = LabelMapper(network.seeded_model(size), size, IMAGENET_MEAN, IMAGENET_STD)
    graph = network.export_ours(net, folder / "labels")
    frame = network.save_inputs(folder / "frame.npz", image=network.scene(size)[None])
    left = np.random.default_rng(1).standard_normal((GEMM_SIDE, GEMM_SIDE)).astype(np.float32)
    square = network.save_inputs(folder / "square.npz", left=left)
    details = folder / "nodes.json"
    words = [str(graph), str(frame), *effort.words(), "--nodes", str(details)]
    commands = {
        "profile": [sys.executable, "-m", "benchmarks.profiled", *words],
        "gemm": child("graph", gemm_graph(GEMM_SIDE, folder / "gemm.onnx"), square, effort),
    }
    times = alternate(commands, effort.rounds)
    known = convolutions(onnx.load(graph))
    return {
        "size": list(size),
        **summary(times["profile"], times["gemm"], json.loads(details.read_text()), known),
    }


def summary(
    profiles: list[Figures], gemms: list[Figures], details: Mapping[str, Node], known: Mapping[str, Node]
) -> Node:
    """The result's figures from those of the rounds."""
    peaks = [2 * GEMM_SIDE**3 / figures["ms"] / 1e6 for figures in gemms]
    peak, times = float(np.median(peaks)), medians(profiles)
    total = times.pop(WHOLE)
    nodes = [
        {"name": name, "op": details[name]["op"], "ms": ms, **described(name, details[name], known)}
        for name, ms in times.items()
    ]
    slowest = sorted(nodes, key=lambda node: -node["ms"])[:TOP]
    return {
        "ms": total,
        "rounds_ms": [figures[WHOLE] for figures in profiles],
        "outside_nodes_ms": total - sum(times.values()),
        "peak": {"side": GEMM_SIDE, "gflops": peak, "min": min(peaks), "max": max(peaks)},
        "operators": by_operator(nodes, peak),
        "nodes": [{**node, **speed(node["ms"], node["macs"], peak)} for node in slowest],
    }


def _by(shape: Any) -> str:
    return "x".join(map(str, shape))


def main() -> int:
    """Profile every size and write the JSON file."""
    args = record.arguments("operators", "where the time of our graph goes", SIZES, ROUNDS).parse_args()
    cases = []
    for size in args.size or SIZES:
        with TemporaryDirectory(prefix="edgeseg-") as folder:
            cases.append(measure(size, Path(folder), record.effort_of(args)))
    record.write(
        "operators", args, {"model": "b0 linear, cityscapes head, frame to label map", "cases": cases}
    )
    return 0


if __name__ == "__main__":
    sys.exit(run_cli(main))
