"""`attention`: the weights rebuilt are those the cores use, and the command draws and tabulates them."""

from __future__ import annotations

import argparse
import json

import cv2
import numpy as np
import pytest
import torch

from deploy.errors import InputError
from pipeline.models import attention_map as command
from pipeline.models.attention import linear_attention, normalised_softmax_attention
from pipeline.models.attention_weights import capture, flatness, linear_weights, softmax_weights
from pipeline.models.checkpoints import CheckpointMeta, save_checkpoint
from pipeline.models.efficientvit import create_model


def parse(*words: object) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args([str(word) for word in words])


@pytest.mark.parametrize(
    ("weights_of", "core"),
    [(linear_weights, linear_attention), (softmax_weights, normalised_softmax_attention)],
)
def test_weights_are_those_of_the_core(weights_of, core):
    torch.manual_seed(0)
    q, k, v = (torch.randn(4, 8, 30, dtype=torch.float64) for _ in "qkv")
    attended = (weights_of(q, k) @ v.transpose(-1, -2)).transpose(-1, -2)
    torch.testing.assert_close(attended, core(q[None], k[None], v[None])[0], rtol=1e-6, atol=1e-9)


def test_a_query_without_positive_products_has_no_weights():
    weights = linear_weights(-torch.ones(1, 4, 2), torch.ones(1, 4, 6))
    assert torch.equal(weights, torch.zeros(1, 2, 6, dtype=torch.float64))
    assert all(np.isnan(value) for value in flatness(weights))


def test_flatness_of_flat_and_of_sharp_maps():
    assert flatness(torch.full((2, 3, 8), 1 / 8)) == pytest.approx((1, 1 / 8))
    assert flatness(torch.eye(8)[None]) == pytest.approx((0, 1))


def test_capture_sees_every_layer_and_leaves_no_hook():
    model = create_model("b0", 3).eval()
    with capture(model) as layers:
        model(torch.randn(2, 3, 64, 96))
    assert [(layer.height, layer.width) for layer in layers] == [(4, 6)] * 2 + [(2, 3)] * 2
    assert layers[0].query.shape == (8, 16, 24)
    model(torch.randn(1, 3, 64, 96))
    assert len(layers) == 4


@pytest.fixture
def checkpoints(tmp_path):
    for attention in ("linear", "softmax"):
        torch.manual_seed(1)
        model = create_model("b0", 3, attention)
        meta = CheckpointMeta({"variant": "b0", "attention": attention, "classes": 3, "head": "cityscapes"})
        save_checkpoint(tmp_path / attention / "best.safetensors", model.state_dict(), meta)
    image = np.random.default_rng(0).integers(0, 255, (60, 90, 3), dtype=np.uint8)
    cv2.imwrite(str(tmp_path / "street.png"), image)
    return tmp_path


@pytest.mark.parametrize("compare", [False, True])
def test_picture_table_and_json(checkpoints, capsys, compare):
    out, result = checkpoints / "maps.png", checkpoints / "maps.json"
    words = ["--checkpoint", checkpoints / "linear", "--image", checkpoints / "street.png", "--size", "64x96"]
    words += ["--compare", checkpoints / "softmax"] if compare else []
    assert command.run(parse(*words, "--out", out, "--at", "0.5,0.5", "--at", "1,1", "--json", result)) == 0
    picture = cv2.imread(str(out))
    assert picture is not None
    assert picture.std() > 5
    record = json.loads(result.read_text())
    assert (record["size"], record["queries"]) == ([64, 96], [[0.5, 0.5], [1, 1]])
    assert len(record["checkpoints"]) == 1 + compare
    rows = record["layers"]
    assert [row["tokens"] for row in rows] == [24, 24, 6, 6]
    for row in rows:
        for kind in ("linear", "softmax"):
            assert 0 <= row[kind]["entropy"] <= 1.000001
            assert 1 / row["tokens"] <= row[kind]["top1"] <= 1
    assert "entropy" in capsys.readouterr().out


def test_wrong_use_is_named(checkpoints):
    words = ["--checkpoint", checkpoints / "linear", "--image", checkpoints / "street.png"]
    for more, message in (
        (["--size", "64x96", "--layer", "4"], r"--layer.*0\.\.3"),
        (["--size", "64x96", "--compare", checkpoints / "linear"], "the other kind"),
        ([], "names no size"),
    ):
        with pytest.raises(InputError, match=message):
            command.run(parse(*words, *more, "--out", checkpoints / "x.png"))
    assert not (checkpoints / "x.png").exists()
    for point in ("0.5", "2,0", "a,b", "nan,0"):
        with pytest.raises(argparse.ArgumentTypeError, match="Y,X"):
            command.parse_point(point)
