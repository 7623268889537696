"""Running a program: by hand-written ones, so that every refusal can be met."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from deploy.errors import GateError
from export.mil.arithmetic import FLOAT32, SAVED, STRICT
from export.mil.evaluate import evaluate
from export.mil.program import Literal, Operation, Program, TensorType, read_program
from tests.export.mil.conftest import WEIGHT


def program(*operations: Operation, dtype: str = "float32") -> Program:
    return Program({"x": TensorType(dtype, (2, 3))}, operations, (operations[-1].name,))


def operation(
    kind: str,
    arguments: Mapping[str, tuple[str, ...] | Literal],
    dtype: str = "float32",
    shape: tuple = (2, 3),
) -> Operation:
    return Operation(kind, "y", arguments, {"y": TensorType(dtype, shape)})


X = {"x": np.array([[1, -2, 3], [4, 5, -6]], np.float32)}


@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_saved_program_computes_what_torch_computes(saved: Callable[[str], Path], kind: str) -> None:
    x = np.random.default_rng(1).normal(0, 1, (1, 6, 8, 10)).astype(np.float32)
    dtype = getattr(torch, kind)
    stages = torch.from_numpy(x).to(dtype)
    stages = F.conv2d(stages.double(), torch.from_numpy(WEIGHT).to(dtype).double()).to(dtype)
    expected = (F.relu(stages) * 2).float().numpy()
    (found,) = evaluate(read_program(saved(kind)), {"x": x}).values()
    tolerance = 1e-4 if kind == "float32" else 0.02  # of numbers up to 30: one float16 step where a tie falls
    assert np.abs(found - expected).max() <= tolerance
    assert np.mean(found == expected) > (0.1 if kind == "float32" else 0.99)


def test_unrounded_reading_differs_and_strict_one_differs_more(saved: Callable[[str], Path]) -> None:
    x = {"x": np.random.default_rng(1).normal(0, 1, (1, 6, 8, 10)).astype(np.float32)}
    half = read_program(saved("float16"))
    (exact,), (as_saved,), (strict,) = (
        evaluate(half, x, reading).values() for reading in (FLOAT32, SAVED, STRICT)
    )
    assert 0 < np.abs(as_saved - exact).mean() < np.abs(strict - exact).mean() < 0.05


def test_unknown_operation_is_refused_by_name() -> None:
    with pytest.raises(GateError, match=r"does not know operation resize_bilinear.*got resize_bilinear y"):
        evaluate(program(operation("resize_bilinear", {"x": ("x",)})), X)


def test_unknown_parameter_and_variant_are_refused_by_name() -> None:
    with pytest.raises(GateError, match=r"relu with .*'slope'"):
        evaluate(program(operation("relu", {"x": ("x",), "slope": Literal(0.1)})), X)
    with pytest.raises(GateError, match="gelu with mode SIGMOID_APPROXIMATION"):
        evaluate(program(operation("gelu", {"x": ("x",), "mode": Literal("SIGMOID_APPROXIMATION")})), X)
    with pytest.raises(GateError, match="clip with missing a required argument: 'beta'"):
        evaluate(program(operation("clip", {"x": ("x",), "alpha": Literal(0.0)})), X)


@pytest.mark.parametrize(("dtype", "shape"), [("float32", (3, 2)), ("int32", (2, 3))])
def test_result_other_than_declared_is_refused(dtype: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(GateError, match="value y"):
        evaluate(program(operation("relu", {"x": ("x",)}, dtype, shape)), X)


def test_input_other_than_declared_is_refused() -> None:
    relu = program(operation("relu", {"x": ("x",)}))
    with pytest.raises(GateError, match="value x"):
        evaluate(relu, {"x": X["x"].T})


def test_overflow_becomes_infinity_and_watchers_see_where() -> None:
    square = program(
        Operation(
            "mul", "square", {"x": ("x",), "y": Literal(30000.0)}, {"square": TensorType("float16", (2, 3))}
        ),
        operation("relu", {"x": ("square",)}, "float16"),
        dtype="float16",
    )
    seen: dict[str, bool] = {}
    (found,) = evaluate(
        square, X, watch=lambda made, value: seen.update({made.name: bool(np.isfinite(value).all())})
    ).values()
    assert seen == {"square": False, "y": False}
    np.testing.assert_array_equal(found, np.float32([[30000, 0, np.inf], [np.inf, np.inf, 0]]))
    (exact,) = evaluate(square, X, FLOAT32).values()
    assert np.isfinite(exact).all()
