"""One process that runs an IR with OpenVINO's counters: prints each primitive's mean time as JSON.

What a primitive is (its type, and the kernel that computed it) goes to a second file. Calls during the
warm-up do not count. Refuses to know what the primitives compute.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np

from benchmarks.child import TIMED_CALLS, WARM_UP_CALLS, WARM_UP_SHARE, repeat
from benchmarks.profiled import WHOLE, Profile, main


def profile(model: Path, source: Path, threads: int, seconds: float) -> Profile:
    """Milliseconds a call by primitive (`model_run`: the whole call), and the primitives' description."""
    import openvino

    config = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": threads,
        "PERF_COUNT": True,
    }
    request = openvino.Core().compile_model(model, "CPU", config).create_infer_request()
    inputs = dict(np.load(source))
    times: dict[str, float] = defaultdict(float)
    nodes: dict[str, Any] = {}
    whole: list[float] = []

    def call() -> None:
        start = perf_counter_ns()
        request.infer(inputs, share_inputs=True)
        whole.append((perf_counter_ns() - start) / 1e6)
        for info in request.profiling_info:
            times[info.node_name] += info.real_time.total_seconds() * 1e3
            nodes[info.node_name] = {"op": f"{info.node_type} {info.exec_type}"}

    repeat(call, seconds * WARM_UP_SHARE, WARM_UP_CALLS)
    times.clear()
    whole.clear()
    repeat(call, seconds, TIMED_CALLS)
    means = {name: total / len(whole) for name, total in times.items()}
    return {**means, WHOLE: sum(whole) / len(whole)}, nodes


if __name__ == "__main__":
    main(profile)
