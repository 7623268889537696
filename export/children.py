"""Builds in processes of their own, started as the command that a user would type.

Refuses to know what they print, but for the error that ends them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from deploy.child import ChildFailed, call
from deploy.runtimes import default_threads


def build(args: argparse.Namespace, out: Path) -> str | None:
    """`export build` as `args` say, into `out`, on its share of cores; returns the error's line, or None."""
    command = ["export", "build", "--target", args.target, "--precision", args.precision, "--out", str(out)]
    command += ["--final", args.final, "--split", args.split]
    for option in ("checkpoint", "onnx", "labels", "data", "calibration"):
        value = getattr(args, option)
        command += [f"--{option}", str(value)] if value else []
    for option in ("mean", "std"):  # one word: a value may begin with a minus
        command.append(f"--{option}={','.join(map(str, getattr(args, option)))}")
    command += ["--eval", str(args.eval)] if args.eval else []
    command += ["--size", "{}x{}".format(*args.size)] if args.size else []
    command += ["--force"] if args.force else []
    try:
        call(*command, threads=max(1, default_threads() // args.jobs))
    except ChildFailed as error:
        return str(error)
    return None
