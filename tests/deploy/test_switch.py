"""Domains of a bundle on the device: selected by name, kept once loaded, refused where they do not belong."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from deploy.__main__ import main
from deploy.bundle import Bundle, load_bundle
from deploy.errors import InputError, run_cli
from deploy.files import sha256_file
from deploy.switch import Switch

SWAPPED = (2, 1, 0)  # what the domain's network answers for red, green and blue


@pytest.fixture
def deploy(monkeypatch: pytest.MonkeyPatch):
    """`python -m deploy ...` in this process; returns the exit status."""

    def call(*words: object) -> int:
        monkeypatch.setattr(sys, "argv", ["deploy", *map(str, words)])
        return run_cli(main)

    return call


def test_every_command_takes_a_domain(packed: Path, deploy, tmp_path: Path, capsys) -> None:
    assert deploy("info", packed) == 0
    assert "domain       swap: adapter" in capsys.readouterr().out
    assert deploy("info", packed, "--domain", "swap") == 0
    assert "blue, green, red" in capsys.readouterr().out
    assert deploy("verify", packed) == 0 and deploy("verify", packed, "--domain", "swap") == 0
    cv2.imwrite(str(tmp_path / "red.png"), np.full((8, 8, 3), (0, 0, 255), np.uint8))
    for options, label in (((), 0), (("--domain", "swap"), 2)):
        assert deploy("run", packed, tmp_path / "red.png", "--out", tmp_path / "out", *options) == 0
        assert (cv2.imread(str(tmp_path / "out" / "masks" / "red.png"), 0) == label).all()
    out = tmp_path / "bench.json"
    assert deploy("bench", packed, "--domain", "swap", "--frames", 3, "--warmup", 1, "--json", out) == 0
    measured = json.loads(out.read_text())
    assert measured["name"].endswith("+swap") and measured["model"]["method"] == "adapter"
    assert measured["peak_memory_bytes"], "the child process opens the domain, too"


@pytest.mark.parametrize("command", ["info", "verify"])
def test_no_such_domain_is_one_line(packed: Path, tiny_bundle: Bundle, deploy, capsys, command: str) -> None:
    assert deploy(command, packed, "--domain", "ct") == 2
    assert "expected one of swap" in capsys.readouterr().err
    assert deploy(command, tiny_bundle.root, "--domain", "ct") == 2
    assert "it has no domains" in capsys.readouterr().err


def test_switching_keeps_what_is_loaded(packed: Path) -> None:
    red = np.full((24, 32, 3), (255, 0, 0), np.uint8)
    with Switch(packed, threads=1) as switch:
        assert (switch[None].segment(red) == 0).all() and (switch["swap"].segment(red) == 2).all()
        assert switch[None] is switch[None] and switch["swap"] is switch["swap"]
        with pytest.raises(InputError):
            switch["ct"]


def _edit(root: Path, change) -> None:
    text = json.loads((root / "bundle.json").read_text())
    change(text)
    (root / "bundle.json").write_text(json.dumps(text))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda m: m["domains"]["swap"].update(base_sha256="0" * 64), "for the base 0000"),
        (lambda m: m["domains"].update({"../x": m["domains"].pop("swap")}), "a name that no file can have"),
        (lambda m: m["domains"].update(base=m["domains"].pop("swap")), "a name that no file can have"),
        (lambda m: m["domains"]["swap"].update(files=["../../etc/passwd"]), "listed files"),
        (lambda m: m["domains"]["swap"]["files"].append("base.bin"), "listed files"),
        (lambda m: m["domains"].update(other=m["domains"]["swap"]), "listed files that no other"),
        (lambda m: m["domains"]["swap"]["files"].remove("swap.golden.npz"), "golden.file"),
        (lambda m: m["domains"]["swap"]["files"].remove("swap.bin"), "external data in a file of its own"),
        (lambda m: m["domains"]["swap"].update(classes=[]), "class ids"),
        (lambda m: m["domains"]["swap"].update(inputs=[]), "one input"),
        (lambda m: m["domains"]["swap"].update(more=1), "unknown key"),
        (lambda m: m.update(domains=[]), "an object"),
    ],
)
def test_a_pack_that_does_not_belong_is_one_line(packed: Path, change, says: str) -> None:
    load_bundle(packed)
    _edit(packed, change)
    for domain in (None, "swap"):
        with pytest.raises(InputError, match=says) as error:
            load_bundle(packed, domain=domain)
            load_bundle(packed, domain="swap").model_file(".onnx")
        assert "\n" not in str(error.value)


def test_another_base_in_its_place_is_refused(packed: Path) -> None:
    (packed / "base.bin").write_bytes(bytes(36))
    digest = sha256_file(packed / "base.bin")
    _edit(packed, lambda m: [e.update(sha256=digest) for e in m["files"] if e["path"] == "base.bin"])
    with pytest.raises(InputError, match=r"domain 'swap'.*for the base"):
        load_bundle(packed)


def test_bundles_without_domains_are_written_as_before(tiny_bundle: Bundle) -> None:
    assert "domains" not in json.loads((tiny_bundle.root / "bundle.json").read_text())
