"""Time by operator, of real bundles under the real profilers."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.int8_operators import by_type, main
from benchmarks.profiled import WHOLE
from benchmarks.profiled_executorch import profile as profile_executorch
from benchmarks.profiled_openvino import profile as profile_openvino
from deploy.errors import run_cli

V1 = Path(__file__).resolve().parents[1] / "data" / "bundle_v1"


def test_a_pair_in_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "operators.json"
    words = [str(V1), str(V1), "--rounds", "1", "--seconds", "0.05", "--threads", "1", "--json", str(out)]
    monkeypatch.setattr(sys, "argv", ["benchmarks.int8_operators", *words])
    assert run_cli(main) == 0
    (case,) = json.loads(out.read_text())["cases"]
    assert case["target"] == "onnxruntime"
    for side in (case["float"], case["int8"]):
        times = list(side["operators"].values())
        assert "Conv" in side["operators"] and times == sorted(times, reverse=True)
        assert 0 < sum(times) < 1.2 * side["ms"]


def test_types_are_summed_without_the_whole() -> None:
    nodes = {"a": {"op": "Conv"}, "b": {"op": "Add"}, "c": {"op": "Conv"}}
    assert by_type({"a": 1.0, "b": 2.5, "c": 2.0, WHOLE: 9.0}, nodes) == {"Conv": 3.0, "Add": 2.5}


def test_bundles_come_in_pairs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks.int8_operators", str(V1)])
    assert run_cli(main) == 2
    assert "expected pairs" in capsys.readouterr().err


def test_openvino_names_the_kernel(tmp_path: Path) -> None:
    openvino = pytest.importorskip("openvino")
    ops = openvino.opset13
    frame = ops.parameter([1, 4, 32, 32], np.float32, name="image")
    model = openvino.Model(
        [ops.convolution(frame, np.ones((8, 4, 3, 3), np.float32), [1, 1], [1, 1], [1, 1], [1, 1])], [frame]
    )
    frame.output(0).set_names({"image"})
    openvino.save_model(model, tmp_path / "m.xml", compress_to_fp16=False)
    np.savez(tmp_path / "x.npz", image=np.ones((1, 4, 32, 32), np.float32))
    times, nodes = profile_openvino(tmp_path / "m.xml", tmp_path / "x.npz", 1, 0.02)
    assert times[WHOLE] > 0 and set(times) - {WHOLE} == set(nodes)
    assert any(node["op"].startswith("Convolution ") for node in nodes.values())


def test_executorch_tells_xnnpacks_operators_from_portable_ones(tmp_path: Path) -> None:
    exir = pytest.importorskip("executorch.exir")
    xnnpack = pytest.importorskip("executorch.backends.xnnpack.partition.xnnpack_partitioner")
    import torch

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(4, 8, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.conv(x).argmax(1)

    exported = torch.export.export(Net().eval(), (torch.ones(1, 4, 32, 32),))
    program = exir.to_edge_transform_and_lower(exported, partitioner=[xnnpack.XnnpackPartitioner()])
    (tmp_path / "m.pte").write_bytes(program.to_executorch().buffer)
    np.savez(tmp_path / "x.npz", image=np.ones((1, 4, 32, 32), np.float32))
    times, nodes = profile_executorch(tmp_path / "m.pte", tmp_path / "x.npz", 1, 0.02)
    kinds = {node["op"] for node in nodes.values()}
    assert "argmax.out" in kinds and any(kind.startswith("Convolution ") for kind in kinds)
    assert set(times) - {WHOLE} == set(nodes) and 0 < sum(times[name] for name in nodes) < 1.5 * times[WHOLE]
