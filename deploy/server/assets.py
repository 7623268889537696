"""Everything that can be fetched, as one closed table made at the start: path -> bytes, type, digest; and the
route that answers from it.

A path that is not in the table does not exist, so none can lead out of it. Refuses to read a file later than
at the start: what is served is what was checked.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from deploy.bundle import Bundle
from deploy.errors import InputError
from deploy.server.vendor import vendor_files

WEB = Path(__file__).resolve().parent.parent / "web"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".wasm": "application/wasm",
}
_PACKED = (".html", ".css", ".js", ".mjs", ".json", ".svg", ".wasm", ".onnx", ".ort")
_WORTH_PACKING = 1024
_GZIP = re.compile(r"\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))", re.IGNORECASE)  # but not gzip;q=0
MOST_BYTES = 1 << 30


@dataclass(frozen=True)
class Asset:
    """One file as it is sent; `packed` is its gzip form where that is worth it."""

    data: bytes
    media_type: str
    sha256: str
    packed: bytes | None

    @property
    def etag(self) -> str:
        """By which a browser asks whether what it has is still the same."""
        return f'"{self.sha256[:32]}"'

    @property
    def wire_bytes(self) -> int:
        """What a browser that takes gzip downloads."""
        return len(self.packed or self.data)


Assets = dict[str, Asset]


def make_asset(name: str, data: bytes) -> Asset:
    """An asset of the kind that the name's suffix says."""
    suffix = Path(name).suffix.lower()
    packed = gzip.compress(data, 6, mtime=0) if suffix in _PACKED and len(data) > _WORTH_PACKING else None
    media_type = TYPES.get(suffix, "application/octet-stream")
    return Asset(data, media_type, hashlib.sha256(data).hexdigest(), packed)


def asset_route(assets: Mapping[str, Asset]) -> Route:
    """Answers with what is in the table, and 404 to all else."""

    async def answer(request: Request) -> Response:
        found = assets.get(request.url.path)
        return _answer(found, request) if found else PlainTextResponse("not here\n", 404)

    return Route("/{path:path}", answer, methods=["GET"])


def _answer(asset: Asset, request: Request) -> Response:
    headers = {"etag": asset.etag, "content-type": asset.media_type, "vary": "accept-encoding"}
    if request.headers.get("if-none-match") == asset.etag:
        return Response(status_code=304, headers=headers)
    if asset.packed and _GZIP.search(request.headers.get("accept-encoding", "")):
        return Response(asset.packed, headers={**headers, "content-encoding": "gzip"})
    return Response(asset.data, headers=headers)


def page_assets() -> Assets:
    """The page's own files, and onnxruntime-web.

    Raises:
        InputError: they are not installed.
    """
    if not (WEB / "index.html").is_file():
        raise InputError("the page is not installed", got=f"no {WEB}", fix="pip install 'edgeseg[serve]'")
    own = [path for path in sorted(WEB.rglob("*")) if path.suffix in TYPES and path.parent.name != "ort"]
    files = {path.relative_to(WEB).as_posix(): path.read_bytes() for path in own}
    files |= {f"ort/{name}": data for name, data in vendor_files().items()}
    found = {f"/{name}": make_asset(name, data) for name, data in files.items()}
    found["/"] = found.pop("/index.html")
    found["/favicon.ico"] = found["/icon.svg"]  # what browsers ask for by themselves
    return found


def bundle_assets(bundles: Mapping[str, Bundle]) -> Assets:
    """The files that each bundle declares, below /bundles/ID/; their hashes are the manifest's.

    A domain's files are its base's.

    Raises:
        InputError: more than can be held, or a file that changed since the bundle was loaded.
    """
    bases = {key: bundle for key, bundle in bundles.items() if bundle.domain is None}
    total = sum(entry.bytes for bundle in bases.values() for entry in bundle.manifest.files)
    if total > MOST_BYTES:
        raise InputError("the bundles are too large", got=f"{total} bytes", expected=f"<= {MOST_BYTES}")
    found = {}
    for key, bundle in bases.items():
        for entry in bundle.manifest.files:
            asset = make_asset(entry.path, bundle.path(entry).read_bytes())
            if asset.sha256 != entry.sha256:
                raise InputError(f"{bundle.root}: {entry.path} has changed", fix="start again")
            found[f"/bundles/{key}/{entry.path}"] = asset
    return found
