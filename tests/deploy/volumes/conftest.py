"""Small CT series and volumes made on the spot, and the labelled files of real scanners where they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

SPACING = (2.0, 1.5, 1.25)  # slice, row, column
Change = Callable[[object], None]


@pytest.fixture(scope="session")
def formats(shared_data: Path) -> Path:
    return shared_data / "ct_formats"


@pytest.fixture(scope="session")
def ramp() -> Callable[..., np.ndarray]:
    """ramp(shape) -> `[S, H, W]` int16, no two voxels alike, as low as air."""

    def make(shape: tuple[int, int, int] = (5, 12, 16)) -> np.ndarray:
        return (np.arange(int(np.prod(shape))).reshape(shape) - 1000).astype(np.int16)

    return make


@pytest.fixture
def make_series(tmp_path: Path, ramp: Callable[..., np.ndarray]) -> Callable[..., Path]:
    """make_series(name, hu=..., patient=..., number=...) -> folder of a CT series."""
    from pipeline.datasets.phantom.files import write_series

    def make(
        name: str = "series", hu: np.ndarray | None = None, patient: str = "p1", number: int = 1
    ) -> Path:
        folder = tmp_path / name
        write_series(folder, ramp() if hu is None else hu, SPACING, patient, number)
        return folder

    return make


@pytest.fixture
def change_files() -> Callable[..., None]:
    """change_files(folder, change, only=None): change all datasets, or that of slice `only`, on disk."""
    import pydicom

    def apply(folder: Path, change: Change, only: int | None = None) -> None:
        for path in sorted(folder.glob("IM*.dcm")):
            dataset = pydicom.dcmread(path)
            if only is None or dataset.InstanceNumber == only + 1:
                change(dataset)
                dataset.save_as(path)

    return apply
