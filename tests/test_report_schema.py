"""The published schema of measurement files is the dataclasses', and stored files keep to it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = json.loads((ROOT / "docs" / "report.schema.json").read_text())
STORED = sorted((ROOT / "reports").glob("bench_*.json"))


def test_the_schema_is_current() -> None:
    done = subprocess.run([sys.executable, "docs/report_schema.py", "--check"], cwd=ROOT, timeout=60)
    assert done.returncode == 0, "run: make readme"


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_stored_files_keep_to_it(path: Path) -> None:
    value = json.loads(path.read_text())
    _check(value, SCHEMA, "")
    for change in (
        {"miou": "high"},
        {"surprise": 1},
        {"size": [1, 2, 3]},
        {"threads": 1.5},
        {"schema_version": 99},
    ):
        with pytest.raises(AssertionError):
            _check({**value, **change}, SCHEMA, "")
    del value["latency_ms"]["p50"]
    with pytest.raises(AssertionError):
        _check(value, SCHEMA, "")


def _check(value: Any, schema: dict[str, Any], where: str) -> None:
    """The few JSON Schema words that the file uses."""
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        assert any(_holds(value, option) for option in schema["anyOf"]), where
        return
    if "enum" in schema:
        assert value in schema["enum"], where
        return
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
    kind = schema["type"]
    if kind in ("integer", "number"):
        assert type(value) in ((int,) if kind == "integer" else (int, float)), where
        return
    assert isinstance(value, kinds[kind]), where
    if kind == "object":
        _check_object(value, schema, where)
    elif kind == "array":
        items = schema.get("prefixItems") or [schema["items"]] * len(value)
        assert len(items) == len(value), where
        for item, rule in zip(value, items, strict=True):
            _check(item, rule, where)


def _check_object(value: dict[str, Any], schema: dict[str, Any], where: str) -> None:
    rest = schema["additionalProperties"]
    assert set(schema.get("required", ())) <= set(value), where
    for key, item in value.items():
        rule = schema.get("properties", {}).get(key, rest)
        assert rule, f"{where}.{key} is unknown"
        _check(item, rule, f"{where}.{key}")


def _holds(value: Any, schema: dict[str, Any]) -> bool:
    try:
        _check(value, schema, "")
    except AssertionError:
        return False
    return True
