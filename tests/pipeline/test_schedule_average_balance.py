"""Learning rate, averaged weights, weight decay, class weights: against numbers worked out by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn

from deploy.errors import InputError
from pipeline.average import Average
from pipeline.balance import class_weights
from pipeline.config import TrainConfig
from pipeline.optimizer import build_optimizer, set_rate
from pipeline.schedule import learning_rate


def test_warm_up_then_cosine() -> None:
    config = TrainConfig(steps=110, warmup=10, lr=2.0, schedule="cosine")
    rates = [learning_rate(config, step) for step in range(110)]
    assert rates[:10] == pytest.approx([2 * (i + 1) / 11 for i in range(10)])
    assert rates[10] == 2.0
    assert rates[60] == pytest.approx(1.0)
    assert rates[35] == pytest.approx(1 + math.cos(math.pi / 4))
    assert 0 < rates[109] < 0.001
    assert all(a > b for a, b in itertools.pairwise(rates[10:]))


def test_poly_and_what_is_left_at_the_end() -> None:
    config = TrainConfig(steps=100, warmup=0, lr=1.0, schedule="poly", poly_power=0.9, lr_end=0.1)
    assert learning_rate(config, 0) == 1.0
    assert learning_rate(config, 50) == pytest.approx(0.1 + 0.9 * 0.5**0.9)
    assert learning_rate(config, 100) == pytest.approx(0.1)


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4))


def test_the_average_follows_weights_and_statistics() -> None:
    model, decay = net(), 0.6
    average = Average(model, decay)
    weight, mean = model[0].weight.detach().clone(), model[1].running_mean.clone()
    for step in range(12):
        with torch.no_grad():
            model[0].weight.add_(1.0)
        model.train()(torch.randn(2, 3, 4, 4))
        average.update(step)
        now = min(decay, (1 + step) / (10 + step))
        weight = now * weight + (1 - now) * model[0].weight.detach()
        mean = now * mean + (1 - now) * model[1].running_mean
    torch.testing.assert_close(average.model[0].weight, weight)
    torch.testing.assert_close(average.model[1].running_mean, mean)
    assert average.model[1].num_batches_tracked == 12
    assert not average.model.training and not average.model[0].weight.requires_grad
    assert [average.decay_at(step) for step in (0, 1, 1000)] == [0.1, 2 / 11, 0.6]


def test_no_decay_is_an_exact_copy() -> None:
    model = net()
    average = Average(model, 0.0)
    with torch.no_grad():
        model[0].weight.mul_(1.2345)
    average.update(0)
    assert torch.equal(average.model[0].weight, model[0].weight)


def test_vectors_are_not_decayed() -> None:
    model = net()
    optimizer = build_optimizer(model, TrainConfig(weight_decay=0.1))
    decayed, others = optimizer.param_groups
    assert [p.shape for p in decayed["params"]] == [(4, 3, 1, 1)] and decayed["weight_decay"] == 0.1
    assert len(others["params"]) == 3 and others["weight_decay"] == 0.0
    set_rate(optimizer, 0.5)
    assert [group["lr"] for group in optimizer.param_groups] == [0.5, 0.5]


def test_class_weights_by_median_frequency() -> None:
    pixels, shown = (600, 300, 100, 0), (10, 10, 5, 0)  # of 10 images of 100 labelled pixels
    frequency = np.array([0.6, 0.3, 0.2])
    plain = class_weights("median_frequency", pixels, shown, 10)
    assert plain.tolist() == pytest.approx([*(0.3 / frequency), 1.0])
    assert class_weights("sqrt_median_frequency", pixels, shown, 10) == pytest.approx(np.sqrt(plain))
    assert class_weights("none", pixels, shown, 10).tolist() == [1.0] * 4
    assert class_weights("median_frequency", (0, 0), (0, 0), 3).tolist() == [1.0, 1.0]
    with pytest.raises(InputError, match="median_frequency"):
        class_weights("inverse", pixels, shown, 10)
