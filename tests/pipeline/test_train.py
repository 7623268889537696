"""A whole training on a tiny folder: what it leaves, when it is cached, what it refuses, errors of users."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from time import monotonic, sleep

import cv2
import numpy as np
import pytest

from deploy.labels import list_pairs, read_dataset, read_mask
from deploy.preprocess import read_image
from pipeline.logbook import read_log
from pipeline.machines import read_machines
from pipeline.models.checkpoints import load_checkpoint, read_meta, resolve_checkpoint

FILES = {
    "best.safetensors",
    "last.safetensors",
    "state.pt",
    "state.previous.pt",
    "log.csv",
    "machines.json",
    "curves.png",
    "samples.png",
    "samples",
    "recipe.json",
    "stage.json",
}


def test_a_training_leaves_everything_and_is_then_cached(
    pipeline, make_data, recipe, tmp_path, capsys
) -> None:
    data = make_data()
    command = ("train", "--recipe", recipe, "--data", data, "--threads", 1)
    assert pipeline(*command) == 0
    said = capsys.readouterr().out
    assert "ground" in said and "step 6/6  val mIoU" in said and "loader alone" in said
    folder = tmp_path / "runs" / "tiny" / "train"
    assert {path.name for path in folder.iterdir()} == FILES
    rows = read_log(folder / "log.csv")
    assert [row["step"] for row in rows] == [2, 3, 3, 4, 6, 6]
    assert sum("val_miou" in row for row in rows) == 2 and all(row.get("loss", 1) > 0 for row in rows)
    for name in ("curves.png", "samples.png"):
        assert read_image(folder / name).std() > 10
    meta = read_meta(resolve_checkpoint("tiny"))
    assert meta.model == {"variant": "b0", "attention": "linear", "classes": 3, "head": "cityscapes"}
    assert meta.preprocess["size"] == [48, 64] and meta.dataset["classes"] == ["ground", "box", "disc"]
    assert meta.metrics["images"] == 3 and meta.provenance["settings"]["train"]["steps"] == 6
    pairs = list_pairs(read_dataset(data), "val")
    for pair in pairs:  # the pairs kept with the run are the data's, bit for bit
        assert np.array_equal(
            read_image(folder / "samples/images" / f"{pair.stem}.png"), read_image(pair.image)
        )
        assert np.array_equal(read_mask(folder / "samples/masks" / f"{pair.stem}.png"), read_mask(pair.mask))

    stamp = (folder / "best.safetensors").stat().st_mtime_ns
    assert pipeline(*command, "--set", "train.workers=1") == 0
    assert "cached" in capsys.readouterr().out
    assert (folder / "best.safetensors").stat().st_mtime_ns == stamp

    assert pipeline(*command, "--set", "train.lr=1e-3", "--set", "train.eval_every=0") == 0
    said = capsys.readouterr().out
    assert "train.lr 0.003 -> 0.001" in said and "train.eval_every 3 -> 0" in said and "train.old" in said
    assert {path.name for path in folder.iterdir()} == FILES - {"state.previous.pt"}
    assert (folder.parent / "train.old" / "best.safetensors").stat().st_mtime_ns == stamp


def test_changed_files_and_changed_data_are_noticed(pipeline, make_data, recipe, tmp_path, capsys) -> None:
    data = make_data()
    command = ("train", "--recipe", recipe, "--data", data, "--set", "train.steps=2", "--threads", 1)
    assert pipeline(*command) == 0
    best = tmp_path / "runs/tiny/train/best.safetensors"
    before = best.read_bytes()
    best.write_bytes(before[:-1] + b"x")
    assert pipeline(*command) == 0
    assert "best.safetensors was changed" in capsys.readouterr().out
    assert best.read_bytes() == before
    image = data / "train/images/train0.png"
    cv2.imwrite(str(image), 255 - cv2.imread(str(image)))
    assert pipeline(*command) == 0
    assert "train data" in capsys.readouterr().out and best.read_bytes() != before


def test_an_unfinished_training_with_other_settings_is_refused(
    pipeline, make_data, recipe, tmp_path, capsys
) -> None:
    command = ("train", "--recipe", recipe, "--data", make_data(), "--run", "mine", "--threads", 1)
    assert pipeline(*command) == 0
    (tmp_path / "runs/mine/train/stage.json").unlink()
    assert pipeline(*command, "--set", "train.lr=0.5") == 2
    error = capsys.readouterr().err
    assert "unfinished" in error and "train.lr 0.003 -> 0.5" in error and "--fresh" in error
    assert pipeline(*command) == 0  # nothing is left to do but to close it
    assert "going on after step 6 of 6" in capsys.readouterr().out
    assert pipeline(*command, "--fresh") == 0
    assert "going on" not in capsys.readouterr().out


def test_workers_change_nothing(pipeline, make_data, recipe, tmp_path) -> None:
    command = (
        "train",
        "--recipe",
        recipe,
        "--data",
        make_data(),
        "--threads",
        1,
        "--set",
        "finish.share=0.3",
    )
    for workers in (0, 2):
        assert pipeline(*command, "--run", f"w{workers}", "--set", f"train.workers={workers}") == 0
    alone, two = (tmp_path / f"runs/w{workers}/train/last.safetensors" for workers in (0, 2))
    assert alone.read_bytes() == two.read_bytes()


def test_another_network_gets_its_own_run(pipeline, make_data, recipe, tmp_path) -> None:
    sets = ("--set", "model.attention=softmax", "--set", "model.activation=relu", "--set", "train.steps=2")
    assert pipeline("train", "--recipe", recipe, "--data", make_data(), "--threads", 1, *sets) == 0
    model = load_checkpoint(tmp_path / "runs/tiny-softmax-relu/train/best.safetensors")[0]
    assert (model.attention, model.activation) == ("softmax", "relu")


def test_a_training_can_start_from_another(pipeline, make_data, recipe, tmp_path, capsys) -> None:
    command = ("train", "--recipe", recipe, "--data", make_data(), "--threads", 1, "--set", "train.steps=2")
    assert pipeline(*command) == 0
    start = ("--run", "second", "--set", "model.init=tiny")
    still = ("--set", "train.lr=0", "--set", "train.ema=0")
    assert pipeline(*command, *start, *still) == 0
    assert "starting from runs/tiny/train/best.safetensors" in capsys.readouterr().out
    first, second = (
        load_checkpoint(tmp_path / f"runs/{run}/train/best.safetensors")[0] for run in ("tiny", "second")
    )
    for (name, before), after in zip(first.named_parameters(), second.parameters(), strict=True):
        assert np.array_equal(before.detach().numpy(), after.detach().numpy()), name


def test_two_trainings_of_one_run_do_not_meet(pipeline, make_data, recipe, tmp_path, capsys) -> None:
    """The other one is a process: a process may take its own lock twice."""
    import subprocess
    import sys

    folder = tmp_path / "runs/tiny/train"
    folder.parent.mkdir(parents=True)
    program = (
        "import sys; from pathlib import Path; from pipeline.lock import exclusive\n"
        "with exclusive(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", program, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root) as other:
        assert other.stdout is not None and other.stdout.readline() == b"held\n"
        assert pipeline("train", "--recipe", recipe, "--data", make_data()) == 2
        assert "in use by another process" in capsys.readouterr().err
        other.kill()


def test_ctrl_c_writes_a_checkpoint_and_exits_130(
    pipeline, make_data, recipe, tmp_path, capsys, monkeypatch
) -> None:
    from pipeline.learner import Learner

    command = ("train", "--recipe", recipe, "--data", make_data(), "--threads", 1)
    step, slow, folder = Learner.step, 0.05, tmp_path / "runs/tiny/train"

    def interrupted(self, number, *batch):
        sleep(slow)
        if number == 4 and not read_machines(folder)[1:]:
            os.kill(os.getpid(), signal.SIGINT)  # in the middle of a step
        return step(self, number, *batch)

    monkeypatch.setattr(Learner, "step", interrupted)
    began = monotonic()
    assert pipeline(*command) == 130
    assert "stopped after step 5" in capsys.readouterr().out
    assert not (folder / "stage.json").exists()
    assert pipeline(*command) == 0
    assert "going on after step 5 of 6" in capsys.readouterr().out
    logged = sum(row["seconds"] for row in read_log(folder / "log.csv"))
    assert 6 * slow < logged < monotonic() - began, "the steps of both processes, and no pause between them"
    first, second = read_machines(folder)
    assert (first["after_step"], second["after_step"]) == (0, 5) and first["threads"] == 1
    assert first["machine"]["cores"] >= 1 and first["versions"]["torch"]


def test_a_loss_that_is_no_number_stops_the_training(pipeline, make_data, recipe, capsys) -> None:
    """Decay 100 times too strong: every step multiplies the weights by -99."""
    sets = ("train.lr=10", "train.weight_decay=10", "train.steps=60", "train.warmup=0", "train.eval_every=0")
    options = [option for setting in sets for option in ("--set", setting)]
    assert pipeline("train", "--recipe", recipe, "--data", make_data(), "--threads", 1, *options) == 1
    assert "the training loss | got nan at step" in capsys.readouterr().err


@pytest.mark.parametrize(
    "case", ["no data", "no folder", "empty split", "no split", "undeclared id", "truncated"]
)
def test_errors_that_a_user_meets(pipeline, make_data, recipe, tmp_path, capsys, case) -> None:
    data = make_data()
    expected, status = {
        "no data": ("no data to train on", 2),
        "no folder": ("nowhere", 2),
        "empty split": ("val", 2),
        "no split": ("no split 'test'", 2),
        "undeclared id": ("train1.png", 1),
        "truncated": ("train2.png", 1),
    }[case]
    options = ["--data", data]
    if case == "no data":
        options = []
    elif case == "no folder":
        options = ["--data", "nowhere"]
    elif case == "empty split":
        for path in [*(data / "val/images").iterdir(), *(data / "val/masks").iterdir()]:
            path.unlink()
    elif case == "no split":
        options += ["--set", "data.val_split=test"]
    elif case == "undeclared id":
        cv2.imwrite(str(data / "train/masks/train1.png"), np.full((48, 64), 9, np.uint8))
    else:
        path = data / "train/images/train2.png"
        path.write_bytes(path.read_bytes()[:200])
    assert pipeline("train", "--recipe", recipe, *options) == status
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1 and expected in error
    assert not (tmp_path / "runs/tiny/train").exists()


def test_an_unknown_key_and_a_wrong_command_exit_2(pipeline, recipe, capsys) -> None:
    assert pipeline("train", "--recipe", recipe, "--set", "train.speed=9") == 2
    assert "train.speed" in capsys.readouterr().err
    assert pipeline("trian") == 2
    assert "prepare, import, summary, attention, train, adapt, evaluate" in capsys.readouterr().err
    assert pipeline("train") == 2
    assert "--recipe" in capsys.readouterr().err


def test_the_record_is_json_a_reader_can_use(pipeline, make_data, recipe, tmp_path) -> None:
    assert (
        pipeline("train", "--recipe", recipe, "--data", make_data(), "--threads", 1, "--set", "train.steps=2")
        == 0
    )
    record = json.loads((tmp_path / "runs/tiny/train/stage.json").read_text())
    assert record["results"]["steps"] == 2 and len(record["key"]) == 64
    assert set(record["outputs"]) == {"best.safetensors", "last.safetensors"}
    assert set(record["inputs"]) == {"dataset.toml", "train data", "val data"}


def test_it_stops_early_and_stays_stopped(pipeline, make_data, recipe, tmp_path, capsys) -> None:
    """Without a learning rate no validation after the first is better."""
    sets = ("train.lr=0", "train.ema=0", "train.steps=40", "train.eval_every=2", "train.patience=3")
    options = [option for setting in sets for option in ("--set", setting)]
    command = ("train", "--recipe", recipe, "--data", make_data(), "--threads", 1, *options)
    assert pipeline(*command) == 0
    folder = tmp_path / "runs/tiny/train"
    said, steps = capsys.readouterr().out, json.loads((folder / "stage.json").read_text())["results"]["steps"]
    assert steps < 40 and "stopped early: nothing better in 3 validations" in said
    rows = read_log(folder / "log.csv")
    miou = [row["val_miou"] for row in rows if "val_miou" in row]
    assert max(miou) > max(miou[-3:]) or len(miou) == 4
    assert rows[-1]["step"] == steps
    (folder / "stage.json").unlink()  # as if killed before it was closed
    assert pipeline(*command) == 0
    assert f"going on after step {steps} of 40" in capsys.readouterr().out
    assert json.loads((folder / "stage.json").read_text())["results"]["steps"] == steps
    assert read_log(folder / "log.csv") == rows


def test_tensorboard_gets_the_log(pipeline, make_data, recipe, tmp_path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    command = ("train", "--recipe", recipe, "--data", make_data(), "--threads", 1, "--tensorboard")
    assert pipeline(*command) == 0
    folder = tmp_path / "runs/tiny/train"
    events = accumulator.EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    for name in ("loss", "lr", "val_miou"):
        logged = [(row["step"], row[name]) for row in read_log(folder / "log.csv") if name in row]
        shown = [(event.step, event.value) for event in events.Scalars(name)]
        assert [step for step, _ in shown] == [step for step, _ in logged]
        assert [v for _, v in shown] == pytest.approx([v for _, v in logged], rel=1e-5)


def test_tensorboard_that_is_not_installed_is_said_before_any_work(
    pipeline, make_data, recipe, tmp_path, capsys, monkeypatch
) -> None:
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "tensorboard" else find(name, *more)
    )
    assert pipeline("train", "--recipe", recipe, "--data", make_data(), "--tensorboard") == 2
    assert "pip install 'edgeseg[tensorboard]'" in capsys.readouterr().err
    assert not (tmp_path / "runs/tiny/train").exists()
