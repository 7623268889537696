"""`python -m benchmarks.domains BUNDLE`: what domain packs add to their base, and what a change costs.

Bytes are those of ZIP files (deflate) of the bundle with and without its domains. A change of domain is timed
in one process that keeps what it has loaded: the median frame where every frame is of another domain than the
one before, against the median where all are of the same. Refuses to know accuracy.
"""

from __future__ import annotations

import argparse
import io
import statistics
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from benchmarks import record
from deploy.bundle import MANIFEST_FILE, Bundle, load_with_domains
from deploy.errors import InputError, run_cli
from deploy.frames import GoldenFrames
from deploy.options import Parser, count
from deploy.preprocess import Image
from deploy.runtimes import default_threads
from deploy.switch import Switch

FRAMES = 30
Frames = dict[str | None, Image]


def zip_bytes(bundle: Bundle, paths: Iterable[str]) -> int:
    """Size of a ZIP file of these files of the bundle, and its manifest."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in (MANIFEST_FILE, *paths):
            archive.write(bundle.root / path, path)
    return len(stream.getvalue())


def sizes(bundle: Bundle) -> dict[str, Any]:
    """ZIP bytes of the base alone and with its domains, and what each domain adds to the folder."""
    listed = {entry.path: entry.bytes for entry in bundle.manifest.files}
    domains = bundle.manifest.domains
    packs = {path for domain in domains.values() for path in domain.files}
    base = zip_bytes(bundle, [path for path in listed if path not in packs])
    everything = zip_bytes(bundle, listed)
    return {
        "base_zip_bytes": base,
        "zip_bytes": everything,
        "ratio": everything / base,
        "added_bytes": {name: sum(listed[path] for path in domains[name].files) for name in domains},
    }


def switching(root: Path, frames: Frames, threads: int, rounds: int) -> dict[str, Any]:
    """First use of each domain (load and one frame), the median frame without and with a change before it."""
    with Switch(root, threads) as switch:
        first = {str(name or "base"): _ms(switch, name, frame) for name, frame in frames.items()}
        staying, changing = [], []
        for _ in range(rounds):
            for name, frame in frames.items():
                switch[name].segment(frame)
                staying.append([_ms(switch, name, frame) for _ in range(FRAMES)])
            turns = [[_ms(switch, name, frame) for name, frame in frames.items()] for _ in range(FRAMES)]
            changing += [list(times) for times in zip(*turns, strict=True)]
    same, other = (sum(map(statistics.median, part)) / len(part) for part in (staying, changing))
    return {
        "first_use_ms": first,
        "same_domain_ms": same,
        "other_domain_ms": other,
        "change_ms": other - same,
    }


def _ms(switch: Switch, name: str | None, frame: Image) -> float:
    start = perf_counter_ns()
    switch[name].segment(frame)
    return (perf_counter_ns() - start) / 1e6


def main() -> None:
    """Measure a bundle and write the record."""
    parser = Parser(prog="python -m benchmarks.domains", description="bytes and changes of domain packs")
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", help="with domains")
    parser.add_argument("--rounds", type=count, default=3, help="default: 3")
    parser.add_argument("--threads", type=count, default=default_threads(), help="default: all cores")
    parser.add_argument("--json", metavar="FILE", default="-", help="where the result goes (default: stdout)")
    parser.set_defaults(seconds=0.0)
    args: argparse.Namespace = parser.parse_args()
    bundle, *packs = load_with_domains(args.bundle)
    if not packs:
        raise InputError(f"{args.bundle} has no domains", fix="python -m export build --domain NAME=RUN ...")
    frames = {each.domain: GoldenFrames(each).image(0) for each in (bundle, *packs)}
    found = {**sizes(bundle), **switching(args.bundle, frames, args.threads, args.rounds)}
    record.write("domains", args, {"bundle": bundle.manifest.name, **found})


if __name__ == "__main__":
    sys.exit(run_cli(main))
