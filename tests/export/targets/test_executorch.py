"""ExecuTorch: with either attention the program computes the network's label map, within its rules."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
import torch

from deploy.errors import InputError
from export.graphrules import check_graph, network_parts
from export.targets import BuildContext
from export.targets import executorch as target
from pipeline.models import attention as cores
from pipeline.models.efficientvit import create_model
from pipeline.models.labelmap import LabelMapper

if TYPE_CHECKING:
    from deploy.bundle import Bundle

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


@pytest.mark.skipif(target.requires() is not None, reason=str(target.requires()))
def test_a_call_that_the_runtime_refuses_is_one_clear_error(tmp_path: Path) -> None:
    from executorch.exir import to_edge_transform_and_lower

    from deploy.runtimes.executorch import Session

    exported = torch.export.export(torch.nn.Conv2d(3, 4, 3).eval(), (torch.ones(1, 3, 8, 8),))
    program = to_edge_transform_and_lower(exported).to_executorch()
    (tmp_path / "model.pte").write_bytes(program.buffer)
    ends = [
        SimpleNamespace(dtype="float32", shape=(1, 3, 8, 8)),
        SimpleNamespace(dtype="float32", shape=(1, 4, 6, 6)),
    ]
    bundle = SimpleNamespace(
        model_file=lambda _: tmp_path / "model.pte",
        manifest=SimpleNamespace(inputs=ends[:1], outputs=ends[1:]),
    )
    session = Session(cast("Bundle", bundle))
    assert session.run(np.ones((1, 3, 8, 8), np.float32)).shape == (1, 4, 6, 6)
    with pytest.raises(InputError, match=r"ExecuTorch cannot execute model\.pte"):
        session.run(np.ones((1, 3, 2, 2), np.float32))
