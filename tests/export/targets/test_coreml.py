"""Core ML: the package's bytes, what it says of itself, and the saved program's numbers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from deploy import runtimes
from deploy.bundle import Bundle
from deploy.errors import InputError
from deploy.manifest import ClassInfo
from export.graphrules import check_graph, network_parts
from export.targets import BuildContext
from export.targets import coreml as target
from pipeline.models import attention
from pipeline.models.labelmap import LabelMapper

pytestmark = pytest.mark.skipif(target.requires() is not None, reason=str(target.requires()))
SIZE = (75, 93)
CLASSES = tuple(ClassInfo(index, f"straße {index}", (index, 2 * index, 255)) for index in range(9))
Package = Callable[..., tuple[dict[str, Path], LabelMapper]]


@pytest.fixture(scope="module")
def package(built, make_model, tmp_path_factory: pytest.TempPathFactory) -> Package:
    """package(precision, attention, **ends) -> the files of a package, built once, and its network."""
    made: dict[tuple, tuple[dict[str, Path], LabelMapper]] = {}

    def build(precision: str, attention: str = "linear", **ends: str):
        key = (precision, attention, *sorted(ends.items()))
        if key not in made:
            model = built.model if attention == "linear" else make_model(attention)
            net = LabelMapper(model, SIZE, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), **ends)
            folder = tmp_path_factory.mktemp("package")
            made[key] = target.build(net, BuildContext(precision, folder, classes=CLASSES)), net
        return made[key]

    return build


def frame() -> np.ndarray:
    rng = np.random.default_rng(0)
    coarse = np.kron(rng.integers(0, 200, (1, 5, 3, 3)), np.ones((1, 15, 31, 1), np.int64))
    return (coarse + rng.integers(0, 56, (1, *SIZE, 3))).astype(np.uint8)


def evaluated(files: dict[str, Path], x: np.ndarray) -> np.ndarray:
    from export.mil.evaluate import evaluate
    from export.mil.program import read_program

    (found,) = evaluate(read_program(target._package(files)), {"image": x.astype(np.float32)}).values()
    return found


def test_saved_program_gives_the_networks_labels(package: Package) -> None:
    files, net = package("fp32")
    with torch.inference_mode():
        expected = net(torch.from_numpy(frame())).numpy()
    found = evaluated(files, frame().transpose(0, 3, 1, 2))
    assert found.dtype == np.int32 and len(np.unique(found)) > 2
    assert np.mean(found == expected) > 0.9995


def test_logits_of_the_cut_program_are_the_networks(package: Package, tmp_path: Path) -> None:
    files, net = package("fp32")
    with torch.inference_mode():
        expected = net.model(net.normalise(torch.from_numpy(frame()))).numpy()
    cut = target.expose_logits(files, net, tmp_path)
    found = evaluated(cut, frame().transpose(0, 3, 1, 2))
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() < 1e-5 * expected.std()


def test_softmax_twin_with_float_input_and_logits(package: Package) -> None:
    files, net = package("fp32", "softmax", input="float", output="logits")
    x = net.normalise(torch.from_numpy(frame()))
    with torch.inference_mode():
        expected = net(x).numpy()
    found = evaluated(files, x.numpy())
    assert np.abs(found - expected).max() < 1e-4 * expected.std()
    check_graph(target.count_ops(files), target.RULES, network_parts(net), "softmax")


@pytest.mark.parametrize("precision", ["fp32", pytest.param("weight-int8", marks=pytest.mark.slow)])
def test_program_keeps_the_targets_rules(package: Package, precision: str) -> None:
    files, net = package(precision)
    counts = target.count_ops(files)
    check_graph(counts, target.RULES, network_parts(net), precision)
    assert counts["transpose"] == 1 and counts["conv"] == 57
    assert counts["constexpr_affine_dequantize"] == (0 if precision == "fp32" else 51)
    assert not [kind for kind in counts if "resize" in kind or "upsample" in kind]


def test_every_shape_is_fixed_and_the_attention_keeps_its_guard(package: Package) -> None:
    from export.mil.program import Literal, read_program

    program = read_program(target._package(package("fp16")[0]))  # refuses a size that is not a number
    values = {made.name: made for made in program.operations}
    guards = []
    for division in (made for made in program.operations if made.kind == "real_div"):
        guard = values[division.arguments["y"][0]]
        bound = values[guard.arguments["alpha"][0]].arguments["val"]
        assert guard.kind == "clip" and isinstance(bound, Literal)
        guards.append(bound.value)
    assert guards == [attention.EPS] * 4


def test_package_says_what_it_is(package: Package) -> None:
    from export.mil.program import read_spec

    files, _ = package("fp32")
    spec, _ = read_spec(target._package(files))
    image, labels = spec.description.input[0], spec.description.output[0]
    assert (image.name, image.type.imageType.height, image.type.imageType.width) == ("image", *SIZE)
    assert labels.name == "labels" and list(labels.type.multiArrayType.shape) == [1, *SIZE]
    assert labels.type.multiArrayType.dataType == type(labels.type.multiArrayType).INT32
    metadata = spec.description.metadata
    assert metadata.userDefined["com.apple.coreml.model.preview.type"] == "imageSegmenter"
    shown = json.loads(metadata.userDefined["com.apple.coreml.model.preview.params"])
    assert shown["labels"] == [info.name for info in CLASSES]
    assert shown["colors"][3] == "#0306FF"
    assert "9 classes, 75x93" in metadata.shortDescription


@pytest.mark.slow
def test_package_holds_no_path_no_date_and_the_same_bytes_in_another_process(
    built, package: Package, tmp_path: Path
) -> None:
    files, _ = package("fp32")
    model = files["model.mlpackage/Data/com.apple.CoreML/model.mlmodel"].read_bytes()
    for word in (b"/tmp", b"site-packages", b".py", b"/home", b"conversion_date", os.getcwd().encode()):
        assert word not in model, word
    code = (
        "import sys\nfrom pathlib import Path\nfrom deploy.manifest import ClassInfo\n"
        "from export.targets import BuildContext, coreml\n"
        "from pipeline.models.checkpoints import load_checkpoint\n"
        "from pipeline.models.labelmap import LabelMapper\n"
        "model, _ = load_checkpoint(Path(sys.argv[1]))\n"
        f"net = LabelMapper(model, {SIZE}, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))\n"
        "classes = tuple(ClassInfo(i, f'straße {i}', (i, 2 * i, 255)) for i in range(9))\n"
        "coreml.build(net, BuildContext('fp32', Path(sys.argv[2]), classes=classes))\n"
    )
    command = [sys.executable, "-c", code, str(built.checkpoint), str(tmp_path)]
    result = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": "7"}
    )
    assert result.returncode == 0, result.stderr
    for name, path in files.items():
        assert (tmp_path / name).read_bytes() == path.read_bytes(), name


@pytest.fixture(scope="module")
def bundle(export_bundle) -> Bundle:
    return export_bundle("coreml", "fp32")


def test_bundle_is_evaluated_and_returns_int32_labels(bundle: Bundle) -> None:
    manifest = bundle.manifest
    assert manifest.parity and manifest.parity.proof == target.PROOF
    assert manifest.outputs[0].dtype == "int32" and manifest.inputs[0].layout == "NHWC"
    session = target.open_proof(bundle, 1)
    found = session.run(bundle.golden()[0][:1])
    assert found.dtype == np.int32 and found.shape == (1, *SIZE)
    assert "coremltools" in session.versions()


@pytest.mark.skipif(sys.platform == "darwin", reason="there it is executed")
def test_elsewhere_than_on_a_mac_the_runtime_says_so(bundle: Bundle) -> None:
    with pytest.raises(InputError, match="needs macOS"):
        runtimes.open_session(bundle)


@pytest.mark.skipif(sys.platform != "darwin", reason="not run: needs macOS")
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_core_ml_itself_replays_the_golden(export_bundle, precision: str) -> None:
    from deploy.verify import replay_golden, shortfall

    made = export_bundle("coreml", precision)
    assert shortfall(replay_golden(made), made.manifest.golden) is None
