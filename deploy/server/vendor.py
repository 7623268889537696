"""onnxruntime-web beside the page: three files of one npm package, pinned by their hashes.

`make web` has npm fetch the package and keeps what the page needs in `deploy/web/ort`; a wheel built then
holds it. Whatever way the files came, they are hashed before they are served. Refuses to fetch anything else.
Source: https://www.npmjs.com/package/onnxruntime-web (MIT).
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from deploy.errors import InputError
from deploy.files import atomic_write_bytes

PACKAGE, VERSION = "onnxruntime-web", "1.30.0"
FOLDER = Path(__file__).resolve().parent.parent / "web" / "ort"
SHA256 = {
    "ort.wasm.min.mjs": "219e6a1fc8a9938268d18efca3c91d310bd2f4a59bbd13744df5b2b7fc6cee3b",
    "ort-wasm-simd-threaded.mjs": "e13f7f94fc51b4ca72b12faeb1ee95f4ace6dfbc8939bc718aabdc0a27c4299b",
    "ort-wasm-simd-threaded.wasm": "3398c10d07d229bd91b364548e130e0e51a8e5704b88c7c083ebbeb78842dee2",
}
_MOST_BYTES = 64 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command that `make web` uses: none."""


def run(args: argparse.Namespace) -> int:
    """Fetch the package and keep the pinned files."""
    npm = shutil.which("npm")
    if npm is None:
        raise InputError("npm is not installed", fix="make system, or apt-get install npm")
    with TemporaryDirectory(prefix="edgeseg-") as scratch:
        subprocess.run(
            [npm, "pack", "--silent", f"{PACKAGE}@{VERSION}"],
            cwd=scratch, check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        for name, data in unpack(next(Path(scratch).glob("*.tgz"))).items():
            atomic_write_bytes(FOLDER / name, data)
    print(f"{PACKAGE} {VERSION} -> {FOLDER}")
    return 0


def unpack(archive: Path) -> dict[str, bytes]:
    """The pinned files of the package.

    Raises:
        InputError: one is missing, or is not the one that is pinned.
    """
    found = {}
    with tarfile.open(archive) as package:
        for name in SHA256:
            try:
                member = package.extractfile(f"package/dist/{name}")
            except KeyError:
                member = None
            found[name] = _checked(name, member.read(_MOST_BYTES) if member else b"", archive)
    return found


def vendor_files() -> dict[str, bytes]:
    """Name -> bytes of the files that the page loads.

    Raises:
        InputError: they are not here, or not the ones that are pinned.
    """
    missing = [name for name in SHA256 if not (FOLDER / name).is_file()]
    if missing:
        fix = "make web (needs npm), or install a wheel that was built after it"
        raise InputError(f"{PACKAGE} is not beside the page", got=f"no {FOLDER / missing[0]}", fix=fix)
    return {name: _checked(name, (FOLDER / name).read_bytes(), FOLDER) for name in SHA256}


def _checked(name: str, data: bytes, where: Path) -> bytes:
    if (found := hashlib.sha256(data).hexdigest()) != SHA256[name]:
        raise InputError(f"{where}: {name}", got=f"sha256 {found}", expected=SHA256[name], fix="make web")
    return data
