"""A small untrained network as a finished run, its bundle, and the export command line in this process."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from deploy.bundle import Bundle, load_bundle
from deploy.errors import run_cli
from deploy.labels import DatasetInfo, read_dataset
from export.__main__ import main
from pipeline.datasets.synthetic import generate
from pipeline.models.checkpoints import CheckpointMeta, save_checkpoint
from pipeline.models.efficientvit import EfficientViTSeg, create_model

ROOT = Path(__file__).resolve().parents[2]
SIZE = (75, 93)  # neither is a multiple of 32, of 8, or of 2
Export = Callable[..., int]
MakeModel = Callable[[str], EfficientViTSeg]


@pytest.fixture
def export_cli(monkeypatch: pytest.MonkeyPatch) -> Export:
    """export_cli("build", "--checkpoint", ...) -> exit status, as `python -m export` has it."""

    def call(*words: object) -> int:
        monkeypatch.setattr(sys, "argv", ["export", *map(str, words)])
        return run_cli(main)

    return call


@pytest.fixture(scope="session")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> DatasetInfo:
    """A labelled folder of drawn scenes, 9 classes: 2 to train on, 40 in val, 64x80."""
    return read_dataset(
        generate(tmp_path_factory.mktemp("data") / "scenes", train=2, val=40, size=(64, 80), seed=5)
    )


@pytest.fixture(scope="session")
def trained() -> Path:
    """A trained checkpoint, the zoo's or $EDGESEG_CHECKPOINT: untrained sums are small."""
    shipped = ROOT / "zoo" / "street_b0_linear" / "model.safetensors"
    path = Path(os.environ.get("EDGESEG_CHECKPOINT", shipped))
    if not path.is_file():
        pytest.skip(f"no trained checkpoint: neither {shipped.relative_to(ROOT)} nor $EDGESEG_CHECKPOINT")
    return path


@pytest.fixture(scope="session")
def make_model() -> MakeModel:
    """make_model("linear" | "softmax"): a B0 of 9 classes, its BatchNorm statistics not the initial ones."""

    def make(attention: str) -> EfficientViTSeg:
        torch.manual_seed(0)
        model = create_model("b0", 9, attention)
        for module in model.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.running_mean.normal_(0, 0.05)
                module.running_var.uniform_(0.5, 1.5)
        return model.eval()

    return make


@dataclass(frozen=True)
class Built:
    """A run, and the bundle that the command line made of it."""

    checkpoint: Path
    model: EfficientViTSeg
    bundle: Bundle
    home: Path


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory, scenes: DatasetInfo, make_model: MakeModel) -> Built:
    """`runs/street/train/best.safetensors` with samples, exported from its own folder by name."""
    home = tmp_path_factory.mktemp("home with spaces")
    run = home / "runs" / "street" / "train"
    for part in ("images", "masks"):
        shutil.copytree(scenes.root / "train" / part, run / "samples" / part)
    model = make_model("linear")
    dataset = {
        "name": scenes.name,
        "classes": list(scenes.classes),
        "palette": [list(colour) for colour in scenes.palette],
        "ignore_index": scenes.ignore_index,
        "licence": "drawn here",
    }
    spec = {"variant": "b0", "attention": "linear", "classes": 9, "head": "cityscapes"}
    meta = CheckpointMeta(spec, dataset, {"size": list(SIZE), "resize": "stretch"})
    save_checkpoint(run / "best.safetensors", model.state_dict(), meta)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        patch.setattr(sys, "argv", ["export", "build", "--checkpoint", "street", "--target", "onnxruntime"])
        assert run_cli(main) == 0
        bundle = load_bundle(home / "bundles" / "street-onnxruntime-fp32")
    return Built(run / "best.safetensors", model, bundle, home)


@pytest.fixture(scope="session")
def export_bundle(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Bundle]:
    """export_bundle(target, precision, *options) -> the untrained run's bundle, built once."""
    made: dict[tuple[str, ...], Bundle] = {}

    def build(*words: str) -> Bundle:
        if words not in made:
            target, precision, *options = words
            out = tmp_path_factory.mktemp("bundle") / f"{target}-{precision}"
            command = ["export", "build", "--checkpoint", str(built.checkpoint), "--target", target]
            command += ["--precision", precision, "--out", str(out), *options]
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(sys, "argv", command)
                assert run_cli(main) == 0
            made[words] = load_bundle(out)
        return made[words]

    return build
