"""What a training leaves on disk for its own continuation: never half-written, never silently wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from deploy.errors import InputError
from pipeline.logbook import Logbook, read_log
from pipeline.machines import note_machine, read_machines
from pipeline.state import has_state, load_state, save_state


def state(step: int) -> dict[str, object]:
    return {"key": "k", "step": step, "weights": torch.full((1000,), float(step))}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for step in (1, 2):
        save_state(tmp_path, state(step))
    return tmp_path


def test_the_newest_is_read_and_one_more_is_kept(folder: Path) -> None:
    assert sorted(p.name for p in folder.iterdir()) == ["state.previous.pt", "state.pt"]
    assert load_state(folder, "k")["step"] == 2
    (folder / "state.pt").unlink()  # as after a kill between the two renames
    assert has_state(folder) and load_state(folder, "k")["step"] == 1


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "text"])
def test_a_damaged_state_is_named_and_the_previous_one_still_loads(folder: Path, damage: str) -> None:
    path = folder / "state.pt"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes({"cut": data[:-100], "flip": data, "empty": b"", "text": b"no zip"}[damage])
    with pytest.raises(
        InputError, match=r"state\.pt is damaged.*delete it to go on from .*previous\.pt \(step 1\)"
    ):
        load_state(folder, "k")
    path.unlink()
    assert load_state(folder, "k")["weights"][0] == 1.0


def test_nothing_to_go_on_from(folder: Path) -> None:
    for path in folder.iterdir():
        path.write_bytes(b"")
    with pytest.raises(InputError, match="start over with --fresh"):
        load_state(folder, "k")


def test_the_state_of_another_training_is_refused(folder: Path) -> None:
    with pytest.raises(InputError, match="belongs to another training"):
        load_state(folder, "other")


def test_no_code_in_a_state_is_run(folder: Path, tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "owned"),)

    torch.save({"key": "k", "step": 3, "evil": Evil()}, folder / "state.pt")
    with pytest.raises(InputError, match="is damaged"):
        load_state(folder, "k")
    assert not (tmp_path / "owned").exists()


def test_a_full_disk_is_an_error_and_costs_nothing(folder: Path) -> None:
    """A limit on the size of files stands for the full disk."""
    program = (
        "import resource, sys, pathlib, torch, signal; from pipeline.state import save_state\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
        "save_state(pathlib.Path(sys.argv[1]), {'key': 'k', 'step': 3, 'weights': torch.zeros(5000)})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, folder], capture_output=True, text=True, cwd=os.getcwd()
    )
    assert "InputError" in done.stderr and "state.pt was not written, the one before is intact" in done.stderr
    assert load_state(folder, "k")["step"] == 2
    assert sorted(p.name for p in folder.iterdir()) == ["state.previous.pt", "state.pt"]


def test_the_log_is_cut_back_to_the_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    log = Logbook(path)
    log.add(step=1, loss=0.5)
    length = log.length()
    log.add(step=2, loss=0.4)
    log.close()
    log = Logbook(path, length)
    log.add(step=2, loss=0.25, val_miou=None)
    log.close()
    assert read_log(path) == [{"step": 1.0, "loss": 0.5}, {"step": 2.0, "loss": 0.25}]
    Logbook(path).close()
    assert read_log(path) == []


def test_a_log_with_fewer_columns_goes_on_with_them(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("step,epoch,loss\n1,0,0.5\n")
    log = Logbook(path, path.stat().st_size)
    log.add(step=2, loss=0.25, seconds=3.0)
    log.close()
    assert path.read_text() == "step,epoch,loss\n1,0,0.5\n2,,0.25\n"


def test_machines_after_a_lost_stretch_are_not_counted(tmp_path: Path) -> None:
    for step in (0, 40, 20):  # the second start's steps were lost: the third goes on before it
        note_machine(tmp_path, step, torch.device("cpu"))
    assert [entry["after_step"] for entry in read_machines(tmp_path)] == [0, 20]
    (tmp_path / "machines.json").write_text('[{"after_step": "1"}]')
    with pytest.raises(InputError, match=r"machines\.json is damaged"):
        read_machines(tmp_path)
