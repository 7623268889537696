"""The registry of targets and the `list` command."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.errors import InputError
from deploy.manifest import is_proof
from export import targets

REAL = sorted(path.stem for path in Path(targets.__file__).parent.glob("[!_]*.py"))


def test_every_file_is_a_target_under_its_own_name() -> None:
    assert list(targets.entries()) == REAL and "onnxruntime" in REAL


@pytest.mark.parametrize("name", REAL)
def test_target_states_what_a_target_must(name: str) -> None:
    target = targets.entries()[name].target
    assert target is not None
    assert name == target.NAME and set(target.PRECISIONS) == set(target.BUDGET)
    assert is_proof(target.PROOF) and target.EXTENSION.startswith(".") and target.RUNTIME
    for budget in target.BUDGET.values():
        assert 0.5 < budget.agreement <= 1 and budget.logits_error > 0 and budget.advice


@pytest.mark.parametrize("name", REAL)
def test_missing_packages_cost_one_row_with_the_reason(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], export_cli
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda module: None)
    assert export_cli("list", "--json", "-") == 0
    row = next(row for row in json.loads(capsys.readouterr().out)["targets"] if row["target"] == name)
    assert not row["available"] and "not installed" in row["reason"]
    assert row["proof"].startswith("not run: needs ")
    with pytest.raises(InputError, match="not installed"):
        targets.find(name, "fp32")


def test_a_module_that_cannot_be_imported_is_a_row_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], export_cli
) -> None:
    (tmp_path / "broken.py").write_text(
        '"""Imports at its top what is not there."""\nimport no_such_converter\n'
    )
    monkeypatch.setattr(targets, "__path__", [*targets.__path__, str(tmp_path)])
    assert export_cli("list") == 0
    shown = capsys.readouterr().out
    assert "onnxruntime" in shown and "broken" in shown and "no_such_converter" in shown
    with pytest.raises(InputError, match="no_such_converter"):
        targets.find("broken", "fp32")


def test_list_as_json_has_all_that_the_table_has(capsys: pytest.CaptureFixture[str], export_cli) -> None:
    assert export_cli("list", "--json", "-") == 0
    rows = {row["target"]: row for row in json.loads(capsys.readouterr().out)["targets"]}
    assert rows["onnxruntime"] == {
        "target": "onnxruntime",
        "available": True,
        "reason": None,
        "precisions": ["fp32", "int8"],
        "artifact": ".onnx",
        "proof": "executed",
    }
    assert export_cli("list") == 0
    table = capsys.readouterr().out
    assert "onnxruntime" in table and "fp32" in table and "executed" in table


@pytest.mark.parametrize("words", [["--help"], ["list", "--help"], ["build", "--help"], ["list"]])
def test_help_and_list_import_no_torch(words: list[str]) -> None:
    code = (
        f"import sys; sys.argv = ['export', *{words!r}]\n"
        "from export.__main__ import main\n"
        "try: main()\n"
        "except SystemExit as done: assert not done.code\n"
        "assert not {'torch', 'onnx', 'onnxruntime'} & set(sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
