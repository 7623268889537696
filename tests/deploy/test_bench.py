"""bench as a user meets it: Ctrl-C, offline and sustained figures, providers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from deploy import bench
from deploy.bundle import Bundle
from deploy.errors import InputError
from deploy.frames import GoldenFrames
from deploy.measurement import read_measurement
from deploy.offline import offline
from deploy.options import Parser
from deploy.provider import with_provider

ROOT = Path(__file__).resolve().parents[2]


def _bench(*arguments: object) -> int:
    parser = Parser()
    bench.add_arguments(parser)
    return bench.run(parser.parse_args([str(argument) for argument in arguments]))


@pytest.mark.parametrize("options", [["--frames", "100000"], ["--frames", "1", "--sustained", "1h"]])
def test_ctrl_c_writes_what_there_is(tiny_bundle: Bundle, tmp_path: Path, options: list[str]) -> None:
    """A real process, a real SIGINT in the middle of its frames."""
    out = tmp_path / "r.json"
    command = [sys.executable, "-m", "deploy", "bench", str(tiny_bundle.root), "--json", str(out), *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "EDGESEG_PROGRESS": "1", "OMP_NUM_THREADS": "1"}
    listen = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # tests in the background ignore it
    with subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=listen,
    ) as process:
        assert process.stderr is not None
        phase = "sustained " if "--sustained" in options else "bench "
        for line in process.stderr:
            if line.startswith(phase):
                break
        process.send_signal(signal.SIGINT)
        printed, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in errors and "stopped" in printed
    m = read_measurement(out)
    assert m.interrupted and m.frames > 0 and m.latency_ms.p50 > 0
    assert m.peak_memory_bytes is None and m.peak_memory_reason == "interrupted"
    assert (m.sustained is not None and len(m.sustained.points) > 0) == ("--sustained" in options)


def test_all_figures_in_one_file(tiny_bundle: Bundle, tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "r.json"
    options = ["--frames", 40, "--threads", 2, "--offline", "--sustained", "1s", "--provider", "cpu"]
    assert _bench(tiny_bundle.root, *options, "--json", out) == 0
    m = read_measurement(out)
    assert m.startup and m.startup.load_ms > 0 and m.startup.first_ms > 0
    assert m.jitter_ms is not None and m.overhead is not None and m.noise is not None
    assert [(row.streams, row.threads) for row in m.offline or ()] == [(1, 2), (2, 1)]
    assert m.sustained and len(m.sustained.points) >= 3 and m.options["providers"] == "CPUExecutionProvider"
    printed = capsys.readouterr().out
    for words in ("load ", "first frame", "offline", "2 x 1 threads", "sustained", "machine"):
        assert words in printed
    assert json.loads(out.read_text())["schema_version"] == 2


def test_offline_counts_every_frame_once(make_bundle: Any) -> None:
    bundle = make_bundle("logits")
    rows = list(offline(bundle, GoldenFrames(bundle), threads=4, frames=10))
    assert [(r.streams, r.threads, r.batch, r.frames) for r in rows] == [
        (1, 4, 1, 10), (2, 2, 1, 10), (4, 1, 1, 12),
    ]  # fmt: skip
    assert all(row.throughput_fps > 0 for row in rows)


def test_providers(tiny_bundle: Bundle, make_bundle: Any, tmp_path: Path) -> None:
    assert with_provider(tiny_bundle, None) is tiny_bundle
    chosen = with_provider(tiny_bundle, "cuda").manifest.target.options["providers"]
    assert chosen == "CUDAExecutionProvider,CPUExecutionProvider"
    with pytest.raises(InputError, match=r"--provider \| got tpu \| expected cpu, cuda"):
        with_provider(tiny_bundle, "tpu")
    with pytest.raises(InputError, match=r"execution provider \| got NnapiExecutionProvider"):
        _bench(tiny_bundle.root, "--provider", "nnapi", "--frames", 1)
