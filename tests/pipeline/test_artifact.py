"""Stages: equal inputs give equal keys, every difference is told by name, changed files are seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.errors import InputError
from pipeline.artifact import (
    Stage,
    begin,
    changed_outputs,
    changes,
    finish,
    read_record,
    run_folder,
    set_aside,
)

STAGE = Stage("train", 1, {"train": {"lr": 0.1, "steps": 3}}, {"train data": "a" * 64})


def test_the_key_depends_on_everything_but_the_notes() -> None:
    assert Stage("train", 1, {"train": {"steps": 3, "lr": 0.1}}, STAGE.inputs, {"note": 1}).key == STAGE.key
    others = [
        Stage("adapt", 1, STAGE.settings, STAGE.inputs),
        Stage("train", 2, STAGE.settings, STAGE.inputs),
        Stage("train", 1, {"train": {"lr": 0.2, "steps": 3}}, STAGE.inputs),
        Stage("train", 1, STAGE.settings, {"train data": "b" * 64}),
    ]
    assert len({STAGE.key, *(other.key for other in others)}) == 5


def test_changes_are_named() -> None:
    record = STAGE.record()
    assert changes(record, STAGE) == []
    other = Stage("train", 2, {"train": {"lr": 0.2, "steps": 3}}, {"train data": "b" * 64, "init": "c" * 64})
    assert changes(record, other) == [
        "train.lr 0.1 -> 0.2",
        "init None -> cccccccccccc",
        "train data aaaaaaaaaaaa -> bbbbbbbbbbbb",
        "code version of the stage 1 -> 2",
    ]


def test_a_finished_stage_notices_changed_files(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"1")
    begin(tmp_path, STAGE)
    finish(tmp_path, STAGE, ["a.bin"], {"miou": 0.5})
    record = read_record(tmp_path / "stage.json")
    assert record and changes(record, STAGE) == [] and changed_outputs(tmp_path, record) == []
    (tmp_path / "a.bin").write_bytes(b"2")
    assert changed_outputs(tmp_path, record) == ["a.bin"]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"settings": 1, "inputs": {}, "notes": {}}', "[" * 100_000]
)
def test_a_damaged_record_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "stage.json").write_text(text)
    with pytest.raises(InputError, match=r"stage\.json is damaged"):
        read_record(tmp_path / "stage.json")


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", ".hidden", "-x", "a b"])
def test_a_run_is_a_plain_folder_below_runs(name: str) -> None:
    with pytest.raises(InputError, match="run name"):
        run_folder(name)
    assert run_folder("street_b0-2.x") == Path("runs/street_b0-2.x")


def test_an_old_folder_is_kept_aside(tmp_path: Path) -> None:
    for text in ("first", "second"):
        (tmp_path / "train").mkdir()
        (tmp_path / "train" / "a").write_text(text)
        assert set_aside(tmp_path / "train") == tmp_path / "train.old"
    assert not (tmp_path / "train").exists()
    assert (tmp_path / "train.old" / "a").read_text() == "second"
