"""`bench BUNDLE`: speed, memory and accuracy of a bundle on this machine, as text and as one JSON file.

Refuses to know how they are measured (`deploy/harness.py`).
"""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import TYPE_CHECKING

from deploy.files import write_json
from deploy.options import add_bundle, add_data, add_json, count

if TYPE_CHECKING:
    from deploy.measurement import Measurement


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `bench`."""
    add_bundle(parser)
    add_data(parser)
    parser.add_argument(
        "--frames", type=count, default=100, metavar="N", help="time at least N (default: 100)"
    )
    parser.add_argument(
        "--warmup", type=count, default=10, metavar="N", help="frames dropped first (default: 10)"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Measure, print a summary and write the file."""
    import cv2

    from deploy.bundle import load_bundle
    from deploy.harness import measure
    from deploy.measurement import measurement_to_json

    if args.threads:
        cv2.setNumThreads(args.threads)  # OpenCV has threads of its own
    command = shlex.join(["python", "-m", "deploy", *sys.argv[1:]])
    command = command.encode("utf-8", "backslashreplace").decode()  # a path may hold any bytes
    measurement = measure(
        load_bundle(args.bundle), args.threads, args.data, args.split, args.frames, args.warmup, command
    )
    if args.json:
        write_json(args.json, measurement_to_json(measurement))
    if args.json != "-":
        print(summary(measurement))
    return 0


def summary(measurement: Measurement) -> str:
    """A few lines for a reader."""
    latency, stages = measurement.latency_ms, measurement.stages_ms
    miou = measurement.accuracy_reason if measurement.miou is None else f"{measurement.miou:.4f}"
    memory = measurement.peak_memory_bytes
    lines = [
        ("bundle", f"{measurement.name} ({measurement.proof})"),
        ("mIoU", f"{miou}" + (f" on {measurement.images} images" if measurement.images else "")),
        ("latency", f"p50 {latency.p50:.2f}  p90 {latency.p90:.2f}  p99 {latency.p99:.2f} ms"),
        ("stages", f"{stages.preprocess:.2f} + {stages.inference:.2f} + {stages.postprocess:.2f} ms"),
        ("throughput", f"{measurement.throughput_fps:.1f} frames/s, {measurement.threads} threads"),
        ("peak memory", f"{memory / 1e6:.0f} MB" if memory else f"{measurement.peak_memory_reason}"),
    ]
    return "\n".join(f"{name:<12} {text}" for name, text in lines)
