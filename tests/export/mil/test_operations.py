"""Every operation of the evaluator against torch, which shares no code with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from export.mil.arithmetic import SAVED
from export.mil.operations import OPERATIONS

HALF = replace(SAVED, half=True)
TOLERANCE = 2e-6  # relative to the largest result: float32 sums in another order
Reference = Callable[[], torch.Tensor | tuple[torch.Tensor, ...]]


def drawn(*shape: int, seed: int = 0, scale: float = 3.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, generator=generator) * scale


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


X = drawn(2, 6, 9, 11)
Y = drawn(2, 6, 9, 11, seed=1)
POSITIVE = X.abs() + 0.1


def _conv(weight: torch.Tensor, groups: int, stride: int, pad: tuple[int, int, int, int], bias: bool) -> Any:
    given = drawn(len(weight), seed=2) if bias else None
    top, bottom, left, right = pad
    arguments = {
        "x": X,
        "weight": weight,
        "strides": ints(stride, stride),
        "pad_type": "custom" if any(pad) else "valid",
        "pad": ints(*pad),
        "dilations": ints(1, 1),
        "groups": groups,
    }
    if given is not None:
        arguments["bias"] = given
    padded = F.pad(X, (left, right, top, bottom))
    return arguments, lambda: F.conv2d(padded, weight, given, stride, groups=groups)


def _sliced(begin: list[int], end: list[int], expected: torch.Tensor, **more: Any) -> Any:
    return {"x": X, "begin": ints(*begin), "end": ints(*end), **more}, lambda: expected


def _palette(bits: int) -> Any:
    lut = drawn(2**bits)
    indices = torch.randint(2**bits, (3, 5, 7), generator=torch.Generator().manual_seed(bits))
    word = "".join(f"{index:0{bits}b}"[::-1] for index in indices.flatten().tolist())
    word += "0" * (-len(word) % 8)
    packed = bytes(int(word[at : at + 8][::-1], 2) for at in range(0, len(word), 8))
    arguments = {
        "indices": np.frombuffer(packed, np.uint8),
        "lut": lut,
        "shape": np.array([3, 5, 7], np.uint32),
    }
    return arguments, lambda: lut[indices]


def _dequantised(axis: int, offset: int) -> Any:
    generator = torch.Generator().manual_seed(axis)
    stored = torch.randint(-127, 128, (4, 5, 3, 3), generator=generator, dtype=torch.int8)
    count = stored.shape[axis]
    scale, zero = drawn(count).abs() + 0.01, torch.full((count,), offset, dtype=torch.int8)

    def slices() -> torch.Tensor:
        parts = [
            (part.float() - offset) * factor for part, factor in zip(stored.unbind(axis), scale, strict=True)
        ]
        return torch.stack(parts, axis)

    return {"quantized_data": stored, "zero_point": zero, "scale": scale, "axis": axis}, slices


MASK = np.array([True, True, False, True])
CASES: list[tuple[str, dict[str, Any], Reference]] = [
    ("abs", {"x": X}, lambda: X.abs()),
    ("add", {"x": X, "y": Y}, lambda: X + Y),
    ("add", {"x": X, "y": 1.5}, lambda: X + 1.5),
    ("sub", {"x": X, "y": Y[:, :, :1]}, lambda: X - Y[:, :, :1]),
    ("mul", {"x": X, "y": 2.0**-7}, lambda: X * 2.0**-7),
    ("mul", {"x": X, "y": Y}, lambda: X * Y),
    ("real_div", {"x": X, "y": POSITIVE}, lambda: X / POSITIVE),
    ("inverse", {"x": POSITIVE}, lambda: 1 / (POSITIVE + 1e-4)),
    ("inverse", {"x": POSITIVE, "epsilon": 0.5}, lambda: 1 / (POSITIVE + 0.5)),
    ("rsqrt", {"x": POSITIVE}, lambda: POSITIVE.rsqrt()),
    ("rsqrt", {"x": POSITIVE, "epsilon": 0.5}, lambda: (POSITIVE + 0.5).rsqrt()),
    ("relu", {"x": X}, lambda: F.relu(X)),
    ("clip", {"x": X, "alpha": -0.5, "beta": float("inf")}, lambda: X.clamp(min=-0.5)),
    ("clip", {"x": X, "alpha": 0.0, "beta": 1.0}, lambda: X.clamp(0, 1)),
    ("thresholded_relu", {"x": X, "alpha": -3.0}, lambda: F.threshold(X, -3.0, 0.0)),
    ("sigmoid_hard", {"x": X, "alpha": 1 / 6, "beta": 0.5}, lambda: F.hardsigmoid(X)),
    ("gelu", {"x": X, "mode": "TANH_APPROXIMATION"}, lambda: F.gelu(X, approximate="tanh")),
    ("softmax", {"x": 20 * X, "axis": -1}, lambda: F.softmax(20 * X, -1)),
    ("softmax", {"x": X, "axis": 1}, lambda: F.softmax(X, 1)),
    ("matmul", {"x": X, "y": drawn(2, 6, 11, 4)}, lambda: X @ drawn(2, 6, 11, 4)),
    ("matmul", {"x": drawn(5, 9), "y": X}, lambda: drawn(5, 9) @ X),
    ("matmul", {"x": X, "y": Y, "transpose_y": True}, lambda: X @ Y.mT),
    ("matmul", {"x": X, "y": Y, "transpose_x": True, "transpose_y": False}, lambda: X.mT @ Y),
    ("conv", *_conv(drawn(8, 6, 1, 1), 1, 1, (0, 0, 0, 0), bias=True)),
    ("conv", *_conv(drawn(8, 6, 1, 1), 1, 2, (0, 0, 0, 0), bias=False)),
    ("conv", *_conv(drawn(8, 6, 3, 3), 1, 2, (1, 1, 1, 1), bias=True)),
    ("conv", *_conv(drawn(6, 1, 5, 5), 6, 1, (2, 2, 2, 2), bias=False)),
    ("conv", *_conv(drawn(6, 1, 3, 3), 6, 2, (1, 0, 0, 2), bias=True)),
    ("conv", *_conv(drawn(9, 2, 3, 2), 3, 1, (0, 1, 1, 0), bias=True)),
    ("reduce_sum", {"x": X, "axes": ints(-1)}, lambda: X.sum(-1)),
    ("reduce_sum", {"x": X, "keep_dims": True}, lambda: X.sum((0, 1, 2, 3), keepdim=True)),
    ("reduce_max", {"x": X, "axes": ints(-2, -1), "keep_dims": True}, lambda: X.amax((2, 3), keepdim=True)),
    ("reduce_argmax", {"x": X, "axis": 1}, lambda: X.argmax(1).int()),
    (
        "reduce_argmax",
        {"x": torch.round(X), "axis": -1, "keep_dims": True, "output_dtype": "int32"},
        lambda: torch.from_numpy(np.round(X.numpy()).argmax(-1)[..., None]).int(),
    ),
    ("cast", {"x": X, "dtype": "int32"}, lambda: X.int()),
    ("cast", {"x": X.abs(), "dtype": "uint8"}, lambda: X.abs().to(torch.uint8)),
    ("cast", {"x": X.int(), "dtype": "fp16"}, lambda: X.int().float()),
    ("reshape", {"x": X, "shape": ints(0, -1, 3, 11)}, lambda: X.reshape(2, 18, 3, 11)),
    ("transpose", {"x": X, "perm": ints(0, 2, 3, 1)}, lambda: X.permute(0, 2, 3, 1)),
    ("expand_dims", {"x": X, "axes": ints(-2)}, lambda: X.unsqueeze(-2)),
    ("concat", {"values": (X, Y, X), "axis": 1, "interleave": False}, lambda: torch.cat([X, Y, X], 1)),
    ("split", {"x": X, "num_splits": 3, "axis": 1}, lambda: X.chunk(3, 1)),
    ("split", {"x": X, "split_sizes": ints(2, 3, 4), "axis": 2}, lambda: X.split([2, 3, 4], 2)),
    ("slice_by_index", *_sliced([0, 2, 0, 0], [2, -1, 9, 11], X[:, 2:-1])),
    ("slice_by_index", *_sliced([0, 0, -1, 0], [0, 0, 0, 0], X[:, :, -1:], end_mask=np.array([True] * 4))),
    (
        "slice_by_index",
        *_sliced(
            [1, 1, 3, 1],
            [1, 1, 8, 1],
            X[:, :, 3:8:2],
            begin_mask=MASK,
            end_mask=MASK,
            stride=ints(1, 1, 2, 1),
        ),
    ),
    (
        "slice_by_index",
        *_sliced(
            [1, 0, 0, 2], [0, 6, 9, 5], X[1, :, :, 2:5], squeeze_mask=np.array([True, False, False, False])
        ),
    ),
    ("const", {"val": X}, lambda: X),
    ("constexpr_affine_dequantize", *_dequantised(0, 0)),
    ("constexpr_affine_dequantize", *_dequantised(1, -7)),
    (
        "constexpr_affine_dequantize",
        {
            "quantized_data": torch.tensor([[3, -4]], dtype=torch.int8),
            "zero_point": 1,
            "scale": 0.5,
            "axis": 0,
        },
        lambda: torch.tensor([[1.0, -2.5]]),
    ),
    *(("constexpr_lut_to_dense", *_palette(bits)) for bits in (1, 4, 6, 8)),
]


def as_numpy(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(as_numpy, value))
    return value.numpy() if isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize(
    ("kind", "arguments", "reference"),
    CASES,
    ids=[f"{kind}-{index}" for index, (kind, *_) in enumerate(CASES)],
)
def test_operation_is_torchs(kind: str, arguments: dict[str, Any], reference: Reference) -> None:
    found = OPERATIONS[kind](SAVED, **{name: as_numpy(value) for name, value in arguments.items()})
    expected = reference()
    for result, wanted in zip(
        found if isinstance(found, list) else [found],
        expected if isinstance(expected, tuple) else [expected],
        strict=True,
    ):
        assert result.shape == tuple(wanted.shape) and result.dtype == wanted.numpy().dtype
        limit = TOLERANCE * float(wanted.abs().max()) if wanted.is_floating_point() else 0
        assert float(np.abs(result.astype(np.float64) - wanted.numpy()).max()) <= limit


def test_every_operation_has_a_case() -> None:
    assert {kind for kind, *_ in CASES} == set(OPERATIONS)


@pytest.mark.parametrize("kind", ["add", "sub", "mul", "real_div"])
def test_half_precision_is_torchs_to_the_bit(kind: str) -> None:
    x, y = X.half(), POSITIVE.half()
    found = HALF.finish(OPERATIONS[kind](HALF, x=x.float().numpy(), y=y.float().numpy()))
    operator = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "real_div": torch.div}[kind]
    np.testing.assert_array_equal(found, operator(x, y).float().numpy())


def test_half_precision_product_accumulates_like_torchs_in_float32() -> None:
    x, y = X.half(), Y.half()
    found = HALF.finish(
        OPERATIONS["matmul"](HALF, x=x.float().numpy(), y=y.float().numpy(), transpose_y=True)
    )
    exact = (x.double() @ y.double().mT).half().float().numpy()
    assert np.mean(found == exact) > 0.999  # a tie may fall to the other side


def test_nan_passes_the_activations() -> None:
    x = np.float32([np.nan, -5, 5])
    for kind, arguments in (("thresholded_relu", {"alpha": -3.0}), ("sigmoid_hard", {}), ("relu", {})):
        found = OPERATIONS[kind](SAVED, x=x, **arguments)
        assert np.isnan(found[0]) and np.isfinite(found[1:]).all(), kind


def test_zero_by_zero_is_nan_and_is_kept() -> None:
    with np.errstate(all="ignore"):
        quotient = OPERATIONS["real_div"](HALF, x=np.zeros(3, np.float32), y=np.zeros(3, np.float32))
    assert np.isnan(HALF.finish(quotient)).all()


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("conv", {"x": X, "weight": drawn(4, 6, 3, 3), "dilations": ints(2, 2)}),
        ("conv", {"x": X, "weight": drawn(4, 6, 3, 3), "pad_type": "same_lower"}),
        ("concat", {"values": (X, Y), "axis": 1, "interleave": True}),
        ("gelu", {"x": X, "mode": "EXACT"}),
    ],
)
def test_variants_that_no_network_here_uses_are_refused(kind: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(NotImplementedError):
        OPERATIONS[kind](SAVED, **{name: as_numpy(value) for name, value in arguments.items()})
