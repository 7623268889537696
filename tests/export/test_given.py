"""Somebody else's network: taken as it is, proven against itself, refused where it cannot be described."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import convert_model_to_external_data

from deploy.bundle import load_bundle
from deploy.preprocess import read_image
from deploy.segmenter import Segmenter
from export.targets import entries

CLASSES = 9


def network(path: Path, shape=("n", 3, "h", "w"), label_map: bool = False, outputs: int = 1) -> Path:
    """A strided convolution to 9 logits at a quarter of the size, as exporters with open sizes leave it."""
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((CLASSES, 3, 4, 4)).astype(np.float32)
    nodes = [helper.make_node("Conv", ["pixels", "weight"], ["scores"], strides=[4, 4])]
    result = helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", CLASSES, None, None])
    if label_map:
        nodes.append(helper.make_node("ArgMax", ["scores"], ["classes"], axis=1, keepdims=0))
        result = helper.make_tensor_value_info("classes", TensorProto.INT64, ["n", None, None])
    results = [result]
    if outputs == 2:
        nodes.append(helper.make_node("Relu", ["scores"], ["extra"]))
        results.append(helper.make_tensor_value_info("extra", TensorProto.FLOAT, ["n", CLASSES, None, None]))
    graph = helper.make_graph(
        nodes,
        "theirs",
        [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, list(shape))],
        results,
        [numpy_helper.from_array(weight, "weight")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path


@pytest.fixture
def build(export_cli, scenes, tmp_path: Path):
    """build(file, *options) -> exit status; the bundle is tmp_path / "bundle"."""

    def call(file: Path, *options: object) -> int:
        words = ("--onnx", file, "--labels", scenes.root / "dataset.toml", "--data", scenes.root)
        return export_cli("build", *words, "--out", tmp_path / "bundle", *options)

    return call


def test_it_becomes_a_bundle_with_its_own_golden(build, scenes, tmp_path: Path, capsys) -> None:
    file = network(tmp_path / "theirs.onnx", outputs=2)
    assert build(file, "--target", "onnxruntime", "--size", "64x80", "--json", tmp_path / "b.json") == 0
    bundle = load_bundle(tmp_path / "bundle")
    manifest = bundle.manifest
    assert manifest.inputs[0].name == "pixels" and manifest.inputs[0].shape == (1, 3, 64, 80)
    assert manifest.outputs[0].name == "scores" and manifest.outputs[0].shape == (1, CLASSES, 16, 20)
    assert not manifest.preprocess.in_graph and manifest.parity.agreement >= 0.999
    assert [info.name for info in manifest.classes] == list(scenes.classes)
    assert manifest.accuracy is not None and manifest.provenance.model["variant"] == "theirs"
    assert json.loads((tmp_path / "b.json").read_text())["how"] == "built"
    with Segmenter(bundle, 1) as segmenter:
        image = read_image(next((scenes.root / "val" / "images").iterdir()))
        assert segmenter.segment(image).shape == image.shape[:2]
    assert build(file, "--target", "onnxruntime", "--size", "64x80") == 0
    assert "cached" in capsys.readouterr().out


def test_what_is_said_beside_the_file_counts(build, tmp_path: Path, capsys) -> None:
    file = network(tmp_path / "theirs.onnx")
    options = ("--target", "onnxruntime", "--size", "64x80")
    assert build(file, *options) == 0
    assert build(file, *options, "--mean", "0,0,0") == 0
    assert "built again: network" in capsys.readouterr().out
    assert load_bundle(tmp_path / "bundle").manifest.preprocess.mean == (0, 0, 0)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_ncnn_takes_it(build, tmp_path: Path, precision: str) -> None:
    if reason := entries()["ncnn"].reason:
        pytest.skip(reason)
    options = ("--target", "ncnn", "--precision", precision, "--size", "64x80")
    assert build(network(tmp_path / "theirs.onnx"), *options) == 0
    manifest = load_bundle(tmp_path / "bundle").manifest
    assert manifest.outputs[0].shape == (1, CLASSES, 16, 20) and manifest.parity.proof == "executed"


def test_ncnn_takes_planes_and_gives_logits_only(build, tmp_path: Path, capsys) -> None:
    if reason := entries()["ncnn"].reason:
        pytest.skip(reason)
    file = network(tmp_path / "theirs.onnx", label_map=True)
    assert build(file, "--target", "ncnn", "--size", "64x80") == 2
    assert "ncnn cannot build --output | got labels" in capsys.readouterr().err


def test_labels_may_have_any_name(export_cli, scenes, tmp_path: Path) -> None:
    (tmp_path / "dataset.toml").write_text('name = "two"\nclasses = ["a", "b"]\n')  # another's
    names = tmp_path / "names.toml"
    names.write_text((scenes.root / "dataset.toml").read_text())
    words = ("--onnx", network(tmp_path / "n.onnx"), "--labels", names, "--size", "64x80")
    assert export_cli("build", *words, "--target", "onnxruntime", "--out", tmp_path / "b") == 0
    assert [info.name for info in load_bundle(tmp_path / "b").manifest.classes] == list(scenes.classes)


def test_data_outside_its_folder_is_not_read(build, tmp_path: Path, capsys) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    model = onnx.load(network(folder / "n.onnx"))
    convert_model_to_external_data(model, location="w.bin", size_threshold=0)
    onnx.save(model, folder / "n.onnx")
    (tmp_path / "w.bin").write_bytes((folder / "w.bin").read_bytes())
    outside = onnx.load(folder / "n.onnx", load_external_data=False)
    for entry in outside.graph.initializer[0].external_data:
        entry.value = "../w.bin" if entry.key == "location" else entry.value
    (folder / "n.onnx").write_bytes(outside.SerializeToString())
    assert build(folder / "n.onnx", "--target", "onnxruntime", "--size", "64x80") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "outside the directory" in error


def test_a_label_map_serves_too(build, tmp_path: Path) -> None:
    file = network(tmp_path / "theirs.onnx", label_map=True)
    model = onnx.load(file)
    model.graph.node[0].attribute[0].ints[:] = [1, 1]
    model.graph.node[0].attribute.append(helper.make_attribute("auto_pad", "SAME_UPPER"))
    onnx.save(model, file)
    assert build(file, "--target", "onnxruntime", "--size", "64x80") == 0
    spec = load_bundle(tmp_path / "bundle").manifest.outputs[0]
    assert (spec.dtype, spec.layout, spec.shape) == ("int64", "NHW", (1, 64, 80))


def test_a_fixed_size_needs_no_option_and_allows_no_other(build, tmp_path: Path, capsys) -> None:
    file = network(tmp_path / "theirs.onnx", shape=(1, 3, 32, 48))
    assert build(file, "--target", "ort") == 0
    assert load_bundle(tmp_path / "bundle").manifest.preprocess.size == (32, 48)
    assert build(file, "--target", "ort", "--size", "64x64") == 2
    assert "was built for (32, 48)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--target", "onnxruntime"], "leaves its input size open"),
        (["--target", "executorch", "--size", "64x80"], "executorch"),
        (["--target", "onnxruntime", "--size", "64x80", "--batch", "2"], "--onnx is taken as it is"),
        (["--target", "onnxruntime", "--mean", "1,2"], "not three numbers"),
        (["--target", "onnxruntime", "--checkpoint", "x"], "not allowed with argument --onnx"),
    ],
)
def test_what_cannot_be_done_is_one_line(build, tmp_path: Path, capsys, options, message: str) -> None:
    assert build(network(tmp_path / "theirs.onnx"), *options) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and message in error and not (tmp_path / "bundle").exists()


def test_networks_it_cannot_describe_are_refused(build, tmp_path: Path, capsys) -> None:
    grey = network(tmp_path / "grey.onnx", shape=(1, 1, 64, 80))
    assert build(grey, "--target", "onnxruntime") == 2
    assert "grey.onnx" in capsys.readouterr().err
    whole = network(tmp_path / "half.onnx").read_bytes()
    (tmp_path / "half.onnx").write_bytes(whole[: len(whole) // 2])
    assert build(tmp_path / "half.onnx", "--target", "onnxruntime", "--size", "64x80") == 2
    assert "is not a valid ONNX model" in capsys.readouterr().err
    text = tmp_path / "no.onnx"
    text.write_text("not a model")
    assert build(text, "--target", "onnxruntime") == 2
    assert "is not a valid ONNX model" in capsys.readouterr().err
    assert build(tmp_path / "absent.onnx", "--target", "onnxruntime") == 2
    assert "no file" in capsys.readouterr().err


def test_labels_are_needed(export_cli, tmp_path: Path, capsys) -> None:
    file = network(tmp_path / "theirs.onnx")
    assert export_cli("build", "--onnx", file, "--target", "onnxruntime") == 2
    assert "--labels dataset.toml" in capsys.readouterr().err


def test_another_number_of_classes_is_refused(export_cli, tmp_path: Path, capsys) -> None:
    (tmp_path / "dataset.toml").write_text('name = "two"\nclasses = ["a", "b"]\n')
    words = ("--onnx", network(tmp_path / "n.onnx"), "--labels", tmp_path / "dataset.toml", "--size", "64x80")
    assert export_cli("build", *words, "--target", "onnxruntime") == 2
    assert "of the 2 classes" in capsys.readouterr().err
