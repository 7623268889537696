"""`python -m export build`: a checkpoint becomes a bundle for a target, proven before it is written.

A bundle whose inputs (checkpoint, arguments, pictures, tool versions) are unchanged is left as it is. Refuses
to know how: it reads the arguments, finds what they name, and prints the result.
"""

from __future__ import annotations

import argparse
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from deploy.errors import InputError
from deploy.manifest import IMAGENET_MEAN, IMAGENET_STD
from deploy.options import add_json, count, parse_size
from export.targets import Shape, Target, ask, entries, find, require_plans

if TYPE_CHECKING:
    from export.given import GivenNetwork
    from export.order import Order
    from export.pictures import Pictures
    from export.precision_plan import PrecisionPlan
    from export.source import Source

BUNDLES = Path("bundles")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m export build`."""
    parser.add_argument("--target", required=True, help="see `python -m export list`")
    parser.add_argument("--precision", help="one of the target's (default fp32, or what --plan says)")
    parser.add_argument(
        "--plan", type=Path, metavar="FILE", help="precision by block, from `python -m calibration search`"
    )
    add_source(parser)
    for option, value, text in (
        ("--domain", "NAME=RUN", "a domain of the checkpoint, to be packed with it; repeatable"),
        ("--domain-data", "NAME=DIR", "labelled folder to compare a domain on; repeatable"),
    ):
        parser.add_argument(option, type=named, action="append", default=[], metavar=value, help=text)
    parser.add_argument(
        "--input",
        help="uint8: RGB frame [1,H,W,3]; float: normalised [1,3,H,W] (default: the target's first)",
    )
    parser.add_argument(
        "--output", help="labels: uint8 [1,H,W]; logits: the head's, stride 8 (default: the target's first)"
    )
    parser.add_argument("--batch", type=count, default=1, metavar="N", help="frames a call (default 1)")
    parser.add_argument("--dynamic", action="store_true", help="any number of frames a call")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="the bundle's folder (default below bundles/)"
    )
    add_json(parser)


def add_source(parser: argparse.ArgumentParser) -> None:
    """What is built, and what it is compared on, whatever the target."""
    network = parser.add_mutually_exclusive_group(required=True)
    network.add_argument("--checkpoint", metavar="RUN", help="a run, a zoo name, or a file")
    network.add_argument("--onnx", type=Path, metavar="FILE", help="somebody else's network instead")
    parser.add_argument("--labels", type=Path, metavar="FILE", help="its dataset.toml (classes, colours)")
    for option, value in (("--mean", IMAGENET_MEAN), ("--std", IMAGENET_STD)):
        text = f"of its float input, RGB, 0..1 (default {value}, ImageNet's)"
        parser.add_argument(option, type=triple, default=value, metavar="R,G,B", help=text)
    parser.add_argument(
        "--size", type=parse_size, metavar="HxW", help="input size, height first (default: the training's)"
    )
    parser.add_argument("--final", default="bicubic", help="last upsampling: bicubic or bilinear")
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="labelled folder to compare on, 32 images of it"
    )
    parser.add_argument("--split", default="val", help="of --data (default val)")
    parser.add_argument(
        "--calibration", type=Path, metavar="FILE", help="images for int8 (default runs/RUN/calibration.json)"
    )
    parser.add_argument(
        "--eval", type=count, default=0, metavar="N", help="pack N labelled images of --data, for measuring"
    )
    parser.add_argument("--force", action="store_true", help="build again even if nothing changed")


def named(text: str) -> tuple[str, str]:
    """argparse type: NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def triple(text: str) -> tuple[float, ...]:
    """argparse type: three numbers separated by commas."""
    try:
        values = tuple(map(float, text.split(",")))
    except ValueError:
        values = ()
    if len(values) != 3:
        raise argparse.ArgumentTypeError(f"{text!r} is not three numbers separated by commas")
    return values


def run(args: argparse.Namespace) -> int:
    """Build the bundle, or find it unchanged, and print what is known about it."""
    from deploy.bundle import require_replaceable
    from deploy.files import write_json
    from deploy.manifest import manifest_to_json
    from export import record, summary
    from export.assemble import assemble
    from export.domains import assemble_domains

    source, given = open_source(args)
    plan = find_plan(args, source)
    require_packs(args)
    out = args.out or BUNDLES / default_name(args, source)
    require_replaceable(out)
    with ExitStack() as stack:
        pictures = stack.enter_context(open_pictures(args, source))
        order = order_of(args, source, pictures, given, plan)
        domains = domain_orders(args, order, stack)
        stage = record.stage_of(order, domains)
        bundle, how = (None, "built") if args.force else record.look_up(out, stage)
        if bundle is None:
            bundle = assemble_domains(order, domains, stage, out) if domains else assemble(order, stage, out)
    if args.json:
        write_json(args.json, {"bundle": str(out), "how": how, **manifest_to_json(bundle.manifest)})
    if args.json != "-":
        summary.show(bundle, pictures.source, how)
    return 0


def open_source(args: argparse.Namespace) -> tuple[Source, GivenNetwork | None]:
    """What is to be exported: a checkpoint, or a network given as ONNX.

    Raises:
        InputError: it cannot be read, or --onnx without --labels.
    """
    from export.source import read_source

    if args.onnx is None:
        return read_source(args.checkpoint, args.size), None
    from export.given import read_given

    if args.labels is None:
        raise InputError("--onnx needs the names of its classes", fix="--labels dataset.toml")
    return read_given(args.onnx, args.labels, args.size, args.mean, args.std, args.final)


def order_of(
    args: argparse.Namespace,
    source: Source,
    pictures: Pictures,
    given: GivenNetwork | None,
    plan: PrecisionPlan | None = None,
) -> Order:
    """The order that a command line gives; a plan without a block in int8 is none.

    Raises:
        InputError: an unknown or unavailable target, an option it does not support, no calibration images.
    """
    from export.calibration_images import find_calibration
    from export.order import Order

    target = find(args.target, args.precision)
    if given is None:
        shape = ask(target, args.input, args.output, args.batch, args.dynamic)
    else:
        shape = ask_given(target, given, args)
    calibration = None
    if args.precision in target.SUPPORT.calibrated:
        calibration = find_calibration(args.calibration, args.data, source, args.precision)
    plan = plan if plan and plan.blocks else None
    return Order(
        source, target, args.precision, shape, args.final, pictures, calibration, given,
        labelled=args.eval, plan=plan,
    )  # fmt: skip


def find_plan(args: argparse.Namespace, source: Source) -> PrecisionPlan | None:
    """The plan that --plan names; it decides --precision, which is fp32 where neither is given.

    Raises:
        InputError: a target that takes none, a plan that is not for this build, or another --precision.
    """
    from export.precision_plan import load_plan, require_helps

    plan = None
    if args.plan:
        if args.onnx:
            raise InputError("--plan", got="--onnx", expected="--checkpoint")
        target = find(args.target, "fp32")
        require_plans(target)
        plan = load_plan(args.plan, args.target, source.sha256, source.preprocess.size)
        require_helps(target, plan.helps)
        if args.precision not in (None, plan.precision):
            raise InputError(f"{args.plan} is for another --precision", args.precision, plan.precision)
    args.precision = plan.precision if plan else args.precision or "fp32"
    return plan


def require_packs(args: argparse.Namespace) -> None:
    """Raise InputError where domains are asked for and cannot be packed."""
    if args.domain and (args.onnx or not find(args.target, "fp32").SUPPORT.packs or args.precision != "fp32"):
        fix = f"build each domain by itself: --checkpoint {args.domain[0][1]}"
        got = f"--target {args.target} --precision {args.precision}{' --onnx' if args.onnx else ''}"
        raise InputError("--domain", got, "--target onnxruntime in fp32, and a checkpoint", fix)


def domain_orders(args: argparse.Namespace, order: Order, stack: ExitStack) -> dict[str, Order]:
    """Those of the domains that are to be packed with `order`, by name; `stack` closes their pictures.

    Raises:
        InputError: a name twice, a domain of another base, data for no domain.
    """
    from export import pictures
    from export.domains import require_domain
    from export.source import read_source

    data = dict(args.domain_data)
    names = [name for name, _ in args.domain]
    if odd := [name for name in names if names.count(name) > 1] or sorted(set(data) - set(names)):
        raise InputError("--domain, --domain-data", got=odd[0], expected="each domain once, data for those")
    orders = {}
    for name, run in args.domain:
        source = read_source(run, args.size)
        require_domain(name, source, order.source)
        if name in data:
            seen = pictures.from_data(Path(data[name]), args.split, source.meta, source.preprocess)
        else:
            seen = stack.enter_context(_kept(source))
        orders[name] = replace(order, source=source, pictures=seen, labelled=0)
    return orders


def ask_given(target: Target, given: GivenNetwork, args: argparse.Namespace) -> Shape:
    """A given network has its own ends.

    Raises:
        InputError: the target cannot build from ONNX, or other ends or several frames are asked for.
    """
    if not hasattr(target, "from_onnx"):
        able = [name for name, entry in entries().items() if hasattr(entry.target, "from_onnx")]
        raise InputError(f"{target.NAME} cannot build from --onnx", expected=f"one of {', '.join(able)}")
    if args.input or args.output or args.batch > 1 or args.dynamic:
        raise InputError("--onnx is taken as it is", got="--input, --output, --batch or --dynamic")
    return ask(target, given.input, given.output, batch=1, dynamic=False)


def default_name(args: argparse.Namespace, source: Source) -> str:
    """`<run>-<target>-<precision>`, and `-<HxW>` where a size is asked for."""
    size = "-{}x{}".format(*args.size) if args.size else ""
    return f"{source.name}-{args.target}-{args.precision}{size}"


def open_pictures(args: argparse.Namespace, source: Source) -> AbstractContextManager[Pictures]:
    """What to compare on: --data, else the run's own images, else drawn scenes."""
    from export import pictures

    if args.data:
        return nullcontext(pictures.from_data(args.data, args.split, source.meta, source.preprocess))
    return pictures.drawn() if args.onnx else _kept(source)


def _kept(source: Source) -> AbstractContextManager[Pictures]:
    """The run's own images, else drawn scenes."""
    from export import pictures
    from pipeline.models.checkpoints import checkpoint_samples

    samples = checkpoint_samples(source.path)
    return nullcontext(pictures.from_run(samples, source.dataset)) if samples else pictures.drawn()
