"""`python -m export build`: a checkpoint becomes a bundle for a target, proven before it is written.

A bundle whose inputs (checkpoint, arguments, pictures, tool versions) are unchanged is left as it is. Refuses
to know how: it reads the arguments, finds what they name, and prints the result.
"""

from __future__ import annotations

import argparse
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from deploy.options import add_json, count, parse_size
from export.targets import ask, find

if TYPE_CHECKING:
    from export.pictures import Pictures
    from export.source import Source

BUNDLES = Path("bundles")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m export build`."""
    parser.add_argument("--checkpoint", required=True, metavar="RUN", help="a run, a zoo name, or a file")
    parser.add_argument("--target", required=True, help="see `python -m export list`")
    parser.add_argument("--precision", default="fp32", help="one of the target's (default fp32)")
    parser.add_argument(
        "--size", type=parse_size, metavar="HxW", help="input size, height first (default: the training's)"
    )
    parser.add_argument(
        "--input",
        help="uint8: RGB frame [1,H,W,3]; float: normalised [1,3,H,W] (default: the target's first)",
    )
    parser.add_argument(
        "--output", help="labels: uint8 [1,H,W]; logits: the head's, stride 8 (default: the target's first)"
    )
    parser.add_argument("--batch", type=count, default=1, metavar="N", help="frames a call (default 1)")
    parser.add_argument("--dynamic", action="store_true", help="any number of frames a call")
    parser.add_argument("--final", default="bicubic", help="last upsampling: bicubic or bilinear")
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="labelled folder to compare on, 32 images of it"
    )
    parser.add_argument(
        "--calibration", type=Path, metavar="FILE", help="images for int8 (default runs/RUN/calibration.json)"
    )
    parser.add_argument("--split", default="val", help="of --data (default val)")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="the bundle's folder (default below bundles/)"
    )
    parser.add_argument("--force", action="store_true", help="build again even if nothing changed")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Build the bundle, or find it unchanged, and print what is known about it."""
    from deploy.bundle import require_replaceable
    from deploy.files import write_json
    from deploy.manifest import manifest_to_json
    from export import record, summary
    from export.assemble import assemble
    from export.calibration_images import find_calibration
    from export.order import Order
    from export.source import read_source

    target = find(args.target, args.precision)
    shape = ask(target, args.input, args.output, args.batch, args.dynamic)
    source = read_source(args.checkpoint, args.size)
    calibration = None
    if args.precision in target.SUPPORT.calibrated:
        calibration = find_calibration(args.calibration, args.data, source, args.precision)
    out = args.out or BUNDLES / default_name(args, source)
    require_replaceable(out)
    with _pictures(args, source) as pictures:
        order = Order(source, target, args.precision, shape, args.final, pictures, calibration)
        stage = record.stage_of(order)
        bundle, how = (None, "built") if args.force else record.look_up(out, stage)
        bundle = bundle or assemble(order, stage, out)
    if args.json:
        write_json(args.json, {"bundle": str(out), "how": how, **manifest_to_json(bundle.manifest)})
    if args.json != "-":
        summary.show(bundle, pictures.source, how)
    return 0


def default_name(args: argparse.Namespace, source: Source) -> str:
    """`<run>-<target>-<precision>-<HxW>`."""
    height, width = source.preprocess.size
    return f"{source.name}-{args.target}-{args.precision}-{height}x{width}"


def _pictures(args: argparse.Namespace, source: Source) -> AbstractContextManager[Pictures]:
    """What to compare on: --data, else the run's own images, else drawn scenes."""
    from export import pictures
    from pipeline.models.checkpoints import checkpoint_samples

    if args.data:
        return nullcontext(pictures.from_data(args.data, args.split, source.meta, source.preprocess))
    samples = checkpoint_samples(source.path)
    return nullcontext(pictures.from_run(samples, source.dataset)) if samples else pictures.drawn()
