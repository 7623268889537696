"""Several bundles measured in turns by `bench`, in processes of their own."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deploy import bench
from deploy.bundle import Bundle
from deploy.errors import InputError
from deploy.measurement import Measurement, read_measurement
from deploy.options import Parser
from deploy.turns import compared, middle


def _bench(*arguments: object) -> int:
    parser = Parser()
    bench.add_arguments(parser)
    return bench.run(parser.parse_args([str(argument) for argument in arguments]))


def test_two_bundles_in_turns(tiny_bundle: Bundle, colour_folder: Path, tmp_path: Path, capsys: Any) -> None:
    other = shutil.copytree(tiny_bundle.root, tmp_path / "other one")
    words = ("--rounds", 2, "--frames", 3, "--threads", 1, "--data", colour_folder)
    assert _bench(tiny_bundle.root, other, *words, "--keep", tmp_path / "kept") == 0
    first, second = capsys.readouterr().out.splitlines()
    assert "1.00 (1.00..1.00) of the first" in first and first.endswith(str(tiny_bundle.root))
    assert second.endswith("other one") and "mIoU 1.0000" in second
    kept = [read_measurement(path) for path in (tmp_path / "kept").glob("*.json")]
    assert kept and all(one.frames == 3 and one.images == 3 for one in kept)


@pytest.mark.parametrize("words", [("--json", "x.json"), ("--offline",), ("--sustained", "1s")])
def test_what_is_for_one_bundle_alone_is_refused(tiny_bundle: Bundle, words: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match=f"{words[0]} with several bundles"):
        _bench(tiny_bundle.root, tiny_bundle.root, *words)


def test_a_bundle_that_cannot_be_measured_is_one_line(tiny_bundle: Bundle, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be measured") as caught:
        _bench(tiny_bundle.root, tmp_path / "nothing", "--frames", 2)
    assert "\n" not in str(caught.value) and "Traceback" not in str(caught.value)


def test_ratios_are_taken_within_a_round(stored: Measurement) -> None:
    def at(ms: float) -> Measurement:
        return replace(stored, latency_ms=replace(stored.latency_ms, p50=ms))

    found = {"a": [at(10), at(20), at(10)], "b": [at(5), at(30), at(6)]}
    assert middle(found["b"]).latency_ms.p50 == 6
    assert "0.60 (0.50..1.50)" in list(compared(found))[1]


@pytest.fixture
def stored() -> Measurement:
    """One of the project's own measurements."""
    root = Path(__file__).resolve().parents[2]
    return read_measurement(root / "reports/bench_demo_linear.json")
