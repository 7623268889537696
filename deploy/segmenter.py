"""A bundle as one function: decoded frame in, label map at the frame's own size out, with stage times.

Host evaluation and the device run this same path. Refuses to know files, folders and truth.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter_ns
from types import TracebackType
from typing import Any

import numpy.typing as npt

from deploy.bundle import Bundle
from deploy.postprocess import Labels, output_to_labels, to_frame_size
from deploy.preprocess import Image, Size, prepare_input
from deploy.runtimes import default_threads, open_session


@dataclass(frozen=True)
class StageTimes:
    """Nanoseconds spent on one frame, stage by stage."""

    preprocess_ns: int
    inference_ns: int
    postprocess_ns: int

    @property
    def total_ns(self) -> int:
        """Decoded frame to label map."""
        return self.preprocess_ns + self.inference_ns + self.postprocess_ns


class Segmenter:
    """A loaded bundle; a context manager that frees the runtime at the end.

    Args:
        bundle: from `load_bundle`.
        threads: CPU threads of the runtime; None takes every core of this process.

    Raises:
        InputError: the runtime is missing or refuses the bundle.
    """

    def __init__(self, bundle: Bundle, threads: int | None = None) -> None:
        self.bundle = bundle
        self.threads = threads or default_threads()
        self.session = open_session(bundle, self.threads)
        self._upsample = str(bundle.manifest.target.options.get("upsample", "bilinear"))

    def segment(self, image: Image) -> Labels:
        """`[H, W, 3]` uint8 RGB frame -> `[H, W]` uint8 label map."""
        return self.timed(image)[0]

    def timed(self, image: Image) -> tuple[Labels, StageTimes]:
        """`segment`, and what each stage took."""
        start = perf_counter_ns()
        array = self.prepare(image)
        prepared = perf_counter_ns()
        output = self.session.run(array)
        inferred = perf_counter_ns()
        labels = self.finish(output, (image.shape[0], image.shape[1]))
        del array, output  # freeing them is a part of the work, too
        finished = perf_counter_ns()
        return labels, StageTimes(prepared - start, inferred - prepared, finished - inferred)

    def prepare(self, image: Image) -> npt.NDArray[Any]:
        """`[H, W, 3]` uint8 RGB frame -> the network's input."""
        return prepare_input(image, self.bundle.manifest.preprocess, self.bundle.manifest.inputs[0])

    def finish(self, output: npt.NDArray[Any], frame_size: Size) -> Labels:
        """The network's output -> `[H, W]` uint8 label map at the frame's size."""
        manifest = self.bundle.manifest
        labels = output_to_labels(output, manifest.outputs[0], manifest.preprocess.size, self._upsample)
        return to_frame_size(labels, manifest.preprocess, frame_size)

    def close(self) -> None:
        """Free the runtime's network."""
        self.session.close()

    def __enter__(self) -> Segmenter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
