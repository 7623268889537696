"""Peak memory of a fresh process that loads a bundle and segments a few frames.

`peak_memory` starts the child (`python -m deploy _memory`), so that nothing the caller holds is counted; the
child reports its peak resident set: VmHWM on Linux (ru_maxrss there inherits the parent's peak across exec),
ru_maxrss elsewhere.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

from deploy.bundle import Bundle, load_bundle
from deploy.child import ChildFailed, call
from deploy.frames import open_frames
from deploy.options import add_bundle, add_data
from deploy.segmenter import Segmenter

FRAMES = 8
_TIMEOUT_S = 600


def peak_memory(bundle: Bundle, threads: int, data: Path | None, split: str) -> tuple[int | None, str | None]:
    """(bytes, None), or (None, why it could not be measured)."""
    words = ["deploy", "_memory", str(bundle.root), "--threads", str(threads)]
    words += ["--data", str(data), "--split", split] if data else []
    words += ["--domain", bundle.domain] if bundle.domain else []
    words += ["--options", json.dumps(bundle.manifest.target.options)]
    try:
        return int(json.loads(call(*words, timeout_s=_TIMEOUT_S))["peak_memory_bytes"]), None
    except (ChildFailed, OSError, ValueError, KeyError, TypeError) as error:  # or it printed something else
        return None, f"the child process failed: {error}"[:500]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the child process."""
    add_bundle(parser)
    add_data(parser)
    parser.add_argument("--options", type=json.loads, help="the target's options, as JSON")


def run(args: argparse.Namespace) -> int:
    """The child: segment up to `FRAMES` frames, then print this process's peak memory as JSON."""
    bundle = load_bundle(args.bundle, check_files=False, domain=args.domain)
    if args.options is not None:
        target = replace(bundle.manifest.target, options=args.options)
        bundle = replace(bundle, manifest=replace(bundle.manifest, target=target))
    frames = open_frames(bundle, args.data, args.split)
    with Segmenter(bundle, args.threads) as segmenter:
        for index in range(min(FRAMES, len(frames))):
            segmenter.segment(frames.image(index))
    print(json.dumps({"peak_memory_bytes": own_peak_bytes()}))
    return 0


def own_peak_bytes() -> int:
    """Peak resident set of this process."""
    status = Path("/proc/self/status")
    if status.is_file():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    import resource  # POSIX only

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
