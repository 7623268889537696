"""ExecuTorch: with either attention the program computes the network's label map, within its rules."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from export.graphrules import check_graph, network_parts
from export.targets import BuildContext
from export.targets import executorch as target
from pipeline.models import attention as cores
from pipeline.models.efficientvit import create_model
from pipeline.models.labelmap import LabelMapper

SIZE = (64, 96)


@pytest.mark.slow
@pytest.mark.skipif(target.requires() is not None, reason=str(target.requires()))
@pytest.mark.parametrize("attention", ["linear", "softmax"])
def test_the_program_is_the_network(attention: str, tmp_path: Path) -> None:
    from executorch.runtime import Runtime

    torch.manual_seed(0)
    model = create_model("b0", 5, attention).eval()
    net = LabelMapper(model, SIZE, (0.4, 0.4, 0.4), (0.2, 0.2, 0.2))
    core = cores.softmax_attention
    files = target.build(net, BuildContext("fp32", tmp_path))
    assert cores.softmax_attention is core, "exchanged for the export only"
    check_graph(target.count_ops(files), target.RULES, network_parts(net), attention)
    frame = torch.randint(0, 256, (1, *SIZE, 3), dtype=torch.uint8)
    (labels,) = Runtime.get().load_program(files["model.pte"]).load_method("forward").execute([frame])
    with torch.no_grad():
        assert (labels == net(frame)).float().mean() > 0.999


@pytest.mark.slow
@pytest.mark.skipif(target.requires() is not None, reason=str(target.requires()))
def test_int8_is_of_dense_convolutions_and_its_logits_can_be_shown(tmp_path: Path) -> None:
    from executorch.runtime import Runtime

    torch.manual_seed(0)
    model = create_model("b0", 5, "linear").eval()
    net = LabelMapper(model, SIZE, (0.4, 0.4, 0.4), (0.2, 0.2, 0.2))
    frame = torch.randint(0, 256, (1, *SIZE, 3), dtype=torch.uint8)
    calibration = [frame.numpy()] * 2
    files = target.build(net, BuildContext("int8", tmp_path, calibration=calibration))
    check_graph(target.count_ops(files), target.RULES, network_parts(net), "int8")
    shown = target.expose_logits(files, net, tmp_path)["model.pte"]
    (logits,) = Runtime.get().load_program(shown).load_method("forward").execute([frame])
    with torch.no_grad():
        expected = net.model(net.normalise(frame))
    error = (logits - expected).abs()
    assert 0 < error.mean() < 0.2 * expected.std(), "rounded, not another network"
    plain = sum(p.numel() for p in model.parameters()) * 4
    assert files["model.pte"].stat().st_size < 0.7 * plain
