"""What the page gets: assets, compressed; the catalog; the page of the reports."""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="edgeseg[serve] is not installed")

from deploy.errors import InputError
from deploy.options import port
from deploy.server import vendor
from deploy.server.addresses import own_addresses
from deploy.server.assets import bundle_assets
from deploy.server.board import Board
from deploy.server.catalog import catalog, load_bundles
from deploy.server.intake import Intake

MOST_WIRE_BYTES = 20_000_000


def test_assets_are_compressed_and_revalidated(server) -> None:
    status, headers, body = server.request("/ort/ort-wasm-simd-threaded.wasm", accept_encoding="gzip")
    assert status == 200 and headers["content-encoding"] == "gzip"
    assert gzip.decompress(body) == vendor.vendor_files()["ort-wasm-simd-threaded.wasm"]
    assert headers["content-type"] == "application/wasm"
    again = server.request("/ort/ort-wasm-simd-threaded.wasm", if_none_match=headers["etag"])
    assert again[0] == 304 and again[2] == b""


@pytest.mark.parametrize(
    ("takes", "packed"), [("br, gzip;q=0.5", True), ("gzip;q=0", False), ("br, gzip; q=0.0", False)]
)
def test_who_takes_no_gzip_gets_none(server, takes: str, packed: bool) -> None:
    assert ("content-encoding" in server.request("/app.js", accept_encoding=takes)[1]) is packed


def test_addresses_come_before_names() -> None:
    """The first link that is printed is the one that a phone can open."""
    *addresses, name = own_addresses()
    assert name == socket.gethostname() and addresses[0] == "localhost"


def test_the_first_load_is_small(server) -> None:
    files = list(json.loads(server.request("/catalog.json")[2])["files"])
    wire = sum(len(server.request(path, accept_encoding="gzip")[2]) for path in files)
    print(f"first load: {wire / 1e6:.1f} MB")
    assert wire < MOST_WIRE_BYTES


def test_the_catalog_says_what_the_bundle_says(server, tiny_bundle) -> None:
    catalog = json.loads(server.request("/catalog.json")[2])
    (entry,) = catalog["bundles"]
    assert entry["sha256"] == tiny_bundle.sha256 and entry["evaluation"] is None
    assert entry["manifest"]["classes"][1]["name"] == "green"
    assert server.request(entry["model"])[0] == 200


def test_a_domain_has_its_base_s_files(packed: Path) -> None:
    bundles = load_bundles([packed])
    assets = bundle_assets(bundles)
    assert {"/bundles/0/base.bin", "/bundles/0/swap.bin", "/bundles/0/swap.onnx"} <= set(assets)
    _, swap = json.loads(catalog(bundles, assets).data)["bundles"]
    assert swap["id"] == "0+swap" and swap["model"] == "/bundles/0/swap.onnx"
    assert swap["external"] == {"swap.bin": "/bundles/0/swap.bin"}
    assert swap["manifest"]["classes"][0]["name"] == "blue"


def test_a_report_appears_in_the_page(server, tiny_bundle, make_report) -> None:
    assert b"No measurement yet" in server.request("/reports")[2]
    status, told = server.post(make_report(tiny_bundle))
    assert status == 201 and (server.reports / told["file"]).is_file()
    status, headers, page = server.request("/reports")
    assert status == 200 and b"onnxruntime-web" in page and b"tiny-labels" in page
    assert "script-src 'sha256-" in headers["content-security-policy"] and b'<a href="/">' in page


def test_a_file_that_is_no_measurement_is_named(server, tiny_bundle, make_report) -> None:
    assert server.post(make_report(tiny_bundle, frames=101))[0] == 201
    (server.reports / "notes.json").write_text('{"<b>": 1}')
    status, _, page = server.request("/reports")
    assert status == 200 and b"1 left out" in page and b"notes.json is not a measurement" in page
    assert b"tiny-labels" in page and f"{server.reports}/notes".encode() not in page


def test_the_page_is_made_once_for_a_state_of_the_folder(tiny_bundle, make_report, tmp_path: Path) -> None:
    board = Board(tmp_path)
    intake = Intake(tmp_path, {"0": tiny_bundle}, "")

    async def visits() -> list[list[str]]:
        seen = [await asyncio.gather(*(board.html() for _ in range(5)))]
        intake.keep(json.dumps(make_report(tiny_bundle)).encode())
        seen += [await asyncio.gather(*(board.html() for _ in range(5))), [await board.html()]]
        return seen

    empty, first, again = asyncio.run(visits())
    assert all(page is empty[0] for page in empty) and "No measurement yet" in empty[0]
    assert all(page is first[0] for page in [*first, *again]) and "tiny-labels" in first[0]


def test_a_bundle_for_another_runtime_is_refused(make_bundle) -> None:
    from deploy.bundle import Target

    other = make_bundle(target=Target("openvino", "fp32"))
    with pytest.raises(InputError, match="a browser cannot run it"):
        load_bundles([other.root])


def test_changed_vendor_files_are_refused(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(vendor, "FOLDER", tmp_path)
    with pytest.raises(InputError, match="make web"):
        vendor.vendor_files()
    for name in vendor.SHA256:
        (tmp_path / name).write_bytes(b"something else")
    with pytest.raises(InputError, match="sha256"):
        vendor.vendor_files()


def test_a_port_in_use_is_one_line(server, tiny_bundle) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "deploy", "serve", str(tiny_bundle.root), "--port", str(server.port)],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "cannot listen" in done.stderr
    assert "--port" in done.stderr and "--host" not in done.stderr, "the demo has no --host"


def test_the_ports_that_are_taken_are_told() -> None:
    assert [port("0"), port("65535")] == [0, 65535]
    with pytest.raises(argparse.ArgumentTypeError, match="not 0 for any free one, or a whole number from 1"):
        port("70000")
