"""Recipes, and the build steps with a real builder: TensorRT-RTX, which builds without a GPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deploy.engine.build import Recipe, build, load, read_recipe
from deploy.errors import InputError
from deploy.schema import encode

RECIPE = Recipe("model.onnx", 1 << 28, 2, "trtexec")


def test_recipe_is_read_as_written(tmp_path: Path) -> None:
    path = tmp_path / "engine.json"
    path.write_text(json.dumps(encode(RECIPE)))
    assert read_recipe(path) == RECIPE


@pytest.mark.parametrize(
    "change",
    [{"schema_version": 2}, {"optimization_level": 9}, {"workspace_bytes": 0}, {"workspace_bytes": 1 << 40},
     {"plugin": "evil.so"}, {"network": 3}],
)  # fmt: skip
def test_recipe_out_of_bounds_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "engine.json"
    path.write_text(json.dumps({**encode(RECIPE), **change}))
    with pytest.raises(InputError, match=next(iter(change))):
        read_recipe(path)


@pytest.fixture(scope="module")
def rtx() -> Any:
    pytest.importorskip("tensorrt_rtx_bindings", reason="TensorRT-RTX is not installed", exc_type=ImportError)
    from export.rtx import module

    return module()


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A float16 convolution."""
    onnx = pytest.importorskip("onnx")
    weight = onnx.numpy_helper.from_array(np.ones((4, 3, 3, 3), np.float16), "w")
    value = lambda name, shape: onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT16, shape)  # noqa: E731
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Conv", ["x", "w"], ["y"])],
        "g",
        [value("x", (1, 3, 8, 8))],
        [value("y", (1, 4, 6, 6))],
        [weight],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)])
    model.ir_version = 9
    path = tmp_path_factory.mktemp("network") / "model.onnx"
    onnx.save(model, path)
    return path


def ahead_of_time(rtx: Any) -> Any:
    def configure(config: Any) -> None:
        config.num_compute_capabilities = 1
        config.set_compute_capability(rtx.ComputeCapability.SM86, 0)

    return configure


def test_a_real_builder_takes_the_steps(rtx: Any, network: Path) -> None:
    built = build(rtx, network, RECIPE, configure=ahead_of_time(rtx))
    assert len(built.plan) > 1000 and built.layers >= 1 and built.timing == b""


def test_a_file_that_is_no_network_is_refused_with_the_parsers_words(rtx: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"not onnx")
    with pytest.raises(InputError, match=r"TensorRT 1\..* cannot read .*model\.onnx"):
        build(rtx, path, RECIPE, configure=ahead_of_time(rtx))


def test_bytes_that_are_no_engine_are_refused(rtx: Any) -> None:
    with pytest.raises(InputError, match="refuses the cache's engine"):
        load(rtx, b"garbage" * 100, "the cache's engine")
