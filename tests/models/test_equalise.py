"""Cross-layer equalisation leaves the function as it is, finds every link, and balances it."""

from __future__ import annotations

import copy
from collections import Counter

import pytest
import torch

from pipeline.models.adapters import Adapter, insert_adapters
from pipeline.models.efficientvit import create_model
from pipeline.models.equalise import End, equalise, fold_norms, links

X = torch.randn(1, 3, 64, 96, generator=torch.Generator().manual_seed(1))


def weights(end: End, written: bool) -> torch.Tensor:
    """`[channels, n]`: what the end's convolution holds for each channel of the link."""
    conv = end.conv
    if written:
        rows = conv.weight.flatten(1)
    elif conv.groups == 1:
        rows = conv.weight.transpose(0, 1).flatten(1)
    else:
        size, out = conv.weight.shape[1], conv.out_channels // conv.groups
        rows = torch.stack(
            [
                conv.weight[c // size * out : (c // size + 1) * out, c % size].flatten()
                for c in range(conv.in_channels)
            ]
        )
    return rows if end.channels is None else rows[end.channels]


@pytest.mark.parametrize(
    ("variant", "attention"),
    [("b0", "linear"), ("b1", "softmax"), pytest.param("l1", "linear", marks=pytest.mark.slow)],
)
@torch.no_grad()
def test_the_function_stays(rule_weights, variant: str, attention: str) -> None:
    model = rule_weights(create_model(variant, 5, attention))
    twin = copy.deepcopy(model)
    equalise(twin)
    wanted, found = model(X), twin(X)
    assert (found - wanted).abs().max() <= 1e-5 * wanted.abs().max()
    first, second = (net.head.input_ops[2].conv.weight for net in (model, twin))
    assert not torch.allclose(first, second, rtol=0.1), "something was rescaled"


@torch.no_grad()
def test_with_relu_every_block_is_linked(rule_weights) -> None:
    model = rule_weights(create_model("b0", 5, activation="relu"))
    twin = copy.deepcopy(model)
    equalise(twin)
    wanted = model(X)
    assert (twin(X) - wanted).abs().max() <= 1e-5 * wanted.abs().max()
    # 11 inverted bottlenecks with two links, the stem's block and the head's last layer with one
    assert Counter(link.kind for link in links(twin)) == {
        "stream": 6, "value": 8, "aggregate": 4, "activation": 24
    }  # fmt: skip


@torch.no_grad()
@pytest.mark.parametrize(("local", "count"), [(False, 8), (True, 15)])
def test_the_function_stays_with_adapters(rule_weights, local: bool, count: int) -> None:
    model = create_model("b0", 5)
    insert_adapters(model, 4, local)
    twin = copy.deepcopy(rule_weights(model))
    equalise(twin)
    wanted = model(X)
    assert (twin(X) - wanted).abs().max() <= 1e-5 * wanted.abs().max()
    adapters = sum(isinstance(module, Adapter) for module in model.modules())
    assert Counter(link.kind for link in links(twin))["activation"] == adapters == count


def test_every_link_is_found() -> None:
    found = links(create_model("b0", 5))
    assert Counter(link.kind for link in found) == {"stream": 5, "value": 8, "aggregate": 4}
    streams = [(len(link.writers), len(link.readers)) for link in found if link.kind == "stream"]
    # stages of 2, 2, 1 + 2 x 2, 1 + 2 x 2 branches: read by the branches behind the first, the next, the head
    assert streams == [(2, 2), (2, 3), (5, 6), (5, 5), (4, 2)]


@torch.no_grad()
def test_both_sides_become_equal(rule_weights) -> None:
    model = rule_weights(create_model("b0", 5))
    equalise(model)
    for link in links(model):
        written = torch.stack([weights(end, True).abs().amax(1) for end in link.writers]).amax(0)
        read = torch.stack([weights(end, False).abs().amax(1) for end in link.readers]).amax(0)
        torch.testing.assert_close(written, read, rtol=0.01, atol=0)


@torch.no_grad()
def test_a_channel_without_weights_stays(rule_weights) -> None:
    model = rule_weights(create_model("b0", 5))
    model.head.input_ops[2].conv.weight[3] = 0
    model.backbone.stages[1].op_list[0].main.point_conv.conv.weight[5] = 0
    twin = copy.deepcopy(model)
    equalise(twin)
    wanted = model(X)
    assert (twin(X) - wanted).abs().max() <= 1e-5 * wanted.abs().max()


@torch.no_grad()
def test_folded_norms(rule_weights) -> None:
    model = rule_weights(create_model("b0", 5))
    twin = copy.deepcopy(model)
    fold_norms(twin)
    assert not any("norm" in name for name, _ in twin.named_parameters())
    torch.testing.assert_close(twin(X), model(X), rtol=1e-4, atol=1e-5)
