"""What the page is told at its start: the bundles, their labelled images, and every path it may keep offline.

Refuses to judge a bundle beyond what a browser can run: ONNX Runtime's, one frame a call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deploy.bundle import Bundle, load_with_domains
from deploy.domain import domain_name
from deploy.errors import InputError
from deploy.externaldata import references
from deploy.frames import SplitFrames
from deploy.manifest import manifest_to_json
from deploy.server.assets import Asset, Assets, make_asset
from deploy.server.vendor import VERSION

MOST_BUNDLES = 16


def load_bundles(folders: Sequence[Path]) -> dict[str, Bundle]:
    """Id -> bundle, each checked, hashes and all; a base's domains follow it, as bundles of their own.

    Raises:
        InputError: too many, a damaged one, or one that a browser cannot run.
    """
    if len(folders) > MOST_BUNDLES:
        raise InputError("bundles", got=len(folders), expected=f"at most {MOST_BUNDLES}")
    found: dict[str, Bundle] = {}
    for index, folder in enumerate(folders):
        for bundle in load_with_domains(folder):
            found[f"{index}+{bundle.domain}" if bundle.domain else str(index)] = bundle
    for bundle in found.values():
        _require_runnable(bundle)
    return found


def catalog(bundles: Mapping[str, Bundle], assets: Assets) -> Asset:
    """The JSON that the page reads first; `assets` are the others."""
    value = {
        "runtime_version": VERSION,
        "bundles": [_entry(key, bundle) for key, bundle in bundles.items()],
        "files": list(assets),
    }
    return make_asset("catalog.json", json.dumps(value, ensure_ascii=False, allow_nan=False).encode())


def _entry(key: str, bundle: Bundle) -> dict[str, Any]:
    manifest = bundle.manifest
    base = f"/bundles/{key.partition('+')[0]}/"
    model = _model(bundle)
    shared = {reference.location for reference in references(model)} if model.suffix == ".onnx" else ()
    address = base + model.relative_to(bundle.root.resolve()).as_posix()
    return {
        "id": key,
        "base": base,
        "model": address,
        "external": {name: f"{address.rpartition('/')[0]}/{name}" for name in sorted(shared)},
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
    _model(bundle)
    if manifest.inputs[0].shape[0] != 1:
        got = f"{manifest.inputs[0].shape[0]} frames a call"
        raise InputError(f"{bundle.root}: batch", got, "1", "export it with --batch 1")


def _model(bundle: Bundle) -> Path:
    """Its one model file, whose references to other files are checked."""
    own = any(entry.path.endswith(".ort") for entry in bundle.manifest.files)
    return bundle.model_file(".ort" if own else ".onnx")


def labelled(bundle: Bundle) -> SplitFrames | None:
    """The bundle's labelled subset, if it has one.

    Raises:
        InputError: it does not fit the bundle.
    """
    folder = bundle.manifest.eval
    return SplitFrames(bundle, bundle.root / folder, "val") if folder else None


def _evaluation(bundle: Bundle, base: str) -> dict[str, Any] | None:
    """The labelled subset, as addresses.

    Raises:
        InputError: it holds a file that the bundle does not list, or does not fit the bundle.
    """
    frames = labelled(bundle)
    if frames is None:
        return None
    listed = [
        {what: base + _listed(bundle, path) for what, path in (("image", pair.image), ("mask", pair.mask))}
        for pair in frames.pairs
    ]
    return {
        **vars(frames.reference()),
        "ignore_index": frames.info.ignore_index,
        "hu_offset": frames.hu.offset if frames.hu else None,
        "pairs": listed,
    }


def _listed(bundle: Bundle, path: Path) -> str:
    """The path as bundle.json lists it."""
    name = path.relative_to(bundle.root).as_posix()
    bundle.path(name)
    return name
