"""A training killed (-9) in mid-epoch and started again ends with the bytes of one that was left alone."""

from __future__ import annotations

import signal
import time
from pathlib import Path

from pipeline.logbook import read_log

SETS = [
    option
    for setting in (
        "train.steps=60",
        "train.eval_every=25",
        "train.checkpoint_seconds=0.05",
        "finish.share=0.2",
    )
    for option in ("--set", setting)
] + ["--set", "finish.size=48x64", "--set", "finish.batch=2", "--threads", "1"]


def wait_for(path: Path, process) -> None:
    """Until the file is there; the process must still be at work."""
    for _ in range(6000):
        if path.exists():
            return
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.01)
    raise AssertionError(f"{path} never appeared")


def steps_logged(folder: Path) -> list[float]:
    return [row["step"] for row in read_log(folder / "log.csv") if "loss" in row]


def test_kill_and_resume_gives_the_same_bytes(
    pipeline, pipeline_process, make_data, recipe, tmp_path
) -> None:
    command = ("train", "--recipe", recipe, "--data", make_data(train=7), *SETS)
    killed, unbroken = (tmp_path / "runs" / name / "train" for name in ("killed", "unbroken"))

    process = pipeline_process(*command, "--run", "killed")
    wait_for(killed / "state.previous.pt", process)
    time.sleep(0.1)  # some steps after the state, which are lost
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (killed / "stage.json").exists(), "it was too quick to be killed"

    assert pipeline(*command, "--run", "unbroken") == 0
    process = pipeline_process(*command, "--run", "killed")
    said = process.communicate()[0]
    assert process.returncode == 0, said
    assert "going on after step" in said

    for name in ("best.safetensors", "last.safetensors", "stage.json", "samples.png"):
        assert (killed / name).read_bytes() == (unbroken / name).read_bytes(), name
    assert steps_logged(killed) == steps_logged(unbroken) == sorted({*range(2, 61, 2), 25})
