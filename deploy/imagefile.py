"""Image files from outside: bounded reading, truncation found before decoding, decoding by OpenCV.

Decoders differ in what they do with a damaged file (an older OpenCV fills a truncated JPEG with grey rows),
so the container is walked first. Sizes are read from the header: a small file cannot ask for gigabytes.
Refuses to know what the pixels mean. Sources: PNG (RFC 2083), JPEG (ITU T.81 annex B), TIFF 6.0, WebP
(RFC 9649).
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from deploy.errors import InputError

MAX_PIXELS = 200_000_000
MAX_BYTES = 512 << 20
LOG_SILENT = 0  # in either version
set_log_level = getattr(cv2, "setLogLevel", None) or cv2.utils.logging.setLogLevel  # OpenCV 4 | 5
_PNG = b"\x89PNG\r\n\x1a\n"
_STANDALONE = frozenset([0x01, *range(0xD0, 0xD8)])  # JPEG markers without a body
_FRAMES = frozenset([*range(0xC0, 0xD0)]) - {0xC4, 0xC8, 0xCC}  # SOF0..SOF15
_AFTER_SCAN = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")  # the next marker after entropy-coded data


def read_bytes(path: Path) -> bytes:
    """All bytes of an image file of at most `MAX_BYTES`.

    Raises:
        InputError: missing, not a file, unreadable, empty or too large.
    """
    if not path.is_file():
        raise InputError(f"no image file {path}")
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise InputError(f"{path} is too large", got=f"{size} bytes", expected=f"at most {MAX_BYTES}")
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}", got=error.strerror) from error
    if not data:
        raise InputError(f"{path} is empty", got="0 bytes", expected="an image")
    return data


def decode(data: bytes, path: Path, unchanged: bool = False) -> npt.NDArray[Any]:
    """Pixels as OpenCV decodes them: `[H, W, 3]` BGR of 8 or 16 bits with EXIF applied.

    Args:
        data: the file's bytes.
        path: its name, for errors.
        unchanged: channels and orientation as stored (for masks).

    Raises:
        InputError: truncated, unreadable, or more than `MAX_PIXELS`; the file is named.
    """
    height, width = header_size(data, path)
    if not height * width:
        raise _truncated(path)
    if height * width > MAX_PIXELS:
        raise InputError(
            f"{path} is too large", got=f"{height}x{width}", expected=f"at most {MAX_PIXELS} pixels"
        )
    webp = data.startswith(b"RIFF")
    flags = cv2.IMREAD_UNCHANGED if unchanged else cv2.IMREAD_COLOR | cv2.IMREAD_ANYDEPTH
    pixels = _quiet_decode(data, flags | cv2.IMREAD_IGNORE_ORIENTATION if webp else flags)
    if pixels is None:
        got = "damaged data or an unsupported kind"
        raise InputError(f"cannot decode {path}", got=got, fix="save it again as PNG")
    return _upright(pixels, _webp_orientation(data)) if webp and not unchanged else pixels


def _quiet_decode(data: bytes, flags: int) -> npt.NDArray[Any] | None:
    """cv2.imdecode without its own lines on stderr (the caller raises one); None if it fails."""
    level = set_log_level(LOG_SILENT)
    try:
        return cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    except cv2.error:
        return None
    finally:
        set_log_level(level)


def header_size(data: bytes, path: Path) -> tuple[int, int]:
    """(height, width) from the file's header; JPEG and PNG are walked to their end.

    Raises:
        InputError: no known image format, or truncated; the file is named.
    """
    for signature, measure in _FORMATS:
        if signature.match(data):
            try:
                return measure(data, path)
            except (struct.error, IndexError, KeyError) as error:
                raise _truncated(path) from error
    raise InputError(f"{path} is not an image", expected="JPEG, PNG, BMP, TIFF or WebP")


def png_chunks(data: bytes, path: Path) -> Iterator[tuple[bytes, bytes]]:
    """(type, body) of every chunk from IHDR to IEND.

    Raises:
        InputError: not a PNG, it ends before IEND, or a wrong checksum.
    """
    if not data.startswith(_PNG):
        raise InputError(f"{path} is not a PNG file", fix="save it as PNG")
    position, name = 8, b""
    while name != b"IEND":
        if position + 12 > len(data):
            raise _truncated(path)
        length, name = struct.unpack_from(">I4s", data, position)
        body = data[position + 8 : position + 8 + length]
        if position + 12 + length > len(data) or (position == 8 and (name != b"IHDR" or length != 13)):
            raise _truncated(path)
        (checksum,) = struct.unpack_from(">I", data, position + 8 + length)
        if name[:1].isupper() and zlib.crc32(body, zlib.crc32(name)) != checksum:  # a critical chunk
            raise _truncated(path)
        yield name, body
        position += 12 + length


def _truncated(path: Path) -> InputError:
    return InputError(
        f"{path} is truncated or damaged", expected="a complete image file", fix="copy or save it again"
    )


def _png_size(data: bytes, path: Path) -> tuple[int, int]:
    chunks = list(png_chunks(data, path))  # all of them, so that truncation is found
    width, height = struct.unpack_from(">II", chunks[0][1])
    return height, width


def _jpeg_size(data: bytes, path: Path) -> tuple[int, int]:
    """Walk the markers to EOI; the size is in the frame header (SOF)."""
    position, size = 2, None
    while (marker := data[position + 1]) != 0xD9:
        if data[position] != 0xFF:
            raise _truncated(path)
        if marker == 0xFF or marker in _STANDALONE:
            position += 1 if marker == 0xFF else 2
            continue
        (length,) = struct.unpack_from(">H", data, position + 2)
        if marker in _FRAMES:
            size = struct.unpack_from(">HH", data, position + 5)
        position += 2 + length
        if marker == 0xDA:
            position = _end_of_scan(data, position, path)
    if size is None:
        raise _truncated(path)
    return size[0], size[1]


def _end_of_scan(data: bytes, position: int, path: Path) -> int:
    following = _AFTER_SCAN.search(data, position)
    if following is None:
        raise _truncated(path)
    return following.start()


def _bmp_size(data: bytes, path: Path) -> tuple[int, int]:
    (header,) = struct.unpack_from("<I", data, 14)
    width, height = struct.unpack_from("<HH" if header == 12 else "<ii", data, 18)
    return abs(height), abs(width)


def _webp_size(data: bytes, path: Path) -> tuple[int, int]:
    (length,) = struct.unpack_from("<I", data, 4)
    if len(data) < length + 8:
        raise _truncated(path)
    kind = data[12:16]
    if kind == b"VP8X":
        return int.from_bytes(data[27:30], "little") + 1, int.from_bytes(data[24:27], "little") + 1
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        return (bits >> 14 & 0x3FFF) + 1, (bits & 0x3FFF) + 1
    width, height = struct.unpack_from("<HH", data, 26)
    return height & 0x3FFF, width & 0x3FFF


def _webp_orientation(data: bytes) -> int:
    """EXIF orientation of a WebP file, 1 if it has none: OpenCV applies it only since 4.13."""
    position = 12
    while position + 8 <= len(data):
        name, length = struct.unpack_from("<4sI", data, position)
        if name == b"EXIF":
            body = data[position + 8 : position + 8 + length]
            try:
                return _tiff_tags(body[6:] if body.startswith(b"Exif\0\0") else body).get(274, 1)
            except struct.error:
                return 1
        position += 8 + length + length % 2
    return 1


def _upright(pixels: npt.NDArray[Any], orientation: int) -> npt.NDArray[Any]:
    """`[H, W, C]` pixels turned as EXIF says (1..8)."""
    if orientation in (5, 6, 7, 8):
        pixels = pixels.transpose(1, 0, 2)
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    return np.ascontiguousarray(pixels)


def _tiff_size(data: bytes, path: Path) -> tuple[int, int]:
    tags = _tiff_tags(data)
    return tags[257], tags[256]


def _tiff_tags(data: bytes) -> dict[int, int]:
    """Tag -> value (or offset) of the first directory."""
    order = "<" if data[:2] == b"II" else ">"
    (start,) = struct.unpack_from(order + "I", data, 4)
    (count,) = struct.unpack_from(order + "H", data, start)
    tags: dict[int, int] = {}
    for index in range(count):
        entry = start + 2 + 12 * index
        tag, kind = struct.unpack_from(order + "HH", data, entry)
        tags[tag] = struct.unpack_from(order + ("H" if kind == 3 else "I"), data, entry + 8)[0]
    return tags


_FORMATS: tuple[tuple[re.Pattern[bytes], Callable[[bytes, Path], tuple[int, int]]], ...] = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), _png_size),
    (re.compile(rb"\xff\xd8\xff"), _jpeg_size),
    (re.compile(rb"BM"), _bmp_size),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), _webp_size),
    (re.compile(rb"II\x2a\0|MM\0\x2a"), _tiff_size),
)
