"""Interpolation as matrices equals torch's interpolate, at every factor and size, static and dynamic."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from pipeline.models.efficientvit import create_model
from pipeline.models.upsample import StaticUpsample, freeze_size, interpolation_matrix, resize, stage_size

MODES = ["bicubic", "bilinear"]


def torch_resize(x, size, mode):
    """The slow twin."""
    return F.interpolate(x, size=size, mode=mode, align_corners=False)


def relative_error(ours, theirs) -> float:
    return float((ours - theirs).abs().max() / theirs.abs().max())


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=40, deadline=None)
@given(
    height=st.integers(1, 60), width=st.integers(1, 60), rows=st.integers(1, 300), columns=st.integers(1, 300)
)
def test_any_size_to_any_size(mode, height, width, rows, columns):
    x = torch.randn(1, 2, height, width, generator=torch.Generator().manual_seed(height * width))
    expected = torch_resize(x, (rows, columns), mode)
    assert relative_error(resize(x, (rows, columns), mode), expected) < 1e-5
    static = StaticUpsample((height, width), (rows, columns), mode)
    assert relative_error(static(x), expected) < 1e-5


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n_out", [33, 97, 300, 479, 1024, 2047, 2048])
def test_the_sizes_a_network_meets(mode, n_out):
    """Strides 32 and 16 to 8 inside the head, 8 to 1 at the end, odd sizes included."""
    eighth = stage_size((n_out, n_out), 8)[0]
    for n_in, n in [(-(-n_out // 32), eighth), (-(-n_out // 16), eighth), (eighth, n_out)]:
        x = torch.randn(1, 1, n_in, 1, generator=torch.Generator().manual_seed(n))
        ours = torch.from_numpy(interpolation_matrix(n_in, n, mode).copy()) @ x
        assert relative_error(ours, torch_resize(x, (n, 1), mode)) < 1e-5


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("n_in", "n_out"), [(1, 1), (1, 8), (2, 16), (13, 97), (64, 512), (97, 13)])
def test_rows_sum_to_one(mode, n_in, n_out):
    """A constant image stays constant."""
    np.testing.assert_allclose(interpolation_matrix(n_in, n_out, mode).sum(1), 1, rtol=1e-6)


def test_equal_size_is_the_identity():
    np.testing.assert_array_equal(interpolation_matrix(7, 7), np.eye(7, dtype=np.float32))


def test_matrices_are_shared_and_read_only():
    first = interpolation_matrix(5, 40)
    assert first is interpolation_matrix(5, 40)
    with pytest.raises(ValueError, match="read-only"):
        first[0, 0] = 1


def test_unknown_mode_is_refused():
    with pytest.raises(ValueError, match="nearest"):
        interpolation_matrix(2, 4, "nearest")


def test_dynamic_path_is_differentiable_after_use_in_inference_mode():
    with torch.inference_mode():
        resize(torch.randn(1, 1, 3, 3), (11, 11))
    x = torch.randn(1, 1, 3, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: resize(t, (11, 9)), x)
    y = torch.randn(1, 1, 3, 3, requires_grad=True)
    resize(y, (11, 11)).sum().backward()
    torch.testing.assert_close(y.grad.sum(), torch.tensor(121.0))


@pytest.mark.parametrize("size", [(64, 96), (97, 131)])
def test_frozen_copy_computes_the_same_and_leaves_the_model_alone(size):
    torch.manual_seed(0)
    model = create_model("b0", 5).eval()
    keys = list(model.state_dict())
    frozen = freeze_size(model, size)
    x = torch.randn(2, 3, *size)
    with torch.no_grad():
        torch.testing.assert_close(frozen(x), model(x))
    assert list(frozen.state_dict()) == list(model.state_dict()) == keys, (
        "matrices stay out of the state dict"
    )
    assert not any(isinstance(part, StaticUpsample) for part in model.modules())


def test_frozen_copy_keeps_the_dtype():
    frozen = freeze_size(create_model("b0", 5).half(), (64, 64))
    assert {buffer.dtype for buffer in frozen.buffers() if buffer.is_floating_point()} == {torch.float16}
