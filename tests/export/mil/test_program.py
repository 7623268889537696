"""What is read back from a package: constants as they were, types as declared, nothing from damaged files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from deploy.errors import InputError
from export.mil.evaluate import count_kinds, evaluate
from export.mil.program import Literal, Operation, Program, read_program, read_spec
from tests.export.mil.conftest import WEIGHT

Saved = Callable[[str], Path]


def find(program: Program, kind: str) -> Operation:
    return next(operation for operation in program.operations if operation.kind == kind)


def stored(operation: Operation, parameter: str) -> np.ndarray:
    argument = operation.arguments[parameter]
    assert isinstance(argument, Literal)
    return np.asarray(argument.value)


def constant(program: Program, operation: Operation, parameter: str) -> np.ndarray:
    """The constant that an operation takes by name."""
    (name,) = operation.arguments[parameter]
    return stored(next(made for made in program.operations if made.name == name), "val")


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_weights_and_types_are_those_saved(saved: Saved, dtype: str) -> None:
    program = read_program(saved(dtype))
    conv = find(program, "conv")
    assert conv.outputs[conv.name].shape == (1, 16, 6, 8) and conv.outputs[conv.name].dtype == dtype
    weight = constant(program, conv, "weight")
    assert weight.dtype == dtype
    np.testing.assert_array_equal(weight, WEIGHT.astype(dtype))
    assert constant(program, conv, "strides").tolist() == [1, 1]
    assert constant(program, conv, "pad_type") == "valid"
    assert list(program.inputs) == ["x"] and program.inputs["x"].shape == (1, 6, 8, 10)


def test_quantised_weights_are_read_as_stored_and_dequantise_to_the_converters_own(saved: Saved) -> None:
    program = read_program(saved("int8"))
    kinds = count_kinds(program)
    assert kinds["constexpr_affine_dequantize"] == 1
    operation = find(program, "constexpr_affine_dequantize")
    weight, scale = stored(operation, "quantized_data"), stored(operation, "scale").astype(np.float32)
    assert weight.dtype == np.int8 and weight.shape == WEIGHT.shape and scale.shape == (16,)
    assert np.abs(weight * scale.reshape(-1, 1, 1, 1) - WEIGHT).max() <= 0.51 * scale.max()


@pytest.mark.parametrize("kind", ["int8", "palette"])
def test_small_weights_widen_as_coremltools_widens_them(saved: Saved, kind: str, tmp_path: Path) -> None:
    from export.mil.quiet import coremltools, quiet

    with quiet():
        model = coremltools("models").MLModel(str(saved(kind)), skip_model_load=True)
        wide = coremltools("optimize.coreml").decompress_weights(model)
        wide.save(str(tmp_path / "wide.mlpackage"))
    x = np.random.default_rng(1).normal(0, 1, (1, 6, 8, 10)).astype(np.float32)
    (expected,) = evaluate(read_program(tmp_path / "wide.mlpackage"), {"x": x}).values()
    (found,) = evaluate(read_program(saved(kind)), {"x": x}).values()
    np.testing.assert_array_equal(found, expected)
    assert "constexpr" not in " ".join(count_kinds(read_program(tmp_path / "wide.mlpackage")))


def damaged(source: Path, folder: Path) -> Path:
    """A copy to be changed."""
    return Path(shutil.copytree(source, folder / "copy.mlpackage"))


def weight_file(package: Path) -> Path:
    return package / "Data" / "com.apple.CoreML" / "weights" / "weight.bin"


def test_damaged_weights_are_refused(saved: Saved, tmp_path: Path) -> None:
    package = damaged(saved("float16"), tmp_path)
    data = bytearray(weight_file(package).read_bytes())
    at = data.index(bytes.fromhex("efbeadde"))
    data[at] ^= 1
    weight_file(package).write_bytes(data)
    with pytest.raises(InputError, match="damaged"):
        read_program(package)
    weight_file(package).write_bytes(bytes(data[: at + 32]))
    with pytest.raises(InputError, match="weights"):
        read_program(package)


def test_names_that_leave_the_package_are_refused(saved: Saved, tmp_path: Path) -> None:
    package = damaged(saved("float16"), tmp_path)
    spec, folder = read_spec(package)
    function = spec.mlProgram.functions["main"]
    for operation in function.block_specializations[function.opset].operations:
        for value in operation.attributes.values():
            if value.WhichOneof("value") == "blobFileValue":
                value.blobFileValue.fileName = "@model_path/../../../../elsewhere.bin"
    (folder / "model.mlmodel").write_bytes(spec.SerializeToString())
    with pytest.raises(InputError, match="elsewhere"):
        read_program(package)
    manifest = package / "Manifest.json"
    value = json.loads(manifest.read_text())
    value["itemInfoEntries"][value["rootModelIdentifier"]]["path"] = "../../secret"
    manifest.write_text(json.dumps(value))
    with pytest.raises(InputError, match="leaves the package"):
        read_program(package)


@pytest.mark.parametrize("content", [b"", b"no protobuf at all", b"\xff" * 64])
def test_what_is_no_package_is_one_line(saved: Saved, tmp_path: Path, content: bytes) -> None:
    package = damaged(saved("float16"), tmp_path)
    (package / "Data" / "com.apple.CoreML" / "model.mlmodel").write_bytes(content)
    with pytest.raises(InputError):
        read_program(package)
    with pytest.raises(InputError, match="no Core ML package"):
        read_program(tmp_path / "nothing.mlpackage")
