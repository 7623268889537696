"""Training for int8: what rounds, what moves, and that the result is an ordinary checkpoint."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

from pipeline.config import LossConfig, TrainConfig
from pipeline.fakequant import Int8ConvLayer, Range, plain_state, round_as_int8, rounded
from pipeline.learner import Learner
from pipeline.losses import SegmentationLoss
from pipeline.models.checkpoints import load_checkpoint, read_meta
from pipeline.models.efficientvit import create_model
from pipeline.models.layers import ConvLayer

X = torch.randn(2, 3, 32, 48, generator=torch.Generator().manual_seed(1))
QAT = ("--set", "quant.qat=true", "--set", "model.init=tiny", "--set", "train.lr=1e-4", "--run", "int8")


def test_a_range_follows_the_batches_and_rounds_to_256_steps() -> None:
    part = Range().train()
    x = torch.linspace(-1, 3, 1000)
    y = part(x)
    assert (part.low, part.high) == (-1, 3) and len(y.unique()) <= 256
    assert (y - x).abs().max() <= 4 / 255 / 2 + 1e-6 and not part.eval()(torch.zeros(1)).any()
    part.train()(x * 2)
    assert part.high == pytest.approx(3 + 0.01 * 3)
    part.eval()(x * 10)
    assert part.high == pytest.approx(3 + 0.01 * 3), "nothing moves in eval"
    assert part(x * 10).max() == pytest.approx(float(part.high), abs=0.02)


def test_gradients_pass_the_rounding_and_stop_where_it_cuts_off() -> None:
    part = Range().eval()
    part.high.fill_(1.0)
    x = torch.tensor([0.3, 0.9, 2.0], requires_grad=True)
    part(x).sum().backward()
    assert x.grad.tolist() == [1, 1, 0]


def test_weights_have_a_scale_for_each_output_channel() -> None:
    weight = torch.randn(4, 3, 1, 1) * torch.tensor([1e-3, 1, 10, 0])[:, None, None, None]
    found = rounded(weight)
    steps = weight.flatten(1).abs().amax(1) / 127
    assert ((found - weight).abs().flatten(1).amax(1) <= steps / 2 * 1.001).all()
    levels = (found[1].flatten() / steps[1]).numpy()
    assert np.allclose(levels, levels.round(), atol=1e-3)


@pytest.mark.parametrize("activation", ["published", "relu"])
def test_dense_convolutions_round_and_the_rest_stays(rule_weights, activation: str) -> None:
    model = rule_weights(create_model("b0", 5, activation=activation))
    names = set(model.state_dict())
    twin = copy.deepcopy(model)
    round_as_int8(twin)
    dense = [m for m in model.modules() if isinstance(m, ConvLayer) and m.conv.groups == 1]
    assert sum(isinstance(module, Int8ConvLayer) for module in twin.modules()) == len(dense) == 37
    assert set(plain_state(twin)) == names and set(twin.state_dict()) > names
    assert plain_state(model).keys() == names
    twin.train()(X)
    assert not any(m.training for m in twin.modules() if isinstance(m, nn.BatchNorm2d))
    for name, value in plain_state(twin).items():
        assert torch.equal(value, model.state_dict()[name]), name
    with torch.no_grad():
        wanted, found = model(X), twin.eval()(X)
    error = (found - wanted).square().mean().sqrt() / wanted.std()
    assert 1e-4 < error < 0.2


def learner() -> Learner:
    torch.manual_seed(0)
    model = create_model("b0", 3)
    round_as_int8(model)
    train = TrainConfig(steps=4, batch=2, warmup=1, lr=1e-3)
    return Learner(model, SegmentationLoss(LossConfig(), 3, torch.ones(3)), train, torch.device("cpu"))


def test_a_training_goes_on_with_the_same_bits() -> None:
    draw = torch.Generator().manual_seed(2)
    images = torch.randint(0, 256, (4, 2, 32, 48, 3), generator=draw, dtype=torch.uint8)
    masks = torch.randint(0, 3, (4, 2, 32, 48), generator=draw, dtype=torch.uint8)
    whole, first, second = learner(), learner(), learner()
    for step in range(4):
        whole.step(step, images[step], masks[step])
    for step in range(2):
        first.step(step, images[step], masks[step])
    second.restore(copy.deepcopy(first.state()))
    for step in (2, 3):
        second.step(step, images[step], masks[step])
    for one, other in ((whole.model, second.model), (whole.average.model, second.average.model)):
        for name, value in one.state_dict().items():
            assert torch.equal(value, other.state_dict()[name]), name
    ranges = [part for part in whole.average.model.modules() if isinstance(part, Range)]
    assert all(torch.isfinite(part.high) and part.high > part.low for part in ranges)


def test_the_result_is_an_ordinary_checkpoint(pipeline, make_data, recipe, tmp_path, capsys) -> None:
    data = make_data()
    command = ("train", "--recipe", recipe, "--data", data, "--threads", 1)
    assert pipeline(*command) == 0
    assert pipeline(*command, *QAT) == 0
    before, after = (tmp_path / "runs" / name / "train" / "best.safetensors" for name in ("tiny", "int8"))
    (first, plain), (second, meta) = load_checkpoint(before), load_checkpoint(after)
    assert meta.model == plain.model and read_meta(after).provenance["settings"]["quant"] == {"qat": True}
    assert "quant" not in plain.provenance["settings"]
    old, new = first.state_dict(), second.state_dict()
    moved = {name for name in old if not torch.equal(old[name], new[name])}
    assert len(moved) > 100 and not any("running_" in name for name in moved)
    capsys.readouterr()
    assert pipeline(*command, *QAT) == 0 and "cached" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        (["quant.qat=true"], "no model.init"),
        (["quant.qat=1"], "true or false"),
        (["quant.bits=4"], "quant.bits"),
    ],
)
def test_wrong_use(pipeline, make_data, recipe, capsys, sets: list[str], message: str) -> None:
    words = [word for text in sets for word in ("--set", text)]
    assert pipeline("train", "--recipe", recipe, "--data", make_data(), *words) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and message in error
