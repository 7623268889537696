"""From a checkpoint to a proven bundle: build, count, compare, gate, package, in this order.

Every step has its module and the target its file; what fails a gate is not packaged. Refuses to know the
command line, and whether the work is needed at all (`export/record.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from deploy.bundle import Bundle, Manifest, write_bundle
from deploy.errors import GateError
from deploy.runtimes import Opener, open_session
from deploy.verify import replay_golden, shortfall
from export import package, parity
from export.graphrules import check_graph
from export.order import Order
from export.record import to_bytes
from export.targets import BuildContext, Target
from pipeline.artifact import DONE, Stage
from pipeline.display import plain_console
from pipeline.models.attention import MultiScaleAttention
from pipeline.models.checkpoints import load_checkpoint
from pipeline.models.labelmap import LabelMapper


def assemble(order: Order, stage: Stage, out: Path) -> Bundle:
    """Build the bundle in the folder `out` (an older bundle there is replaced at the very end).

    Args:
        stage: its record, kept in the bundle.

    Raises:
        GateError: the artifact breaks the target's rules, misses its budget or its own golden; nothing is
            written.
        InputError: an option of the order that does not exist, or an image that cannot be read.
    """
    model, _ = load_checkpoint(order.source.path)
    rule, shape = order.source.preprocess, order.shape
    net = LabelMapper(model, rule.size, rule.mean, rule.std, shape.input, shape.output, order.final)
    manifest = package.describe(order.source, net, order.target, order.precision, out.resolve().name, shape)
    manifest = package.with_calibration(manifest, order.calibration)
    with TemporaryDirectory(prefix="edgeseg-") as scratch:
        files = _build(order, net, manifest, Path(scratch))
        artifact = write_bundle(Path(scratch, "candidate"), manifest, files)
        answers = parity.ask_checkpoint(model, rule, order.final, order.pictures)
        result = _prove(order, artifact, _cut(order, net, artifact, Path(scratch)), answers)
        golden, arrays = package.make_golden(manifest, answers, result, order.pictures, order.budget)
        complete = package.with_evidence(manifest, result, order.pictures, order.target.PROOF, golden)
        contents: dict[str, Path | bytes] = {**files, package.GOLDEN_FILE: arrays, DONE: to_bytes(stage)}
        _replay(write_bundle(Path(scratch, "complete"), complete, contents), opener(order.target))
        return write_bundle(out, complete, contents)


def opener(target: Target) -> Opener:
    """What runs the target's artifacts here: its runtime, unless it says otherwise."""
    return getattr(target, "open_proof", open_session)


def _build(order: Order, net: LabelMapper, manifest: Manifest, scratch: Path) -> dict[str, Path]:
    """The artifact's files, made of nothing that the target does not allow."""
    calibration = None
    if order.calibration:
        spec, rule = manifest.inputs[0], manifest.preprocess
        calibration = partial(order.calibration.inputs, rule, spec, order.shape.batch)
    context = BuildContext(order.precision, _folder(scratch, "artifact"), order.shape, calibration)
    with plain_console(stderr=True).status(f"exporting {order}"):
        files = order.target.build(net, context)
    cores = [module.core for module in net.modules() if isinstance(module, MultiScaleAttention)]
    check_graph(order.target.count_ops(files), order.target.RULES, cores, str(order))
    return files


def _prove(
    order: Order, artifact: Bundle, cut: Bundle | None, answers: Mapping[str, parity.Answer]
) -> parity.Comparison:
    """Compare with the checkpoint, and pass the gate or raise GateError."""
    result = parity.compare(artifact, cut, answers, order.pictures, opener(order.target))
    parity.gate(result, order.budget, str(order), order.source.dataset.classes)
    return result


def _cut(order: Order, net: LabelMapper, artifact: Bundle, scratch: Path) -> Bundle | None:
    """The same artifact ending at its logits, where its own output is labels and the target can show them."""
    if net.output == "logits" or not hasattr(order.target, "expose_logits"):
        return None
    files = {entry.path: artifact.path(entry) for entry in artifact.manifest.files}
    shown = order.target.expose_logits(files, net, _folder(scratch, "cut"))
    manifest = package.ending_at_logits(artifact.manifest, net, order.target, order.shape)
    return write_bundle(scratch / "logits", manifest, shown)


def _replay(bundle: Bundle, open_with: Opener) -> None:
    """The golden must hold here before it is asked of a device."""
    golden = bundle.manifest.golden
    assert golden is not None, "just made"
    if failed := shortfall(replay_golden(bundle, open_with=open_with), golden):
        raise GateError(f"{bundle.manifest.name} {failed}", fix="compare on other images: --data")


def _folder(parent: Path | str, name: str) -> Path:
    folder = Path(parent, name)
    folder.mkdir()
    return folder
