"""Flip and scales at evaluation, against the plain path and against torch's own interpolation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from deploy.manifest import IMAGENET_MEAN as MEAN
from deploy.manifest import IMAGENET_STD as STD
from deploy.manifest import Preprocess
from deploy.preprocess import resize_image
from pipeline.models.efficientvit import create_model
from pipeline.multiscale import MultiScale
from pipeline.predict import Predictor

SIZE = (48, 64)
RULE = Preprocess(SIZE, MEAN, STD, False)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    model = create_model("b0", 5)
    model.train()(torch.randn(8, 3, *SIZE))
    return model.eval()


@pytest.fixture
def frame() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.kron(rng.integers(0, 256, (12, 16, 3)), np.ones((5, 5, 1))).astype(np.uint8)  # 60x80


def test_one_plain_look_is_the_deployed_path(model, frame) -> None:
    for rule in (RULE, Preprocess(SIZE, MEAN, STD, False, "letterbox", "area")):
        labels = MultiScale(model, rule, (1.0,), flip=False)(frame)
        assert labels.shape == (60, 80) and len(np.unique(labels)) > 1
        assert (labels == Predictor(model, rule)(frame)).mean() > 0.999


def test_looks_are_averaged_as_probabilities(model, frame) -> None:
    """The long way: every look by torch's interpolation, softmax, mean, argmax."""
    frame = np.ascontiguousarray(resize_image(frame, SIZE, "stretch", "linear"))
    total = torch.zeros(1, 5, *SIZE)
    for height, width in ((36, 48), SIZE, (72, 96)):
        small = torch.from_numpy(resize_image(frame, (height, width), "stretch", "linear") / 255.0).float()
        x = ((small - torch.tensor(MEAN)) / torch.tensor(STD)).permute(2, 0, 1)[None]
        for mirrored in (False, True):
            with torch.inference_mode():
                logits = model(x.flip(3) if mirrored else x)
            full = F.interpolate(logits, SIZE, mode="bicubic", align_corners=False).softmax(1)
            total += full.flip(3) if mirrored else full
    labels, taken = MultiScale(model, RULE, (0.75, 1.0, 1.5), flip=True).timed(frame)
    assert (labels == total.argmax(1)[0].numpy()).mean() > 0.999 and taken > 0


def test_a_mirrored_frame_gives_the_mirrored_answer(model, frame) -> None:
    predict = MultiScale(model, RULE, (1.0,), flip=True)
    inner = np.ascontiguousarray(resize_image(frame, SIZE, "stretch", "linear"))
    assert (predict(inner[:, ::-1]) == predict(inner)[:, ::-1]).mean() > 0.999
    assert (predict(inner) != Predictor(model, RULE)(inner)).any(), "the mirrored look must count"
