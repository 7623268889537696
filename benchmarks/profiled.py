"""One process that runs a graph under ONNX Runtime's profiler: prints each node's mean time as JSON.

What a node is (operator, shapes) goes to a second file, as the profile has it. Calls during the warm-up do
not count. Refuses to know what the nodes compute.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.child import TIMED_CALLS, WARM_UP_CALLS, WARM_UP_SHARE, open_graph, repeat

WHOLE = "model_run"
_KERNEL = "_kernel_time"
Profile = tuple[dict[str, float], dict[str, Any]]
Profiler = Callable[[Path, Path, int, float], Profile]  # model, source, threads, seconds


def profile(model: Path, source: Path, threads: int, seconds: float) -> Profile:
    """Milliseconds a call by node name (`model_run`: the whole call), and the nodes' description."""
    with TemporaryDirectory(prefix="edgeseg-") as folder:
        session, inputs = open_graph(model, threads, Path(folder, "profile")), dict(np.load(source))
        warm = len(repeat(lambda: session.run(None, inputs), seconds * WARM_UP_SHARE, WARM_UP_CALLS))
        repeat(lambda: session.run(None, inputs), seconds, TIMED_CALLS)
        return summed(json.loads(Path(session.end_profiling()).read_text()), warm)


def summed(events: list[dict[str, Any]], warm: int) -> Profile:
    """The profile's events without the first `warm` calls: name -> mean ms, name -> operator and shapes."""
    runs = sorted((event for event in events if event["name"] == WHOLE), key=lambda event: event["ts"])[warm:]
    kernels = [event for event in events if event["name"].endswith(_KERNEL) and event["ts"] >= runs[0]["ts"]]
    times: dict[str, float] = defaultdict(float)
    nodes = {}
    for event in kernels:
        name = event["name"].removesuffix(_KERNEL)
        times[name] += event["dur"] / 1e3 / len(runs)
        nodes[name] = {"op": event["args"]["op_name"], "inputs": _shapes(event, "input_type_shape")}
        nodes[name]["outputs"] = _shapes(event, "output_type_shape")
    return {**times, WHOLE: sum(run["dur"] for run in runs) / 1e3 / len(runs)}, nodes


def _shapes(event: dict[str, Any], key: str) -> list[list[int]]:
    return [shape for entry in event["args"].get(key, []) for shape in entry.values()]


def main(profiler: Profiler = profile) -> None:
    """Profile, print, describe; for every runtime's profiler."""
    parser = argparse.ArgumentParser(description="one profiled process")
    parser.add_argument("model", type=Path)
    parser.add_argument("source", type=Path)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True, help="of timed calls")
    parser.add_argument("--nodes", type=Path, required=True, metavar="JSON", help="description of the nodes")
    args = parser.parse_args()
    times, nodes = profiler(args.model, args.source, args.threads, args.seconds)
    args.nodes.write_text(json.dumps(nodes))
    print(json.dumps(times))


if __name__ == "__main__":
    main()
