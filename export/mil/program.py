"""A saved ML Program, read back from its .mlpackage: operations, types, constants from the weight file.

Nothing is taken from the converter's memory: the package on disk is what a phone gets. Weights stay as they
are stored (quantised, palettised); undoing that is an operation like any other. Refuses to know what the
operations mean.

Source: the protobuf and weight-file formats of coremltools (MIL.proto, MILBlob; BSD-3-Clause).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from deploy.errors import InputError

Array = npt.NDArray[Any]
Constant = Array | str | bool | int | float
_MODEL_PATH = "@model_path/"
_SENTINEL = 0xDEADBEEF
_ENTRY = struct.Struct("<IIQQQ")  # sentinel, type, bytes, offset, bits of padding
# by number in MIL.proto's DataType: numpy's type, and the field of an immediate value that holds it
_DTYPES = {
    1: ("bool", "bools"),
    2: ("str", "strings"),
    10: ("float16", "bytes"),
    11: ("float32", "floats"),
    21: ("int8", "bytes"),
    23: ("int32", "ints"),
    31: ("uint8", "bytes"),
    33: ("uint32", "bytes"),
}


@dataclass(frozen=True)
class TensorType:
    """What the program declares of a value: numpy's name of its type ("str" for words), and its shape."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Operation:
    """One operation.

    Args:
        kind: "conv". name: of its first output.
        arguments: parameter -> the names of values, or a constant.
        outputs: name -> declared type, in order.
    """

    kind: str
    name: str
    arguments: Mapping[str, tuple[str, ...] | Literal]
    outputs: Mapping[str, TensorType]


@dataclass(frozen=True)
class Literal:
    """A constant written into an operation, without a name."""

    value: Constant


@dataclass(frozen=True)
class Program:
    """A function without control flow: operations in an order in which they can run."""

    inputs: Mapping[str, TensorType]
    operations: tuple[Operation, ...]
    outputs: tuple[str, ...]


def read_spec(package: Path) -> tuple[Any, Path]:
    """The package's model (coremltools' protobuf message) and the folder that its file names are relative to.

    Raises:
        InputError: not a package, or its model cannot be read.
    """
    from google.protobuf.message import DecodeError

    from export.mil.quiet import coremltools

    try:
        manifest = json.loads((package / "Manifest.json").read_text())
        entry = manifest["itemInfoEntries"][manifest["rootModelIdentifier"]]
        model = package / "Data" / str(entry["path"])
        if not model.resolve().is_relative_to(package.resolve()):
            raise ValueError(f"{entry['path']} leaves the package")
        spec = coremltools("proto.Model_pb2").Model()
        spec.ParseFromString(model.read_bytes())
    except (OSError, ValueError, KeyError, TypeError, DecodeError) as error:
        raise InputError(f"{package} is no Core ML package", got=error, fix="export again") from error
    return spec, model.parent


def read_program(package: Path) -> Program:
    """The package's one function.

    Raises:
        InputError: not an ML Program, more than one function, nested blocks, or an unknown type.
    """
    spec, folder = read_spec(package)
    functions = dict(spec.mlProgram.functions)
    if list(functions) != ["main"]:
        got = ", ".join(functions) or "no ML Program"
        raise InputError(f"{package}: functions", got=got, expected="main")
    function = functions["main"]
    block = function.block_specializations[function.opset]
    weights = _WeightFiles(folder)
    return Program(
        inputs={value.name: _type(value.type) for value in function.inputs},
        operations=tuple(_operation(message, weights) for message in block.operations),
        outputs=tuple(block.outputs),
    )


def _operation(message: Any, weights: _WeightFiles) -> Operation:
    if message.blocks:
        raise InputError(f"operation {message.type}", got="nested blocks", expected="no control flow")
    arguments: dict[str, tuple[str, ...] | Literal] = {
        key: Literal(_value(value, weights)) for key, value in message.attributes.items() if key != "name"
    }
    for key, argument in message.inputs.items():
        arguments[key] = _argument(argument, weights)
    outputs = {value.name: _type(value.type) for value in message.outputs}
    return Operation(message.type, next(iter(outputs)), arguments, outputs)


def _argument(message: Any, weights: _WeightFiles) -> tuple[str, ...] | Literal:
    bindings = list(message.arguments)
    if len(bindings) == 1 and bindings[0].WhichOneof("binding") == "value":
        return Literal(_value(bindings[0].value, weights))
    return tuple(binding.name for binding in bindings)


def _type(message: Any) -> TensorType:
    tensor = message.tensorType
    if tensor.dataType not in _DTYPES:
        raise InputError("Core ML program: value type", got=tensor.dataType, expected=sorted(_DTYPES))
    if any(not side.HasField("constant") for side in tensor.dimensions):
        raise InputError("Core ML program: shape", got="a size that is not fixed", expected="numbers")
    shape = tuple(int(side.constant.size) for side in tensor.dimensions)
    return TensorType(_DTYPES[tensor.dataType][0], shape)


def _value(message: Any, weights: _WeightFiles) -> Constant:
    """A constant: an array, or a plain Python value where its shape is ()."""
    declared = _type(message.type)
    if message.WhichOneof("value") == "blobFileValue":
        stored = message.blobFileValue
        return weights.read(stored.fileName, stored.offset, declared)
    tensor = message.immediateValue.tensor
    field = _DTYPES[message.type.tensorType.dataType][1]
    values = getattr(tensor, field).values
    if declared.dtype == "str":
        return str(values[0])
    raw = np.frombuffer(values, declared.dtype) if field == "bytes" else np.array(values, declared.dtype)
    array = raw.reshape(declared.shape)
    return array if declared.shape else array.item()


class _WeightFiles:
    """The files that constants live in, each read once.

    A file is a 64-byte header and entries of 64 bytes (`_ENTRY`) that point at the data.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, bytes] = {}

    def read(self, name: str, offset: int, declared: TensorType) -> Array:
        """The array whose entry is at `offset`; packed types (fewer than 8 bits) come as `[bytes]` uint8.

        Raises:
            InputError: a file outside the package, or an entry that does not fit its declared type.
        """
        data = self._open(name)
        if offset + _ENTRY.size > len(data):
            raise InputError(f"Core ML weights {name}", got=f"an entry at {offset} of {len(data)} bytes")
        sentinel, _, size, start, _ = _ENTRY.unpack_from(data, offset)
        dtype = np.dtype(declared.dtype)
        if sentinel != _SENTINEL or start + size > len(data) or size != dtype.itemsize * _count(declared):
            raise InputError(f"Core ML weights {name}: entry at {offset}", "damaged", f"{declared}")
        return np.frombuffer(data, dtype, _count(declared), start).reshape(declared.shape)

    def _open(self, name: str) -> bytes:
        if name not in self._files:
            path = self._folder / name.removeprefix(_MODEL_PATH)
            if not name.startswith(_MODEL_PATH) or not path.resolve().is_relative_to(self._folder.resolve()):
                raise InputError("Core ML weights", got=name, expected="a file of the package")
            self._files[name] = path.read_bytes()
        return self._files[name]


def _count(declared: TensorType) -> int:
    return int(np.prod(declared.shape, dtype=np.int64))
