"""The verdict on a machine: from made-up times and counters, and from this very machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.device._host import Host
from deploy.noise import Clocks, clock_jump_s, judge, others_share, read_clocks, spread_of


def _clocks(wall: float, steady: float, own: float, busy: float | None = 0.0, total: float = 0.0) -> Clocks:
    return Clocks(wall, steady, own, busy, None if busy is None else total)


QUIET = _clocks(0, 0, 0), _clocks(10, 10, 18, 18.5, 20)


def test_a_quiet_machine() -> None:
    noise = judge([20.0, 20.4, 19.8, 20.1] * 10, *QUIET)
    assert not noise.noisy and noise.why == () and noise.spread == pytest.approx(0)
    assert noise.others_cpu == pytest.approx(0.025) and noise.clock_jump_s == 0


def test_parts_that_disagree_by_more_than_five_per_cent() -> None:
    noise = judge([20.0] * 20 + [21.6] * 20, *QUIET)
    assert noise.noisy and noise.why == ("parts of the run differ by 8 %",)
    assert judge([20.0] * 20 + [20.9] * 20, *QUIET).noisy is False
    assert spread_of([1.0] * 19) is None and spread_of([1.0] * 20) == 0


def test_frames_that_are_uneven_all_along() -> None:
    noise = judge([20.0, 20.0, 20.0, 20.0, 45.0] * 10, *QUIET)
    assert noise.noisy and noise.why == ("one frame in ten took more than 1.5 times the median",)


def test_other_work_on_the_machine() -> None:
    busy = _clocks(10, 10, 10, 16, 20)  # 6 of 20 core-seconds were not ours
    noise = judge([20.0] * 40, QUIET[0], busy)
    assert noise.noisy and noise.why == ("other processes used 30 % of the machine",)
    assert others_share(QUIET[0], _clocks(10, 10, 12, None)) is None
    assert others_share(QUIET[0], _clocks(0.2, 0.2, 0.1, 0.3, 0.4)) is None, "too short to tell"


@pytest.mark.parametrize("jump", [-86400.0, 3600.0])
def test_a_clock_that_was_set_changes_no_time_and_is_said(jump: float) -> None:
    end = _clocks(10 + jump, 10, 18, 18.5, 20)
    assert clock_jump_s(QUIET[0], end) == jump
    noise = judge([20.0] * 40, QUIET[0], end)
    assert noise.noisy and noise.why == (f"the clock was set or the machine slept ({jump:+.0f} s)",)


def test_counters_of_proc_stat(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "stat").write_text("cpu  100 0 50 800 20 5 5 20 0 0\ncpu0 1 2 3\n")
    clocks = read_clocks(Host(tmp_path))
    assert clocks.all_s is not None and clocks.busy_s is not None
    assert clocks.busy_s / clocks.all_s == pytest.approx(180 / 1000)
    (tmp_path / "proc" / "stat").write_text("intr\n")
    assert read_clocks(Host(tmp_path)).busy_s is None


def test_this_machine_is_never_busier_than_it_can_be() -> None:
    start = read_clocks()
    sum(range(10_000_000))
    share = others_share(start, read_clocks())
    assert share is None or 0 <= share <= 1
