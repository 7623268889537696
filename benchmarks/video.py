"""How close a video's throughput comes to that of inference alone, where every other stage overlaps with it.

`python -m benchmarks.video BUNDLE --threads 2` draws a moving picture as a 30 fps video, and alternates, in
one process (both sides share the session): inference alone on one prepared frame, and the whole chain from
decoding to the encoded overlay. Prints one JSON object: medians over the rounds and their ratio.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from time import perf_counter

import cv2
import numpy as np

from deploy.bundle import load_bundle
from deploy.options import add_bundle, count
from deploy.segmenter import Segmenter
from deploy.video import VideoResult, run_video


def draw_video(path: Path, frames: int, size: tuple[int, int]) -> None:
    """A noisy street of stripes that moves, so that decoding has something to do."""
    height, width = size
    texture = np.random.default_rng(0).integers(0, 256, (height, 2 * width, 3), np.uint8)
    texture = cv2.GaussianBlur(texture, (0, 0), 3)
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"mp4v"), 30, (width, height))
    for number in range(frames):
        left = 4 * number % width
        writer.write(np.ascontiguousarray(texture[:, left : left + width]))
    writer.release()


def alone_fps(segmenter: Segmenter, frames: int) -> float:
    """Frames a second of inference and nothing else."""
    rule = segmenter.bundle.manifest.preprocess
    array = segmenter.prepare(np.full((*rule.size, 3), 127, np.uint8))
    segmenter.session.run(array)
    start = perf_counter()
    for _ in range(frames):
        segmenter.session.run(array)
    return frames / (perf_counter() - start)


def main() -> None:
    """Alternate both and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_bundle(parser)
    parser.add_argument("--frames", type=count, default=150)
    parser.add_argument("--rounds", type=count, default=3)
    args = parser.parse_args()
    if args.threads:
        cv2.setNumThreads(args.threads)
    alone: list[float] = []
    chain: list[VideoResult] = []
    with (
        Segmenter(load_bundle(args.bundle), args.threads) as segmenter,
        tempfile.TemporaryDirectory() as name,
    ):
        clip, size = Path(name) / "clip.mp4", segmenter.bundle.manifest.preprocess.size
        draw_video(clip, args.frames, size)
        for _ in range(args.rounds):
            alone.append(alone_fps(segmenter, args.frames))
            chain.append(run_video(segmenter, clip, Path(name) / "out.mp4", 0.5))
    fps = [result.fps for result in chain]
    ratios = [b / a for a, b in zip(alone, fps, strict=True)]
    figures = {
        "size": size, "threads": segmenter.threads, "frames": args.frames,
        "inference_alone_fps": statistics.median(alone), "video_fps": statistics.median(fps),
        "ratio": statistics.median(ratios), "ratios": ratios, "stages_ms": chain[-1].stages_ms,
    }  # fmt: skip
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
