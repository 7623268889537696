"""An arm64 Python with a device's packages in a folder, for qemu's user emulation: `environment.py FOLDER`.

Debian's packages for arm64 come through apt with a private state, so that the machine's own packages stay as
they are, and are unpacked; wheels come through pip. ONNX Runtime is 1.27.0: 1.32.0 crashes at its import
under qemu 7.2. Refuses to know what is run there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

DEBIAN = ("python3.11-minimal", "libpython3.11-stdlib", "libstdc++6", "libgomp1")
WHEELS = ("onnxruntime==1.27.0", "ncnn==1.0.20261020", "numpy==2.3.5", "opencv-python-headless==5.0.0.93")
TAGS = ("manylinux2014_aarch64", "manylinux_2_17_aarch64", "manylinux_2_27_aarch64", "manylinux_2_28_aarch64")
DONE, EMULATOR = "ready", "qemu-aarch64-static"


def python(folder: Path, cpu: str) -> list[str]:
    """The command that starts the folder's Python on an emulated processor.

    Args:
        cpu: as qemu names it: cortex-a72 (a Raspberry Pi 4), or max, which computes in half precision, too.
    """
    return [EMULATOR, "-L", str(folder / "root"), "-cpu", cpu, str(folder / "root" / "usr/bin/python3.11")]


def missing(folder: Path) -> str | None:
    """Why nothing can be run there, or None."""
    if shutil.which(EMULATOR) is None:
        return f"no {EMULATOR}: make system"
    return None if (folder / DONE).is_file() else f"no arm64 environment in {folder}: make test-arm64"


def make(folder: Path) -> None:
    """Fill the folder, last its mark that it is whole."""
    shutil.rmtree(folder, ignore_errors=True)
    for part in ("root", "site", "wheels"):
        (folder / part).mkdir(parents=True)
    for package in _packages(folder / "apt"):
        subprocess.run(["dpkg", "-x", package, folder / "root"], check=True)
    tags = [word for tag in TAGS for word in ("--platform", tag)]
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
    pip += ["--python-version", "3.11", "--implementation", "cp", *tags, "-d", str(folder / "wheels")]
    subprocess.run([*pip, *WHEELS], check=True)
    for wheel in (folder / "wheels").iterdir():
        zipfile.ZipFile(wheel).extractall(folder / "site")
    (folder / DONE).touch()


def _packages(state: Path) -> list[Path]:
    """Debian's packages for arm64 with all that they need."""
    for part in ("lists/partial", "archives/partial"):
        (state / part).mkdir(parents=True)
    (state / "status").touch()
    options = {
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": os.environ.get("USER", "root"),
        "Dir::State": state,
        "Dir::State::status": state / "status",
        "Dir::State::lists": state / "lists",
        "Dir::Cache": state,
        "Dir::Cache::archives": state / "archives",
    }
    apt = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in options.items())]
    subprocess.run([*apt, "update"], check=True)
    subprocess.run([*apt, "-y", "--download-only", "install", *DEBIAN], check=True)
    return sorted((state / "archives").glob("*.deb"))


if __name__ == "__main__":
    make(Path(sys.argv[1]).resolve())
