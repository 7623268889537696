"""`import`: what a file is follows from its tensors; whatever else a file may be is refused in one line."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
import torch

from deploy.errors import InputError
from pipeline.datasets.published import class_list
from pipeline.import_official import run
from pipeline.models.checkpoints import CheckpointMeta, load_checkpoint, read_meta, save_checkpoint
from pipeline.models.efficientvit import create_model
from pipeline.models.official import Identity, identify, import_official

OFFICIAL = [(variant, "cityscapes") for variant in ("b0", "b1", "b2", "b3", "l1", "l2")]
OFFICIAL += [(variant, "ade20k") for variant in ("b1", "b2", "b3", "l1", "l2")]


@pytest.fixture(scope="module")
def state():
    torch.manual_seed(0)
    return create_model("b0", 19).state_dict()


def arguments(checkpoint: Path, out: Path | None = None, name: str | None = None) -> argparse.Namespace:
    return argparse.Namespace(checkpoint=checkpoint, out=out, run=name)


@pytest.mark.parametrize("classes", [None, 7])
@pytest.mark.parametrize(("variant", "head"), OFFICIAL)
def test_all_eleven_are_told_apart(variant, head, classes):
    count = classes or {"cityscapes": 19, "ade20k": 150}[head]
    with torch.device("meta"):
        found = identify(create_model(variant, count, head=head).state_dict(), "x.pt")
    assert found == Identity(variant, head, count)


@pytest.mark.parametrize("wrapped", [True, False])
def test_import_round_trip(state, tmp_path, wrapped):
    source = tmp_path / "weights ü.pt"
    torch.save({"state_dict": state} if wrapped else state, source)
    assert run(arguments(source, tmp_path / "out")) == 0
    model, meta = load_checkpoint(tmp_path / "out" / "best.safetensors")
    assert meta.model == {"variant": "b0", "attention": "linear", "classes": 19, "head": "cityscapes"}
    assert meta.dataset["classes"][10] == "sky"
    assert meta.provenance["imported_from"] == source.name
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


def test_half_precision_weights_become_float32(state, tmp_path):
    source = tmp_path / "half.pt"
    torch.save({n: v.half() if v.is_floating_point() else v for n, v in state.items()}, source)
    assert {v.dtype for v in import_official(source)[0].values()} == {torch.float32, torch.int64}


def test_unofficial_class_count_has_no_class_names(tmp_path):
    source = tmp_path / "eleven.pt"
    torch.save(create_model("b0", 11).state_dict(), source)
    meta = import_official(source)[1]
    assert meta.model["classes"] == 11
    assert meta.dataset == {}


def test_import_as_a_run_never_replaces_a_training(state, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save(state, "w.pt")
    assert run(arguments(Path("w.pt"), name="official")) == 0
    assert run(arguments(Path("w.pt"), name="official")) == 0, "an import may be repeated"
    target = Path("runs/official/train/best.safetensors")
    save_checkpoint(target, state, CheckpointMeta(read_meta(target).model))
    with pytest.raises(InputError, match="was trained"):
        run(arguments(Path("w.pt"), name="official"))
    with pytest.raises(InputError, match="run name"):
        run(arguments(Path("w.pt"), name="../official"))


def test_what_does_not_fit_is_named(state, tmp_path):
    odd = dict(state)
    odd["head.typo"] = odd.pop("head.input_ops.2.conv.weight")
    torch.save(odd, tmp_path / "odd.pt")
    with pytest.raises(
        InputError, match=r"nearest is b0 cityscapes: head.input_ops.2.conv.weight missing, head.typo"
    ):
        import_official(tmp_path / "odd.pt")


def _bytes(content: bytes):
    return lambda path, state: path.write_bytes(content)


def _saved(make):
    return lambda path, state: torch.save(make(state), path)


def _truncated(path: Path, state) -> None:
    torch.save(state, path)
    path.write_bytes(path.read_bytes()[:-1000])


class Hostile:
    """Unpickling this would run code."""

    def __reduce__(self):
        return (Path.touch, (Path("owned"),))


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda path, state: None, "does not exist"),
        (_bytes(b""), "cannot be read"),
        (_bytes(b"hello"), "cannot be read"),
        (_truncated, "cannot be read"),
        (_saved(lambda state: Hostile()), "objects to unpickle"),
        (_saved(lambda state: {"state_dict": {**state, "x": Hostile()}}), "objects to unpickle"),
        (_saved(lambda state: [1, 2]), "a list"),
        (_saved(lambda state: {}), "state dict"),
        (_saved(lambda state: {"state_dict": {"a": 1}}), "state dict"),
        (_saved(lambda state: {"a": torch.zeros(3)}), "no EfficientViT segmenter"),
        (_saved(lambda state: {**state, "head.input_ops.2.norm.bias": torch.full((32,), torch.nan)}), "NaN"),
    ],
)
def test_bad_files_are_refused(state, tmp_path, monkeypatch, write, words):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "bad.pt", state)
    with pytest.raises(InputError, match=words) as error:
        run(arguments(tmp_path / "bad.pt", tmp_path / "out"))
    assert "bad.pt" in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "owned").exists()
    assert not (tmp_path / "out").exists()


def test_class_lists_are_complete():
    for name, count in (("cityscapes", 19), ("ade20k", 150)):
        known = class_list(name)
        assert len(known["classes"]) == len(set(known["classes"])) == count
        assert len(known["palette"]) == count
        assert all(len(c) == 3 and all(0 <= v <= 255 for v in c) for c in known["palette"])
