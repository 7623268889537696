"""`python -m benchmarks.int8_operators FP32 INT8 [FP32 INT8 ...]`: why int8 is, or is not, faster here.

Pairs of bundles of one network under their runtime's own profiler, in processes that take turns: time by type
of operator, in float and in int8. The convolutions' share in fp32 says what int8 could win at most, the
conversions that appear beside them what it costs. For runtimes with a profiler in their Python packages.
Refuses to know how the bundles were made.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks import record
from benchmarks.profiled import WHOLE
from benchmarks.rounds import Effort, Figures, alternate, medians
from deploy.bundle import Bundle, load_bundle
from deploy.errors import InputError, run_cli
from deploy.frames import GoldenFrames
from deploy.options import Parser, count
from deploy.preprocess import prepare_input
from deploy.runtimes import default_threads

ROUNDS, SECONDS = 5, 2.0
PROFILERS = {  # runtime -> module here, its model's file
    "onnxruntime": ("profiled", ".onnx"),
    "openvino": ("profiled_openvino", ".xml"),
    "executorch": ("profiled_executorch", ".pte"),
}


def command(bundle: Bundle, folder: Path, effort: Effort) -> list[str]:
    """Of one profiled process; its input and the description of the nodes are kept in `folder`."""
    manifest = bundle.manifest
    frame = prepare_input(GoldenFrames(bundle).image(0), manifest.preprocess, manifest.inputs[0])
    source = folder / "input.npz"
    np.savez(source, **{manifest.inputs[0].name: frame})
    runtime = manifest.target.runtime
    if runtime not in PROFILERS:
        known = ", ".join(PROFILERS)
        raise InputError(f"{bundle.root}: {runtime}", expected=f"{known}: others show no operators")
    module, ending = PROFILERS[runtime]
    words = [f"benchmarks.{module}", str(bundle.model_file(ending))]
    details = ["--nodes", str(folder / "nodes.json")]
    return [sys.executable, "-m", *words, str(source), *effort.words(), *details]


def by_type(times: Figures, nodes: dict[str, Any]) -> Figures:
    """Milliseconds a call by operator type, slowest first."""
    found: Figures = {}
    for name, ms in times.items():
        if name != WHOLE:
            found[nodes[name]["op"]] = found.get(nodes[name]["op"], 0.0) + ms
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def profiled(bundle: Bundle, folder: Path, rounds: list[Figures]) -> dict[str, Any]:
    """One bundle's figures from those of its rounds."""
    times, nodes = medians(rounds), json.loads((folder / "nodes.json").read_text())
    return {
        "bundle": bundle.manifest.name,
        "precision": bundle.manifest.target.precision,
        "ms": times[WHOLE],
        "operators": by_type(times, nodes),
    }


def pair(paths: list[Path], effort: Effort) -> dict[str, Any]:
    """Both bundles in turns."""
    bundles = dict(zip(("float", "int8"), map(load_bundle, paths), strict=True))
    with TemporaryDirectory(prefix="edgeseg-") as scratch:
        folders = {side: Path(scratch, side) for side in bundles}
        for folder in folders.values():
            folder.mkdir()
        commands = {side: command(bundle, folders[side], effort) for side, bundle in bundles.items()}
        taken = alternate(commands, effort.rounds)
        sides = {side: profiled(bundle, folders[side], taken[side]) for side, bundle in bundles.items()}
    return {"target": bundles["float"].manifest.target.runtime, **sides}


def main() -> int:
    """Profile every pair and write the record."""
    parser = Parser(prog="python -m benchmarks.int8_operators", description="time by operator, fp32 and int8")
    parser.add_argument("bundles", type=Path, nargs="+", metavar="BUNDLE", help="pairs: fp32, then int8")
    parser.add_argument("--rounds", type=count, default=ROUNDS, help=f"default: {ROUNDS}")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"of each process ({SECONDS:g})")
    parser.add_argument("--threads", type=count, default=default_threads(), help="default: all cores")
    parser.add_argument("--json", metavar="FILE", default="-", help="where the result goes (default: stdout)")
    args: argparse.Namespace = parser.parse_args()
    if len(args.bundles) % 2:
        raise InputError("BUNDLE", got=len(args.bundles), expected="pairs: fp32, then int8")
    pairs = [args.bundles[index : index + 2] for index in range(0, len(args.bundles), 2)]
    cases = [pair(paths, record.effort_of(args)) for paths in pairs]
    record.write("int8_operators", args, {"cases": cases})
    return 0


if __name__ == "__main__":
    sys.exit(run_cli(main))
