"""The demo's loop: newest frame, network, overlay, screen, record; and what the keys do.

Frames of a video come in order and no faster than they are meant to be seen; of a live source the newest one
comes. Refuses to know sources, screens and files.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np

from deploy.bundle import Bundle
from deploy.domain import domain_name
from deploy.errors import InputError
from deploy.live.display import Display
from deploy.live.panel import Figures, draw
from deploy.live.sources import Source
from deploy.postprocess import overlay
from deploy.preprocess import Image
from deploy.segmenter import Segmenter, StageTimes

_RECENT = 30
_STEP = 0.1  # of opacity
_SMALLEST, _LONGEST = 360, 4096  # sides of the picture that is shown
_PAUSE_S = 0.02
Record = Callable[[Image], None]


@dataclass
class Shown:
    """What went by: frames, each one's time from decoded frame to label map, all the seconds; `error`: what
    ended it, if not the source's own end or the user."""

    frames: int = 0
    total_ms: deque[float] = field(default_factory=lambda: deque(maxlen=10_000))
    seconds: float = 0.0
    error: InputError | None = None


class Player:
    """Plays a source through one of several bundles, which the keys choose; a context manager.

    Args:
        bundles: at least one; a network is loaded when it is first chosen.
    """

    def __init__(self, bundles: Sequence[Bundle], threads: int | None, opacity: float) -> None:
        self._bundles, self._threads, self.opacity = list(bundles), threads, opacity
        self._current, self._paused, self._quit = 0, False, False
        self._loaded: dict[int, Segmenter] = {}
        self._stack = ExitStack()

    def play(self, source: Source, display: Display, record: Record | None = None) -> Shown:
        """Until the source ends or fails, or a key or Ctrl-C ends it."""
        shown, recent, start = Shown(), deque[float](maxlen=_RECENT), time.perf_counter()
        try:
            for picture, times in self._pictures(source, display, recent):
                display.show(picture)
                if record:
                    record(picture)
                shown.frames += 1
                shown.total_ms.append(times.total_ns / 1e6)
                if not source.live and not record:
                    _wait(recent, 1 / source.fps)
                recent.append(time.perf_counter())
        except KeyboardInterrupt:
            pass
        except InputError as error:
            shown.error = error
        shown.seconds = time.perf_counter() - start
        return shown

    def press(self, key: str) -> None:
        """q: quit, space: pause, m: next model, d: next domain, + and -: opacity."""
        key = key.lower()
        if key == "q":
            self._quit = True
        elif key == " ":
            self._paused = not self._paused
        elif key in ("+", "=", "-"):
            self.opacity = min(1.0, max(0.0, self.opacity + (-_STEP if key == "-" else _STEP)))
        elif key in ("m", "d"):
            self._current = self._next(by_domain=key == "d")

    @property
    def bundle(self) -> Bundle:
        """The one in use."""
        return self._bundles[self._current]

    def _next(self, by_domain: bool) -> int:
        """The next bundle of the same domain, or the first one of the next."""
        own = domain_name(self.bundle.manifest)
        for step in range(1, len(self._bundles)):
            index = (self._current + step) % len(self._bundles)
            if (domain_name(self._bundles[index].manifest) != own) == by_domain:
                return index
        return self._current

    def _pictures(
        self, source: Source, display: Display, recent: Sequence[float]
    ) -> Iterator[tuple[Image, StageTimes]]:
        frame = None
        while True:
            self.press(display.key())
            while self._paused and not self._quit:
                self._wait_for_key(frame, source, display, recent)
            frame = None if self._quit else source.next()
            if frame is None:
                return
            yield self._picture(frame, source, recent)

    def _wait_for_key(
        self, frame: Image | None, source: Source, display: Display, recent: Sequence[float]
    ) -> None:
        """While paused; what a key changes is shown at once."""
        time.sleep(_PAUSE_S)
        key = display.key()
        self.press(key)
        if key and frame is not None:
            display.show(self._picture(frame, source, recent)[0])

    def _picture(self, frame: Image, source: Source, recent: Sequence[float]) -> tuple[Image, StageTimes]:
        labels, times = self._segmenter().timed(frame)
        manifest = self.bundle.manifest
        picture = _enlarged(overlay(frame, labels, manifest.classes, self.opacity))
        stages = (times.preprocess_ns / 1e6, times.inference_ns / 1e6, times.postprocess_ns / 1e6)
        dropped = source.dropped if source.live else None
        draw(picture, labels, manifest.classes, Figures(_title(self.bundle), _fps(recent), stages, dropped))
        return picture, times

    def _segmenter(self) -> Segmenter:
        if self._current not in self._loaded:
            segmenter = Segmenter(self.bundle, self._threads)
            self._loaded[self._current] = self._stack.enter_context(segmenter)
        return self._loaded[self._current]

    def __enter__(self) -> Player:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()


def _enlarged(picture: Image) -> Image:
    """A whole number of times as large, so that there is room for words; but none that encoders refuse."""
    times = min(-(-_SMALLEST // min(picture.shape[:2])), _LONGEST // max(picture.shape[:2]))
    return np.asarray(np.repeat(np.repeat(picture, times, 0), times, 1)) if times > 1 else picture


def _title(bundle: Bundle) -> str:
    manifest = bundle.manifest
    model = " ".join(str(manifest.provenance.model.get(key, "")) for key in ("variant", "attention")).strip()
    size = "x".join(map(str, manifest.preprocess.size))
    return f"{model or manifest.name}, {manifest.target.runtime} {manifest.target.precision}, {size}"


def _fps(recent: Sequence[float]) -> float:
    """Frames a second over the last ones."""
    span = recent[-1] - recent[0] if recent else 0.0
    return (len(recent) - 1) / span if span > 0 else 0.0


def _wait(recent: Sequence[float], interval_s: float) -> None:
    """Not faster than the frames are meant to be seen."""
    if recent and (rest := recent[-1] + interval_s - time.perf_counter()) > 0:
        time.sleep(rest)
