"""Stages that overlap: order, bounds, errors, early ends, and that they do run at once."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator

import pytest

from deploy.overlap import DEPTH, Flow


def test_results_come_in_order_through_all_stages() -> None:
    flow = Flow(range(50), [lambda n: n + 1, lambda n: n * 2])
    assert list(flow) == [2 * (n + 1) for n in range(50)]
    assert len(flow.busy_ns) == 3 and all(ns > 0 for ns in flow.busy_ns)
    assert list(Flow([], [str])) == [] and list(Flow([None, 0], [])) == [None, 0]


def test_stages_run_at_once() -> None:
    """The first stage waits with item n + 1 until the second one works on item n."""
    working = [threading.Event() for _ in range(6)]

    def first(n: int) -> int:
        assert n == 0 or working[n - 1].wait(20)
        return n

    def second(n: int) -> int:
        working[n].set()
        return n

    assert list(Flow(range(6), [first, second])) == [0, 1, 2, 3, 4, 5]
    inside = threading.Barrier(2, timeout=20)

    def meet(n: int, who: int) -> int:
        if n == who:
            inside.wait()
        return n

    meeting = [lambda n: meet(n, 1), lambda n: meet(n, 0)]
    assert list(Flow(range(2), meeting)) == [0, 1], "item 0 in the second stage, item 1 in the first"


def test_memory_is_bounded_while_the_consumer_is_slow() -> None:
    taken = itertools.count()
    newest = 0

    def source() -> Iterator[int]:
        nonlocal newest
        for n in range(1000):
            newest = next(taken)
            yield n

    for n in Flow(source(), [int, int]):
        time.sleep(0.01)
        assert newest - n <= 3 * (DEPTH + 2)
        if n == 30:
            break


@pytest.mark.parametrize("where", [0, 1, 2])
def test_an_error_reaches_the_consumer_and_ends_all_threads(where: int) -> None:
    def fail_at_five(n: int) -> int:
        if n == 5:
            raise ValueError("five")
        return n

    source = map(fail_at_five, range(100)) if where == 0 else range(100)
    stages = [fail_at_five if where == number else int for number in (1, 2)]
    before, seen = threading.active_count(), []
    with pytest.raises(ValueError, match="five"):
        for n in Flow(source, stages):
            seen.append(n)
    assert seen == [0, 1, 2, 3, 4] and threading.active_count() == before


def test_leaving_early_ends_all_threads() -> None:
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        for n in Flow(itertools.count(), [int, int, int]):
            if n == 7:
                raise KeyboardInterrupt
    deadline = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.02)
    assert threading.active_count() == before
