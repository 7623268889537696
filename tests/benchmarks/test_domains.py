"""The figures of domain packs, on a real bundle whose domain is its base again: only its golden is added."""

from __future__ import annotations

import json
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest

from benchmarks.domains import main, sizes
from deploy.bundle import Bundle, load_bundle, write_bundle
from deploy.errors import run_cli
from deploy.files import sha256_file
from deploy.manifest import Domain
from export.packs import split
from export.targets import Pack

V1 = Path(__file__).resolve().parents[1] / "data" / "bundle_v1"


@pytest.fixture
def twins(tmp_path: Path) -> Bundle:
    """The stored bundle, and itself as the domain `twin`."""
    plain = load_bundle(V1)
    base = split(plain.model_file(".onnx"), tmp_path, Pack("base", {}))
    (tmp_path / "twin").mkdir()
    twin = split(plain.model_file(".onnx"), tmp_path / "twin", Pack("twin", base))
    assert twin["twin.bin"].stat().st_size == 0, "everything is the base's"
    golden = plain.manifest.golden
    names = [item.name for item in fields(Domain) if item.name != "base_sha256"]
    same = {name: getattr(plain.manifest, name) for name in names}
    same |= {"files": ("twin.onnx", "twin.bin", "twin.npz"), "golden": replace(golden, file="twin.npz")}
    domain = Domain(sha256_file(base["base.bin"]), **same)
    arrays = plain.path(golden.file)
    files = {**base, **twin, golden.file: arrays, "twin.npz": arrays}
    return write_bundle(tmp_path / "b", replace(plain.manifest, files=(), domains={"twin": domain}), files)


def test_bytes_with_and_without_domains(twins: Bundle) -> None:
    found = sizes(twins)
    assert found["ratio"] == found["zip_bytes"] / found["base_zip_bytes"] > 1
    listed = {entry.path: entry.bytes for entry in twins.manifest.files}
    assert found["added_bytes"] == {"twin": listed["twin.onnx"] + listed["twin.npz"]}
    assert found["zip_bytes"] < sum(listed.values())


def test_the_record_holds_every_figure(twins: Bundle, tmp_path: Path, monkeypatch) -> None:
    out = tmp_path / "r.json"
    words = ["--rounds", "1", "--threads", "1", "--json", str(out)]
    monkeypatch.setattr(sys, "argv", ["b", str(twins.root), *words])
    assert run_cli(main) == 0
    found = json.loads(out.read_text())
    assert set(found["first_use_ms"]) == {"base", "twin"}
    assert found["change_ms"] == pytest.approx(found["other_domain_ms"] - found["same_domain_ms"])
    assert min(found["first_use_ms"].values()) > found["same_domain_ms"] > 0


def test_a_bundle_without_domains_is_one_line(monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["b", str(V1)])
    assert run_cli(main) == 2
    assert "has no domains" in capsys.readouterr().err
