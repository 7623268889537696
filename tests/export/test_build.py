"""`python -m export build` from end to end: what it writes, what it refuses, what it leaves alone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest

from deploy.bundle import load_bundle
from deploy.labels import read_mask
from deploy.metrics import ConfusionMatrix
from deploy.preprocess import read_image
from deploy.segmenter import Segmenter
from deploy.verify import replay_golden, shortfall
from export.targets import onnxruntime as target
from pipeline.predict import Predictor

BUILD = ("build", "--target", "onnxruntime", "--precision", "fp32")


def test_bundle_says_what_it_is(built) -> None:
    manifest = built.bundle.manifest
    assert manifest.name == "street-onnxruntime-fp32"
    assert (manifest.target.runtime, manifest.target.precision) == ("onnxruntime", "fp32")
    assert manifest.inputs[0].shape == (1, 75, 93, 3) and manifest.inputs[0].dtype == "uint8"
    assert manifest.outputs[0].shape == (1, 75, 93) and manifest.outputs[0].dtype == "uint8"
    assert manifest.preprocess.in_graph and manifest.preprocess.size == (75, 93)
    assert [info.name for info in manifest.classes][:2] == ["sky", "building"]
    assert manifest.provenance.model == {
        "variant": "b0",
        "attention": "linear",
        "classes": 9,
        "head": "cityscapes",
    }
    assert {"torch", "onnx", "onnxruntime", "python"} <= set(manifest.provenance.tool_versions)
    assert "drawn here" in manifest.provenance.licences.values()
    assert len(built.bundle.path("golden.npz").read_bytes()) < 200_000


def test_bundle_is_proven_on_the_runs_own_images(built) -> None:
    parity = built.bundle.manifest.parity
    assert parity.proof == "executed" and parity.images == 2
    assert parity.agreement >= 0.999 and abs(parity.miou_difference) < 1e-3
    assert 0 < parity.mean_abs_error <= parity.max_abs_error


def test_golden_replays(built) -> None:
    replay = replay_golden(built.bundle, threads=1)
    assert replay.samples == 2 and shortfall(replay, built.bundle.manifest.golden) is None


def test_artifact_is_the_checkpoint_on_unseen_images(built, scenes) -> None:
    """Agreement with the host's own path at the frame's size; the accuracy stored is what bench measures."""
    predict = Predictor(built.model, built.bundle.manifest.preprocess)
    with Segmenter(built.bundle, threads=1) as segmenter:
        for path in sorted((scenes.root / "val" / "images").iterdir())[:3]:
            image = read_image(path)
            assert np.mean(segmenter.segment(image) == predict(image)) >= 0.999
        matrix = ConfusionMatrix(9, scenes.ignore_index)
        for path in sorted((scenes.root / "train" / "images").iterdir()):
            mask = read_mask(scenes.root / "train" / "masks" / f"{path.stem}.png")
            matrix.update(segmenter.segment(read_image(path)), mask)
    assert built.bundle.manifest.accuracy.miou_here == pytest.approx(matrix.miou(), abs=1e-12)


def test_same_build_is_cached(built, export_cli, capsys, monkeypatch) -> None:
    monkeypatch.chdir(built.home)
    monkeypatch.setattr(target, "build", _refuse)
    before = built.bundle.sha256
    arguments = (*BUILD, "--checkpoint", "street", "--out", built.bundle.root)
    assert export_cli(*arguments) == 0
    assert "cached: nothing changed" in capsys.readouterr().out
    for changed in (["--final", "bilinear"], ["--size", "32x32"], ["--output", "logits"], ["--force"]):
        with pytest.raises(RuntimeError, match="build was called"):
            export_cli(*arguments, *changed)
    assert load_bundle(built.bundle.root).sha256 == before, "a failed build leaves the old bundle"


def test_why_it_is_built_again_is_said(
    built, scenes, export_cli, monkeypatch, tmp_path: Path, capsys
) -> None:
    monkeypatch.setattr(target, "build", _copy(built))
    arguments = (*BUILD, "--checkpoint", built.checkpoint, "--out", tmp_path / "b", "--json", "-")
    states = []
    for more in ([], [], ["--data", scenes.root]):
        assert export_cli(*arguments, *more) == 0
        states.append(json.loads(capsys.readouterr().out)["how"])
    assert states[:2] == ["built", "cached: nothing changed"]
    assert re.fullmatch(r"built again: pictures [0-9a-f]{12} -> [0-9a-f]{12}", states[2])


def test_a_changed_byte_is_built_again(built, export_cli, capsys, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(target, "build", _copy(built))
    arguments = (*BUILD, "--checkpoint", built.checkpoint, "--out", tmp_path / "b")
    assert export_cli(*arguments) == 0
    model = tmp_path / "b" / "model.onnx"
    good = model.read_bytes()
    model.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    assert export_cli(*arguments) == 0
    assert "has changed" in capsys.readouterr().out and model.read_bytes() == good


def test_data_gives_32_images_of_its_split(
    built, scenes, export_cli, monkeypatch, tmp_path: Path, capsys
) -> None:
    monkeypatch.setattr(target, "build", _copy(built))
    arguments = ("--checkpoint", built.checkpoint, "--data", scenes.root, "--out", tmp_path / "b")
    assert export_cli(*BUILD, *arguments) == 0
    bundle = load_bundle(tmp_path / "b")
    assert bundle.manifest.parity.images == bundle.manifest.accuracy.images == 32
    out = capsys.readouterr().out
    assert "executed" in out and "32 of" in out and "mIoU" in out and "bytes" in out


def test_data_of_other_classes_serves_without_its_masks(
    built, scenes, export_cli, monkeypatch, tmp_path: Path, capsys
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "val").symlink_to(scenes.root / "val")
    (other / "dataset.toml").write_text('name = "other"\nclasses = ["x", "y"]\n')
    monkeypatch.setattr(target, "build", _copy(built))
    arguments = ("--checkpoint", built.checkpoint, "--data", other, "--out", tmp_path / "b")
    assert export_cli(*BUILD, *arguments) == 0
    manifest = load_bundle(tmp_path / "b").manifest
    assert manifest.accuracy is None and manifest.parity.miou_difference is None
    assert manifest.parity.agreement >= 0.999
    assert "no masks" in capsys.readouterr().out


def test_an_artifact_with_other_weights_is_refused_and_not_written(
    built, export_cli, monkeypatch, tmp_path: Path, capsys
) -> None:
    monkeypatch.setattr(target, "build", _copy(built, noise=0.3))
    out = tmp_path / "bundles" / "broken"
    assert export_cli(*BUILD, "--checkpoint", built.checkpoint, "--out", out) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "misses its budget" in error and "--force" in error
    assert "worst class" in error and "worst image" in error
    assert not (tmp_path / "bundles").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--target", "toaster"], "unknown target | got toaster | expected one of "),
        (["--precision", "int3"], "unknown precision for onnxruntime | got int3 | expected one of fp32"),
        (["--size", "360"], "HEIGHTxWIDTH"),
        (["--size", "0x480"], "HEIGHTxWIDTH"),
        (["--checkpoint", "no-such-run"], "no checkpoint 'no-such-run'"),
        (["--input", "float16"], "onnxruntime cannot build --input | got float16 | expected uint8 or float"),
        (["--output", "masks"], "onnxruntime cannot build --output | got masks | expected labels or logits"),
        (["--batch", "0"], "0"),
        (["--final", "nearest"], "unknown final interpolation"),
        (["--data", "nowhere"], "no data folder nowhere"),
        (["--bogus"], "--bogus"),
    ],
)
def test_wrong_use_is_one_line_and_status_2(
    built, export_cli, monkeypatch, tmp_path: Path, capsys, changes: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert export_cli(*BUILD, "--checkpoint", built.checkpoint, *changes) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1 and message in error
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_no_bundle_is_never_replaced(built, export_cli, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(target, "build", _copy(built))
    (tmp_path / "thesis.txt").write_text("mine")
    assert export_cli(*BUILD, "--checkpoint", built.checkpoint, "--out", tmp_path) == 2
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_record_in_the_bundle_names_every_input(built) -> None:
    record = json.loads(built.bundle.path("stage.json").read_text())
    assert set(record["inputs"]) == {"checkpoint", "pictures"}
    ends, shape = {"input", "output", "final"}, {"size", "batch", "dynamic"}
    assert set(record["settings"]) == {"target", "precision", "tools"} | ends | shape
    assert str(built.home) not in json.dumps(record)


def _refuse(net: object, context: object) -> dict[str, Path]:
    raise RuntimeError("build was called")


def _copy(built, noise: float = 0.0):
    """A `build` that gives the file already exported, to save time; with `noise` its weights are spoiled."""

    def build(net, context) -> dict[str, Path]:
        model = onnx.load(built.bundle.model_file(".onnx"))
        rng = np.random.default_rng(0)
        for tensor in model.graph.initializer:
            if noise and tensor.name.endswith("weight"):
                value = onnx.numpy_helper.to_array(tensor)
                spoiled = value + noise * value.std() * rng.standard_normal(value.shape)
                tensor.CopyFrom(onnx.numpy_helper.from_array(spoiled.astype(value.dtype), tensor.name))
        path = context.folder / "model.onnx"
        path.write_bytes(model.SerializeToString(deterministic=True))
        return {"model.onnx": path}

    return build
