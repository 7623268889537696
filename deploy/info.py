"""`info BUNDLE`: what a bundle is, read from its manifest without any runtime."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from deploy.files import write_json
from deploy.manifest import Domain, Manifest, Preprocess, manifest_to_json
from deploy.options import add_domain, add_json

if TYPE_CHECKING:
    from deploy.bundle import Bundle


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `info`."""
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", help="folder of the bundle")
    add_domain(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the bundle's manifest, in words or as JSON."""
    from deploy.bundle import load_bundle

    bundle = load_bundle(args.bundle, domain=args.domain)
    if args.json:
        write_json(args.json, {**manifest_to_json(bundle.manifest), "bundle_sha256": bundle.sha256})
    if args.json != "-":
        for name, text in describe(bundle):
            print(f"{name:<12} {text}")
    return 0


def describe(bundle: Bundle) -> Iterator[tuple[str, str]]:
    """(label, text) lines for a reader."""
    from deploy.runtimes import available

    manifest = bundle.manifest
    target, rule = manifest.target, manifest.preprocess
    reason = available().get(target.runtime, "unknown to this version")
    yield "bundle", manifest.name
    yield "model", " ".join(f"{key}={value}" for key, value in manifest.provenance.model.items())
    yield "target", f"{target.runtime} {target.precision} {target.options or ''}".rstrip()
    yield "runtime", "can run here" if reason is None else f"cannot run here: {reason}"
    for kind, specs in (("input", manifest.inputs), ("output", manifest.outputs)):
        for spec in specs:
            yield kind, f"{spec.name} {spec.dtype} {spec.layout} {'x'.join(map(str, spec.shape))}"
    place = "normalised in the graph" if rule.in_graph else f"mean {rule.mean}, std {rule.std}"
    yield "frames", f"{rule.size[0]}x{rule.size[1]} {rule.resize}, {rule.interpolation}, {place}"
    if rule.hu_window:
        yield "CT", f"Hounsfield units {rule.hu_window[0]:g} to {rule.hu_window[1]:g}{_slicing(rule)}"
    names = ", ".join(info.name for info in manifest.classes)
    yield "classes", f"{len(manifest.classes)}: {names} (ignored: {manifest.ignore_index})"
    yield from _evidence(manifest)
    for name, domain in manifest.domains.items():
        yield "domain", _domain(manifest, name, domain)
    yield (
        "files",
        f"{len(manifest.files)}, {sum(entry.bytes for entry in manifest.files) / 1e6:.2f} MB, hashes checked",
    )
    yield "sha256", bundle.sha256


def _slicing(rule: Preprocess) -> str:
    """How slices become frames, in words."""
    slices = rule.slices
    if slices is None:
        return ""
    spacing = f", {slices.spacing_mm:g} mm pixels" if slices.spacing_mm else ""
    return spacing + (f", neighbours at {slices.neighbour_mm:g} mm" if slices.neighbour_mm else "")


def _domain(manifest: Manifest, name: str, domain: Domain) -> str:
    """A domain pack in a line: by what method, which classes, and the bytes it adds."""
    method, size = domain.provenance.model.get("method", ""), domain.preprocess.size
    added = sum(entry.bytes for entry in manifest.files if entry.path in domain.files)
    classes = ", ".join(info.name for info in domain.classes)
    return f"{name}: {method}, {size[0]}x{size[1]}, {classes}; {added / 1e3:.0f} kB"


def _evidence(manifest: Manifest) -> Iterator[tuple[str, str]]:
    if parity := manifest.parity:
        figures = [
            ("images", parity.images),
            ("agreement", parity.agreement),
            ("max error", parity.max_abs_error),
        ]
        figures += [("mIoU difference", parity.miou_difference)]
        shown = ", ".join(f"{name} {value:.6g}" for name, value in figures if value is not None)
        yield "parity", f"{parity.proof}: {shown}"
    if (accuracy := manifest.accuracy) and accuracy.miou_here is not None:
        yield (
            "accuracy",
            f"mIoU {accuracy.miou_here:.4f} (fp32 {accuracy.miou_fp32}) on {accuracy.images} images",
        )
    if golden := manifest.golden:
        yield "golden", f"agreement >= {golden.min_agreement}, logits within {golden.max_abs_error}"
    if manifest.provenance.licences:
        yield "licences", "; ".join(f"{name}: {text}" for name, text in manifest.provenance.licences.items())
