"""`prepare` as a command: complete or not at all, cached, and never over somebody's own folder."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from deploy.errors import InputError, run_cli
from pipeline import prepare
from pipeline.datasets import synthetic
from pipeline.datasets.gate import check_labels


def _prepare(*words: str) -> int:
    parser = argparse.ArgumentParser()
    prepare.add_arguments(parser)
    return prepare.run(parser.parse_args(["--kind", "synthetic", *words]))


def _small(out: Path, *more: str) -> int:
    return _prepare("--out", str(out), "--train", "3", "--val", "2", "--size", "64x80", *more)


def test_it_makes_a_folder_that_passes_the_gate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "a folder with spaces"
    assert _small(out, "--seed", "4") == 0
    assert [count.images for count in check_labels(out).splits] == [3, 2]
    assert "pavement" in capsys.readouterr().out
    stamp = json.loads((out / prepare.STAMP).read_text())
    assert stamp["request"] == {"train": 3, "val": 2, "size": [64, 80], "seed": 4}
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


def test_the_same_request_is_cached_and_another_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, image = tmp_path / "x", tmp_path / "x/train/images/00000.jpg"
    _small(out)
    made, first = image.stat().st_mtime_ns, image.read_bytes()
    capsys.readouterr()
    assert _small(out) == 0 and image.stat().st_mtime_ns == made
    assert "cached" in capsys.readouterr().out
    assert _small(out, "--seed", "1") == 0 and image.read_bytes() != first


def test_a_new_version_of_the_generator_is_another_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _small(tmp_path / "x")
    made = (tmp_path / "x/dataset.toml").stat().st_mtime_ns
    monkeypatch.setattr(synthetic, "VERSION", synthetic.VERSION + 1)
    _small(tmp_path / "x")
    assert (tmp_path / "x/dataset.toml").stat().st_mtime_ns != made


@pytest.mark.parametrize("spoil", ["missing", "stamp"])
def test_a_spoilt_folder_is_made_again(tmp_path: Path, spoil: str) -> None:
    out = tmp_path / "x"
    _small(out)
    if spoil == "missing":
        (out / "train/masks/00001.png").unlink()
    else:
        (out / prepare.STAMP).write_text("{")
    _small(out)
    assert [count.images for count in check_labels(out).splits] == [3, 2]


def test_a_folder_that_is_not_ours_stays(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "holiday.jpg").write_bytes(b"precious")
    with pytest.raises(InputError, match=r"photos.*--out"):
        _small(tmp_path / "photos")
    assert (tmp_path / "photos" / "holiday.jpg").read_bytes() == b"precious"


def test_a_failure_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(job: object) -> None:
        raise InputError("disk full")

    monkeypatch.setattr(synthetic, "_draw_one", fail)
    with pytest.raises(InputError, match="disk full"):
        _small(tmp_path / "x")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("--train", "none"), "none"),
        (("--val", "0"), "0"),
        (("--seed", "-1"), "-1"),
        (("--size", "192"), "192"),
        (("--size", "9x9"), "9x9"),
    ],
)
def test_wrong_values_are_one_line_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, str], shown: str
) -> None:
    command = ("--out", str(tmp_path / "x"), *words)
    assert run_cli(lambda: _prepare(*command)) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error:")]
    assert len(lines) == 1 and shown in lines[0] and "expected" in lines[0]
    assert not (tmp_path / "x").exists()
