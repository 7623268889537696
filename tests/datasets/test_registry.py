"""The directory of data set kinds as a registry."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import pipeline.datasets
from deploy.errors import InputError
from pipeline.datasets import Option, available, kinds, load_kind


def test_a_kind_is_a_file_and_nothing_else_is() -> None:
    folder = Path(pipeline.datasets.__file__).parent
    files = {path.stem for path in folder.glob("*.py")} - {"__init__", "folder", "gate", "published"}
    assert set(kinds()) == files and "synthetic" in files


@pytest.mark.parametrize("name", kinds())
def test_every_kind_has_what_the_registry_asks(name: str) -> None:
    module = importlib.import_module(f"pipeline.datasets.{name}")
    assert isinstance(module.VERSION, int) and callable(module.write)
    assert all(isinstance(option, Option) for option in module.OPTIONS)
    assert available()[name] == module.requires()


def test_a_kind_whose_package_is_missing_is_listed_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lidar.py").write_text("import no_such_package\n")
    monkeypatch.setattr(pipeline.datasets, "__path__", [*pipeline.datasets.__path__, str(tmp_path)])
    assert "lidar" in kinds()
    assert "no_such_package" in (available()["lidar"] or "")
    with pytest.raises(InputError, match=r"lidar.*no_such_package"):
        load_kind("lidar")


def test_an_unknown_kind_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"cartoons.*synthetic"):
        load_kind("cartoons")
