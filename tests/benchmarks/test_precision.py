"""Which files are taken for a search's record; the benchmark itself runs behind a search (test_search.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.precision import NEEDED, read_search
from deploy.errors import InputError


@pytest.mark.parametrize(
    ("held", "message"),
    [
        ([1], "no budget, calibration_key"),
        ({"target": "openvino"}, "no budget, calibration_key"),
        ({}, "no budget"),
    ],
)
def test_anything_else_is_one_clear_error(tmp_path: Path, held: Any, message: str) -> None:
    path = tmp_path / "search.json"
    path.write_text(json.dumps(held))
    with pytest.raises(InputError, match=f"search.json is no search .* {message}.*calibration search"):
        read_search(path)


def test_stored_searches_are_taken() -> None:
    paths = sorted((Path(__file__).parents[2] / "reports").glob("search_*.json"))
    assert paths
    for path in paths:
        assert set(read_search(path)) >= NEEDED
