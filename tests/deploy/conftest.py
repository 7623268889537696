"""A real, tiny network packaged as bundles, and a labelled folder that it segments without error.

The network tells red, green and blue from each other: a 1x1 convolution with the identity, then argmax. Its
answer for any frame is known without running it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import set_external_data

from deploy.bundle import (
    Bundle,
    ClassInfo,
    Golden,
    Manifest,
    Parity,
    Preprocess,
    Provenance,
    Target,
    TensorSpec,
    write_bundle,
)
from deploy.files import sha256_file
from deploy.manifest import Domain

SIZE = (24, 32)
SWAPPED = (2, 1, 0)  # what the network of the domain answers for red, green and blue
NAMES = ("red", "green", "blue")
COLOURS = ((220, 30, 30), (30, 200, 40), (40, 60, 230))
MakeBundle = Callable[..., Bundle]


def _model(inputs, outputs, nodes, constants) -> bytes:
    graph = helper.make_graph(
        nodes, "tiny", inputs, outputs, [numpy_helper.from_array(v, k) for k, v in constants.items()]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString()


def label_network(size: tuple[int, int] = SIZE) -> bytes:
    """`[1, H, W, 3]` uint8 -> `[1, H, W]` uint8: the strongest channel."""
    nodes = [
        helper.make_node("Cast", ["frame"], ["float"], to=TensorProto.FLOAT),
        helper.make_node("Transpose", ["float"], ["planes"], perm=[0, 3, 1, 2]),
        helper.make_node("Conv", ["planes", "weight"], ["logits"]),
        helper.make_node("ArgMax", ["logits"], ["index"], axis=1, keepdims=0),
        helper.make_node("Cast", ["index"], ["labels"], to=TensorProto.UINT8),
    ]
    return _model(
        [helper.make_tensor_value_info("frame", TensorProto.UINT8, [1, *size, 3])],
        [helper.make_tensor_value_info("labels", TensorProto.UINT8, [1, *size])],
        nodes,
        {"weight": np.eye(3, dtype=np.float32)[:, :, None, None]},
    )


def logit_network(size: tuple[int, int] = SIZE) -> bytes:
    """`[1, 3, H, W]` normalised float32 -> `[1, 3, H/8, W/8]` logits: block means."""
    weight = np.zeros((3, 3, 8, 8), np.float32)
    for channel in range(3):
        weight[channel, channel] = 1 / 64
    small = [size[0] // 8, size[1] // 8]
    return _model(
        [helper.make_tensor_value_info("frame", TensorProto.FLOAT, [1, 3, *size])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 3, *small])],
        [helper.make_node("Conv", ["frame", "weight"], ["logits"], strides=[8, 8])],
        {"weight": weight},
    )


def manifest(size: tuple[int, int] = SIZE, output: str = "labels", **changes: object) -> Manifest:
    """The manifest of one of the two networks, without files."""
    labels = output == "labels"
    frame = (
        TensorSpec("frame", "uint8", (1, *size, 3), "NHWC")
        if labels
        else TensorSpec("frame", "float32", (1, 3, *size), "NCHW")
    )
    small = (1, 3, size[0] // 8, size[1] // 8)
    result = (
        TensorSpec("labels", "uint8", (1, *size), "NHW")
        if labels
        else TensorSpec("logits", "float32", small, "NCHW")
    )
    values: dict[str, object] = {
        "name": f"tiny-{output}",
        "target": Target("onnxruntime", "fp32"),
        "inputs": (frame,),
        "outputs": (result,),
        "preprocess": Preprocess(size, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), in_graph=labels),
        "classes": tuple(ClassInfo(i, n, c) for i, (n, c) in enumerate(zip(NAMES, COLOURS, strict=True))),
        "ignore_index": 255,
        "golden": Golden("golden.npz", 1e-4, 0.999),
        "parity": Parity("executed", 2, agreement=1.0),
        "provenance": Provenance(
            None,
            "0" * 64,
            {"onnx": onnx.__version__},
            {"weights": "none"},
            {"variant": "tiny", "attention": "linear"},
        ),
    }
    return Manifest(**{**values, **changes})


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Debian's Chromium under Playwright, headless, with a camera that is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if (path := shutil.which("chromium")) is None:
        pytest.skip("chromium is not installed: make system")
    with playwright.sync_playwright() as driver:
        arguments = ["--no-sandbox", "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
        running = driver.chromium.launch(executable_path=path, args=arguments)
        yield running
        running.close()


@pytest.fixture(scope="session")
def make_bundle(tmp_path_factory: pytest.TempPathFactory) -> MakeBundle:
    """make_bundle("labels" | "logits", size, more files, **manifest changes) -> Bundle in its own folder."""

    def make(
        output: str = "labels",
        size: tuple[int, int] = SIZE,
        more: dict[str, Path | bytes] | None = None,
        **changes: object,
    ) -> Bundle:
        folder = tmp_path_factory.mktemp("bundles") / f"tiny {output} ü"
        network = label_network(size) if output == "labels" else logit_network(size)
        inputs, outputs = golden_arrays(output, size)
        golden = folder.parent / "golden.npz"
        np.savez_compressed(golden, inputs=inputs, outputs=outputs)
        files: dict[str, Path | bytes] = {"model.onnx": network, "golden.npz": golden, **(more or {})}
        return write_bundle(folder, manifest(size, output, **changes), files)

    return make


def golden_arrays(output: str, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Two random inputs with the answers by numpy."""
    rng = np.random.default_rng(3)
    if output == "labels":
        frames = rng.integers(0, 256, (2, *size, 3), np.uint8)
        return frames, frames.argmax(-1).astype(np.uint8)
    values = rng.standard_normal((2, 3, *size)).astype(np.float32)
    blocks = values.reshape(2, 3, size[0] // 8, 8, size[1] // 8, 8)
    return values, blocks.mean((3, 5), dtype=np.float64).astype(np.float32)


@pytest.fixture(scope="session")
def tiny_bundle(make_bundle: MakeBundle) -> Bundle:
    """The network that gives label maps; do not change its files."""
    return make_bundle()


@pytest.fixture
def packed(tiny_bundle: Bundle, tmp_path: Path) -> Path:
    """A base whose weight lies in base.bin, and the domain `swap` whose weight lies in swap.bin."""
    files: dict[str, Path | bytes] = {}
    for name, weight in (("base", np.eye(3)), ("swap", np.eye(3)[list(SWAPPED)])):
        graph = onnx.load(tiny_bundle.model_file(".onnx"))
        tensor = numpy_helper.from_array(weight.astype(np.float32)[:, :, None, None], "weight")
        files[f"{name}.bin"] = tensor.raw_data
        set_external_data(tensor, f"{name}.bin", 0, 36)
        tensor.ClearField("raw_data")
        graph.graph.initializer[0].CopyFrom(tensor)
        files[f"{name}.onnx"] = graph.SerializeToString()
    inputs, outputs = tiny_bundle.golden()
    np.savez(
        tmp_path / "swap.npz", inputs=inputs, outputs=inputs[..., SWAPPED].argmax(-1).astype(outputs.dtype)
    )
    files |= {"golden.npz": tiny_bundle.path("golden.npz"), "swap.golden.npz": tmp_path / "swap.npz"}
    (tmp_path / "base.bin").write_bytes(files["base.bin"])
    whole = replace(tiny_bundle.manifest, files=())
    same = {item.name: getattr(whole, item.name) for item in fields(Domain) if hasattr(whole, item.name)}
    own = {
        "files": ("swap.bin", "swap.onnx", "swap.golden.npz"),
        "golden": Golden("swap.golden.npz", 1e-4, 0.999),
        "classes": tuple(ClassInfo(i, n, (i, i, i)) for i, n in enumerate(("blue", "green", "red"))),
        "provenance": replace(whole.provenance, model={"variant": "tiny", "method": "adapter"}),
    }
    domain = Domain(sha256_file(tmp_path / "base.bin"), **{**same, **own})
    return write_bundle(tmp_path / "packed", replace(whole, domains={"swap": domain}), files).root


@pytest.fixture(scope="session")
def colour_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Labelled folder of three images (one of them larger than the network) in the three classes' colours."""
    root = tmp_path_factory.mktemp("labelled") / "colour data"
    palette = [list(colour) for colour in COLOURS]
    (root / "val" / "images").mkdir(parents=True)
    (root / "val" / "masks").mkdir()
    text = f'name = "colours"\nclasses = {list(NAMES)}\npalette = {palette}\nignore_index = 255\n'
    (root / "dataset.toml").write_text(text.replace("'", '"'), encoding="utf-8")
    rng = np.random.default_rng(1)
    for index, (height, width) in enumerate([SIZE, SIZE, (2 * SIZE[0], 2 * SIZE[1])]):
        mask = np.repeat(np.repeat(rng.integers(0, 3, (3, 4)), height // 3, 0), width // 4, 1).astype(
            np.uint8
        )
        image = np.array(COLOURS, np.uint8)[mask]
        mask[0, :5] = 255
        cv2.imwrite(str(root / "val" / "images" / f"{index}.png"), image[:, :, ::-1])
        cv2.imwrite(str(root / "val" / "masks" / f"{index}.png"), mask)
    return root
