"""`demo BUNDLE... --source 0|VIDEO|FOLDER|rtsp://...`: this machine's camera or files through a bundle.

A window where OpenCV has a GUI, else a page on loopback. Refuses CT bundles: their slices are no pictures
(`run` and `serve` take them).
"""

from __future__ import annotations

import argparse
import statistics
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from deploy.errors import InputError, raise_all
from deploy.files import require_another_file
from deploy.options import output_file, port, share, thread_count

if TYPE_CHECKING:
    from deploy.bundle import Bundle
    from deploy.live.player import Shown
    from deploy.live.sources import Source


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `demo`."""
    parser.add_argument("bundles", type=Path, nargs="+", metavar="BUNDLE", help="folders of bundles")
    parser.add_argument(
        "--source", required=True, metavar="WHAT",
        help="a camera's number, a video, a folder of images, rtsp://..., or a GStreamer pipeline",
    )  # fmt: skip
    parser.add_argument("--record", type=output_file, metavar="FILE", help="also write what is shown (.mp4)")
    parser.add_argument(
        "--view", choices=("auto", "window", "browser", "none"), default="auto", help="default: auto"
    )
    parser.add_argument("--port", type=port, default=8701, metavar="N", help="of the browser's view")
    parser.add_argument("--threads", type=thread_count, metavar="N", help="CPU threads (default: all cores)")
    parser.add_argument("--opacity", type=share, default=0.5, metavar="X", help="default: 0.5")


def run(args: argparse.Namespace) -> int:
    """Play until the source ends, q or Ctrl-C; then say what went by, and what went wrong.

    Raises:
        InputError: a source, a bundle or a view that cannot be had, or is no more; images that were skipped.
    """
    from deploy.live.display import open_display
    from deploy.live.player import Player
    from deploy.live.recorder import Recorder
    from deploy.live.sources import open_source

    if args.record:
        require_another_file(args.record, args.source)
    bundles = load(args.bundles)
    with ExitStack() as stack:
        source = stack.enter_context(open_source(args.source))
        player = stack.enter_context(Player(bundles, args.threads, args.opacity))
        display = stack.enter_context(open_display(args.view, args.port))
        record = stack.enter_context(Recorder(Path(args.record), source)).take if args.record else None
        shown = player.play(source, display, record)
    errors = [*source.failures, *([shown.error] if shown.error else [])]
    if not shown.frames and not errors:
        raise InputError(f"{args.source} gave no frame that can be decoded")
    if shown.frames:
        _tell(shown, source)
    raise_all(errors)
    return 0


def _tell(shown: Shown, source: Source) -> None:
    lost = f", {source.dropped} dropped" if source.live else ""
    p50 = statistics.median(shown.total_ms)
    print(f"{shown.frames} frames{lost}, {shown.frames / shown.seconds:.1f} frames/s, p50 {p50:.1f} ms")


def load(folders: list[Path]) -> list[Bundle]:
    """The bundles, checked, each followed by its domains; a domain for CT is left out.

    Raises:
        InputError: a damaged one, or one for CT.
    """
    from deploy.bundle import load_with_domains

    found = []
    for folder in folders:
        base, *packs = load_with_domains(folder)
        if base.manifest.preprocess.hu_window:
            fix = "use run for volumes, or serve for slices"
            raise InputError(f"{folder} is for CT", expected="a bundle for pictures", fix=fix)
        for pack in packs:
            if pack.manifest.preprocess.hu_window:
                print(f"{folder}: domain {pack.domain} is for CT, and left out")
        found += [base, *(pack for pack in packs if not pack.manifest.preprocess.hu_window)]
    return found
