"""The ONNX file itself: what is in the graph, what must not be, and that it is the same file every time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from deploy.errors import GateError
from export import trace
from export.targets import onnxruntime as target
from pipeline.models import attention
from pipeline.models.labelmap import LabelMapper
from pipeline.models.widen import with_wide_stem

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
TOLERANCE = 1e-5  # of a logit, relative to the logits' standard deviation
SOFTMAX_TOLERANCE = 1e-4  # float32 scores of up to 10 are rounded at 1e-6, and the exponential passes that on


@pytest.fixture(scope="module")
def model_file(built) -> Path:
    return built.bundle.model_file(".onnx")


@pytest.fixture(scope="module")
def net(built) -> LabelMapper:
    return LabelMapper(built.model, (75, 93), MEAN, STD)


@pytest.fixture(scope="module")
def frame() -> np.ndarray:
    """Noise with structure at several scales."""
    rng = np.random.default_rng(0)
    coarse = np.kron(rng.integers(0, 200, (1, 5, 3, 3)), np.ones((1, 15, 31, 1), np.int64))
    return (coarse + rng.integers(0, 56, (1, 75, 93, 3))).astype(np.uint8)


def test_graph_has_no_resize_and_only_fixed_sizes(model_file: Path) -> None:
    model = onnx.load(model_file)
    onnx.checker.check_model(model, full_check=True)
    assert not {node.op_type for node in model.graph.node} & {"Resize", "Upsample", "Shape", "Loop", "If"}
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    shapes = {value.name: trace.static_shape(value) for value in inferred.graph.value_info}
    assert None not in shapes.values() and len(shapes) > 100
    assert {opset.domain: opset.version for opset in model.opset_import} == {"": trace.OPSET}


def test_every_linear_attention_keeps_its_guard(model_file: Path) -> None:
    assert len(trace.guarded_divisions(onnx.load(model_file))) == 4  # two stages of two blocks


def test_file_holds_no_path_and_no_documentation(model_file: Path) -> None:
    data = model_file.read_bytes()
    root = str(Path(trace.__file__).resolve().parents[1]).encode()
    for word in (root, b"site-packages", b"/home/", b".py", b"stack_trace", b"aten."):
        assert word not in data, word


def test_same_input_gives_the_same_bytes(model_file: Path, net: LabelMapper, tmp_path: Path) -> None:
    again = trace.to_onnx(with_wide_stem(net, target.STEM_MULTIPLE), tmp_path / "again.onnx")
    assert again.read_bytes() == model_file.read_bytes()


def test_labels_and_logits_are_the_networks(
    model_file: Path, net: LabelMapper, frame: np.ndarray, tmp_path: Path
) -> None:
    with torch.inference_mode():
        expected = net(torch.from_numpy(frame)).numpy()
        logits = net.model(net.normalise(torch.from_numpy(frame))).numpy()
    session = onnxruntime.InferenceSession(str(model_file))
    (labels,) = session.run(["labels"], {"image": frame})
    assert labels.dtype == np.uint8 and len(np.unique(labels)) > 2
    assert np.mean(labels == expected) > 0.9995
    cut = onnxruntime.InferenceSession(str(trace.cut_at_logits(model_file, net, tmp_path / "cut.onnx")))
    (found,) = cut.run(["logits"], {"image": frame})
    assert np.abs(found - logits).max() < TOLERANCE * logits.std()


def test_softmax_twin_with_float_input_and_logits(make_model, frame: np.ndarray, tmp_path: Path) -> None:
    net = LabelMapper(make_model("softmax"), (75, 93), MEAN, STD, input="float", output="logits")
    path = trace.to_onnx(net, tmp_path / "softmax.onnx")
    assert not trace.guarded_divisions(onnx.load(path)) and b"Resize" not in path.read_bytes()
    x = net.normalise(torch.from_numpy(frame))
    with torch.inference_mode():
        expected = net(x).numpy()
    (found,) = onnxruntime.InferenceSession(str(path)).run(["logits"], {"image": x.numpy()})
    assert found.shape == (1, 9, 10, 12)
    assert np.abs(found - expected).max() < SOFTMAX_TOLERANCE * expected.std()


def test_an_attention_without_guard_is_refused(net: LabelMapper, tmp_path: Path, monkeypatch) -> None:
    def naive(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        state = torch.cat([v @ k.relu().mT, k.relu().sum(-1).unsqueeze(-2)], dim=-2)
        out = state @ q.relu()
        return out[..., :-1, :] / (out[..., -1:, :] + 1e-15)

    monkeypatch.setitem(attention.CORES, "linear", naive)
    with pytest.raises(GateError, match="0 guarded divisions for 4 linear attentions"):
        trace.to_onnx(net, tmp_path / "naive.onnx")
    assert not list(tmp_path.iterdir())


def test_check_names_a_resize_and_a_dynamic_size(model_file: Path, net: LabelMapper) -> None:
    model = onnx.load(model_file)
    scales = onnx.numpy_helper.from_array(np.ones(4, np.float32), "unit_scales")
    first = next(node for node in model.graph.node if node.op_type == "Conv")
    resized = onnx.helper.make_node("Resize", [first.input[0], "", "unit_scales"], ["resized"], "stray")
    model.graph.initializer.append(scales)
    model.graph.node.insert(list(model.graph.node).index(first), resized)
    first.input[0] = "resized"
    with pytest.raises(GateError, match="Resize stray"):
        trace.check(model, net)
    dynamic = onnx.load(model_file)
    dynamic.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    with pytest.raises(GateError):
        trace.check(dynamic, net)
