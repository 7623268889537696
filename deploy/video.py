"""`run BUNDLE VIDEO --out DIR`: a video with the classes' colours over it, DIR/overlays/NAME.mp4.

Decoding, preprocessing, inference, overlay and encoding overlap (`deploy/overlap.py`). Refuses to drop
frames: every one is segmented, in order. Codecs are OpenCV's.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from time import perf_counter, perf_counter_ns
from typing import Any

import cv2
import numpy as np

from deploy.bundle import Bundle
from deploy.errors import InputError
from deploy.files import require_another_file
from deploy.imagefile import LOG_SILENT, set_log_level
from deploy.manifest import MAX_SIDE
from deploy.overlap import Flow
from deploy.postprocess import overlay
from deploy.preprocess import Image
from deploy.progress import Bar
from deploy.runtimes import default_threads
from deploy.segmenter import Segmenter

os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")  # none of FFmpeg's own lines on stderr,
set_log_level(LOG_SILENT)  # nor OpenCV's: what a user must know is one error of ours
CODECS = ("avc1", "mp4v")  # H.264, which browsers play, where this OpenCV has an encoder for it
SUFFIXES = (".mp4", ".m4v", ".mov", ".avi", ".mkv", ".webm")
MOST_STREAMS = 4
UNPLAYABLE = "convert it to MP4; a file that was cut off has to be copied again"
STAGES = ("decode", "preprocess", "inference", "overlay", "encode")


@dataclass(frozen=True)
class VideoResult:
    """How fast a video went: frames a second over all, and each stage's mean time per frame."""

    frames: int
    fps: float
    stages_ms: dict[str, float]


def is_video(path: Path) -> bool:
    """By its suffix; OpenCV then knows the rest."""
    return path.suffix.lower() in SUFFIXES and path.is_file()


def run(bundle: Bundle, args: argparse.Namespace) -> int:
    """The command, for an input that is a video."""
    target = args.out / "overlays" / f"{args.input.stem}.mp4"
    require_another_file(target, args.input)
    threads = streams(args.threads or default_threads())
    with ExitStack() as stack:
        networks = [stack.enter_context(Segmenter(bundle, count)) for count in threads]
        result = run_video(networks, args.input, target, args.opacity)
    stages = ", ".join(f"{name} {value:.1f}" for name, value in result.stages_ms.items())
    print(f"{result.frames} frames, {result.fps:.1f} frames/s ({stages} ms, overlapping) -> {target}")
    return 0


def streams(threads: int) -> list[int]:
    """Threads of each of up to four networks that work on frames side by side.

    One network of all threads waits at every layer for its slowest thread, which the other stages slow down.
    """
    count = max(n for n in range(1, MOST_STREAMS + 1) if threads % n == 0)
    return [threads // count] * count


def run_video(networks: Sequence[Segmenter], source: Path, target: Path, opacity: float) -> VideoResult:
    """Segment every frame of `source` and write the overlays to `target`, which appears when it is complete.

    Raises:
        InputError: a file that is no video, or a place that cannot be written. KeyboardInterrupt.
    """
    with (
        _reader(source) as (video, size, fps),
        writer(target, size, fps) as encoder,
        ThreadPoolExecutor(len(networks)) as pool,
    ):
        chain = Chain(networks, pool, opacity)
        flow = Flow(_frames(video, source, size), [*chain.stages, encoder.write])
        start, done = perf_counter(), 0
        with Bar("run", max(1.0, video.get(cv2.CAP_PROP_FRAME_COUNT))) as bar:
            for _ in flow:
                done += 1
                bar.show(done)
        taken_s = perf_counter() - start
        if not done:
            raise InputError(f"{source} holds no frame that can be decoded", fix="convert it to MP4")
    decode, prepare, _, _, paint, encode = flow.busy_ns
    return VideoResult(
        done, done / taken_s, _means((decode, prepare, sum(chain.inference_ns), paint, encode), done)
    )


class Chain:
    """The stages between decoding and encoding; frames stay in order, whichever network is done first."""

    def __init__(self, networks: Sequence[Segmenter], pool: ThreadPoolExecutor, opacity: float) -> None:
        self.inference_ns: list[int] = []
        self.stages: list[Callable[[Any], Any]] = [self._prepare, self._submit, self._wait, self._paint]
        self._free: SimpleQueue[Segmenter] = SimpleQueue()
        self._any, self._pool, self._opacity = networks[0], pool, opacity
        for network in networks:
            self._free.put(network)

    def _prepare(self, image: Image) -> tuple[Image, Any]:
        return image, self._any.prepare(image)

    def _submit(self, pair: tuple[Image, Any]) -> tuple[Image, Future[Any]]:
        return pair[0], self._pool.submit(self._infer, pair[1])

    def _infer(self, array: Any) -> Any:
        network = self._free.get()
        try:
            start = perf_counter_ns()
            output = network.session.run(array)
            self.inference_ns.append(perf_counter_ns() - start)
            return output
        finally:
            self._free.put(network)

    def _wait(self, pair: tuple[Image, Future[Any]]) -> tuple[Image, Any]:
        return pair[0], pair[1].result()

    def _paint(self, pair: tuple[Image, Any]) -> Image:
        image, output = pair
        labels = self._any.finish(output, (image.shape[0], image.shape[1]))
        picture = overlay(image, labels, self._any.bundle.manifest.classes, self._opacity)
        return np.asarray(cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), np.uint8)


def _means(busy_ns: Sequence[int], frames: int) -> dict[str, float]:
    return {name: ns / 1e6 / frames for name, ns in zip(STAGES, busy_ns, strict=True)}


def open_capture(source: str | int, fix: str, *backend: int) -> Any:
    """OpenCV's capture of a file, a camera's number, an address or a pipeline.

    Raises:
        InputError: it gives no picture, or a larger one than can be taken.
    """
    capture = cv2.VideoCapture(source, *backend)
    if not capture.isOpened() or not all(1 <= side <= MAX_SIDE for side in picture_size(capture)):
        capture.release()
        raise InputError(f"cannot open {source}", got="no picture, or an unknown codec", fix=fix)
    return capture


def picture_size(capture: Any) -> tuple[int, int]:
    """(height, width) of an OpenCV capture's pictures."""
    return int(capture.get(cv2.CAP_PROP_FRAME_HEIGHT)), int(capture.get(cv2.CAP_PROP_FRAME_WIDTH))


def frame_rate(capture: Any) -> float:
    """Frames a second of an OpenCV capture; 30 where what it tells cannot be."""
    fps = float(capture.get(cv2.CAP_PROP_FPS))
    return fps if 0 < fps <= 1000 else 30.0


def to_rgb(pixels: Any) -> Image:
    """`[H, W, 3]` uint8 as OpenCV decodes it (BGR) -> RGB."""
    return np.asarray(cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB), np.uint8)


@contextmanager
def _reader(path: Path) -> Iterator[tuple[Any, tuple[int, int], float]]:
    """(the open video, (height, width), frames a second)."""
    video = open_capture(str(path), UNPLAYABLE)
    try:
        yield video, picture_size(video), frame_rate(video)
    finally:
        video.release()


@contextmanager
def writer(path: Path, size: tuple[int, int], fps: float) -> Iterator[Any]:
    """An encoder whose file gets its name at the end, and is removed if the block fails."""
    temporary = path.with_name(f".{path.stem}.part{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write {path}", got=error.strerror) from error
    encoder = _encoder(temporary, size, fps)
    try:
        if not encoder.isOpened():
            got = f"no encoder of this OpenCV starts for {size[1]}x{size[0]} pixels"
            raise InputError(f"cannot write {path}", got=got, fix="take smaller pictures, or another OpenCV")
        yield encoder
        encoder.release()
        os.replace(temporary, path)
    finally:
        encoder.release()
        temporary.unlink(missing_ok=True)


def _encoder(path: Path, size: tuple[int, int], fps: float) -> Any:
    """By the first codec that this OpenCV can write."""
    for codec in CODECS:
        encoder = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*codec), fps, (size[1], size[0]))
        if encoder.isOpened():
            break
    return encoder


def _frames(video: Any, path: Path, size: tuple[int, int]) -> Iterator[Image]:
    """`[H, W, 3]` uint8 RGB, one after the other."""
    while True:
        found, pixels = video.read()
        if not found:
            return
        if pixels.shape[:2] != size:
            raise InputError(f"{path}: a frame of another size", got=pixels.shape[:2], expected=size)
        yield to_rgb(pixels)
