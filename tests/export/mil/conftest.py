"""A small program saved by coremltools, with weights of every kind beside it; skips where that is missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

WEIGHT = np.random.default_rng(0).normal(0, 1, (16, 6, 3, 3)).astype(np.float32)


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """saved("float32" | "float16" | "int8" | "palette"): `relu(conv(x)) * 2` of x `[1, 6, 8, 10]`, saved."""
    pytest.importorskip("coremltools", reason="coremltools is not installed")
    from export.mil.quiet import coremltools, quiet

    folder = tmp_path_factory.mktemp("packages")
    ct = coremltools()

    def model(precision: str) -> Any:
        from coremltools.converters.mil import Builder as mb

        @mb.program(input_specs=[mb.TensorSpec(shape=(1, 6, 8, 10))], opset_version=ct.target.iOS17)
        def program(x: Any) -> Any:
            y = mb.conv(x=x, weight=WEIGHT, pad_type="valid", name="conv")
            return mb.mul(x=mb.relu(x=y), y=np.float32(2), name="y")

        kind = ct.precision.FLOAT32 if precision == "float32" else ct.precision.FLOAT16
        return ct.convert(
            program,
            compute_precision=kind,
            minimum_deployment_target=ct.target.iOS17,
            skip_model_load=True,
            outputs=[ct.TensorType(dtype=np.float32)],
        )

    def save(kind: str) -> Path:
        path = folder / f"{kind}.mlpackage"
        if not path.exists():
            from export.mil import convert

            with quiet():
                made = model("float32" if kind == "float32" else "float16")
                made = convert.quantise_weights(made) if kind == "int8" else made
                made = convert.palettise_weights(made, 4) if kind == "palette" else made
                made.save(str(path))
        return path

    return save
