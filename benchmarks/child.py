"""One process of a comparison: load one contender, run it on one input, print time and memory as JSON.

Contenders: `graph` (an ONNX file on arrays), `bundle` (frame to label map by the device's own code), `plain`
(frame to label map as a plain export is used: normalise, run, bicubic upsampling and argmax in PyTorch). Only
`plain` imports torch. Times are medians of repeated calls after a warm-up; with --once there is a single call
and no time. Memory is the process's peak resident set, and the resident set just before the first call.
Refuses to know what is compared with what.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.memory import resident_bytes
from deploy.memory import own_peak_bytes

Array = npt.NDArray[Any]
Call = Callable[[], Array]
WARM_UP_CALLS, TIMED_CALLS = 2, 3  # at least
WARM_UP_SHARE = 1 / 3  # of the timed seconds
_ERRORS_ONLY = 3


def open_graph(path: Path, threads: int, profile: Path | None = None) -> Any:
    """An ONNX Runtime session with the options that deploy uses; `profile`: prefix of a profile to write."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _ERRORS_ONLY
    if profile is not None:
        options.enable_profiling = True
        options.profile_file_prefix = str(profile)
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def graph(model: Path, source: Path, threads: int) -> Call:
    """`source`: an .npz with the graph's inputs by name -> its first output."""
    session, inputs = open_graph(model, threads), dict(np.load(source))
    return lambda: session.run(None, inputs)[0]


def bundle(model: Path, source: Path, threads: int) -> Call:
    """`source`: an .npz with `frame`, `[H, W, 3]` uint8 -> `[H, W]` uint8."""
    import cv2

    from deploy.bundle import load_bundle
    from deploy.segmenter import Segmenter

    cv2.setNumThreads(threads)
    segmenter, frame = Segmenter(load_bundle(model), threads), np.load(source)["frame"]
    return lambda: segmenter.segment(frame)


def plain(model: Path, source: Path, threads: int) -> Call:
    """As `bundle`, by the plain export and PyTorch's operators, as evaluation scripts of such models do."""
    import torch
    from torch.nn import functional as F

    from deploy.manifest import IMAGENET_MEAN, IMAGENET_STD

    torch.set_num_threads(threads)
    session, frame = open_graph(model, threads), np.load(source)["frame"]
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (IMAGENET_MEAN, IMAGENET_STD))

    @torch.inference_mode()
    def call() -> Array:
        x = torch.from_numpy(frame).permute(2, 0, 1).contiguous().float().div_(255).sub_(mean).div_(std)
        logits = torch.from_numpy(session.run(None, {"image": x[None].numpy()})[0])
        full = F.interpolate(logits, size=frame.shape[:2], mode="bicubic", align_corners=False)
        labels: Array = full.argmax(dim=1)[0].to(torch.uint8).numpy()
        return labels

    return call


CONTENDERS = {"graph": graph, "bundle": bundle, "plain": plain}


def timed(call: Callable[[], object], seconds: float) -> dict[str, float]:
    """Median milliseconds of a call, and of how many, after a warm-up."""
    repeat(call, seconds * WARM_UP_SHARE, WARM_UP_CALLS)
    times = repeat(call, seconds, TIMED_CALLS)
    return {"ms": statistics.median(times) * 1e3, "calls": len(times)}


def repeat(call: Callable[[], object], seconds: float, calls: int) -> list[float]:
    """Seconds of each of at least `calls` calls, which take at least `seconds` in all."""
    times: list[float] = []
    while len(times) < calls or sum(times) < seconds:
        start = perf_counter()
        call()
        times.append(perf_counter() - start)
    return times


def main() -> None:
    """Load, run, print."""
    parser = argparse.ArgumentParser(description="one process of a comparison")
    parser.add_argument("contender", choices=CONTENDERS)
    parser.add_argument("model", type=Path)
    parser.add_argument("source", type=Path)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True, help="of timed calls")
    parser.add_argument("--once", type=Path, metavar="NPY", help="one call; its answer goes to this file")
    args = parser.parse_args()
    call = CONTENDERS[args.contender](args.model, args.source, args.threads)
    loaded = resident_bytes()
    figures: dict[str, float] = {}
    answer = call() if args.once else None
    if not args.once:
        figures = timed(call, args.seconds)
    print(json.dumps({**figures, "loaded_bytes": loaded, "peak_bytes": own_peak_bytes()}))
    if answer is not None:
        np.save(args.once, answer)


if __name__ == "__main__":
    main()
