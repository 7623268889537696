"""Offline, in MLPerf's terms: all frames are there at once; only the throughput counts.

Where the artifact takes one frame at a time, the machine is filled by several networks side by side: every
split of the threads into `streams` networks is tried. Refuses to guess which is best. Source of the term:
MLPerf Inference (Reddi et al., ISCA 2020).
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Event
from time import perf_counter

from deploy.bundle import Bundle
from deploy.frames import Frames
from deploy.measurement import OfflineRow
from deploy.preprocess import Image
from deploy.segmenter import Segmenter

DECODED = 8  # frames held in memory and used in turn


def offline(bundle: Bundle, source: Frames, threads: int, frames: int) -> Iterator[OfflineRow]:
    """One row for each split of `threads`, the widest network first; Ctrl-C raises between frames.

    Raises:
        InputError: the runtime refuses the bundle. KeyboardInterrupt.
    """
    images = [source.image(index) for index in range(min(DECODED, len(source)))]
    batch = bundle.manifest.inputs[0].shape[0]
    for streams in range(1, threads + 1):
        if threads % streams == 0:
            yield _row(bundle, images, streams, threads // streams, batch, frames)


def _row(
    bundle: Bundle, images: list[Image], streams: int, threads: int, batch: int, frames: int
) -> OfflineRow:
    share, stop = -(-frames // streams), Event()
    with ExitStack() as stack:
        networks = [stack.enter_context(Segmenter(bundle, threads)) for _ in range(streams)]
        for network in networks:
            network.segment(images[0])
        pool = stack.enter_context(ThreadPoolExecutor(streams))
        stack.callback(stop.set)  # before the pool waits for its threads
        start = perf_counter()
        for done in [pool.submit(_stream, network, images, share, stop) for network in networks]:
            done.result()
        taken_s = perf_counter() - start
    return OfflineRow(streams, threads, batch, share * streams, share * streams / taken_s)


def _stream(network: Segmenter, images: list[Image], frames: int, stop: Event) -> None:
    for index in range(frames):
        if stop.is_set():
            return
        network.segment(images[index % len(images)])
