"""`bench BUNDLE`: speed, memory and accuracy of a bundle on this machine, as text and as one JSON file.

Several bundles are measured in turns, each round in fresh processes, and compared (`deploy/turns.py`).
An ONNX file in the bundle's place is timed only (`deploy/brought.py`).
Refuses to know how they are measured (`deploy/harness.py`).
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from deploy.errors import InputError
from deploy.files import write_json
from deploy.options import add_bundle, add_data, add_device, add_json, count, duration

if TYPE_CHECKING:
    from deploy.measurement import Measurement

ROUNDS = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `bench`."""
    add_bundle(parser)
    parser.add_argument(
        "rivals", type=Path, nargs="*", metavar="BUNDLE", help="more of them: measured in turns and compared"
    )
    parser.add_argument("--rounds", type=count, metavar="N", help=f"of several bundles (default: {ROUNDS})")
    add_data(parser)
    parser.add_argument(
        "--frames", type=count, default=100, metavar="N", help="time at least N (default: 100)"
    )
    parser.add_argument(
        "--warmup", type=count, default=10, metavar="N", help="frames dropped first (default: 10)"
    )
    parser.add_argument(
        "--offline", action="store_true", help="also throughput with all frames there at once, by threads"
    )
    parser.add_argument(
        "--sustained", type=duration, metavar="TIME", help="also a steady load of so long (10m), as a curve"
    )
    parser.add_argument(
        "--provider", metavar="NAME", help="of ONNX Runtime: cpu, cuda, tensorrt, coreml, ..."
    )
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="also write to DIR, named by the content's hash"
    )
    add_device(parser)
    parser.add_argument("--attach", metavar="ID", help="take up a run whose connection broke")
    parser.add_argument("--leave", action="store_true", help="leave the files there for the next run")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Measure, print a summary and write the file; exit status 130 where Ctrl-C ended it early.

    Raises:
        InputError: what cannot be measured; of several devices, after the others' results are written.
    """
    if args.rivals or args.rounds:
        return _compare(args)
    if not args.device and args.attach:
        raise InputError("--attach", got="no device", expected="--device URI")
    if args.json and len(args.device or ()) > 1:
        raise InputError("--json", got=f"{len(args.device)} devices", expected="--keep DIR")
    if not args.device:
        measurement = _measure_here(args)
        _deliver(measurement, args)
        return 130 if measurement.interrupted else 0

    from deploy.remote.bench import measure_on

    found, errors = measure_on(args)
    for measurement in found.values():
        _deliver(measurement, args)
    for error in errors[1:]:
        print(f"error: {error}", file=sys.stderr)
    if errors:
        raise errors[0]
    return 0


def _compare(args: argparse.Namespace) -> int:
    """Several bundles in turns; each one's median round is kept.

    Raises:
        InputError: options for one bundle alone, or a bundle that cannot be measured.
    """
    from deploy.measurement import keep_measurement
    from deploy.turns import compared, middle, take_turns

    for option in ("device", "json", "sustained", "offline", "domain"):
        if getattr(args, option):
            fix = "--keep DIR writes a file for each" if option == "json" else None
            raise InputError(f"--{option} with several bundles or --rounds", fix=fix)
    words = ["--frames", str(args.frames), "--warmup", str(args.warmup), "--split", args.split]
    words += [
        word
        for name in ("threads", "data", "provider")
        if (value := getattr(args, name))
        for word in (f"--{name}", str(value))
    ]
    found = take_turns([args.bundle, *args.rivals], words, args.rounds or ROUNDS)
    print("\n".join(compared(found)), flush=True)
    for rounds in found.values() if args.keep else ():
        print(f"kept         {keep_measurement(args.keep, middle(rounds))}", file=sys.stderr)
    return 0


def _measure_here(args: argparse.Namespace) -> Measurement:
    import cv2

    from deploy.brought import LATENCY_ONLY, is_brought, opened
    from deploy.harness import measure
    from deploy.measurement import LONGEST_TEXT
    from deploy.provider import with_provider

    if args.data and is_brought(args.bundle):
        raise InputError(
            "--data", got=f"a model of your own, {args.bundle}", expected="a bundle", fix=LATENCY_ONLY
        )
    if args.threads:
        cv2.setNumThreads(args.threads)  # OpenCV has threads of its own
    command = shlex.join(["python", "-m", "deploy", *sys.argv[1:]])
    command = command.encode("utf-8", "backslashreplace").decode()[:LONGEST_TEXT]  # a path may hold any bytes
    with opened(args.bundle, args.domain) as bundle:
        measurement = measure(
            with_provider(bundle, args.provider),
            args.threads, args.data, args.split, args.frames, args.warmup, command,
            args.offline, args.sustained,
        )  # fmt: skip
    if is_brought(args.bundle):
        measurement = replace(measurement, brought=True, accuracy_reason=LATENCY_ONLY)
    return measurement


def _deliver(measurement: Measurement, args: argparse.Namespace) -> None:
    from deploy.measurement import keep_measurement, measurement_to_json

    if args.json != "-":
        print(summary(measurement), flush=True)  # first: a file that cannot be written loses no figure
    if args.json:
        write_json(args.json, measurement_to_json(measurement))
    if args.keep:
        print(f"kept         {keep_measurement(args.keep, measurement)}", file=sys.stderr)


def summary(measurement: Measurement) -> str:
    """A few lines for a reader."""
    return "\n".join(f"{name:<12} {text}" for name, text in (*_main(measurement), *_extras(measurement)))


def _main(m: Measurement) -> Iterator[tuple[str, str]]:
    from deploy.metrics import mean_dice

    latency, stages, memory = m.latency_ms, m.stages_ms, m.peak_memory_bytes
    miou = m.accuracy_reason if m.miou is None else f"{m.miou:.4f}"
    yield (
        "bundle",
        f"{m.name} ({m.proof}) on {m.machine.board or m.machine.cpu_model or m.machine.architecture}",
    )
    yield "mIoU", f"{miou}" + (f" on {m.images} images" if m.images else "")
    if m.dice:
        yield "Dice", _dice(m.dice)
    if m.volume_dice:
        yield (
            "",
            f"{_dice(mean_dice(m.volume_dice, tuple(m.dice or ())))}, mean of {len(m.volume_dice)} volumes",
        )
    yield "latency", f"p50 {latency.p50:.2f}  p90 {latency.p90:.2f}  p99 {latency.p99:.2f} ms"
    yield "stages", f"{stages.preprocess:.2f} + {stages.inference:.2f} + {stages.postprocess:.2f} ms"
    yield "throughput", f"{m.throughput_fps:.1f} frames/s, {m.threads} threads"
    yield "peak memory", f"{memory / 1e6:.0f} MB" if memory else f"{m.peak_memory_reason}"


def _dice(scores: Mapping[str, float | None]) -> str:
    return ", ".join(f"{name} {'-' if value is None else f'{value:.4f}'}" for name, value in scores.items())


def _extras(m: Measurement) -> Iterator[tuple[str, str]]:
    if m.startup:
        yield "start", f"load {m.startup.load_ms:.0f} ms, first frame {m.startup.first_ms:.1f} ms"
    if m.noise:
        yield "machine", f"noisy: {'; '.join(m.noise.why)}" if m.noise.noisy else "quiet"
    for row in m.offline or ():
        yield "offline", f"{row.throughput_fps:.1f} frames/s by {row.streams} x {row.threads} threads"
    if curve := m.sustained:
        change = 100 * (curve.last_ms / curve.first_ms - 1)
        text = f"{curve.first_ms:.2f} -> {curve.last_ms:.2f} ms ({change:+.1f} %)"
        yield "sustained", f"{curve.verdict} over {curve.duration_s:.0f} s: {text}"
    if m.interrupted:
        yield "stopped", f"by hand, after {m.frames} frames"
