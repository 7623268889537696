"""This package as one file that a device can run: `python3 edgeseg-device.pyz bench BUNDLE`.

Holds all of `deploy`, and tomli for Python 3.10 where it is installed here; the device brings Python >= 3.10,
numpy, OpenCV and its runtime. Equal sources give equal bytes, so a device that has the file need not get it
again. Refuses to hold anything compiled. Source of the format: Python's zipapp (PEP 441).
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import deploy
from deploy.files import atomic_write_bytes

_DATE = (2020, 1, 1, 0, 0, 0)
_MAIN = b"import runpy\n\nrunpy.run_module('deploy', run_name='__main__', alter_sys=True)\n"
_PURE = ("tomli",)  # what a device of Python 3.10 lacks
_LEFT_OUT = ("__pycache__", ".pyc", ".so", ".pyd", "deploy/web/")  # the page stays where it is served


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command that `make device` uses."""
    parser.add_argument("out", type=Path, metavar="FILE", help="file to write")


def run(args: argparse.Namespace) -> int:
    """Write the file and say what is in it."""
    data = device_file()
    atomic_write_bytes(args.out, data)
    args.out.chmod(0o755)
    lacking = [name for name in _PURE if importlib.util.find_spec(name) is None]
    note = "" if not lacking else " (without tomli: with Python 3.10, --data needs it on the device)"
    print(f"{args.out}: {len(data) / 1e3:.0f} kB, sha256 {hashlib.sha256(data).hexdigest()[:16]}{note}")
    return 0


def device_file() -> bytes:
    """The archive's bytes; of a program that runs from such a file, that very file's."""
    origin = Path(str(deploy.__file__)).parent
    if origin.parent.is_file():
        return origin.parent.read_bytes()
    buffer = io.BytesIO(b"#!/usr/bin/env python3\n")
    buffer.seek(0, io.SEEK_END)
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted([("__main__.py", _MAIN), *_members(origin)]):
            entry = zipfile.ZipInfo(name, _DATE)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, data)
    return buffer.getvalue()


def _members(origin: Path) -> Iterator[tuple[str, bytes]]:
    """Every source and data file of `deploy` and of the pure packages."""
    specs = [importlib.util.find_spec(name) for name in _PURE]
    packages = [origin, *(Path(spec.origin).parent for spec in specs if spec and spec.origin)]
    for package in packages:
        for path in package.rglob("*"):
            name = f"{package.name}/{path.relative_to(package).as_posix()}"
            if path.is_file() and not any(part in name for part in _LEFT_OUT):
                yield name, path.read_bytes()
