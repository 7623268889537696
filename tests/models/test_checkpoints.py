"""Checkpoints: round trip, equal bytes, hostile files, starting from another one, finding one by name."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from deploy.errors import InputError
from pipeline.models.checkpoints import (
    CheckpointMeta,
    checkpoint_samples,
    init_from,
    load_checkpoint,
    load_weights,
    read_meta,
    resolve_checkpoint,
    save_checkpoint,
)
from pipeline.models.efficientvit import create_model

MODEL = {"variant": "b0", "attention": "linear", "classes": 4, "head": "cityscapes"}
DATASET = {"name": "strassenbild-ü", "classes": ["a", "b", "c", "d"], "palette": [[0, 0, 0]] * 4}


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return create_model("b0", 4).eval()


@pytest.fixture
def checkpoint(model, tmp_path: Path) -> Path:
    path = tmp_path / "runs" / "street" / "train" / "best.safetensors"
    save_checkpoint(path, model.state_dict(), CheckpointMeta(MODEL, DATASET, metrics={"miou": 0.5}))
    return path


def test_round_trip(model, checkpoint):
    loaded, meta = load_checkpoint(checkpoint)
    assert not loaded.training
    assert meta == read_meta(checkpoint) == CheckpointMeta(MODEL, DATASET, metrics={"miou": 0.5})
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in loaded.state_dict().items())
    x = torch.randn(1, 3, 64, 64)
    assert torch.equal(loaded(x), model(x))


def test_another_activation_comes_back(model, checkpoint, tmp_path):
    relu = create_model("b0", 4, activation="relu")
    assert init_from(relu, checkpoint) == [], "the weights are a start for any activation"
    path = tmp_path / "relu.safetensors"
    save_checkpoint(path, relu.state_dict(), CheckpointMeta({**MODEL, "activation": "relu"}, DATASET))
    loaded, meta = load_checkpoint(path)
    assert loaded.activation == meta.model["activation"] == "relu" and model.activation == "hardswish"
    x = torch.randn(1, 3, 64, 64)
    assert torch.equal(loaded(x), relu.eval()(x)) and not torch.allclose(loaded(x), model(x))


def test_equal_input_gives_equal_bytes(model, checkpoint, tmp_path):
    again = tmp_path / "again.safetensors"
    shuffled = dict(reversed(list(model.state_dict().items())))
    save_checkpoint(again, shuffled, CheckpointMeta(MODEL, DATASET, metrics={"miou": 0.5}))
    assert again.read_bytes() == checkpoint.read_bytes()
    assert sorted(p.name for p in checkpoint.parent.iterdir()) == ["best.safetensors"], (
        "no temporary file stays"
    )


@pytest.mark.parametrize("keep", [0, 4, 100, 5_000, -1])
def test_truncated_file_is_refused(checkpoint, keep):
    checkpoint.write_bytes(checkpoint.read_bytes()[:keep])
    with pytest.raises(InputError, match="cannot be read"):
        load_checkpoint(checkpoint)


def test_header_that_claims_to_be_huge_is_refused(checkpoint):
    checkpoint.write_bytes(struct.pack("<Q", 2**62) + checkpoint.read_bytes()[8:])
    with pytest.raises(InputError, match="cannot be read"):
        read_meta(checkpoint)


def test_pickle_is_refused_under_any_name(model, tmp_path):
    for name, words in (("model.pt", "pickle.*pipeline import"), ("model.safetensors", "cannot be read")):
        torch.save(model.state_dict(), tmp_path / name)
        with pytest.raises(InputError, match=words):
            load_checkpoint(tmp_path / name)


@pytest.mark.parametrize(
    ("description", "words"),
    [
        (None, "does not say what model"),
        ("not json", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "unknown description"),
        ({"model": MODEL, "weights": {}}, "unknown description.*weights"),
        ({"dataset": {}}, "unknown description"),
        ({"model": "b0"}, "model is not a table"),
        ({"model": {"variant": "b0"}}, "does not fit"),
        ({"model": {**MODEL, "classes": "4"}}, "does not fit"),
        ({"model": {**MODEL, "classes": True}}, "does not fit"),
        ({"model": {**MODEL, "variant": "b7"}}, "unknown model variant"),
        ({"model": {**MODEL, "activation": "swish"}}, "unknown activation"),
        ({"model": {**MODEL, "activation": 1}}, "does not fit"),
        ({"model": {**MODEL, "act": "relu"}}, "does not fit"),
        ({"model": {**MODEL, "classes": 10**9}}, "out of range"),
        ({"model": MODEL, "dataset": {"classes": True}}, "dataset: classes"),
        ({"model": MODEL, "dataset": {"classes": ["a", "b"]}}, "dataset.classes.*2 names.*4"),
        ({"model": MODEL, "dataset": {"palette": [[0, 0, 256]]}}, "dataset: palette"),
        ({"model": MODEL, "dataset": {"ignore_index": "no"}}, "dataset: ignore_index"),
        ({"model": MODEL, "dataset": {"name": "\x07"}}, "dataset: name"),
        ({"model": {**MODEL, "variant": "b1"}}, "do not fit the model.*for"),
        ({"model": {**MODEL, "classes": 5}}, r"do not fit.*\[4, 128, 1, 1\] for \[5, 128, 1, 1\]"),
    ],
)
def test_wrong_description_is_refused(model, tmp_path, description, words):
    path = tmp_path / "odd.safetensors"
    text = description if isinstance(description, str) else json.dumps(description)
    save_file(model.state_dict(), path, {"edgeseg": text} if description is not None else None)
    with pytest.raises(InputError, match=words):
        load_checkpoint(path)


def test_what_does_not_fit_is_named(model):
    state = dict(model.state_dict())
    state["head.extra"] = state.pop("backbone.input_stem.op_list.0.conv.weight")
    with pytest.raises(
        InputError, match=r"somewhere.*input_stem.op_list.0.conv.weight missing, head.extra unknown"
    ):
        load_weights(create_model("b0", 4), state, "somewhere")


@pytest.mark.parametrize("change", [lambda t: t.fill_(float("nan")), lambda t: t.int()])
def test_weights_that_are_no_finite_numbers_are_refused(model, change):
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    name = "backbone.input_stem.op_list.0.conv.weight"
    state[name] = change(state[name])
    with pytest.raises(InputError, match=f"somewhere.*{name}.*finite"):
        load_weights(create_model("b0", 4), state, "somewhere")


def test_init_keeps_the_backbone_and_replaces_the_head(model, checkpoint):
    other = create_model("b0", 7)
    head = {name: value.clone() for name, value in other.head.state_dict().items()}
    fresh = init_from(other, checkpoint)
    assert fresh
    assert all(name.startswith("head.") for name in fresh)
    for name, value in other.backbone.state_dict().items():
        assert torch.equal(value, model.backbone.state_dict()[name])
    for name, value in other.head.state_dict().items():
        assert torch.equal(value, head[name])


def test_init_with_the_same_classes_takes_everything(model, checkpoint):
    other = create_model("b0", 4, attention="softmax")
    assert init_from(other, checkpoint) == []
    assert torch.equal(other.head.classifier.weight, model.head.classifier.weight)


def test_init_from_another_variant_is_refused(checkpoint):
    with pytest.raises(InputError, match=r"another model.*b0.*b1"):
        init_from(create_model("b1", 4), checkpoint)


def test_checkpoints_are_found_by_run_zoo_name_folder_and_file(checkpoint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    zoo = Path("zoo/tiny/model.safetensors")
    zoo.parent.mkdir(parents=True)
    zoo.write_bytes(checkpoint.read_bytes())
    run = Path("runs/street/train/best.safetensors")
    for name in ("street", "runs/street", "runs/street/train", str(run)):
        assert resolve_checkpoint(name) == run
    assert resolve_checkpoint(checkpoint) == checkpoint
    assert resolve_checkpoint("tiny") == zoo
    for name in ("strete", "../street", ""):
        with pytest.raises(InputError, match=r"no checkpoint.*existing: street, tiny"):
            resolve_checkpoint(name)


def test_missing_checkpoint_says_when_there_is_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="none yet"):
        resolve_checkpoint("street")


def test_samples_lie_beside_the_checkpoint(checkpoint):
    assert checkpoint_samples(checkpoint) is None
    (checkpoint.parent / "samples" / "images").mkdir(parents=True)
    assert checkpoint_samples(checkpoint) == checkpoint.parent / "samples"
