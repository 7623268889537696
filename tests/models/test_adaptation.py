"""Adapters and the other methods: a start that changes nothing, frozen parts that stay, honest counts."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from deploy.errors import InputError
from pipeline.models.adaptation import METHODS, Adaptation, adapt, count_parameters, domain_tensors
from pipeline.models.adapters import Adapter, LowRankConv, insert_adapters, merge_low_rank
from pipeline.models.arithmetic import adapter_parameters
from pipeline.models.efficientvit import EfficientViTSeg, create_model

X = torch.randn(2, 3, 64, 96, generator=torch.Generator().manual_seed(1))


def base(variant: str = "b0") -> EfficientViTSeg:
    """A base with statistics of its own."""
    torch.manual_seed(0)
    model = create_model(variant, 11)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.2)
            module.running_var.uniform_(0.5, 2)
    return model.eval()


def train_a_little(model: EfficientViTSeg, steps: int = 2) -> None:
    """A few steps that move whatever may move, by a lot."""
    model.train()
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.5)
    for _ in range(steps):
        loss = model(X).square().mean() + model(X).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()


def test_adapter_parameters_are_those_of_the_formula() -> None:
    assert adapter_parameters(8, 2) == 42
    assert adapter_parameters(8, 2, biases=False) == 32
    assert sum(p.numel() for p in Adapter(8, 2).parameters()) == 42
    weights = [p for name, p in Adapter(8, 2).named_parameters() if name.endswith("weight")]
    assert sum(p.numel() for p in weights) == 32


def test_counts_by_kind_are_those_of_the_formula() -> None:
    model, how = base(), Adaptation("adapter", 4)
    plain = sum(p.numel() for p in model.parameters())
    adapt(model, 11, how)
    counts = count_parameters(model, how)
    # two attention blocks of width 64, two of 128, two branches each
    assert counts["adapters"] == 4 * adapter_parameters(64, 4) + 4 * adapter_parameters(128, 4)
    assert counts["head"] == 11 * 128 + 11
    assert counts["all"] == plain + counts["adapters"]
    assert counts["blocks"] == counts["low rank"] == 0 < counts["norms"]


def test_adapters_behind_every_block_of_the_backbone() -> None:
    model, how = base(), Adaptation("adapter-all", 4)
    adapt(model, 11, how)
    # beside those of the attention blocks: the stem's block, two blocks in both local stages, two that halve
    widths = {8: 1, 16: 2, 32: 2, 64: 4 + 1, 128: 4 + 1}
    counts = count_parameters(model, how)
    assert counts["adapters"] == sum(count * adapter_parameters(d, 4) for d, count in widths.items())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("variant", ["b0", "l1"])
def test_features_are_the_bases_at_the_start(method: str, variant: str) -> None:
    model = base(variant)
    with torch.no_grad():
        before = model.backbone(X)
        adapt(model, 3, Adaptation(method))
        after = model.eval().backbone(X)
        assert model(X).shape == (2, 3, 8, 12)
    assert all(torch.equal(left, right) for left, right in zip(before, after, strict=True))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("bn_stats", ["frozen", "domain"])
def test_only_the_domains_tensors_move(method: str, bn_stats: str) -> None:
    model, how = base(), Adaptation(method, 8, bn_stats=bn_stats)
    adapt(model, 3, how)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    train_a_little(model)
    moved = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    theirs = set(domain_tensors(model, how))
    assert moved <= theirs
    assert all(p.grad is None for name, p in model.named_parameters() if name not in theirs)
    statistics = {name for name in moved if "running_" in name}
    assert bool(statistics) == (bn_stats == "domain")
    still = {name for name in theirs - moved if not name.endswith("conv.bias")}
    assert not still, "everything listed as the domain's has moved"


def test_adapter_stands_before_the_skip() -> None:
    model = base()
    insert_adapters(model, 2)
    block = model.backbone.stages[2].op_list[1]
    branch = block.context_module
    nn.init.normal_(branch.adapter.up.weight)
    x = torch.randn(1, 64, 4, 6)
    with torch.no_grad():
        y = branch.main(x)
        assert torch.allclose(branch(x), x + branch.adapter(y))
        assert not torch.allclose(branch(x), branch.adapter(x + y))


def test_low_rank_is_w_plus_ba_and_nothing_else() -> None:
    torch.manual_seed(0)
    conv = nn.Conv2d(6, 5, 1)
    low = LowRankConv(conv, 2)
    x = torch.randn(1, 6, 3, 4)
    assert torch.equal(low(x), conv(x))
    nn.init.normal_(low.high)
    merged = nn.functional.conv2d(x, conv.weight + (low.high @ low.low).view(5, 6, 1, 1), conv.bias)
    assert torch.allclose(low(x), merged)
    assert not torch.allclose(low(x), conv(x))


def test_merged_low_rank_is_the_same_function_of_plain_convolutions() -> None:
    model = base()
    adapt(model, 3, Adaptation("lora", 4))
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, LowRankConv):
                module.high.normal_(0, 0.1)
        before, plain = model(X), copy.deepcopy(model)
        merge_low_rank(plain)
        assert not any(isinstance(module, LowRankConv) for module in plain.modules())
        assert (plain(X) - before).abs().max() <= 1e-5 * before.std()
        assert torch.equal(model(X), before)
        for module in model.modules():
            if isinstance(module, LowRankConv):
                module.high.zero_()
        assert (model(X) - before).abs().max() > 0.01 * before.std(), "the additions count"


def test_top_methods_nest() -> None:
    sizes = []
    for method in ("head", "top-1", "top-2", "top-4", "full"):
        model, how = base(), Adaptation(method, head="full")
        adapt(model, 3, how)
        counts = count_parameters(model, how)
        sizes.append(sum(counts.values()) - counts["all"])
    assert sizes == sorted(sizes) and len(set(sizes)) == 5
    assert sizes[-1] == counts["all"]


@pytest.mark.parametrize(
    "wrong",
    [{"method": "prompt"}, {"head": "none"}, {"bn_stats": "off"}, {"bottleneck": 0}, {"bottleneck": 1.5}],
)
def test_unknown_values_are_one_clear_error(wrong: dict) -> None:
    with pytest.raises(InputError):
        Adaptation(**({"method": "adapter"} | wrong))
