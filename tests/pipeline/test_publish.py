"""A finished run becomes a zoo entry: the card says what the run's files say, its name is a checkpoint."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from deploy.files import sha256_file
from pipeline.artifact import read_record
from pipeline.config import load_recipe, settings
from pipeline.models.checkpoints import read_meta, resolve_checkpoint

FILES = {"README.md", "card.json", "curves.png", "log.csv", "model.safetensors", "recipe.toml"}


@pytest.fixture
def trained(pipeline, make_data, recipe, tmp_path) -> Path:
    """A finished run named `street`, with a setting of every kind off its default."""
    sets = ("augment.scale=[0.75, 1]", "finish.share=0.3", "finish.size=48x64", "finish.batch=1")
    options = [word for setting in sets for word in ("--set", setting)]
    data = make_data()
    text = (data / "dataset.toml").read_text()
    (data / "dataset.toml").write_text(text + 'source = "drawn boxes"\nlicence = "academic research"\n')
    command = ("train", "--recipe", recipe, "--data", data, "--run", "street", "--threads", 1)
    assert pipeline(*command, *options) == 0
    return tmp_path / "runs/street/train"


def test_the_card_says_what_the_runs_files_say(pipeline, trained, tmp_path, capsys) -> None:
    assert pipeline("publish", "--run", "street", "--name", "street_b0") == 0
    entry = tmp_path / "zoo/street_b0"
    assert {path.name for path in entry.iterdir()} == FILES
    assert (entry / "model.safetensors").read_bytes() == (trained / "best.safetensors").read_bytes()
    card, text = json.loads((entry / "card.json").read_text()), (entry / "README.md").read_text()
    record, meta = read_record(trained / "stage.json"), read_meta(trained / "best.safetensors")
    assert record and card["metrics"] == meta.metrics
    assert card["training"]["commit"] == record["notes"]["git_commit"] and card["training"]["steps"] == 6
    assert card["training"]["images"] == 4 * 2 + 2 * 1 and card["training"]["validations"] == 2
    rows = list(csv.DictReader((trained / "log.csv").open()))
    hours = sum(float(row["seconds"]) for row in rows) / 3600
    assert card["training"]["hours"] == pytest.approx(hours)
    stepping = sum(float(row["seconds"]) for row in rows if row["loss"])
    assert card["training"]["images_per_s"] == pytest.approx(10 / stepping)
    for word in (
        "# street_b0",
        "academic research",
        "drawn boxes",
        f"{meta.metrics['miou']:.4f}",
        *(f"| {name} | {value:.4f} |" for name, value in meta.metrics["iou"].items()),
        str(record["notes"]["git_commit"]),
        f"{hours:.2f} hours in all",
        card["training"]["machines"][0]["machine"]["cpu_model"],
        sha256_file(trained / "best.safetensors"),
        "(curves.png)",
    ):
        assert word in text, word
    assert str(tmp_path) not in text + (entry / "card.json").read_text(), "no path of this machine"


def test_the_recipe_of_the_entry_is_the_runs(pipeline, trained, tmp_path, capsys) -> None:
    assert pipeline("publish", "--run", "street") == 0
    recipe = tmp_path / "zoo/street/recipe.toml"
    record = read_record(trained / "stage.json")
    assert record and json.loads(json.dumps(settings(load_recipe(recipe)))) == record["settings"]
    capsys.readouterr()
    assert pipeline("train", "--recipe", recipe, "--data", "data", "--run", "street") == 0
    assert "cached" in capsys.readouterr().out


def test_the_name_works_as_a_checkpoint_and_an_ambiguous_one_does_not(
    pipeline, trained, recipe, tmp_path, capsys
) -> None:
    assert pipeline("publish", "--run", "street") == 0
    assert resolve_checkpoint("street") == Path("runs/street/train/best.safetensors"), "equal: the run"
    assert pipeline("publish", "--run", "street", "--name", "other") == 0
    assert pipeline("evaluate", "--checkpoint", "other", "--data", "data") == 0
    assert "zoo/other/model.safetensors" in capsys.readouterr().out
    again = ("train", "--recipe", recipe, "--data", "data", "--threads", 1, "--set", "train.steps=2")
    assert pipeline(*again, "--run", "third", "--set", "model.init=other") == 0
    assert "starting from zoo/other/model.safetensors" in capsys.readouterr().out
    assert pipeline(*again, "--run", "other") == 0
    assert pipeline("evaluate", "--checkpoint", "other", "--data", "data") == 2
    error = capsys.readouterr().err
    assert "'other' is ambiguous" in error and "write runs/other or zoo/other" in error
    for name, file in (("zoo/other", "model"), ("runs/other", "train/best")):
        assert resolve_checkpoint(name) == Path(name, f"{file}.safetensors")


def test_a_run_without_times_and_machines_says_so(pipeline, trained, tmp_path) -> None:
    rows = list(csv.reader((trained / "log.csv").open()))
    (trained / "log.csv").write_text("\n".join(",".join(row[:-1]) for row in rows) + "\n")
    (trained / "machines.json").unlink()
    assert pipeline("publish", "--run", "street") == 0
    text = (tmp_path / "zoo/street/README.md").read_text()
    assert "time: not recorded" in text and "machine: not recorded" in text


def test_what_cannot_be_published(pipeline, trained, tmp_path, capsys) -> None:
    (tmp_path / "zoo/mine").mkdir(parents=True)
    (tmp_path / "zoo/mine/notes.txt").write_text("precious")
    assert pipeline("publish", "--run", "street", "--name", "mine") == 2
    assert "zoo/mine exists and is no zoo entry" in capsys.readouterr().err
    assert pipeline("publish", "--run", "strete") == 2
    assert "runs/strete/train holds no finished training" in capsys.readouterr().err
    for name in ("../x", "a/b", ".x"):
        assert pipeline("publish", "--run", "street", "--name", name) == 2
    shutil.copyfile(trained / "last.safetensors", trained / "best.safetensors")
    (trained / "best.safetensors").write_bytes((trained / "best.safetensors").read_bytes() + b"x")
    assert pipeline("publish", "--run", "street") == 2
    assert "was changed since it was finished | got best.safetensors" in capsys.readouterr().err
    assert not (tmp_path / "zoo/street").exists()
    assert (tmp_path / "zoo/mine/notes.txt").read_text() == "precious"
