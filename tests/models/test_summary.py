"""`summary`: the counts against a count by hand, and the sizes at which each form gets cheaper."""

from __future__ import annotations

import argparse
import json

import pytest
import torch

from deploy.errors import InputError
from pipeline.models import summary as command
from pipeline.models.arithmetic import linear_pair_macs, projection_macs, smallest_size, softmax_pair_macs
from pipeline.models.efficientvit import create_model
from pipeline.models.summary import summarise


def parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args(words)


def test_stages_add_up():
    found = summarise("b1", (512, 1024))
    model = create_model("b1", 19)
    assert found.parameters == sum(p.numel() for p in model.parameters())
    assert found.stages["head"]["parameters"] == sum(p.numel() for p in model.head.parameters())
    # the stem: 3x3 from 3 to 16, 3x3 depthwise, 1x1, all at half size
    assert found.stages["backbone.input_stem"]["macs"] == 256 * 512 * 16 * (27 + 9 + 16)


def test_layers_hold_the_textbook_terms():
    found = summarise("b1", (512, 1024))
    assert [(layer.tokens, layer.channels) for layer in found.layers] == [(2048, 128)] * 3 + [(512, 256)] * 4
    for layer in found.layers:
        assert layer.projection == 4 * layer.tokens * layer.channels**2
        assert layer.softmax_pair == 2 * layer.tokens**2 * layer.channels
        assert layer.linear_pair == 2 * layer.tokens * layer.channels * (layer.dim + 1)


def test_linear_and_softmax_differ_by_the_pair_terms():
    linear, softmax = (summarise("b0", (256, 512), attention=kind) for kind in ("linear", "softmax"))
    pairs = sum(2 * (layer.softmax_pair - layer.linear_pair) for layer in linear.layers)
    assert softmax.macs - linear.macs == pairs > 0


def test_crossover_sizes_hold_enough_tokens():
    for layer in summarise("b0", (512, 1024)).layers:
        stride = 16 if "stages.2" in layer.name else 32
        for size, tokens in ((layer.linear_from, layer.dim + 2), (layer.pair_from, 2 * layer.channels + 1)):
            assert (size[0] // stride) * (size[1] // stride) >= tokens
    n, c, d = 18, 64, 16
    assert linear_pair_macs(n, c, d) < softmax_pair_macs(n, c)
    assert linear_pair_macs(n - 1, c, d) == softmax_pair_macs(n - 1, c)
    assert softmax_pair_macs(2 * c, c) == projection_macs(2 * c, c)


@pytest.mark.parametrize(("tokens", "aspect"), [(1, 2), (18, 2), (129, 1.33), (257, 0.5)])
def test_smallest_size_is_not_much_larger_than_needed(tokens, aspect):
    height, width = smallest_size(tokens, 16, aspect)
    found = (height // 16) * (width // 16)
    assert tokens <= found < tokens + width // 16 + height // 16


def test_upsampling_is_counted_beside_the_total():
    # b0 at 64x128: 32 channels, 2x4 and 4x8 to 8x16, columns then rows
    expected = 32 * (16 * 2 * (4 + 8) + 16 * 4 * (8 + 8))
    assert summarise("b0", (64, 128)).upsampling_macs == expected


def test_tables_and_json(capsys, tmp_path):
    assert command.run(parse("b0", "--size", "256x512", "--json", str(tmp_path / "s.json"))) == 0
    shown = capsys.readouterr().out
    assert "4nC²" in shown
    assert "2n²C" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown
    assert json.loads((tmp_path / "s.json").read_text())["parameters"] == 706_691
    assert command.run(parse("l1", "--head", "ade20k", "--json", "-")) == 0
    assert json.loads(capsys.readouterr().out)["classes"] == 150


def test_odd_sizes_and_wrong_names():
    assert summarise("l1", (97, 131)).layers[0].tokens == 4 * 5
    with pytest.raises(InputError, match="b9"):
        summarise("b9", (64, 64))
    with pytest.raises(InputError, match="out of range"):
        summarise("b0", (64, 64), classes=0)


def test_nothing_is_computed():
    """Counting a network at a huge size allocates no activations: every tensor is on the meta device."""
    summary = summarise("l2", (8192, 16384))
    assert summary.macs > 2e13
    assert torch.get_default_device().type == "cpu"


def test_another_activation_counts_the_same(capsys):
    relu, published = (summarise("b0", (64, 128), activation=name) for name in ("relu", "published"))
    assert (relu.activation, published.activation) == ("relu", "hardswish")
    assert (relu.macs, relu.parameters) == (published.macs, published.parameters)
    assert command.run(parse("b0", "--activation", "relu", "--size", "64x128")) == 0
    assert "linear attention, relu" in capsys.readouterr().out
