"""One process that runs a .pte with ExecuTorch's event tracer: prints each operator's mean time as JSON.

XNNPACK tells its own operators apart; what was not delegated to it has the portable kernel's name. Calls
during the warm-up do not count. Refuses to know what the operators compute.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.child import TIMED_CALLS, WARM_UP_CALLS, WARM_UP_SHARE, repeat
from benchmarks.profiled import WHOLE, Profile, main

_EXECUTE = "Method::execute"
_NATIVE = "native_call_"
_AROUND = ("DELEGATE_CALL", "OPERATOR_CALL")  # hold others' time


def profile(model: Path, source: Path, threads: int, seconds: float) -> Profile:
    """Milliseconds a call by operator (`model_run`: the whole call), and the operators' type."""
    import torch
    from executorch.devtools import Inspector
    from executorch.extension.pybindings import portable_lib

    portable_lib._unsafe_reset_threadpool(threads)
    program = portable_lib._load_for_executorch(str(model), enable_etdump=True)
    inputs = [torch.from_numpy(value) for value in np.load(source).values()]
    warm = len(repeat(lambda: program.forward(inputs), seconds * WARM_UP_SHARE, WARM_UP_CALLS))
    repeat(lambda: program.forward(inputs), seconds, TIMED_CALLS)
    times: dict[str, float] = {}
    nodes: dict[str, Any] = {}
    with TemporaryDirectory(prefix="edgeseg-") as folder:
        dump = str(Path(folder, "etdump"))
        program.write_etdump_result_to_file(dump)
        for number, (name, ms) in enumerate(_events(Inspector(dump), warm)):
            if name == _EXECUTE:
                times[WHOLE] = ms
            elif name not in _AROUND:
                times[str(number)] = ms
                nodes[str(number)] = {"op": name.removeprefix(_NATIVE).split(" #")[0]}
    return times, nodes


def _events(inspector: Any, warm: int) -> Iterator[tuple[str, float]]:
    """Name and mean milliseconds of all that was traced in each call, without the first `warm` calls."""
    for block in inspector.event_blocks:
        for event in block.events:
            if event.perf_data is not None and len(event.perf_data.raw) > warm:
                yield event.name, statistics.fmean(event.perf_data.raw[warm:])


if __name__ == "__main__":
    main(profile)
