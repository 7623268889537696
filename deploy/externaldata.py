"""Where an ONNX file says that its tensors lie in other files, checked before any runtime follows it.

A graph can name a file, an offset and a length for a tensor. A bundle comes from outside: each of them must
stay within the files that the bundle lists. The file is walked as protobuf, tensors' own bytes are skipped;
no onnx package is needed. Refuses to know what the tensors mean.

Source of the numbers: onnx.proto3 (Apache-2.0), https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.errors import InputError

# message -> field number -> message in it; every way from a model to a tensor
_PARTS = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}
_EXTERNAL_DATA, _DATA_LOCATION = 13, 14  # fields of a tensor
_DEEPEST = 64
_KEYS = ("location", "offset", "length", "checksum")
Bytes = bytes | mmap.mmap


@dataclass(frozen=True)
class Reference:
    """Where a tensor lies: the file's name, from `offset` on `length` bytes (None: to its end)."""

    location: str
    offset: int
    length: int | None


def check_external_data(model: Path, sizes: Mapping[str, int]) -> None:
    """Raise InputError unless everything that `model` (.onnx) refers to lies within these files.

    Args:
        sizes: name of a file beside the model -> its bytes.
    """
    for reference in references(model):
        size, end = sizes.get(reference.location), reference.offset + (reference.length or 0)
        if size is None:
            got, expected = repr(reference.location)[:120], f"one of {', '.join(sizes) or 'no file'}"
            raise InputError(f"{model}: external data in a file of its own", got, expected, _FIX)
        if end > size:
            got = f"bytes {reference.offset} to {end}"
            raise InputError(
                f"{model}: external data outside {reference.location}", got, f"0 to {size}", _FIX
            )


def references(model: Path) -> Iterator[Reference]:
    """Every tensor of an ONNX file that lies elsewhere.

    Raises:
        InputError: not protobuf, or a reference without a file or with an odd offset.
    """
    if not model.stat().st_size:
        raise InputError(f"{model} is empty", fix=_FIX)
    with open(model, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            yield from _walk(data, 0, len(data), "model", 0)
        except (IndexError, ValueError) as error:
            raise InputError(f"{model} is not a usable ONNX file", error, "a graph", _FIX) from error


_FIX = "the bundle is damaged or hostile: do not use it"


def _walk(data: Bytes, start: int, end: int, message: str, depth: int) -> Iterator[Reference]:
    """References in one message, `data[start:end]`."""
    if depth > _DEEPEST:
        raise ValueError("nested too deeply")
    if message == "tensor":
        yield from _of_tensor(data, start, end)
        return
    for number, value in _fields(data, start, end):
        part = _PARTS[message].get(number)
        if part and isinstance(value, slice):
            yield from _walk(data, value.start, value.stop, part, depth + 1)


def _of_tensor(data: Bytes, start: int, end: int) -> Iterator[Reference]:
    entries: dict[str, str] = {}
    external = False
    for number, value in _fields(data, start, end):
        if number == _EXTERNAL_DATA and isinstance(value, slice):
            external = True
            pair = dict(_fields(data, value.start, value.stop))
            key, text = (
                data[part].decode() if isinstance(part, slice) else "" for part in map(pair.get, (1, 2))
            )
            if key not in _KEYS or key in entries:
                raise ValueError(f"external data with {key!r}")
            entries[key] = text
        elif number == _DATA_LOCATION and value == 1:
            external = True
    if external:
        length = _whole(entries["length"]) if "length" in entries else None
        yield Reference(entries.get("location", ""), _whole(entries.get("offset", "0")), length)


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise ValueError(f"offset or length {text[:40]!r}")
    return int(text)


def _fields(data: Bytes, start: int, end: int) -> Iterator[tuple[int, int | slice]]:
    """(field number, a number or where its bytes are) of one message."""
    at = start
    while at < end:
        key, at = _varint(data, at, end)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = _varint(data, at, end)
            yield number, value
            continue
        if kind == 2:
            length, at = _varint(data, at, end)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise ValueError(f"field of kind {kind}")
        if at + length > end:
            raise ValueError("a field that ends outside its message")
        if kind == 2:
            yield number, slice(at, at + length)
        at += length


def _varint(data: Bytes, at: int, end: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= end:
            break
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError("a number that does not end")
