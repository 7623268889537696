"""What the page is told at its start: the bundles, their labelled images, and every path it may keep offline.

Refuses to judge a bundle beyond what a browser can run: ONNX Runtime's, one frame a call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deploy.bundle import Bundle, load_bundle
from deploy.domain import domain_name
from deploy.errors import InputError
from deploy.labels import dataset_digest, hu_scale, list_pairs, read_dataset
from deploy.manifest import manifest_to_json
from deploy.server.assets import Asset, Assets, make_asset
from deploy.server.vendor import VERSION

MOST_BUNDLES = 16
_MODELS = (".onnx", ".ort")


def load_bundles(folders: Sequence[Path]) -> dict[str, Bundle]:
    """Id in the page's addresses -> bundle, each checked, hashes and all.

    Raises:
        InputError: too many, a damaged one, or one that a browser cannot run.
    """
    if len(folders) > MOST_BUNDLES:
        raise InputError("bundles", got=len(folders), expected=f"at most {MOST_BUNDLES}")
    found = {str(index): load_bundle(folder) for index, folder in enumerate(folders)}
    for bundle in found.values():
        _require_runnable(bundle)
    return found


def catalog(bundles: Mapping[str, Bundle], assets: Assets) -> Asset:
    """The JSON that the page reads first; `assets` are the others."""
    value = {
        "runtime_version": VERSION,
        "bundles": [_entry(key, bundle) for key, bundle in bundles.items()],
        "files": {path: asset.etag.strip('"') for path, asset in assets.items()},
    }
    return make_asset("catalog.json", json.dumps(value, ensure_ascii=False, allow_nan=False).encode())


def _entry(key: str, bundle: Bundle) -> dict[str, Any]:
    manifest = bundle.manifest
    base = f"/bundles/{key}/"
    model = next(entry.path for entry in manifest.files if entry.path.endswith(_MODELS))
    return {
        "id": key,
        "base": base,
        "model": base + model,
        "sha256": bundle.sha256,
        "bytes": sum(entry.bytes for entry in manifest.files),
        "domain": domain_name(manifest),
        "manifest": manifest_to_json(manifest),
        "evaluation": _evaluation(bundle, base),
    }


def _require_runnable(bundle: Bundle) -> None:
    manifest = bundle.manifest
    if manifest.target.runtime != "onnxruntime":
        got, fix = manifest.target.runtime, "export it with --target onnxruntime"
        raise InputError(f"{bundle.root}: a browser cannot run it", got, "onnxruntime", fix)
    if sum(entry.path.endswith(_MODELS) for entry in manifest.files) != 1:
        raise InputError(f"{bundle.root}: model", expected="one .onnx or .ort file")
    if manifest.inputs[0].shape[0] != 1:
        got = f"{manifest.inputs[0].shape[0]} frames a call"
        raise InputError(f"{bundle.root}: batch", got, "1", "export it with --batch 1")


def _evaluation(bundle: Bundle, base: str) -> dict[str, Any] | None:
    """The bundle's labelled subset, as addresses.

    Raises:
        InputError: it holds a file that the bundle does not list, or does not fit the bundle.
    """
    folder = bundle.manifest.eval
    if folder is None:
        return None
    info = read_dataset(bundle.root / folder)
    pairs = list_pairs(info, "val")
    if info.classes != tuple(entry.name for entry in bundle.manifest.classes):
        raise InputError(f"{bundle.root / folder}: classes", got=", ".join(info.classes))
    scale = hu_scale(info, bundle.manifest.preprocess)
    listed = [
        {what: base + _listed(bundle, path) for what, path in (("image", pair.image), ("mask", pair.mask))}
        for pair in pairs
    ]
    return {
        "name": info.name,
        "split": "val",
        "sha256": dataset_digest(pairs),
        "ignore_index": info.ignore_index,
        "hu_offset": scale.offset if scale else None,
        "pairs": listed,
    }


def _listed(bundle: Bundle, path: Path) -> str:
    """The path as bundle.json lists it."""
    name = path.relative_to(bundle.root).as_posix()
    bundle.path(name)
    return name
