"""`pipeline adapt`: a domain's checkpoint holds only what it adds, the base stays, errors are clear."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from deploy.errors import InputError
from deploy.files import sha256_file
from pipeline.models.arithmetic import adapter_parameters
from pipeline.models.checkpoints import (
    KEY,
    CheckpointMeta,
    init_from,
    load_checkpoint,
    read_meta,
    resolve_checkpoint,
    save_checkpoint,
)
from pipeline.models.efficientvit import create_model

X = torch.randn(1, 3, 48, 64, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """zoo/street: a base of four classes."""
    torch.manual_seed(0)
    path = tmp_path / "zoo" / "street" / "model.safetensors"
    path.parent.mkdir(parents=True)
    meta = CheckpointMeta({"variant": "b0", "attention": "linear", "classes": 4, "head": "cityscapes"})
    save_checkpoint(path, create_model("b0", 4).state_dict(), meta)
    return path


@pytest.fixture
def adapted(pipeline, make_data, recipe, base) -> tuple[str, Path]:
    """The run of an adapter on the tiny folder, and its checkpoint."""
    data = make_data("rural")
    command = ("adapt", "--checkpoint", "street", "--data", data, "--recipe", recipe, "--threads", 1)
    assert pipeline(*command, "--bottleneck", 4) == 0
    return "street+rural", Path("runs/street+rural/train/best.safetensors")


def test_a_domain_holds_only_what_it_adds(adapted, base, capsys) -> None:
    _, path = adapted
    before = sha256_file(base)
    model, meta = load_checkpoint(path)
    assert meta.base == {"name": "street", "sha256": before} and meta.model["classes"] == 3
    assert meta.model["adaptation"]["method"] == "adapter" and meta.model["adaptation"]["bottleneck"] == 4
    own, state, theirs = load_file(path), model.state_dict(), load_file(base)
    assert 0 < path.stat().st_size < base.stat().st_size / 10
    assert all(torch.equal(state[name], value) for name, value in own.items())
    frozen = set(state) - set(own)
    assert len(frozen) > 100 and all(torch.equal(state[name], theirs[name]) for name in frozen)
    moved = [name for name in own if name in theirs and not torch.equal(own[name], theirs[name])]
    assert moved and not any("running_" in name for name in own)
    with pytest.raises(InputError, match=r"is a domain's.*start from street"):
        init_from(create_model("b0", 3), path)


def test_the_adapted_model_works_wherever_a_checkpoint_is_asked_for(
    adapted, pipeline, make_data, tmp_path, capsys
) -> None:
    name, _ = adapted
    out = tmp_path / "result.json"
    assert pipeline("evaluate", "--checkpoint", name, "--data", tmp_path / "rural", "--json", out) == 0
    assert json.loads(out.read_text())["images"] == 3


def test_another_base_is_refused(adapted, base) -> None:
    _, path = adapted
    torch.manual_seed(1)
    save_checkpoint(base, create_model("b0", 4).state_dict(), read_meta(base))
    with pytest.raises(InputError, match="needs another street"):
        load_checkpoint(path)
    base.unlink()
    with pytest.raises(InputError, match="needs its base street, which is not there"):
        load_checkpoint(path)


def test_of_a_run_and_a_zoo_entry_of_one_name_the_right_one_is_the_base(adapted, base) -> None:
    _, path = adapted
    torch.manual_seed(1)
    other = Path("runs/street/train/best.safetensors")
    save_checkpoint(other, create_model("b0", 4).state_dict(), read_meta(base))
    with pytest.raises(InputError, match="ambiguous"):
        resolve_checkpoint("street")
    assert load_checkpoint(path)[1].base["sha256"] == sha256_file(base)


@pytest.mark.parametrize("name", ["../zoo/street", "/etc/passwd", "", ".."])
def test_a_base_is_a_name(adapted, name: str) -> None:
    _, path = adapted
    _rewrite(path, base={"name": name, "sha256": "0" * 64})
    with pytest.raises(InputError, match="base does not fit"):
        load_checkpoint(path)


def test_added_or_missing_tensors_are_refused(adapted) -> None:
    _, path = adapted
    tensors = load_file(path)
    with safe_open(path, "pt") as file:
        header = file.metadata()
    save_file({**tensors, "backbone.input_stem.op_list.0.conv.weight": torch.zeros(8, 3, 3, 3)}, path, header)
    with pytest.raises(InputError, match="not what its method adds"):
        load_checkpoint(path)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--method", "prompt"), "unknown method"),
        (("--head", "none"), "unknown head"),
        (("--checkpoint", "nowhere"), "no checkpoint"),
        (("--checkpoint", "zoo/street"), "is a path"),
        (("--bottleneck", "0"), "bottleneck"),
    ],
)
def test_wrong_use_is_one_line(pipeline, make_data, recipe, base, capsys, arguments, says) -> None:
    command = ("adapt", "--checkpoint", "street", "--data", make_data("rural"), "--recipe", recipe)
    assert pipeline(*command, *arguments) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1 and not Path("runs").exists()


def test_the_base_is_as_it_was(pipeline, make_data, recipe, base) -> None:
    before, model = sha256_file(base), load_checkpoint(base)[0]
    with torch.inference_mode():
        logits = model(X)
    command = ("adapt", "--checkpoint", "street", "--data", make_data("rural"), "--recipe", recipe)
    for method in ("adapter", "full"):
        assert pipeline(*command, "--method", method, "--bn-stats", "domain", "--run", method) == 0
    assert sha256_file(base) == before
    with torch.inference_mode():
        assert torch.equal(load_checkpoint(base)[0](X), logits)
        moved = load_checkpoint("runs/full/train/best.safetensors")[0]
        assert not torch.equal(moved.backbone(X)[0], model.backbone(X)[0])


@pytest.mark.parametrize(
    "setting", ["model.variant=b1", "model.attention=softmax", "model.head=ade20k", "model.activation=relu"]
)
def test_train_refuses_a_base_of_another_model(pipeline, make_data, recipe, base, capsys, setting) -> None:
    command = ("train", "--recipe", recipe, "--data", make_data("rural"), "--set", "adapt.base=street")
    assert pipeline(*command, "--set", setting) == 2
    error = capsys.readouterr().err
    assert setting.partition("=")[0] in error and "its base's" in error and not Path("runs").exists()


def test_a_published_domain_is_what_it_adds(adapted, pipeline, base, tmp_path) -> None:
    name, path = adapted
    assert pipeline("publish", "--run", name) == 0
    entry = tmp_path / "zoo" / name
    assert (entry / "model.safetensors").read_bytes() == path.read_bytes()
    card, text = json.loads((entry / "card.json").read_text()), (entry / "README.md").read_text()
    assert card["base"] == {"name": "street", "sha256": sha256_file(base)}
    assert card["trained"]["adapters"] == 4 * adapter_parameters(64, 4) + 4 * adapter_parameters(128, 4)
    assert "A domain of **street**" in text and f"adapters {card['trained']['adapters']:,}" in text
    assert "| class | IoU | Dice |" in text
    path.unlink()
    model, _ = load_checkpoint(resolve_checkpoint(name))
    assert model.classes == 3
    again = ("train", "--recipe", entry / "recipe.toml", "--data", tmp_path / "rural", "--run", "again")
    assert pipeline(*again, "--threads", 1) == 0
    assert read_meta(Path("runs/again/train/best.safetensors")).base == card["base"]


def test_a_domain_is_no_base(adapted, pipeline, recipe, tmp_path, capsys) -> None:
    name, _ = adapted
    command = ("adapt", "--checkpoint", name, "--data", tmp_path / "rural", "--recipe", recipe)
    assert pipeline(*command) == 2
    assert "is a domain itself" in capsys.readouterr().err


def _rewrite(path: Path, **changes: object) -> None:
    """The same tensors with another description."""
    with safe_open(path, "pt") as file:
        meta = json.loads(file.metadata()[KEY])
    save_file(load_file(path), path, {KEY: json.dumps({**meta, **changes})})
