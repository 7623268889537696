"""`python -m benchmarks.scaling`: linear against softmax attention as the image grows.

Time and peak memory of the whole network (B0, normalised image to logits) and of the attention core alone
(queries, keys and values of the stride-16 stage to what they attend to), with the exponents e of
time ~ tokens^e fitted to them. What would not fit into memory is not run, and the result says so.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks import network, record
from benchmarks.memory import available_bytes
from benchmarks.rounds import Effort, Figures, alternate, child, medians, ratios
from deploy.errors import run_cli
from deploy.manifest import IMAGENET_MEAN, IMAGENET_STD
from deploy.preprocess import Size
from pipeline.models.attention import CORES
from pipeline.models.efficientvit import VARIANTS
from pipeline.models.labelmap import LabelMapper
from pipeline.models.upsample import stage_size

SIZES = ((256, 256), (256, 512), (512, 512), (512, 1024), (768, 1536), (1024, 2048))
ROUNDS = 5
KINDS = ("linear", "softmax")
PARTS = ("network", "core")
STRIDE = 16
DIM = VARIANTS["b0"].dim
HEADS = 2 * VARIANTS["b0"].widths[3] // DIM  # of both sets of tokens


class Core(nn.Module):
    """An attention core as a module."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Three `[1, heads, d, N]` -> the same shape."""
        return CORES[self.kind](q, k, v)


def tokens_of(size: Size) -> int:
    """Tokens at stride 16."""
    height, width = stage_size(size, STRIDE)
    return height * width


def reason_not_to_run(kind: str, tokens: int, available: int) -> str | None:
    """Why a case does not fit into `available` bytes, or None: softmax holds its weights twice."""
    needed = 2 * 4 * HEADS * tokens**2 if kind == "softmax" else 0
    if needed <= available:
        return None
    weights = f"{HEADS} x {tokens} x {tokens} weights, twice"
    return f"not run: {weights} are {needed / 1e9:.1f} GB, {available / 1e9:.1f} GB are free"


def prepare(part: str, kind: str, size: Size, folder: Path, effort: Effort) -> list[str]:
    """Export one case into a new folder; returns the command of its process."""
    if part == "network":
        net = LabelMapper(
            network.seeded_model(size, kind), size, IMAGENET_MEAN, IMAGENET_STD, "float", "logits"
        )
        path = network.export_ours(net, folder)
        arrays = {"image": network.normalised(network.scene(size))}
    else:
        folder.mkdir()
        draw = torch.Generator().manual_seed(0)
        arrays = {name: torch.randn(1, HEADS, DIM, tokens_of(size), generator=draw) for name in "qkv"}
        path = network.export_plainly(Core(kind), arrays, folder / "core.onnx")
    return child("graph", path, network.save_inputs(folder / "inputs.npz", **arrays), effort)


def measure(sizes: Sequence[Size], folder: Path, effort: Effort) -> list[dict[str, Any]]:
    """The cases of the result. A round runs all of them, so that a slow minute slows no size alone."""
    plan = [(part, size) for size in sizes for part in PARTS]
    available = available_bytes()
    reasons = {
        (kind, size): reason_not_to_run(kind, tokens_of(size), available) for kind in KINDS for size in sizes
    }
    commands = {}
    for part, size in plan:
        for kind in KINDS:
            if reasons[kind, size] is None:
                name = _name(part, kind, size)
                commands[name] = prepare(part, kind, size, folder / name, effort)
    times = alternate(commands, effort.rounds)
    return [_case(part, size, times, reasons) for part, size in plan]


def _name(part: str, kind: str, size: Size) -> str:
    return f"{part}-{kind}-{size[0]}x{size[1]}"


def _case(part: str, size: Size, times: Mapping[str, Sequence[Figures]], reasons: Any) -> dict[str, Any]:
    """Both kinds at one size, or why one was not run."""
    case: dict[str, Any] = {"part": part, "size": list(size), "tokens": tokens_of(size)}
    rounds = [times.get(_name(part, kind, size)) for kind in KINDS]
    for kind, mine in zip(KINDS, rounds, strict=True):
        case[kind] = _figures(mine) if mine else {"not_run": reasons[kind, size]}
    linear, softmax = rounds
    case["softmax_over_linear"] = ratios(softmax, linear, "ms") if linear and softmax else None
    return case


def _figures(rounds: Sequence[Figures]) -> dict[str, Any]:
    middle = medians(rounds)
    return {
        "ms": middle["ms"],
        "rounds_ms": [figures["ms"] for figures in rounds],
        "peak_bytes": middle["peak_bytes"],
        "net_bytes": middle["peak_bytes"] - middle["loaded_bytes"],
    }


def exponent(cases: Sequence[dict[str, Any]], kind: str) -> float | None:
    """e of time ~ tokens^e, by least squares on logarithms; None for fewer than two sizes."""
    points = [(case["tokens"], case[kind]["ms"]) for case in cases if "ms" in case[kind]]
    if len({tokens for tokens, _ in points}) < 2:
        return None
    tokens, times = np.log(np.array(points)).T
    return float(np.polyfit(tokens, times, 1)[0])


def exponents(cases: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Part -> kind -> exponent over all sizes, and over the larger half, where constant costs matter less."""
    result: dict[str, Any] = {}
    for part in PARTS:
        mine = sorted((case for case in cases if case["part"] == part), key=lambda case: case["tokens"])
        large = mine[len(mine) // 2 :]
        result[part] = {
            kind: {"all": exponent(mine, kind), "larger_half": exponent(large, kind)} for kind in KINDS
        }
    return result


def main() -> int:
    """Measure every size and write the JSON file."""
    args = record.arguments("scaling", "linear against softmax attention", SIZES, ROUNDS).parse_args()
    with TemporaryDirectory(prefix="edgeseg-") as folder:
        cases = measure(args.size or SIZES, Path(folder), record.effort_of(args))
    core = {"heads": HEADS, "dim": DIM, "stride": STRIDE}
    figures = {"model": "b0, cityscapes head", "core": core, "cases": cases, "exponents": exponents(cases)}
    record.write("scaling", args, figures)
    return 0


if __name__ == "__main__":
    sys.exit(run_cli(main))
