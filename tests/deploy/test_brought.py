"""Models of the user's own: timed by the same code, marked, and never given an accuracy."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from deploy import bench
from deploy.errors import InputError
from deploy.measurement import read_measurement
from deploy.options import Parser


def _bench(*arguments: object) -> int:
    parser = Parser()
    bench.add_arguments(parser)
    return bench.run(parser.parse_args([str(argument) for argument in arguments]))


def _pool(path: Path, shape: list[Any], output: list[Any], kind: int = TensorProto.FLOAT) -> Path:
    """Logits by average pooling: `[1, 3, H, W]` -> `[1, 3, H/4, W/4]`."""
    node = helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[4, 4], strides=[4, 4])
    graph = helper.make_graph(
        [node], "g",
        [helper.make_tensor_value_info("x", kind, shape)], [helper.make_tensor_value_info("y", kind, output)],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(path))
    return path


def test_latency_only_and_marked(tmp_path: Path, capsys: Any) -> None:
    model = _pool(tmp_path / "SegFormer-B0 ü.onnx", [1, 3, 64, 96], [1, 3, 16, 24])
    assert _bench(model, "--frames", 5, "--warmup", 1, "--threads", 1, "--json", tmp_path / "r.json") == 0
    m = read_measurement(tmp_path / "r.json")
    assert m.brought and m.name == "SegFormer-B0 ü" and m.size == (64, 96) and m.precision == "fp32"
    assert m.miou is None and m.accuracy_reason == "brought model: latency only" and m.dataset is None
    assert m.latency_ms.p50 > 0 and m.peak_memory_bytes and "latency only" in capsys.readouterr().out
    assert not list(Path(sys.modules["tempfile"].gettempdir()).glob("edgeseg-*/SegFormer-B0 ü"))


@pytest.mark.parametrize(
    ("shape", "output", "words"),
    [
        (["n", 3, 64, 96], ["n", 3, 16, 24], "fixed sizes"),
        ([1, 3, "h", "w"], [1, 3, "a", "b"], "fixed sizes"),
        ([2, 3, 64, 96], [2, 3, 16, 24], "fixed sizes"),
        ([1, 4, 64, 96], [1, 4, 16, 24], "one RGB frame"),
    ],
)
def test_what_cannot_be_timed_says_why(
    shape: list[Any], output: list[Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=words):
        _bench(_pool(tmp_path / "m.onnx", shape, output), "--frames", 1)


def test_no_onnx_file_and_no_labels_for_it(tmp_path: Path, colour_folder: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"rubbish")
    with pytest.raises(InputError, match=r"cannot load .*m\.onnx"):
        _bench(tmp_path / "m.onnx")
    with pytest.raises(InputError, match=r"--data \| got a model of your own"):
        _bench(_pool(tmp_path / "m.onnx", [1, 3, 64, 96], [1, 3, 16, 24]), "--data", colour_folder)
