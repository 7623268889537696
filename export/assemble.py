"""From a checkpoint to a proven bundle: build, count, compare, gate, package, in this order.

Every step has its module and the target its file; what fails a gate is not packaged. Refuses to know the
command line, and whether the work is needed at all (`export/record.py`).
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from deploy.bundle import Bundle, Manifest, write_bundle
from deploy.errors import GateError
from deploy.runtimes import Opener, open_session
from deploy.verify import replay_golden, shortfall
from export import package, parity
from export.evaluation import FOLDER, write_evaluation
from export.given import GivenNetwork, ask_given
from export.graphrules import check_graph, network_parts
from export.order import Order
from export.precision_plan import EQUALISATION
from export.record import to_bytes
from export.targets import BuildContext, Target
from export.trace import write
from pipeline.artifact import DONE, Stage
from pipeline.display import plain_console
from pipeline.models.adapters import merge_low_rank
from pipeline.models.checkpoints import load_checkpoint
from pipeline.models.efficientvit import EfficientViTSeg
from pipeline.models.equalise import equalise
from pipeline.models.labelmap import LabelMapper


@dataclass(frozen=True)
class Attempt:
    """A built artifact: a manifest without its list of files, the files by path in the bundle, and how it
    compares with the checkpoint."""

    manifest: Manifest
    files: Mapping[str, Path | bytes]
    comparison: parity.Comparison


def assemble(order: Order, stage: Stage, out: Path) -> Bundle:
    """Build the bundle in the folder `out` (an older bundle there is replaced at the very end).

    Args:
        stage: its record, kept in the bundle.

    Raises:
        GateError, InputError: as `prove`; nothing is written.
    """
    with TemporaryDirectory(prefix="edgeseg-") as scratch:
        proven = prove(order, out.resolve().name, Path(scratch))
        return write_bundle(out, proven.manifest, {**proven.files, DONE: to_bytes(stage)})


def prove(order: Order, name: str, scratch: Path) -> Attempt:
    """Build an artifact in the empty folder `scratch`, compare it, and replay its golden.

    Raises:
        GateError: the artifact misses its budget or its own golden. InputError, GateError: as `attempt`.
    """
    built = attempt(order, name, scratch)
    parity.gate(built.comparison, order.budget, str(order), order.source.dataset.classes)
    _replay(write_bundle(scratch / "complete", built.manifest, built.files), opener(order.target))
    return built


def attempt(
    order: Order, name: str, scratch: Path, answers: Mapping[str, parity.Answer] | None = None
) -> Attempt:
    """Build an artifact in the empty folder `scratch` and compare it, however far it is from the checkpoint.

    Args:
        answers: the checkpoint's to the order's pictures, where they are known already.

    Raises:
        GateError: the artifact breaks the target's rules.
        InputError: an option of the order that does not exist, or an image that cannot be read.
    """
    model = None if order.given else load_checkpoint(order.source.path)[0]
    net = _mapper(order, model) if model else order.given
    assert net is not None, "a checkpoint or a network that was given"
    manifest = package.describe(order.source, net, order.target, order.precision, name, order.shape)
    manifest = package.with_calibration(manifest, order.calibration, order.plan)
    files = _build(order, net, manifest, scratch)
    artifact = write_bundle(scratch / "candidate", manifest, files)
    answers = answers or ask(order, model)
    cut = _cut(order, net, manifest, files, scratch)
    result = parity.compare(artifact, cut, answers, order.pictures, opener(order.target))
    shown = package.DOMAIN_IMAGES if order.pack and order.pack.base else package.GOLDEN_IMAGES
    golden, arrays = package.make_golden(manifest, answers, result, order.pictures, order.budget, shown)
    complete = package.with_evidence(manifest, result, order.pictures, order.target.PROOF, golden)
    contents: dict[str, Path | bytes] = {**files, package.GOLDEN_FILE: arrays}
    if order.labelled:
        folder = new_folder(scratch, FOLDER)
        contents[FOLDER] = write_evaluation(folder, order.pictures, order.labelled, complete)
        complete = dataclasses.replace(complete, eval=FOLDER)
    return Attempt(complete, contents, result)


def ask(order: Order, model: EfficientViTSeg | None = None) -> dict[str, parity.Answer]:
    """The reference's answers: the checkpoint's in PyTorch (`model`, if it is loaded already), or the given
    file's own."""
    rule = order.source.preprocess
    if order.given:
        return ask_given(order.given, rule, order.pictures)
    if model is None:
        model, _ = load_checkpoint(order.source.path)
    return parity.ask_checkpoint(model, rule, order.final, order.pictures)


def _mapper(order: Order, model: EfficientViTSeg) -> LabelMapper:
    """The checkpoint's network (a copy of it) with the ends asked for."""
    rule, shape = order.source.preprocess, order.shape
    ends = (shape.input, shape.output, order.final, order.class_axis)
    net = LabelMapper(model, rule.size, rule.mean, rule.std, *ends)
    if order.pack is None:  # no converter computes a kernel from its factors; a pack shares W with the base
        merge_low_rank(net.model)
    if _equalised(order):
        equalise(net.model)
    return net


def _equalised(order: Order) -> bool:
    """Whether the network's channels are rescaled, so that a table of the checkpoint's tensors is not its."""
    return order.plan is not None and EQUALISATION in order.plan.helps


def opener(target: Target) -> Opener:
    """What runs the target's artifacts here: its runtime, unless it says otherwise."""
    return getattr(target, "open_proof", open_session)


def _build(
    order: Order, net: LabelMapper | GivenNetwork, manifest: Manifest, scratch: Path
) -> dict[str, Path]:
    """The artifact's files, made of nothing that the target does not allow."""
    calibration = None
    if order.calibration:
        spec, rule = manifest.inputs[0], manifest.preprocess
        calibration = order.calibration.inputs(rule, spec, order.shape.batch)
    folder, classes = new_folder(scratch, "artifact"), order.source.classes
    examples = partial(order.pictures.inputs, manifest)
    context = BuildContext(
        order.precision, folder, order.shape, calibration, classes, examples,
        order.pack, order.plan, None if _equalised(order) else order.table,
    )  # fmt: skip
    # converters print what they do; stdout belongs to the command's own result
    with plain_console(stderr=True).status(f"exporting {order}"), redirect_stdout(io.StringIO()):
        if isinstance(net, GivenNetwork):  # the rules are for networks of ours
            return order.target.from_onnx(write(net.model, folder / "given.onnx"), context)
        files = order.target.build(net, context)
    rules = order.target.PACK_RULES if order.pack else order.target.RULES
    check_graph(order.target.count_ops(files), rules, network_parts(net), str(order))
    return files


def _cut(
    order: Order,
    net: LabelMapper | GivenNetwork,
    manifest: Manifest,
    files: Mapping[str, Path],
    scratch: Path,
) -> Bundle | None:
    """The same artifact ending at its logits, where its own output is labels and the target can show them."""
    exposed = net.output == "labels" and hasattr(order.target, "expose_logits")
    if not exposed or isinstance(net, GivenNetwork):
        return None
    shown = order.target.expose_logits(files, net, new_folder(scratch, "cut"))
    cut = package.ending_at_logits(manifest, net, order.target, order.shape)
    return write_bundle(scratch / "logits", cut, shown)


def _replay(bundle: Bundle, open_with: Opener) -> None:
    """The golden must hold here before it is asked of a device."""
    golden = bundle.manifest.golden
    assert golden is not None, "just made"
    if failed := shortfall(replay_golden(bundle, open_with=open_with), golden):
        raise GateError(f"{bundle.manifest.name} {failed}", fix="compare on other images: --data")


def new_folder(parent: Path | str, name: str) -> Path:
    """Make an empty folder."""
    folder = Path(parent, name)
    folder.mkdir()
    return folder
