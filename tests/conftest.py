"""Fixtures shared by all tests."""

from __future__ import annotations

import os
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
