"""Stages that overlap: each in a thread of its own, with short queues between them, results in order.

Pays where stages leave Python (OpenCV and runtimes do) and one of them is much slower than the others: the
throughput is then nearly that stage's alone. Memory is bounded by the queues. Refuses to know what flows.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from threading import Event, Thread
from time import perf_counter_ns
from typing import Any

DEPTH = 2  # items that wait between two stages
_TICK_S = 0.1


@dataclass(frozen=True)
class _Failed:
    """What a stage raised, on its way to the consumer."""

    error: BaseException


class _End:
    """After the last item."""


class Flow:
    """Runs items through stages; iterate over it for the results.

    Args:
        items: taken one by one in a thread.
        stages: functions of one item, applied in order.

    `busy_ns` says how long the source and each stage worked. Leaving the loop early, by an error or Ctrl-C,
    ends all threads; an error within a stage is raised in the loop.
    """

    def __init__(self, items: Iterable[Any], stages: Sequence[Callable[[Any], Any]]) -> None:
        self.busy_ns = [0] * (len(stages) + 1)
        self._items, self._stages, self._stopped = items, stages, Event()

    def __iter__(self) -> Iterator[Any]:
        queues: list[queue.Queue[Any]] = [queue.Queue(DEPTH) for _ in self.busy_ns]
        threads = [Thread(target=self._take, args=(queues[0],), daemon=True)]
        threads += [
            Thread(target=self._work, args=(number, stage, queues[number], queues[number + 1]), daemon=True)
            for number, stage in enumerate(self._stages)
        ]
        for thread in threads:
            thread.start()
        try:
            while not isinstance(item := self._get(queues[-1]), _End):
                if isinstance(item, _Failed):
                    raise item.error
                yield item
        finally:
            self._stopped.set()
            for thread in threads:
                thread.join()

    def _take(self, out: queue.Queue[Any]) -> None:
        """The source's thread."""
        source = iter(self._items)
        while not self._stopped.is_set():
            start = perf_counter_ns()
            try:
                item = next(source, _End())
            except BaseException as error:
                item = _Failed(error)
            self.busy_ns[0] += perf_counter_ns() - start
            self._put(out, item)
            if isinstance(item, (_End, _Failed)):
                return

    def _work(
        self, number: int, stage: Callable[[Any], Any], source: queue.Queue[Any], out: queue.Queue[Any]
    ) -> None:
        """One stage's thread."""
        while True:
            item = self._get(source)
            if not isinstance(item, (_End, _Failed)):
                start = perf_counter_ns()
                try:
                    item = stage(item)
                except BaseException as error:
                    item = _Failed(error)
                self.busy_ns[number + 1] += perf_counter_ns() - start
            self._put(out, item)
            if isinstance(item, (_End, _Failed)):
                return

    def _get(self, source: queue.Queue[Any]) -> Any:
        while not self._stopped.is_set():
            try:
                return source.get(timeout=_TICK_S)
            except queue.Empty:
                continue
        return _End()

    def _put(self, out: queue.Queue[Any], item: Any) -> None:
        while not self._stopped.is_set():
            try:
                out.put(item, timeout=_TICK_S)
                return
            except queue.Full:
                continue
