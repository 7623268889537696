"""The engine cache with a builder that counts: found, shared, refused, explained; no GPU needed."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from deploy.engine.cache import EngineKey, default_folder, digest, engine_for
from deploy.errors import InputError

KEY = EngineKey("ab" * 32, "10.3.0", "Orin, 8.7", "JetPack 6.2, L4T R36.4.3")


class Builder:
    """Makes engines of known bytes, and notes which timings it was given."""

    def __init__(self) -> None:
        self.timings: list[bytes] = []
        self.said: list[str] = []

    def __call__(self, timing: bytes) -> tuple[bytes, bytes]:
        self.timings.append(timing)
        return b"engine %d" % len(self.timings), b"learnt %d" % len(self.timings)

    def get(self, key: EngineKey, folder: Path) -> bytes:
        return engine_for(key, folder, self, self.said.append)


@pytest.fixture
def builder() -> Builder:
    return Builder()


def test_built_once_and_found_again(builder: Builder, tmp_path: Path) -> None:
    assert builder.get(KEY, tmp_path / "c") == builder.get(KEY, tmp_path / "c") == b"engine 1"
    assert len(builder.timings) == len(builder.said) == 1 and str(KEY) in builder.said[0]
    assert (tmp_path / "c").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("field", ["network", "tensorrt", "gpu", "software"])
def test_every_part_of_the_key_counts(builder: Builder, tmp_path: Path, field: str) -> None:
    other = dataclasses.replace(KEY, **{field: "cd" * 32})
    assert builder.get(KEY, tmp_path) != builder.get(other, tmp_path)
    assert builder.get(KEY, tmp_path) == b"engine 1"


def test_timings_are_shared_by_networks_on_one_device_only(builder: Builder, tmp_path: Path) -> None:
    builder.get(KEY, tmp_path)
    builder.get(dataclasses.replace(KEY, network="cd" * 32), tmp_path)
    builder.get(dataclasses.replace(KEY, gpu="Xavier, 7.2"), tmp_path)
    assert builder.timings == [b"", b"learnt 1", b""]


def test_engine_of_another_device_is_named_and_not_used(builder: Builder, tmp_path: Path) -> None:
    builder.get(KEY, tmp_path)
    builder.get(dataclasses.replace(KEY, tensorrt="10.7.0"), tmp_path)
    assert len(builder.timings) == 2
    assert "for TensorRT 10.7.0" in builder.said[1] and "kept here: for TensorRT 10.3.0" in builder.said[1]


def test_engine_under_anothers_name_is_refused(builder: Builder, tmp_path: Path) -> None:
    other = dataclasses.replace(KEY, gpu="Xavier, 7.2")
    builder.get(KEY, tmp_path)
    (tmp_path / KEY.name).rename(tmp_path / other.name)
    with pytest.raises(InputError, match=r"got one for TensorRT 10\.3\.0 on Orin.*expected .* on Xavier"):
        builder.get(other, tmp_path)


def test_changed_bytes_and_damaged_records_are_refused(builder: Builder, tmp_path: Path) -> None:
    builder.get(KEY, tmp_path)
    plan, record = tmp_path / KEY.name / "engine.plan", tmp_path / KEY.name / "engine.json"
    plan.write_bytes(b"another")
    with pytest.raises(InputError, match="was changed after it was built"):
        builder.get(KEY, tmp_path)
    record.write_text("{}")
    with pytest.raises(InputError, match="missing key"):
        builder.get(KEY, tmp_path)
    record.write_text("no json")
    with pytest.raises(InputError, match="not valid JSON"):
        builder.get(KEY, tmp_path)


def test_a_folder_that_cannot_be_written_is_an_error_before_the_build(
    builder: Builder, tmp_path: Path
) -> None:
    blocked = tmp_path / "a file, no folder"
    blocked.write_text("")
    for folder in (blocked, blocked / "below", Path("/proc/edgeseg")):
        with pytest.raises(InputError, match=r"cannot be written.*no engine of this network.*EDGESEG_CACHE"):
            builder.get(KEY, folder)
    assert not builder.timings


def test_a_read_only_cache_serves_what_it_holds(
    builder: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder.get(KEY, tmp_path)

    def refuse(
        *_: object, **__: object
    ) -> None:  # root may write anywhere: the kernel's answer, given by hand
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    assert builder.get(KEY, tmp_path) == b"engine 1"
    with pytest.raises(InputError, match=r"got engines for TensorRT 10\.3\.0 on Orin"):
        builder.get(dataclasses.replace(KEY, gpu="Xavier, 7.2"), tmp_path)


def test_a_build_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(timing: bytes) -> tuple[bytes, bytes]:
        raise InputError("TensorRT cannot build")

    with pytest.raises(InputError, match="cannot build"):
        engine_for(KEY, tmp_path, fail, lambda line: None)
    assert not list(tmp_path.iterdir())


def test_digest_is_of_all_files_in_order(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_text("1")
    second.write_text("2")
    assert len({digest(first, second), digest(second, first), digest(first)}) == 3
    assert digest(first, second) == digest(first, second)


def test_folder_is_the_variables_else_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EDGESEG_CACHE", str(tmp_path / "mine"))
    assert default_folder() == tmp_path / "mine"
    monkeypatch.delenv("EDGESEG_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "edgeseg" / "tensorrt"


def test_record_can_be_read_by_a_person(builder: Builder, tmp_path: Path) -> None:
    builder.get(KEY, tmp_path)
    record = json.loads((tmp_path / KEY.name / "engine.json").read_text())
    assert record["key"]["gpu"] == "Orin, 8.7" and len(record["sha256"]) == 64
