"""Building a TensorRT engine from an ONNX file: the same steps on the Jetson, and on the host without a GPU.

The network is strongly typed: its tensors say in which precision each layer computes, and the builder
chooses only among kernels that do so. Which TensorRT builds is an argument: the Jetson's, or TensorRT-RTX
on the host. Refuses to know caches and CUDA. Source: https://docs.nvidia.com/deeplearning/tensorrt (Python
API).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.errors import InputError
from deploy.schema import decode, read_json

RECIPE_FILE = "engine.json"


@dataclass(frozen=True)
class Recipe:
    """How the engine is to be built; `command` does the same by NVIDIA's own tool.

    `optimization_level`: 0 (builds fastest) to 5 (searches longest). `workspace_bytes`: the most that a
    kernel may use for itself.
    """

    network: str
    workspace_bytes: int
    optimization_level: int
    command: str
    schema_version: int = 1


def read_recipe(path: Path) -> Recipe:
    """A bundle's engine.json.

    Raises:
        InputError: unreadable, an unknown or missing key, another version, or values out of bounds.
    """
    recipe = decode(Recipe, read_json(path), str(path))
    for what, value, good in (
        ("schema_version", recipe.schema_version, recipe.schema_version == 1),
        ("optimization_level", recipe.optimization_level, 0 <= recipe.optimization_level <= 5),
        ("workspace_bytes", recipe.workspace_bytes, 0 < recipe.workspace_bytes <= 1 << 36),
    ):
        if not good:
            raise InputError(f"{path}: {what}", got=value, fix="update deploy, or export again")
    return recipe


@dataclass(frozen=True)
class Built:
    """A serialised engine, what was learnt about kernel times (b"" where that is not kept), layers built."""

    plan: bytes
    timing: bytes
    layers: int


def build(
    trt: Any,
    network: Path,
    recipe: Recipe,
    timing: bytes | None = None,
    configure: Callable[[Any], None] = lambda config: None,
) -> Built:
    """Parse and build.

    Args:
        trt: the module: `tensorrt`, or another with its interface.
        timing: what an earlier build learnt, b"" for nothing yet, or None to keep nothing.
        configure: last word on the builder's configuration.

    Raises:
        InputError: the parser or the builder refuses; its own messages are in the error.
    """
    log = _log(trt)
    builder = trt.Builder(log)
    definition = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = trt.OnnxParser(definition, log)
    if not parser.parse_from_file(str(network)):
        errors = "; ".join(str(parser.get_error(index)) for index in range(parser.num_errors))
        raise InputError(f"TensorRT {trt.__version__} cannot read {network}", got=errors)
    config = builder.create_builder_config()
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, recipe.workspace_bytes)
    config.builder_optimization_level = recipe.optimization_level
    if timing is not None:
        config.set_timing_cache(config.create_timing_cache(timing), ignore_mismatch=False)
    configure(config)
    plan = builder.build_serialized_network(definition, config)
    if plan is None:
        raise InputError(f"TensorRT {trt.__version__} cannot build {network}", got="; ".join(log.errors))
    learnt = b"" if timing is None else bytes(config.get_timing_cache().serialize())
    return Built(bytes(plan), learnt, int(definition.num_layers))


def load(trt: Any, plan: bytes, what: str) -> Any:
    """An engine from its bytes.

    Raises:
        InputError: TensorRT refuses them (`what` names them): made by another version, or for another GPU.
    """
    log = _log(trt)
    runtime = trt.Runtime(log)
    engine = runtime.deserialize_cuda_engine(plan) if runtime else None
    if engine is None:
        got = "; ".join(log.errors) or "no engine"
        raise InputError(
            f"TensorRT {trt.__version__} refuses {what}", got, fix=f"remove {what}: it is built again"
        )
    return engine


def _log(trt: Any) -> Any:
    """A logger that keeps the errors and drops the rest."""

    class Log(trt.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self.errors: list[str] = []

        def log(self, severity: Any, message: str) -> None:
            if severity in (trt.ILogger.Severity.ERROR, trt.ILogger.Severity.INTERNAL_ERROR):
                self.errors.append(message)

    return Log()
