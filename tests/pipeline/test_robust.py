"""A training that dies anywhere, on a full disk or with a damaged state, ends as one that was left alone."""

from __future__ import annotations

import os
import resource

import pytest

from pipeline.learner import Learner
from pipeline.logbook import read_log

EVERY_STEP = ("--set", "train.checkpoint_seconds=0", "--threads", 1)
RESULTS = ("best.safetensors", "last.safetensors", "stage.json")


class Killed(BaseException):
    """Stands for SIGKILL: nothing of the program may catch it."""


@pytest.fixture
def steps_taken(monkeypatch) -> list[int]:
    """Numbers of all optimizer steps that are taken."""
    taken: list[int] = []
    step = Learner.step

    def noted(self, number, *batch):
        taken.append(number)
        return step(self, number, *batch)

    monkeypatch.setattr(Learner, "step", noted)
    return taken


def test_killed_at_every_kind_of_moment_it_repeats_one_step_at_most(
    pipeline, make_data, recipe, tmp_path, monkeypatch, steps_taken, capsys
) -> None:
    """Killed before its 1st, 2nd, 3rd, ... rename of a file, started again each time, until it is done."""
    command = ("train", "--recipe", recipe, "--data", make_data(), *EVERY_STEP)
    assert pipeline(*command, "--run", "unbroken") == 0
    assert steps_taken == list(range(6))
    steps_taken.clear()
    replace, left = os.replace, 0

    def rename(source, target):
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed
        replace(source, target)

    monkeypatch.setattr(os, "replace", rename)
    for deaths in range(1, 40):
        left = deaths - 1
        try:
            assert pipeline(*command, "--run", "killed") == 0
            break
        except Killed:
            continue
    monkeypatch.setattr(os, "replace", replace)
    assert deaths > 5, "it must have died a few times"
    assert sorted(set(steps_taken)) == list(range(6)) and len(steps_taken) <= 6 + deaths
    killed, unbroken = (tmp_path / "runs" / name / "train" for name in ("killed", "unbroken"))
    for name in RESULTS:
        assert (killed / name).read_bytes() == (unbroken / name).read_bytes(), name
    assert [row["step"] for row in read_log(killed / "log.csv")] == [2, 3, 3, 4, 6, 6]


def test_a_full_disk_names_the_file_and_costs_the_steps_since_the_last_state(
    pipeline, make_data, recipe, tmp_path, monkeypatch, capsys
) -> None:
    """A limit on the size of files, set in mid-training, stands for the full disk."""
    command = ("train", "--recipe", recipe, "--data", make_data(), *EVERY_STEP)
    step, (soft, hard) = Learner.step, resource.getrlimit(resource.RLIMIT_FSIZE)

    def disk_fills(self, number, *batch):
        if number == 4:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
        return step(self, number, *batch)

    monkeypatch.setattr(Learner, "step", disk_fills)
    try:
        assert pipeline(*command) == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    error = capsys.readouterr().err
    assert "runs/tiny/train/state.pt was not written, the one before is intact" in error
    assert error.count("\n") == 1
    monkeypatch.setattr(Learner, "step", step)
    assert pipeline(*command) == 0
    assert "going on after step 4 of 6" in capsys.readouterr().out


def test_a_damaged_state_is_named_and_without_it_the_training_goes_on(
    pipeline, make_data, recipe, tmp_path, monkeypatch, capsys
) -> None:
    command = ("train", "--recipe", recipe, "--data", make_data(), *EVERY_STEP)
    assert pipeline(*command, "--run", "unbroken") == 0
    step = Learner.step

    def dies(self, number, *batch):
        if number == 5:
            raise Killed
        return step(self, number, *batch)

    monkeypatch.setattr(Learner, "step", dies)
    with pytest.raises(Killed):
        pipeline(*command)
    monkeypatch.setattr(Learner, "step", step)
    state = tmp_path / "runs/tiny/train/state.pt"
    state.write_bytes(state.read_bytes()[:-1000])
    capsys.readouterr()
    assert pipeline(*command) == 2
    error = capsys.readouterr().err
    assert "state.pt is damaged" in error and "delete it to go on from" in error and "(step 4)" in error
    state.unlink()
    assert pipeline(*command) == 0
    assert "going on after step 4 of 6" in capsys.readouterr().out
    for name in RESULTS:
        assert (state.parent / name).read_bytes() == (tmp_path / "runs/unbroken/train" / name).read_bytes()
