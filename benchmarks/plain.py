"""`python -m benchmarks.plain`: our export against the plain export of the same weights, and what follows it.

Two tasks at each size. `network`: normalised image to logits at stride 8. `frame`: uint8 frame to label map
at full size: theirs by normalisation, bicubic upsampling and argmax in PyTorch around the plain graph, ours
by a bundle and the device's own code. Before anything is timed, both sides answer the same input, and an
answer that differs ends the benchmark. Time: alternating fresh processes. Memory: fresh processes that answer
once.

The plain graph is made by torch's TorchScript exporter: the newer one's optimizer drops the epsilon of 1e-15
from the denominators, and every query without a positive product becomes NaN. Both graphs are equally fast.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from benchmarks import network, record
from benchmarks.plain_network import PlainB0
from benchmarks.rounds import Effort, Figures, alternate, child, medians, ratios
from deploy.errors import GateError, run_cli
from deploy.manifest import IMAGENET_MEAN, IMAGENET_STD
from deploy.preprocess import Size
from pipeline.models.efficientvit import EfficientViTSeg
from pipeline.models.labelmap import LabelMapper

SIZES = ((512, 1024), (1024, 2048))
ROUNDS = 5
MOST_LOGIT_ERROR = 1e-3  # largest difference, as a share of the logits' standard deviation
LEAST_AGREEMENT = 0.999  # share of pixels with the same label
SIDES = ("plain", "ours")

Answer = npt.NDArray[Any]
Compare = Callable[[Answer, Answer], Figures]
Commands = dict[str, list[str]]


def compare_logits(plain: Answer, ours: Answer) -> Figures:
    """Largest difference, absolute and as a share of the logits' standard deviation.

    Raises:
        GateError: it is too large, or not a number.
    """
    difference, deviation = float(np.abs(plain - ours).max()), float(plain.std())
    if not difference <= MOST_LOGIT_ERROR * deviation:
        raise GateError(
            "the two exports are not the same function",
            got=f"logits differ by {difference:.2g}, their standard deviation is {deviation:.2g}",
            expected=f"at most {MOST_LOGIT_ERROR} of it",
        )
    return {"max_difference": difference, "share_of_deviation": difference / deviation}


def compare_labels(plain: Answer, ours: Answer) -> Figures:
    """Share of pixels with the same label, and how many labels there are.

    Raises:
        GateError: the share is too small.
    """
    agreement = float((plain == ours).mean())
    if agreement < LEAST_AGREEMENT:
        got = f"{agreement:.4f} of the labels agree"
        raise GateError("the two label maps differ", got=got, expected=f"at least {LEAST_AGREEMENT}")
    return {"agreement": agreement, "labels": len(np.unique(plain))}


def export_twin(model: EfficientViTSeg, image: Tensor, path: Path) -> Path:
    """The plain network with the weights of `model` as ONNX; returns `path`."""
    twin = PlainB0(network.CLASSES).eval()
    twin.load_state_dict(model.state_dict())
    return network.export_plainly(twin, {"image": image}, path, dynamo=False)


def prepare(
    folder: Path, size: Size, model: EfficientViTSeg, rival: EfficientViTSeg, effort: Effort
) -> dict[str, tuple[Commands, Compare]]:
    """Export both sides into `folder`: task -> its two commands and how their answers are compared.

    Args:
        model, rival: whose weights our export and the plain one get (the same, but in tests).
    """
    frame = network.scene(size)
    image = network.normalised(frame)
    plain_graph = export_twin(rival, image, folder / "plain.onnx")
    logits = network.export_ours(
        LabelMapper(model, size, IMAGENET_MEAN, IMAGENET_STD, "float", "logits"), folder / "logits"
    )
    checkpoint = network.save(model, folder / "b0.safetensors")
    bundle = network.build_bundle(checkpoint, size, folder / "bundle")
    as_array = network.save_inputs(folder / "image.npz", image=image)
    as_frame = network.save_inputs(folder / "frame.npz", frame=frame)
    networks = {
        "plain": child("graph", plain_graph, as_array, effort),
        "ours": child("graph", logits, as_array, effort),
    }
    frames = {
        "plain": child("plain", plain_graph, as_frame, effort),
        "ours": child("bundle", bundle, as_frame, effort),
    }
    return {"network": (networks, compare_logits), "frame": (frames, compare_labels)}


def answer_once(commands: Commands, compare: Compare, folder: Path) -> tuple[Figures, dict[str, Figures]]:
    """How far the answers differ, and the memory of processes that answer once."""
    files = {side: folder / f"{side}.npy" for side in SIDES}
    once = {side: [*commands[side], "--once", str(files[side])] for side in SIDES}
    memory = {side: rounds[0] for side, rounds in alternate(once, 1).items()}
    return compare(*(np.load(files[side]) for side in SIDES)), memory


def measure(task: str, commands: Commands, compare: Compare, folder: Path, effort: Effort) -> dict[str, Any]:
    """One case of the result: equality first, then memory and time of both sides, and what ours saves."""
    equality, memory = answer_once(commands, compare, folder)
    times = alternate(commands, effort.rounds)
    case: dict[str, Any] = {"task": task, "equality": equality}
    for side in SIDES:
        loaded, peak = memory[side]["loaded_bytes"], memory[side]["peak_bytes"]
        case[side] = {
            "ms": medians(times[side])["ms"],
            "rounds_ms": [figures["ms"] for figures in times[side]],
            "calls_per_round": medians(times[side])["calls"],
            "loaded_bytes": loaded,
            "peak_bytes": peak,
            "net_bytes": peak - loaded,
        }
    case["speedup"] = ratios(times["plain"], times["ours"], "ms")
    for key in ("peak_bytes", "net_bytes"):
        case[key.replace("bytes", "share")] = case["ours"][key] / case["plain"][key]
    return case


def main() -> int:
    """Measure every size and write the JSON file."""
    args = record.arguments("plain", "our export against the plain one", SIZES, ROUNDS).parse_args()
    effort, cases = record.effort_of(args), []
    for size in args.size or SIZES:
        model = network.seeded_model(size)
        with TemporaryDirectory(prefix="edgeseg-") as name:
            tasks = prepare(Path(name), size, model, model, effort)
            for task, (commands, compare) in tasks.items():
                print(f"{task} at {size[0]}x{size[1]}", file=sys.stderr)
                cases.append({"size": list(size), **measure(task, commands, compare, Path(name), effort)})
    record.write(
        "plain", args, {"model": "b0 linear, cityscapes head", "classes": network.CLASSES, "cases": cases}
    )
    return 0


if __name__ == "__main__":
    sys.exit(run_cli(main))
