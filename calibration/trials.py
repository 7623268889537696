"""Plans as bundles with figures: built once, judged on held-out images, timed in turns; all kept in a folder.

`runs/RUN/search-TARGET/` holds `trials.json`, `refused.json` and the bundles; a stopped search goes
on from it. Refuses to know which plans are worth trying.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from calibration import latency
from calibration.choice import Row
from calibration.heldout import held_out
from deploy.bundle import load_bundle, write_bundle
from deploy.device import this_machine
from deploy.errors import InputError
from deploy.files import write_json
from deploy.schema import decode, read_json
from export.assemble import ask as ask_reference
from export.assemble import attempt
from export.calibration_images import CalibrationImages, find_calibration
from export.calibration_table import CalibrationTable
from export.clipping import METHODS
from export.find_table import checkpoint_graph, find_table
from export.layers import blocks, convolutions, groups, multiplications
from export.order import Order
from export.package import tool_versions
from export.parity import Answer
from export.precision_plan import HELPS, Helps, PrecisionPlan, can_help
from export.source import Source, read_source
from export.targets import ask, find, require_plans
from pipeline.artifact import run_folder

DONE, REFUSED = "trials.json", "refused.json"
UNABLE = (InputError, RuntimeError, ValueError)  # where a converter or runtime cannot handle a plan


@dataclass
class Trials:
    """A search's plans and their figures.

    Attributes:
        order: the target in its most exact precision, compared on held-out images.
        blocks: block -> share of all convolutions' multiplications; in the graph's order.
        methods: of cutting off ranges; (None,) where the target finds its own.
        folder: where everything is kept. done: plan's key -> its row without latency.
        refused: plan's key -> why the target cannot handle it.
        effort: of timing, or None.
    """

    order: Order
    images: CalibrationImages
    table: CalibrationTable
    blocks: dict[str, float]
    methods: tuple[str | None, ...]
    folder: Path
    done: dict[str, Row]
    refused: dict[str, str]
    effort: latency.Effort | None = None

    @property
    def helps(self) -> Helps:
        """Those that the target allows."""
        return tuple(name for name in HELPS if can_help(self.order.target, name))

    @cached_property
    def answers(self) -> dict[str, Answer]:
        """The checkpoint's to the held-out images."""
        return ask_reference(self.order)

    def plan(
        self, method: str | None, chosen: dict[str, str], budget: float = 0.0, helps: Helps = ()
    ) -> PrecisionPlan:
        """A sealed plan; `method` None: the target's own. `budget`: 0 in trials, which no budget changes."""
        source, rule = self.order.source, self.order.source.preprocess
        return PrecisionPlan(
            self.order.target.NAME,
            source.sha256,
            self.table.calibration_key,
            rule.size,
            method or "min-max",
            self.order.precision,
            chosen,
            budget,
            helps,
        ).sealed()

    def row(self, name: str, method: str | None, chosen: dict[str, str], helps: Helps = ()) -> Row:
        """A plan's figures, without latency: kept from before, or by building it now.

        Raises:
            UNABLE: the target's converter or runtime cannot handle it (`reason`).
        """
        plan = self.plan(method, chosen, helps=helps)
        if plan.key in self.done and self._bundle(plan.key).is_dir():
            return replace(self.done[plan.key], name=name)
        if plan.key in self.refused:
            raise InputError(self.refused[plan.key])
        try:
            figures = self.build(self.planned(plan), self._bundle(plan.key))
        except UNABLE as error:
            if chosen:  # without a plan it is no plan's fault
                self.refused[plan.key] = reason(error)
                write_json(self.folder / REFUSED, self.refused)
            raise
        self.done[plan.key] = Row(name, method, chosen, self.share(chosen), *figures, helps=helps)
        self._keep()
        return self.done[plan.key]

    def build(self, order: Order, out: Path) -> tuple[float, float, int]:
        """Write the order's bundle to `out`: points of mIoU lost, agreement, bytes without the golden.

        Raises:
            GateError, InputError: as `export.assemble.attempt`.
        """
        with TemporaryDirectory(prefix="edgeseg-") as scratch:
            built = attempt(order, out.name, Path(scratch), self.answers)
            bundle = write_bundle(out, built.manifest, built.files)
        difference = built.comparison.miou_difference
        assert difference is not None, "the images have masks"
        size = sum(entry.bytes for entry in bundle.manifest.files if entry.path != "golden.npz")
        return -100 * difference, built.comparison.agreement, size

    def share(self, chosen: Mapping[str, str]) -> float:
        """Of all convolutions' multiplications, those in int8."""
        return sum(self.blocks.get(block, 0.0) for block, precision in chosen.items() if precision == "int8")

    def miou(self, row: Row) -> float | None:
        """On the held-out images, 0..1."""
        return miou_of(self._bundle(self._key(row)))

    def with_latency(self, rows: Sequence[Row]) -> list[Row]:
        """The rows with latency against the first; unchanged where the artifact does not run here."""
        effort = self.effort
        if effort is None or (self.order.target.PROOF != "executed" and not effort.device):
            return list(rows)
        bundles = {row.name: self._bundle(self._key(row)) for row in rows}
        what = json.dumps([effort.words(), {name: path.name for name, path in bundles.items()}])
        path = self.folder / f"latency-{hashlib.sha256(what.encode()).hexdigest()[:12]}.json"
        known = _kept(path)
        taken = latency.take_turns(bundles, effort, known, lambda rounds: write_json(path, rounds))
        found = latency.ratios_to(taken, rows[0].name)
        return [replace(row, ratio=found[row.name]) for row in rows]

    def described(self) -> dict[str, Any]:
        """For the report: what was searched, on what."""
        source = self.order.source
        return {
            "model": source.name,
            "checkpoint_sha256": source.sha256,
            "size": list(source.preprocess.size),
            "calibration_key": self.table.calibration_key,
            "judged_on": self.order.pictures.source,
            "machine": asdict(this_machine()),
            "versions": tool_versions(self.order.target.TOOLS),
            "threads": self.effort.threads if self.effort else None,
        }

    def planned(self, plan: PrecisionPlan | None) -> Order:
        """The order of a plan, or of the target's own int8; a plan without a block in int8 is none."""
        if plan and not plan.blocks:
            return self.order
        return replace(self.order, precision="int8", calibration=self.images, plan=plan, table=self.table)

    def _key(self, row: Row) -> str:
        return self.plan(row.method, row.blocks, helps=row.helps).key

    def _bundle(self, key: str) -> Path:
        return self.folder / key[:16]

    def _keep(self) -> None:
        write_json(self.folder / DONE, {key: asdict(row) for key, row in self.done.items()})


def reason(error: Exception) -> str:
    """Why a plan has no figures, as one line."""
    said = (str(error).splitlines() or [""])[0][:300]
    return said if isinstance(error, InputError) else f"{type(error).__name__}: {said}"


def miou_of(bundle: Path) -> float | None:
    """On the images that the bundle was compared on, 0..1; None without masks."""
    accuracy = load_bundle(bundle).manifest.accuracy
    return accuracy.miou_here if accuracy else None


def open_trials(checkpoint: str, args: argparse.Namespace, effort: latency.Effort | None = None) -> Trials:
    """What the command line asks for, with what an earlier run of it left.

    Raises:
        InputError: a target without int8, no calibration set, no images to judge on.
    """
    source = read_source(checkpoint, args.size)
    precision = "fp16" if args.target == "tensorrt" else "fp32"
    target = find(args.target, precision)
    require_plans(target)
    images = find_calibration(args.calibration, args.data, source, "int8")
    table, _, _ = find_table(None, images, source)
    order = Order(
        source,
        target,
        precision,
        ask(target, None, None, 1, False),
        "bicubic",
        held_out(images.images, args.data, source),
    )
    folder = run_folder(source.name) / f"search-{args.target}"
    done = {key: decode(Row, row, DONE) for key, row in _kept(folder / DONE).items()}
    refused = {key: str(why) for key, why in _kept(folder / REFUSED).items()}
    methods = tuple(METHODS) if target.SUPPORT.ranges else (None,)
    work = _work(source, not target.SUPPORT.grouped)
    return Trials(order, images, table, work, methods, folder, done, refused, effort)


def _kept(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}


def _work(source: Source, dense: bool) -> dict[str, float]:
    """Block -> share of all convolutions' multiplications that the target would do in int8."""
    with TemporaryDirectory(prefix="edgeseg-") as folder:
        graph, _ = checkpoint_graph(source, Path(folder))
    every = multiplications(graph)
    able = [layer for layer, node in convolutions(graph).items() if not dense or groups(node) == 1]
    total = sum(every.values())
    return {block: sum(every[layer] for layer in layers) / total for block, layers in blocks(able).items()}
