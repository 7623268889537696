"""`evaluate` against the long way: logits, full-size interpolation, argmax, torchmetrics; and its errors."""

from __future__ import annotations

import json

import cv2
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torchmetrics import JaccardIndex

from deploy.manifest import IMAGENET_MEAN, IMAGENET_STD, Preprocess
from deploy.preprocess import read_image
from pipeline.accuracy import evaluate, shown
from pipeline.datasets import open_dataset
from pipeline.models.checkpoints import CheckpointMeta, save_checkpoint
from pipeline.models.efficientvit import create_model
from pipeline.normalise import Normalise
from pipeline.predict import Predictor

NAMES = ["ground", "box", "disc"]


@pytest.fixture
def checkpoint(tmp_path):
    """An untrained B0 whose answers vary."""
    torch.manual_seed(0)
    model = create_model("b0", 3)
    model.train()(torch.randn(8, 3, 48, 64))
    meta = CheckpointMeta(
        model={"variant": "b0", "attention": "linear", "classes": 3, "head": "cityscapes"},
        dataset={"name": "tiny", "classes": NAMES},
        preprocess={
            "size": [48, 64],
            "resize": "stretch",
            "interpolation": "linear",
            "mean": IMAGENET_MEAN,
            "std": IMAGENET_STD,
        },
    )
    save_checkpoint(tmp_path / "model.safetensors", model.state_dict(), meta)
    return tmp_path / "model.safetensors"


def long_way(path, data) -> float:
    """mIoU with nothing of ours but the network."""
    from pipeline.models.checkpoints import load_checkpoint

    model, _ = load_checkpoint(path)
    metric = JaccardIndex(task="multiclass", num_classes=3, ignore_index=255, average="macro")
    for image, mask in open_dataset(data, "val"):
        with torch.inference_mode():
            x = (torch.from_numpy(image / 255.0).float() - torch.tensor(IMAGENET_MEAN)) / torch.tensor(
                IMAGENET_STD
            )
            logits = model(x.permute(2, 0, 1)[None])
            labels = F.interpolate(logits, image.shape[:2], mode="bicubic", align_corners=False).argmax(1)
        metric.update(labels, torch.from_numpy(mask)[None].long())
    return float(metric.compute())


def test_the_command_agrees_with_the_long_way(pipeline, make_data, checkpoint, tmp_path, capsys) -> None:
    data = make_data(val=6)
    mask = data / "val/masks/val0.png"
    ignored = cv2.imread(str(mask), cv2.IMREAD_UNCHANGED)
    ignored[:10] = 255
    cv2.imwrite(str(mask), ignored)
    assert pipeline("evaluate", "--checkpoint", checkpoint, "--data", data, "--json", "out.json") == 0
    said = capsys.readouterr().out
    result = json.loads((tmp_path / "out.json").read_text())
    assert result["miou"] == pytest.approx(long_way(checkpoint, data), abs=2e-4)
    assert list(result["iou"]) == NAMES and result["images"] == 6 and result["size"] == [48, 64]
    assert len(result["dataset"]["sha256"]) == len(result["checkpoint"]["sha256"]) == 64
    assert result["latency_ms"]["p50"] > 0 and f"{result['miou']:.4f}" in said
    assert pipeline("evaluate", "--checkpoint", checkpoint, "--data", data, "--json", "-") == 0
    assert json.loads(capsys.readouterr().out)["miou"] == result["miou"]


def test_pictures_looks_worst_images_and_the_interval(
    pipeline, make_data, checkpoint, tmp_path, capsys
) -> None:
    command = ("evaluate", "--checkpoint", checkpoint, "--data", make_data(val=10), "--pictures", "drawn")
    assert pipeline(*command, "--flip", "--scales", "0.5,1", "--json", "out.json") == 0
    said = capsys.readouterr().out
    assert "averaged over scales 0.5, 1 and mirrored" in said and "pictures: drawn" in said
    assert "95% interval of mIoU" in said and "frames of one video are not" in said
    result = json.loads((tmp_path / "out.json").read_text())
    assert result["looks"] == {"scales": [0.5, 1.0], "flip": True}
    assert result["miou_interval"]["low"] <= result["miou"] <= result["miou_interval"]["high"]
    matrix = np.array(result["confusion"])
    assert matrix.sum() == 10 * 48 * 64
    assert np.trace(matrix) / matrix.sum() == pytest.approx(result["pixel_accuracy"])
    worst = [entry["miou"] for entry in result["worst"]]
    assert len(worst) == 8 and worst == sorted(worst) and result["worst"][0]["image"] in said
    sheet, confusion = (read_image(tmp_path / "drawn" / name) for name in ("worst.png", "confusion.png"))
    assert sheet.shape[0] > 8 * 192 and sheet.std() > 10 and confusion.std() > 10


@pytest.mark.parametrize("scales", [" ", "0", "1,x", "9", "nan", "1,,2"])
def test_wrong_scales_are_refused(pipeline, make_data, checkpoint, capsys, scales) -> None:
    assert pipeline("evaluate", "--checkpoint", checkpoint, "--data", make_data(), "--scales", scales) == 2
    assert "such as 0.75,1,1.25" in capsys.readouterr().err


def test_images_of_another_size_are_measured_at_their_own(make_data, checkpoint) -> None:
    from pipeline.models.checkpoints import load_checkpoint

    dataset = open_dataset(make_data(size=(75, 90)), "val")
    rule = Preprocess((48, 64), IMAGENET_MEAN, IMAGENET_STD, False)
    done = evaluate(Predictor(load_checkpoint(checkpoint)[0], rule), dataset, dataset.info)
    assert done.matrix.matrix.sum() == 3 * 75 * 90 and len(done.latency_ms) == 2


def test_a_class_that_occurs_nowhere_is_left_out(make_data) -> None:
    class Ground:
        def timed(self, image):
            return np.zeros(image.shape[:2], np.uint8), 1.0

    dataset = open_dataset(make_data(), "val")
    pairs = [(image, np.minimum(mask, 1)) for image, mask in dataset]
    summary = evaluate(Ground(), pairs, dataset.info).summary()
    assert summary["iou"]["disc"] is None and shown(None) == "-"
    assert summary["miou"] == pytest.approx((summary["iou"]["ground"] + 0.0) / 2)


def test_other_classes_and_other_sizes(pipeline, make_data, checkpoint, capsys) -> None:
    data = make_data()
    assert (
        pipeline("evaluate", "--checkpoint", checkpoint, "--data", data, "--size", "40x56", "--json", "-")
        == 0
    )
    assert json.loads(capsys.readouterr().out)["size"] == [40, 56]
    text = (data / "dataset.toml").read_text()
    (data / "dataset.toml").write_text(text.replace('"box", "disc"', '"disc", "box"'))
    assert pipeline("evaluate", "--checkpoint", checkpoint, "--data", data) == 2
    assert "got ground, disc, box | expected ground, box, disc" in capsys.readouterr().err


def test_an_undeclared_id_names_the_mask(pipeline, make_data, checkpoint, capsys) -> None:
    data = make_data()
    cv2.imwrite(str(data / "val/masks/val1.png"), np.full((48, 64), 9, np.uint8))
    assert pipeline("evaluate", "--checkpoint", checkpoint, "--data", data) == 2
    assert "val1.png" in capsys.readouterr().err


def test_an_unknown_checkpoint_or_device(pipeline, make_data, checkpoint, capsys) -> None:
    data = make_data()
    assert pipeline("evaluate", "--checkpoint", "nothing", "--data", data) == 2
    assert "no checkpoint 'nothing'" in capsys.readouterr().err
    assert pipeline("evaluate", "--checkpoint", checkpoint, "--data", data, "--device", "tpu") == 2
    assert "auto, cpu or cuda" in capsys.readouterr().err


def test_training_normalises_as_deploy_does(make_data) -> None:
    from deploy.preprocess import normalise

    image = read_image(make_data() / "val/images/val0.png")
    ours = Normalise(torch.device("cpu"))(torch.from_numpy(image[None]))
    np.testing.assert_allclose(
        ours[0].numpy(), normalise(image, Preprocess((48, 64), IMAGENET_MEAN, IMAGENET_STD, False)), atol=2e-6
    )
    assert ours.is_contiguous(memory_format=torch.channels_last)
