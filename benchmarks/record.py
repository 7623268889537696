"""What every benchmark's JSON says about its making: command, machine, versions, threads, rounds, time.

Refuses to know the figures. Also the arguments that the benchmarks share.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any

from benchmarks.rounds import Effort
from deploy.device import this_machine
from deploy.files import write_json
from deploy.options import count, parse_size
from deploy.preprocess import Size
from deploy.runtimes import default_threads
from export.package import tool_versions
from export.targets import onnxruntime

SCHEMA_VERSION = 1


def arguments(name: str, text: str, sizes: tuple[Size, ...], rounds: int) -> argparse.ArgumentParser:
    """--size (repeatable), --rounds, --seconds, --threads, --json."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=text)
    shown = ", ".join(f"{height}x{width}" for height, width in sizes)
    parser.add_argument(
        "--size", type=parse_size, action="append", metavar="HxW", help=f"repeatable (default: {shown})"
    )
    parser.add_argument("--rounds", type=count, default=rounds, help=f"default: {rounds}")
    parser.add_argument("--seconds", type=float, default=1.0, help="timed in each process (default: 1)")
    parser.add_argument("--threads", type=count, default=default_threads(), help="default: all cores")
    parser.add_argument("--json", required=True, metavar="FILE", help="where the result goes (- for stdout)")
    return parser


def effort_of(args: argparse.Namespace) -> Effort:
    """What the arguments say about rounds, seconds and threads."""
    return Effort(args.rounds, args.seconds, args.threads)


def write(name: str, args: argparse.Namespace, figures: dict[str, Any]) -> None:
    """Write the figures with all that a reader needs to judge and to repeat them."""
    record = {
        "schema_version": SCHEMA_VERSION,
        "benchmark": name,
        "command": shlex.join(["python", "-m", f"benchmarks.{name}", *sys.argv[1:]]),
        "timestamp": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": asdict(this_machine()),
        "versions": tool_versions(onnxruntime.TOOLS),
        **asdict(effort_of(args)),
        **figures,
    }
    write_json(args.json, record)
