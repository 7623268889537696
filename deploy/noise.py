"""Whether a machine was quiet while something was timed: steady medians, no other work, no clock that jumped.

A median is only worth quoting where another run would give it again; this says where it would not. Refuses to
correct a figure. Source of the processor's times: the kernel's documentation of /proc/stat.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from deploy.device._host import Host, Unreadable
from deploy.measurement import Noise

LIMIT = 0.05  # of spread, and of the machine used by others
PARTS = 4
UNEVEN = 1.5
_LEAST_PER_PART = 5
_LEAST_S = 0.5  # /proc/stat counts in steps of 10 ms
_JUMP_S = 1.0


@dataclass(frozen=True)
class Clocks:
    """The time by two clocks, and the processor's, at one moment; `busy_s` and `all_s` over all cores."""

    wall_s: float
    steady_s: float
    own_s: float
    busy_s: float | None
    all_s: float | None


def read_clocks(host: Host | None = None) -> Clocks:
    """The present moment."""
    own = os.times()
    try:
        fields = [int(word) for word in (host or Host()).text("proc/stat").splitlines()[0].split()[1:9]]
        idle = fields[3] + fields[4]  # idle and waiting for a disk; what a hypervisor took counts as busy
    except (Unreadable, ValueError, IndexError):
        return Clocks(time.time(), time.monotonic(), own.user + own.system, None, None)
    ticks = os.sysconf("SC_CLK_TCK")
    return Clocks(
        time.time(),
        time.monotonic(),
        own.user + own.system,
        (sum(fields) - idle) / ticks,
        sum(fields) / ticks,
    )


def judge(times_ms: Sequence[float], start: Clocks, end: Clocks) -> Noise:
    """The verdict on a run whose frames took `times_ms`, in their order."""
    spread, others, jump = spread_of(times_ms), others_share(start, end), clock_jump_s(start, end)
    why = []
    if spread is not None and spread > LIMIT:
        why.append(f"parts of the run differ by {100 * spread:.0f} %")
    if uneven(times_ms):
        why.append(f"one frame in ten took more than {UNEVEN:g} times the median")
    if others is not None and others > LIMIT:
        why.append(f"other processes used {100 * others:.0f} % of the machine")
    if abs(jump) > _JUMP_S:
        why.append(f"the clock was set or the machine slept ({jump:+.0f} s)")
    return Noise(bool(why), tuple(why), spread, others, jump)


def spread_of(times_ms: Sequence[float]) -> float | None:
    """Largest against smallest median of the run's parts, minus 1; None for too few frames."""
    size = len(times_ms) // PARTS
    if size < _LEAST_PER_PART:
        return None
    medians = [statistics.median(times_ms[part * size : (part + 1) * size]) for part in range(PARTS)]
    return max(medians) / min(medians) - 1 if min(medians) > 0 else None


def uneven(times_ms: Sequence[float]) -> bool:
    """Whether a tenth of the frames took far longer than half of them did."""
    ordered = sorted(times_ms)
    return ordered[9 * len(ordered) // 10] > UNEVEN * statistics.median(ordered)


def others_share(start: Clocks, end: Clocks) -> float | None:
    """Share of the machine's processor time that was neither idle nor this process's."""
    if start.busy_s is None or end.busy_s is None or start.all_s is None or end.all_s is None:
        return None
    if end.steady_s - start.steady_s < _LEAST_S or end.all_s <= start.all_s:
        return None
    others = (end.busy_s - start.busy_s) - (end.own_s - start.own_s)
    return min(1.0, max(0.0, others / (end.all_s - start.all_s)))


def clock_jump_s(start: Clocks, end: Clocks) -> float:
    """How far the wall clock moved beyond the steady one."""
    return round((end.wall_s - start.wall_s) - (end.steady_s - start.steady_s), 3)
