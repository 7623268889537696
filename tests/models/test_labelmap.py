"""From frame to label map: bands against the full upsampling, normalisation, and the exported graph."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import numpy_helper
from torch.nn import functional as F

from deploy.errors import InputError
from pipeline.models.attention import MultiScaleAttention
from pipeline.models.efficientvit import create_model
from pipeline.models.labelmap import BAND_ROWS, BandedLabels, LabelMapper
from pipeline.models.upsample import stage_size

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def full_labels(logits, size, mode):
    """The slow twin: logits at full size, one argmax. Also where the best two classes are clearly apart."""
    full = F.interpolate(logits, size=size, mode=mode, align_corners=False)
    best = full.topk(min(2, full.shape[1]), dim=1).values
    clear = best[:, 0] - best[:, -1] > 1e-4 if full.shape[1] > 1 else torch.ones_like(best[:, 0], dtype=bool)
    return full.argmax(1).to(torch.uint8), clear


@pytest.mark.parametrize("mode", ["bicubic", "bilinear"])
@settings(max_examples=25, deadline=None)
@given(
    height=st.integers(1, 300),
    width=st.integers(1, 300),
    batch=st.integers(1, 2),
    classes=st.integers(1, 150),
    band_rows=st.sampled_from([1, 7, 64, 1000]),
)
def test_bands_give_the_labels_of_the_full_upsampling(mode, height, width, batch, classes, band_rows):
    generator = torch.Generator().manual_seed(height * width + classes)
    logits = torch.randn(batch, classes, *stage_size((height, width), 8), generator=generator)
    labels = BandedLabels((height, width), mode, band_rows)(logits)
    expected, clear = full_labels(logits, (height, width), mode)
    assert labels.shape == (batch, height, width)
    assert labels.dtype == torch.uint8
    assert torch.equal(labels[clear], expected[clear])
    assert clear.float().mean() > 0.98


def test_bands_multiply_only_their_own_rows():
    bands = BandedLabels((512, 64), "bicubic", 64)
    assert len(bands.spans) == 8
    assert max(last - first for first, last in bands.spans) <= 64 // 8 + 4
    # the last row of logits reaches only the last band
    logits = torch.zeros(1, 2, 64, 8)
    logits[:, 1, -1] = 1
    assert bands(logits)[0, :448].sum() == 0
    assert bands(logits)[0, -1].min() == 1


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(3)
    fresh = create_model("b0", 11)
    with torch.no_grad():
        fresh(torch.randn(4, 3, 64, 64))  # BatchNorm statistics of something
        fresh.head.classifier.weight.mul_(100)
    return fresh.eval()


@pytest.mark.parametrize("class_axis", ["last", "first"])
@pytest.mark.parametrize("size", [(64, 96), (97, 131)])
def test_uint8_frame_equals_normalising_by_hand(model, size, class_axis):
    frame = torch.randint(0, 256, (2, *size, 3), dtype=torch.uint8)
    by_hand = (frame.permute(0, 3, 1, 2) / 255 - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(
        3, 1, 1
    )
    with torch.no_grad():
        logits = LabelMapper(model, size, MEAN, STD, output="logits")(frame)
        torch.testing.assert_close(logits, model(by_hand), rtol=1e-3, atol=1e-3)
        labels = LabelMapper(model, size, MEAN, STD, class_axis=class_axis)(frame)
        expected, clear = full_labels(model(by_hand), size, "bicubic")
        assert labels.shape == (2, *size)
        assert torch.equal(labels[clear], expected[clear])


def test_mapper_copies_the_model(model):
    mapper = LabelMapper(model, (64, 64), MEAN, STD)
    assert not mapper.training
    assert all(own is not other for own, other in zip(mapper.parameters(), model.parameters(), strict=True))


def test_mapper_in_float16_is_finite(model):
    frame = torch.randint(0, 256, (1, 64, 96, 3), dtype=torch.uint8)
    with torch.no_grad():
        expected = LabelMapper(model, (64, 96), MEAN, STD)(frame)
        half = LabelMapper(model, (64, 96), MEAN, STD).half()
        assert torch.isfinite(half.model(half.normalise(frame))).all()
        assert (half(frame) == expected).float().mean() > 0.97


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"input": "int8"}, "int8.*uint8 or float"),
        ({"output": "mask"}, "mask.*labels or logits"),
        ({"final": "nearest"}, "nearest.*bicubic or bilinear"),
        ({"class_axis": "middle"}, "middle.*last or first"),
        ({"size": (0, 64)}, "0x64"),
    ],
)
def test_unknown_options_are_named(model, options, names):
    with pytest.raises(InputError, match=names):
        LabelMapper(model, **{"size": (64, 64), "mean": MEAN, "std": STD, **options})


def export(mapper, example, path):
    torch.onnx.export(mapper, (example,), dynamo=True, verbose=False).save(path)
    return onnx.load(path), onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("class_axis", ["last", "first"])
def test_exported_frame_to_labels_is_the_same_function(model, tmp_path, class_axis):
    size = (97, 131)
    mapper = LabelMapper(model, size, MEAN, STD, class_axis=class_axis)
    frame = torch.randint(0, 256, (1, *size, 3), dtype=torch.uint8)
    graph, session = export(mapper, frame, tmp_path / "labels.onnx")
    (labels,) = session.run(None, {session.get_inputs()[0].name: frame.numpy()})
    with torch.no_grad():
        expected = mapper(frame).numpy()
    assert labels.dtype == np.uint8
    assert (labels == expected).mean() > 0.999
    operators = Counter(node.op_type for node in graph.graph.node)
    assert not {"Resize", "Upsample", "GridSample", "Gather"} & set(operators)
    assert operators["ArgMax"] == -(-size[0] // BAND_ROWS)


def test_exporter_keeps_the_guard(tmp_path):
    """All queries and keys zero: a dropped guard would make every pixel NaN."""
    torch.manual_seed(0)
    model = create_model("b0", 3).eval()
    layers = [part for part in model.modules() if isinstance(part, MultiScaleAttention)]
    for layer in layers:
        torch.nn.init.zeros_(layer.qkv.conv.weight)
    mapper = LabelMapper(model, (32, 64), MEAN, STD, input="float", output="logits")
    x = torch.randn(1, 3, 32, 64)
    graph, session = export(mapper, x, tmp_path / "guard.onnx")
    (logits,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    assert np.isfinite(logits).all()
    np.testing.assert_allclose(logits, mapper(x).detach().numpy(), atol=1e-4)
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.graph.initializer}
    guards = [n for n in graph.graph.node if n.op_type in ("Clip", "Max") and n.input[1] in constants]
    assert len(guards) == 3 * len(layers), "of the denominator and of both scales"
    assert all(np.float16(constants[node.input[1]]) > 0 for node in guards), "survives a cast to float16"


@pytest.mark.parametrize("attention", ["linear", "softmax"])
def test_torch_export_takes_it(attention):
    """The way to Core ML, ExecuTorch and LiteRT: no data-dependent branches, no interpolation."""
    torch.manual_seed(0)
    mapper = LabelMapper(
        create_model("b0", 3, attention), (48, 80), MEAN, STD, input="float", output="logits"
    )
    x = torch.randn(1, 3, 48, 80)
    program = torch.export.export(mapper, (x,)).run_decompositions({})
    torch.testing.assert_close(program.module()(x), mapper(x))
    called = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    assert not any("upsample" in name or "interpolate" in name for name in called)
