"""The widened stem computes the same function, for every variant, and leaves the original alone."""

from __future__ import annotations

import pytest
import torch

from pipeline.models.adapters import Adapter, insert_adapters
from pipeline.models.efficientvit import create_model
from pipeline.models.labelmap import LabelMapper
from pipeline.models.widen import with_wide_stem

SIZE = (45, 70)


def mapper(variant: str, adapters: int = 0) -> LabelMapper:
    """A logits mapper whose BatchNorm statistics and adapters are not the initial ones."""
    torch.manual_seed(3)
    model = create_model(variant, 5)
    if adapters:
        insert_adapters(model, adapters, local=True)
        for module in model.modules():
            if isinstance(module, Adapter):
                torch.nn.init.normal_(module.up.weight, std=0.2)
                torch.nn.init.normal_(module.up.bias, std=0.2)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.3)
            module.running_var.uniform_(0.3, 2)
    return LabelMapper(model, SIZE, (0.4, 0.4, 0.4), (0.2, 0.2, 0.2), "float", "logits")


@pytest.mark.parametrize("adapters", [0, 4])
@pytest.mark.parametrize(("variant", "width"), [("b0", 16), ("b1", 16), ("b2", 32), ("l1", 32)])
def test_the_function_is_the_same(variant: str, width: int, adapters: int) -> None:
    net = mapper(variant, adapters)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    wide = with_wide_stem(net, 16)
    x = torch.randn(2, 3, *SIZE)
    with torch.no_grad():
        reference, result = net(x), wide(x)
    assert (result - reference).abs().max() <= 2e-5 * reference.std()
    stem = next(m for m in wide.modules() if isinstance(m, torch.nn.Conv2d))
    assert stem.out_channels == width
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


@pytest.mark.parametrize("adapters", [0, 4])
def test_added_channels_are_zero_behind_every_layer(adapters: int) -> None:
    wide = with_wide_stem(mapper("b0", adapters), 16)
    stem = wide.model.backbone.input_stem
    x = torch.randn(1, 3, *SIZE)
    for op in stem.op_list:
        x = op(x)
        assert x.shape[1] == 16
        assert not x[:, 8:].any()
        assert x[:, :8].any()
