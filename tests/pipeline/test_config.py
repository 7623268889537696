"""Recipes: every setting typed and checked, unknown keys listed, the shipped recipes readable."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path

import pytest

from deploy.errors import InputError
from pipeline.config import Recipe, TrainConfig, load_recipe, settings

ROOT = Path(__file__).resolve().parents[2]


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "some.toml"
    path.write_text(text)
    return path


def test_an_empty_recipe_has_the_defaults_and_the_files_name(tmp_path: Path) -> None:
    assert load_recipe(write(tmp_path, "")) == Recipe(name="some")


@pytest.mark.parametrize("path", sorted((ROOT / "recipes").glob("*.toml")), ids=lambda p: p.stem)
def test_shipped_recipes_are_valid_and_named_like_their_file(path: Path) -> None:
    recipe = load_recipe(path)
    assert recipe.name == path.stem and recipe.train.steps > recipe.train.warmup


def test_values_are_read_and_set_on_top(tmp_path: Path) -> None:
    path = write(tmp_path, '[data]\nsize = "360x480"\n[train]\nlr = 1\n[augment]\nscale = [0.5, 1]\n')
    recipe = load_recipe(
        path, ["train.lr=3e-4", "model.attention=softmax", "data.size=96x128", "train.steps=60"]
    )
    assert recipe.train.lr == 3e-4 and recipe.train.steps == 60
    assert recipe.model.attention == "softmax"
    assert recipe.data.size == (96, 128) and recipe.augment.scale == (0.5, 1.0)


@pytest.mark.parametrize("text", ["[train]\nsteps_typo = 3", "[trian]\nsteps = 3"])
def test_an_unknown_key_is_an_error_that_lists_the_known_ones(tmp_path: Path, text: str) -> None:
    with pytest.raises(
        InputError, match=r"unknown key \| got (train\.steps_typo|trian) \| expected one of .*"
    ) as error:
        load_recipe(write(tmp_path, text))
    known = [f.name for f in dataclasses.fields(TrainConfig if "typo" in text else Recipe)]
    assert all(name in str(error.value) for name in known)


@pytest.mark.parametrize("text", ["train.steps_typo=3", "trian.steps=3"])
def test_an_unknown_key_in_set_is_the_same_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match="unknown key"):
        load_recipe(write(tmp_path, ""), [text])


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("train.lr=fast", "train.lr .* got 'fast' .* a number"),
        ("train.steps=2.5", "train.steps .* a whole number"),
        ("train.steps=true", "train.steps .* a whole number"),
        ("train.steps=0", "train.steps .* 1 to 1e"),
        ("train.steps=1" + "0" * 5000, "train.steps .* a whole number"),
        ("train.lr=-1", "train.lr .* 0 to 10"),
        ("train.lr=nan", "train.lr .* got nan .* 0 to 10"),
        ("train.clip=inf", "train.clip .* at least 0"),
        ("model.attention=quadratic", "model.attention .* linear, softmax"),
        ("model.activation=tanh", "model.activation .* published, relu"),
        ("data.size=192", "data.size .* a size"),
        ("data.size=16x16", "data.size .* 32 to 8192"),
        ("augment.scale=[2, 1]", r"augment.scale .* \[low, high\]"),
        ("augment.scale=0.5", r"augment.scale .* \[low, high\]"),
        ("train=5", "expected section.key=value"),
        ("train.lr", "expected section.key=value"),
        ("name=../up", "recipe name .* letters"),
        ("train.warmup=1000", "train.warmup .* less than train.steps=1000"),
        ("finish.share=1.5", "finish.share .* 0 to 1"),
        ("data.val_split=train", "data.val_split .* another split"),
    ],
)
def test_wrong_values_say_what_was_expected(tmp_path: Path, setting: str, message: str) -> None:
    with pytest.raises(InputError, match=message.replace(" .* ", ".*")):
        load_recipe(write(tmp_path, ""), [setting])


def test_a_missing_or_broken_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read recipe .*none\.toml"):
        load_recipe(tmp_path / "none.toml")
    with pytest.raises(InputError, match=r"some\.toml is not valid TOML"):
        load_recipe(write(tmp_path, "[train"))
    with pytest.raises(InputError, match="/dev/zero is too large"):
        load_recipe("/dev/zero")


def test_a_byte_order_mark_is_no_setting(tmp_path: Path) -> None:
    assert load_recipe(write(tmp_path, "\ufeff[train]\nsteps = 77")).train.steps == 77


def test_settings_leave_out_what_cannot_change_the_result(tmp_path: Path) -> None:
    path = write(tmp_path, "")
    usual = settings(load_recipe(path))
    assert (
        settings(
            load_recipe(path, ["train.workers=2", "data.cache_gb=0", "data.dir=elsewhere", "name=other"])
        )
        == usual
    )
    assert settings(load_recipe(path, ["train.seed=1"])) != usual


def test_a_setting_added_later_leaves_older_trainings_what_they_are() -> None:
    """The digest of all defaults is that of the first version: a change here makes every stored run stale."""
    digest = hashlib.sha256(json.dumps(settings(Recipe()), sort_keys=True).encode()).hexdigest()
    assert digest == "0c249ad0204d06b51b2e576ed100cdf03c4641e94be2561373944ea7e9f31d8f"
    stops = dataclasses.replace(Recipe(), train=TrainConfig(patience=3))
    assert settings(stops)["train"]["patience"] == 3 and "patience" not in settings(Recipe())["train"]
    assert settings(Recipe(), with_how=True)["train"]["patience"] == 0
