"""How close a video's throughput comes to that of inference alone, where every other stage overlaps with it.

`python -m benchmarks.video BUNDLE --threads 2` draws a moving picture as a 30 fps video, and alternates, in
one process: inference alone on one prepared frame (one network of all threads, then networks side by side),
and the whole chain from decoding to the encoded overlay. Prints one JSON object: medians over the rounds, and
the median ratio of the chain to the faster of the two.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter

import cv2
import numpy as np

from deploy.bundle import load_bundle
from deploy.options import add_bundle, count
from deploy.runtimes import default_threads
from deploy.segmenter import Segmenter
from deploy.video import run_video, streams


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


def alone_fps(networks: Sequence[Segmenter], frames: int) -> float:
    """Frames a second of inference and nothing else, by all networks at once."""
    rule = networks[0].bundle.manifest.preprocess
    array = networks[0].prepare(np.full((*rule.size, 3), 127, np.uint8))
    share = frames // len(networks)

    def work(network: Segmenter) -> None:
        for _ in range(share):
            network.session.run(array)

    with ThreadPoolExecutor(len(networks)) as pool:
        start = perf_counter()
        list(pool.map(work, networks))
        return share * len(networks) / (perf_counter() - start)


def main() -> None:
    """Alternate all and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_bundle(parser)
    parser.add_argument("--frames", type=count, default=150)
    parser.add_argument("--rounds", type=count, default=3)
    args = parser.parse_args()
    threads = args.threads or default_threads()
    cv2.setNumThreads(threads)
    bundle = load_bundle(args.bundle, domain=args.domain)
    figures: dict[str, list[float]] = {"one_network_fps": [], "side_by_side_fps": [], "video_fps": []}
    with ExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory())
        whole = stack.enter_context(Segmenter(bundle, threads))
        networks = [stack.enter_context(Segmenter(bundle, n)) for n in streams(threads)]
        clip = Path(name) / "clip.mp4"
        draw_video(clip, args.frames, bundle.manifest.preprocess.size)
        for _ in range(args.rounds):
            figures["one_network_fps"].append(alone_fps([whole], args.frames))
            figures["side_by_side_fps"].append(alone_fps(networks, args.frames))
            result = run_video(networks, clip, Path(name) / "out.mp4", 0.5)
            figures["video_fps"].append(result.fps)
    best = map(max, figures["one_network_fps"], figures["side_by_side_fps"])
    ratios = [video / alone for video, alone in zip(figures["video_fps"], best, strict=True)]
    medians = {key: statistics.median(values) for key, values in figures.items()}
    order = {"threads": threads, "networks": len(networks), "frames": args.frames, "rounds": args.rounds}
    print(json.dumps({**order, **medians, "ratio": statistics.median(ratios), "stages_ms": result.stages_ms}))


if __name__ == "__main__":
    main()
