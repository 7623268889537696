"""Fixtures shared by all tests."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of real labelled data: $EDGESEG_DATA, or ../shared/data; skips where it is absent."""
    folder = Path(os.environ.get("EDGESEG_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}; set EDGESEG_DATA to a folder that holds it")
    return folder


@pytest.fixture(scope="session")
def labelled_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small labelled folder of drawn street scenes (16 train, 8 val images of 64x96)."""
    from pipeline.datasets import synthetic

    folder = tmp_path_factory.mktemp("drawn") / "street scenes"  # a space in the path, on purpose
    synthetic.generate(folder, train=16, val=8, size=(64, 96), seed=0)
    return folder


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tracked files, as a fresh clone has them, that uses this environment's packages."""
    target = tmp_path_factory.mktemp("clone dir") / "edgeseg"  # a space in the path, on purpose
    names = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    for name in names:
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    return target
