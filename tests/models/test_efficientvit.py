"""The family: any size, batch, class count; the paper's parameters and MACs; reproducible fresh weights."""

from __future__ import annotations

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch import nn

from deploy.errors import InputError
from pipeline.models.efficientvit import HEADS, VARIANTS, create_model
from pipeline.models.layers import ConvLayer
from pipeline.models.summary import summarise
from pipeline.models.upsample import freeze_size, stage_size

# Source: EfficientViT paper, tables of semantic segmentation: parameters in M, MACs in G (Cityscapes at
# 1024x2048, ADE20K at 512x512).
PAPER = {
    ("b0", "cityscapes"): (0.7, 4.4),
    ("b1", "cityscapes"): (4.8, 25),
    ("b2", "cityscapes"): (15, 74),
    ("b3", "cityscapes"): (40, 179),
    ("l1", "cityscapes"): (40, 282),
    ("l2", "cityscapes"): (53, 396),
    ("b1", "ade20k"): (4.8, 3.1),
    ("b2", "ade20k"): (15, 9.1),
    ("b3", "ade20k"): (39, 22),
    ("l1", "ade20k"): (40, 36),
    ("l2", "ade20k"): (51, 45),
}
DTYPES = {torch.float32: 1e-4, torch.float16: None, torch.bfloat16: None}


def check_any_size(height, width, batch, classes, attention, dtype, variant="b0"):
    """Shape, finiteness, the static twin, and images of a batch that do not see each other."""
    torch.manual_seed(height * width)
    model = create_model(variant, classes, attention).eval().to(dtype)
    x = torch.randn(batch, 3, height, width).to(dtype)
    with torch.no_grad():
        logits = model(x)
        alone, frozen = model(x[:1]), freeze_size(model, (height, width))(x)
    assert logits.shape == (batch, classes, *stage_size((height, width), 8))
    assert logits.dtype == dtype
    assert torch.isfinite(logits).all()
    if tolerance := DTYPES[dtype]:
        scale = float(logits.abs().max())
        torch.testing.assert_close(frozen, logits, rtol=0, atol=tolerance * scale)
        torch.testing.assert_close(alone, logits[:1], rtol=0, atol=tolerance * scale)


NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)  # a network is too slow for hundreds of tries
SIZES = {
    "height": st.integers(33, 300),
    "width": st.integers(33, 300),
    "batch": st.integers(1, 2),
    "classes": st.integers(1, 150),
    "attention": st.sampled_from(["linear", "softmax"]),
    "dtype": st.sampled_from([torch.float32, *DTYPES]),  # mostly float32: halves are slow on a CPU
}


@settings(max_examples=6, deadline=None, phases=NO_SHRINKING)
@given(**SIZES)
def test_any_size_batch_dtype_and_class_count(**drawn):
    check_any_size(**drawn)


@pytest.mark.slow
@settings(max_examples=40, deadline=None, phases=NO_SHRINKING)
@given(**SIZES, variant=st.sampled_from(["b0", "b1", "l1"]))
def test_any_size_of_several_variants(**drawn):
    check_any_size(**drawn)


@pytest.mark.parametrize("size", [(1, 1), (1, 64), (31, 33), (32, 32)])
def test_smallest_sizes(size):
    check_any_size(*size, 1, 3, "linear", torch.float32)


@pytest.mark.parametrize(("variant", "head"), PAPER)
def test_parameters_and_macs_are_the_papers(variant, head):
    parameters, macs = PAPER[variant, head]
    summary = summarise(variant, (1024, 2048) if head == "cityscapes" else (512, 512), head=head)
    rounding = 0.05 if parameters < 10 else 0.6  # the paper cuts 39.55 to 39
    assert summary.parameters / 1e6 == pytest.approx(parameters, abs=rounding)
    assert summary.macs / 1e9 == pytest.approx(macs, rel=0.02)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_softmax_twin_has_the_same_parameters(variant, head):
    with torch.device("meta"):
        linear, softmax = (create_model(variant, 7, kind, head) for kind in ("linear", "softmax"))
    shapes = [
        [(name, value.shape) for name, value in model.state_dict().items()] for model in (linear, softmax)
    ]
    assert shapes[0] == shapes[1]


def test_fresh_weights_follow_the_seed():
    states = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        states.append(create_model("b0", 4).state_dict())
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert not all(torch.equal(states[0][name], states[2][name]) for name in states[0])


@pytest.mark.parametrize("variant", ["b0", "l1"])
def test_fresh_network_neither_dies_nor_explodes(variant):
    """Batch statistics on: logits and every gradient are of ordinary size at the first step."""
    torch.manual_seed(0)
    model = create_model(variant, 5).train()
    logits = model(torch.randn(2, 3, 64, 96))
    torch.nn.functional.cross_entropy(logits, torch.randint(5, (2, 8, 12))).backward()
    assert 0.01 < logits.std() < 1, "classes start nearly equal"
    for name, parameter in model.named_parameters():
        norm = parameter.grad.norm().item()
        assert 0 < norm < 30, f"{name}: {norm}"


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("b9", 3), "b9.*b0 or b1"),
        (("b0", 3, "cosine"), "cosine.*linear or softmax"),
        (("b0", 3, "linear", "coco"), "coco.*cityscapes or ade20k"),
        (("b0", 3, "linear", "cityscapes", "gelu"), "gelu.*published or relu"),
        (("b0", 0), "0 .*1..256"),
        (("b0", 257), "257 .*1..256"),
    ],
)
def test_unknown_values_are_named(arguments, names):
    with pytest.raises(InputError, match=names):
        create_model(*arguments)


@pytest.mark.parametrize(("variant", "published"), [("b0", nn.Hardswish), ("l1", nn.GELU)])
def test_one_activation_everywhere(variant, published):
    for choice, kind in (("published", published), ("relu", nn.ReLU)):
        with torch.device("meta"):
            model = create_model(variant, 3, activation=choice)
        found = {type(layer.act) for layer in model.modules() if isinstance(layer, ConvLayer) and layer.act}
        assert found == {kind} and model.activation == kind.__name__.lower()
