"""The parts of a search that need no network: what is proposed and chosen, rounds that are not repeated."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import pytest

from calibration import latency
from calibration.choice import Row, choose, pareto
from calibration.proposals import SHARES, alone, but_first, everything, together
from calibration.search import tried
from calibration.search_picture import spread
from calibration.trials import REFUSED, Trials
from deploy.errors import InputError

FP32 = Row("fp32", None, {}, 0.0, 0.0, 1.0, 1000, (1.0, 1.0, 1.0))


def _row(name: str, drop: float, ratio: tuple[float, float, float] | None, share: float = 0.5) -> Row:
    return Row(name, "mse", {"a": "int8"}, share, drop, 0.99, 300, ratio)


def test_the_fastest_within_the_budget_is_chosen() -> None:
    rows = [
        FP32,
        _row("a", 0.4, (0.8, 0.7, 0.9)),
        _row("b", 0.6, (0.5, 0.5, 0.5)),
        _row("c", 0.1, (0.9, 0.9, 0.9)),
    ]
    chosen, why = choose(rows, 0.5)
    assert chosen.name == "a" and "0.80 (0.70..0.90)" in why and "0.40 points" in why
    assert choose(rows, 1.0)[0].name == "b"


@pytest.mark.parametrize("ratio", [(1.3, 1.2, 1.4), (0.95, 0.9, 1.02)])
def test_int8_that_is_not_faster_in_every_round_is_not_shipped(ratio: tuple[float, float, float]) -> None:
    chosen, why = choose([FP32, _row("a", 0.0, ratio)], 0.5)
    assert chosen is FP32 and why.startswith("int8 does not pay here: a takes")


def test_a_steady_gain_counts_before_a_larger_one_that_a_round_denies() -> None:
    rows = [FP32, _row("a", 0.0, (0.7, 0.6, 1.1)), _row("b", 0.0, (0.9, 0.85, 0.95))]
    assert choose(rows, 0.5)[0].name == "b"


def test_without_latencies_most_int8_counts() -> None:
    rows = [
        replace(FP32, ratio=None),
        _row("a", 0.4, None, 0.6),
        _row("b", 0.1, None, 0.4),
        _row("c", 2.0, None, 0.9),
    ]
    assert choose(rows, 0.5)[0].name == "a"
    assert choose(rows[:1] + rows[3:], 0.5)[0].name == "fp32"


def test_the_front_holds_what_nothing_beats() -> None:
    rows = [
        FP32,
        _row("a", 0.4, (0.8, 0.8, 0.8)),
        _row("b", 0.5, (0.9, 0.9, 0.9)),
        _row("c", 2.0, (0.5, 0.5, 0.5)),
    ]
    assert [row.name for row in pareto(rows)] == ["c", "a", "fp32"]


class _Refusing:
    """Trials on a target whose runtime refuses one block in int8."""

    order = SimpleNamespace(precision="fp32")
    blocks = MappingProxyType({"stem": 0.2, "body": 0.5, "head": 0.3})
    methods = ("mse",)
    helps = ("equalisation",)

    def row(self, name: str, method: str | None, blocks: dict[str, str], helps: tuple[str, ...] = ()) -> Row:
        if "body" in blocks:
            raise InputError("the runtime cannot execute it")
        return Row(name, method, blocks, sum(self.blocks[block] for block in blocks), 0.1, 0.99, 300)

    def with_latency(self, rows: list[Row]) -> list[Row]:
        return rows


def test_a_plan_that_the_target_cannot_handle_is_named_and_left_out() -> None:
    rows, unable = tried(cast("Trials", _Refusing()))
    names = [row.name for row in rows]
    assert names[:3] == ["fp32", "only stem", "only head"] and "least sensitive 25%" in names
    assert set(unable) == {"all int8, mse", "all int8, mse, equalisation", "only body"}
    assert set(unable.values()) == {"the runtime cannot execute it"}
    assert not any("body" in row.blocks for row in rows)


def test_what_a_target_refused_is_not_built_again(tmp_path: Path) -> None:
    source = SimpleNamespace(sha256="0" * 64, preprocess=SimpleNamespace(size=(8, 8)))
    order = SimpleNamespace(source=source, target=SimpleNamespace(NAME="any"), precision="fp32")
    parts = (None, SimpleNamespace(calibration_key="key"), {"a": 1.0}, (None,), tmp_path, {})
    trials = Trials(cast("Any", order), *cast("Any", parts), refused={})
    with (
        patch.object(Trials, "planned"),
        patch.object(Trials, "build", side_effect=RuntimeError("no kernel")) as build,
    ):
        for _ in range(2):
            with pytest.raises((RuntimeError, InputError), match="no kernel"):
                trials.row("only a", None, {"a": "int8"})
        assert build.call_count == 1 and "RuntimeError: no kernel" in (tmp_path / REFUSED).read_text()
        for _ in range(2):
            with pytest.raises(RuntimeError):
                trials.row("fp32", None, {})
        assert build.call_count == 3, "a baseline that failed is tried again"


def test_a_baseline_that_cannot_be_built_is_an_error() -> None:
    trials = _Refusing()
    with (
        patch.object(trials, "row", side_effect=InputError("no images")),
        pytest.raises(InputError, match="no images"),
    ):
        tried(cast("Trials", trials))


def test_labels_keep_their_order_and_a_distance() -> None:
    placed = spread([0.9, 0.31, 0.3, 0.02, 0.01, 0.0], 0.05)
    assert placed == sorted(placed, reverse=True) and placed[0] == 0.9 and placed[-1] >= 0
    assert all(above - below >= 0.05 - 1e-9 for above, below in pairwise(placed))
    assert spread([], 0.05) == []


def test_proposals() -> None:
    blocks = ["stem", "body", "tail", "head"]
    assert list(everything(blocks)) == blocks[:-1] and list(but_first(blocks)) == blocks[1:]
    assert alone(blocks)["only tail"] == {"tail": "int8"}
    work = {"stem": 0.1, "body": 0.5, "tail": 0.3, "head": 0.1}
    drops = {"stem": 3.0, "body": 0.1, "tail": 0.01, "head": 0.2}
    rows = {b: _row(b, drops[b], (0.9 if b == "body" else 1.1,) * 3) for b in blocks}
    plans = together(rows, work)
    assert list(plans) == [f"least sensitive {share:.0%}" for share in SHARES] + ["faster alone"]
    assert list(plans["least sensitive 25%"]) == ["tail"] and list(plans["least sensitive 75%"]) == [
        "tail",
        "body",
    ]
    for share in SHARES:
        assert sum(work[b] for b in plans[f"least sensitive {share:.0%}"]) >= share
    assert plans["faster alone"] == {"body": "int8"}


def test_rounds_of_before_are_not_measured_again(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    measured: list[str] = []
    monkeypatch.setattr(latency, "_p50", lambda bundle, effort: measured.append(bundle.name) or 2.0)
    bundles = {name: tmp_path / name for name in ("fp32", "a")}
    kept: list[latency.Rounds] = []
    known = {"fp32": [1.0], "a": [3.0]}
    rounds = latency.take_turns(bundles, latency.Effort(3, 5, 1), known, kept.append)
    assert (
        measured == ["fp32", "a"] * 2
        and rounds == {"fp32": [1.0, 2.0, 2.0], "a": [3.0, 2.0, 2.0]} == kept[-1]
    )
    assert latency.ratios_to(rounds, "fp32") == {"fp32": (1.0, 1.0, 1.0), "a": (1.0, 1.0, 3.0)}
    latency.take_turns(bundles, latency.Effort(1, 5, 1), {"fp32": [1.0]}, kept.append)
    assert measured[4:] == ["fp32", "a"], "rounds of other bundles do not count"
