"""From a checkpoint to a proven bundle: build, compare, gate, package, in this order.

Every step has its module and the target its file; what fails a gate is not packaged. Refuses to know the
command line, and whether the work is needed at all (`export/record.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

from deploy.bundle import Bundle, write_bundle
from deploy.errors import GateError
from deploy.verify import replay_golden, shortfall
from export import package, parity
from export.pictures import Pictures
from export.record import to_bytes
from export.source import Source
from export.targets import Budget, BuildContext, Target
from pipeline.artifact import DONE, Stage
from pipeline.models.checkpoints import load_checkpoint
from pipeline.models.labelmap import LabelMapper


@dataclass(frozen=True)
class Order:
    """What is to be built: a checkpoint for a target, with the network's ends as in `LabelMapper`."""

    source: Source
    target: Target
    precision: str
    input: str
    output: str
    final: str
    pictures: Pictures

    def __str__(self) -> str:
        return f"{self.source.name} for {self.target.NAME} {self.precision}"


def assemble(order: Order, stage: Stage, out: Path) -> Bundle:
    """Build the bundle in the folder `out` (an older bundle there is replaced at the very end).

    Args:
        stage: its record, kept in the bundle.

    Raises:
        GateError: the artifact misses the target's budget or its own golden; nothing is written.
        InputError: an option of the order that does not exist, or an image that cannot be read.
    """
    model, _ = load_checkpoint(order.source.path)
    rule = order.source.preprocess
    net = LabelMapper(model, rule.size, rule.mean, rule.std, order.input, order.output, order.final)
    manifest = package.describe(order.source, net, order.target, order.precision, out.resolve().name)
    with TemporaryDirectory(prefix="edgeseg-") as scratch:
        with Console(stderr=True).status(f"exporting {order}"):
            files = order.target.build(net, BuildContext(order.precision, _folder(scratch, "artifact")))
        artifact = write_bundle(Path(scratch, "candidate"), manifest, files)
        answers = parity.ask_checkpoint(model, rule, order.final, order.pictures)
        result = _prove(order, artifact, _cut(order, net, artifact, Path(scratch)), answers)
        golden, arrays = package.make_golden(manifest, answers, result, order.pictures, _budget(order))
        complete = package.with_evidence(manifest, result, order.pictures, order.target.PROOF, golden)
        contents: dict[str, Path | bytes] = {**files, package.GOLDEN_FILE: arrays, DONE: to_bytes(stage)}
        _replay(write_bundle(Path(scratch, "complete"), complete, contents))
        return write_bundle(out, complete, contents)


def _prove(
    order: Order, artifact: Bundle, cut: Bundle | None, answers: Mapping[str, parity.Answer]
) -> parity.Comparison:
    """Compare with the checkpoint, and pass the gate or raise GateError."""
    result = parity.compare(artifact, cut, answers, order.pictures)
    parity.gate(result, _budget(order), str(order), order.source.dataset.classes)
    return result


def _budget(order: Order) -> Budget:
    return order.target.BUDGET[order.precision]


def _cut(order: Order, net: LabelMapper, artifact: Bundle, scratch: Path) -> Bundle | None:
    """The same artifact ending at its logits, where its own output is labels and the target can show them."""
    if net.output == "logits" or not hasattr(order.target, "expose_logits"):
        return None
    files = {entry.path: artifact.path(entry) for entry in artifact.manifest.files}
    shown = order.target.expose_logits(files, net, _folder(scratch, "cut"))
    return write_bundle(scratch / "logits", package.ending_at_logits(artifact.manifest, net), shown)


def _replay(bundle: Bundle) -> None:
    """The golden must hold here before it is asked of a device."""
    golden = bundle.manifest.golden
    assert golden is not None, "just made"
    if failed := shortfall(replay_golden(bundle), golden):
        raise GateError(f"{bundle.manifest.name} {failed}", fix="compare on other images: --data")


def _folder(parent: Path | str, name: str) -> Path:
    folder = Path(parent, name)
    folder.mkdir()
    return folder
