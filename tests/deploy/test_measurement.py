"""Measurement files of every schema version load, and say today's version afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deploy.errors import InputError
from deploy.measurement import SCHEMA_VERSION, measurement_to_json, read_measurement

ROOT = Path(__file__).resolve().parents[2]
STORED = sorted((ROOT / "reports").glob("bench_*.json"))


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_stored_reports_load(path: Path, tmp_path: Path) -> None:
    measurement = read_measurement(path)
    assert measurement.schema_version == SCHEMA_VERSION and measurement.frames > 0
    again = tmp_path / "again.json"
    again.write_text(json.dumps(measurement_to_json(measurement)))
    assert read_measurement(again) == measurement


def test_a_version_1_file_has_none_of_the_later_figures() -> None:
    old = [path for path in STORED if json.loads(path.read_text())["schema_version"] == 1]
    for measurement in map(read_measurement, old):
        assert measurement.noise is None and measurement.startup is None and measurement.sustained is None
        assert not measurement.interrupted and measurement.machine.absent == {}


def test_a_newer_file_says_what_to_do(tmp_path: Path) -> None:
    value = {**json.loads(STORED[0].read_text()), "schema_version": SCHEMA_VERSION + 1, "novelty": 1}
    (tmp_path / "new.json").write_text(json.dumps(value))
    with pytest.raises(InputError, match=rf"got {SCHEMA_VERSION + 1} \| .* \| update edgeseg here"):
        read_measurement(tmp_path / "new.json")
