"""ONNX graphs that share their tensors: a base with all its weights in one file, domains that point into it.

`base.bin` holds the base's tensors, `NAME.bin` what a domain has of its own; both are ONNX external data. A
tensor is shared where its bytes are the base's, so a domain's graph is standard ONNX and nothing is composed
on the device. The base's two files depend on the base alone. Refuses to know networks and targets.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import onnx
from onnx import ModelProto, TensorProto, numpy_helper
from onnx.external_data_helper import set_external_data

from deploy.files import atomic_write_bytes
from deploy.manifest import BASE_DATA
from export.targets import Pack
from export.trace import write

ALIGNED = 64  # bytes, a cache line
_FLOATS = (TensorProto.FLOAT,)
Place = tuple[str, int]  # (file, offset)


def split(graph: Path, folder: Path, pack: Pack) -> dict[str, Path]:
    """A graph with its weights inside -> `NAME.onnx` and `NAME.bin` in `folder`, and the base's data beside.

    Returns:
        The files by path in the bundle.
    """
    model, data = onnx.load(graph), f"{pack.name}.bin"
    places = dict(_places_of(pack.base))
    added = bytearray()
    for tensor in _weights(model):
        content = numpy_helper.to_array(tensor).tobytes()
        place = places.setdefault(_key(content), (data, len(added)))
        if place == (data, len(added)):
            added += content.ljust(-(-len(content) // ALIGNED) * ALIGNED, b"\0")
        _point(tensor, place, len(content))
    files = {f"{pack.name}.onnx": folder / f"{pack.name}.onnx", data: folder / data}
    atomic_write_bytes(files[data], bytes(added))
    if BASE_DATA in pack.base:
        files[BASE_DATA] = Path(shutil.copyfile(pack.base[BASE_DATA], folder / BASE_DATA))
    write(model, files[f"{pack.name}.onnx"])
    return files


def _places_of(base: Mapping[str, Path]) -> Iterator[tuple[bytes, Place]]:
    """What the base holds, by content, and where."""
    for path in base.values():
        if path.suffix == ".onnx":
            data = path.with_name(BASE_DATA).read_bytes()
            for tensor in onnx.load(path, load_external_data=False).graph.initializer:
                entries = {entry.key: entry.value for entry in tensor.external_data}
                if entries:
                    start = int(entries["offset"])
                    yield _key(data[start : start + int(entries["length"])]), (BASE_DATA, start)


def _weights(model: ModelProto) -> Iterable[TensorProto]:
    """Tensors of floats; scalars and shapes stay in the graph, where shape inference needs them."""
    return (t for t in model.graph.initializer if t.data_type in _FLOATS and len(t.dims) > 0)


def _key(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def _point(tensor: TensorProto, place: Place, length: int) -> None:
    """Put a reference in the content's place."""
    tensor.raw_data = b""  # what the reference is set on must have one
    set_external_data(tensor, place[0], place[1], length)
    for content in ("raw_data", "float_data"):
        tensor.ClearField(content)
