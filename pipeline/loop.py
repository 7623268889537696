"""The training loop: steps, log, validation, best and last checkpoint, state for an exact resume.

Killed at any moment it loses the steps since the last state and nothing else: state, log length and best mIoU
are stored together, and everything written after them is written again with the same bytes. Several processes
(the learner's group) go through it in step; the main one alone writes. Knows no command line.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any

from deploy.errors import GateError
from pipeline.accuracy import Evaluation, Walk, shown
from pipeline.board import Board
from pipeline.config import Recipe
from pipeline.display import Display
from pipeline.fakequant import plain_state
from pipeline.interrupt import listening
from pipeline.learner import Learner
from pipeline.loader import Batch, TrainLoader
from pipeline.logbook import Logbook
from pipeline.models.checkpoints import CheckpointMeta, save_checkpoint
from pipeline.models.efficientvit import EfficientViTSeg
from pipeline.schedule import learning_rate
from pipeline.state import State, save_state

BEST, LAST, LOG = "best.safetensors", "last.safetensors", "log.csv"


@dataclass
class Standing:
    """How far a training is."""

    step: int = 0  # steps done
    best_miou: float = -1.0
    best_step: int = 0
    stale: int = 0  # validations since the best one
    loss_sum: float = 0.0  # since the last row of the log
    loss_count: int = 0
    seconds: float = 0.0  # since the last row of the log, without the current stretch


@dataclass
class Speed:
    """Time spent in training steps alone, of this process."""

    images: int = 0
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Images a second."""
        return self.images / self.seconds if self.seconds else 0.0


class Training:
    """A training in its folder.

    Args:
        key: of the stage, stored with every state. validate: mIoU etc. of a model on the val split.
        describe: what a checkpoint says about itself, given its metrics.
    """

    def __init__(
        self,
        recipe: Recipe,
        learner: Learner,
        loader: TrainLoader,
        folder: Path,
        key: str,
        validate: Callable[[EfficientViTSeg, Walk], Evaluation],
        describe: Callable[[dict[str, Any]], CheckpointMeta],
    ) -> None:
        self.recipe, self.learner, self.loader = recipe, learner, loader
        self.folder, self.key = folder, key
        self.validate, self.describe = validate, describe
        self.group = learner.group
        self.standing, self.speed = Standing(), Speed()
        self.log_length = 0

    def restore(self, state: State) -> None:
        """Go on from a stored state."""
        self.learner.restore(state["learner"])
        self.standing = Standing(**state["standing"])
        self.log_length = state["log_length"]

    def run(self, board: Board | None = None) -> Standing:
        """Train to the end, or until `patience` validations in a row brought nothing better.

        Args:
            board: gets every row of the log, too.

        Raises:
            GateError: the loss is no finite number any more.
            KeyboardInterrupt: asked to stop; the state is stored.
        """
        self.log = Logbook(self.folder / LOG, self.log_length) if self.group.main else None
        self.board = board
        self.saved_at = self.counted_at = monotonic()
        display = Display(self.recipe.train.steps, self.standing.step, quiet=not self.group.main)
        try:
            with listening() as interrupt, display as self.display:
                batches = iter(()) if self._is_over() else self.loader.batches(self.standing.step)
                for batch in batches:
                    self._step(batch)
                    if self._is_over():
                        break
                    if self.group.any(interrupt.asked):
                        self._stop()
        finally:
            for record in (self.log, self.board):
                if record:
                    record.close()
        return self.standing

    def _step(self, batch: Batch) -> None:
        """One step and whatever is due after it."""
        now, train = self.standing, self.recipe.train
        began = perf_counter()
        loss = float(self.learner.step(now.step, *batch))
        self.speed.seconds += perf_counter() - began
        self.speed.images += len(batch[0]) * self.group.size
        now.loss_sum, now.loss_count = now.loss_sum + loss, now.loss_count + 1
        now.step += 1
        self._require_finite(loss)
        self.display.step(now.step, loss, self._rate(), self.speed.rate)
        validates = now.step == train.steps or (train.eval_every and now.step % train.eval_every == 0)
        if validates or now.step % train.log_every == 0:
            self._log()
        if validates:
            self._validate()
        if validates or monotonic() - self.saved_at >= train.checkpoint_seconds:
            self._save()

    def _is_over(self) -> bool:
        train = self.recipe.train
        return self.standing.step == train.steps or 0 < train.patience <= self.standing.stale

    def _rate(self) -> float:
        return learning_rate(self.recipe.train, self.standing.step - 1)

    def _require_finite(self, loss: float) -> None:
        if not math.isfinite(loss):
            fix = "lower train.lr, or train.autocast=off"
            got = f"{loss} at step {self.standing.step}"
            raise GateError("the training loss", got=got, expected="a finite number", fix=fix)

    def _log(self) -> None:
        """A row with the mean loss since the last one."""
        now = self.standing
        self._record(
            step=now.step,
            epoch=self.loader.epoch(now.step),
            lr=self._rate(),
            loss=now.loss_sum / now.loss_count,
            images_per_s=self.speed.rate,
            seconds=self._seconds(),
        )
        now.loss_sum, now.loss_count = 0.0, 0

    def _record(self, **values: float | None) -> None:
        """A row of the log; on the board, too, if there is one."""
        for record in (self.log, self.board):
            if record:
                record.add(**values)

    def _count_time(self) -> None:
        """Add the wall time since this was last called to the standing."""
        before, self.counted_at = self.counted_at, monotonic()
        self.standing.seconds += self.counted_at - before

    def _seconds(self) -> float:
        """Wall time since the last row, which is what a new row is for."""
        self._count_time()
        seconds, self.standing.seconds = self.standing.seconds, 0.0
        return seconds

    def _validate(self) -> None:
        """Evaluate the average; write last.safetensors, and best.safetensors if it is the best so far."""
        now, model = self.standing, self.learner.average.model
        result = self.validate(model, self.display.walk).summary()
        self._record(
            step=now.step,
            val_miou=result["miou"],
            val_pixel_accuracy=result["pixel_accuracy"],
            seconds=self._seconds(),
        )
        meta = self.describe({**result, "split": self.recipe.data.val_split, "step": now.step})
        miou = -1.0 if result["miou"] is None else result["miou"]
        better = miou > now.best_miou or not now.best_step
        now.stale = 0 if better else now.stale + 1
        if better:
            now.best_miou, now.best_step = miou, now.step
        if self.group.main:
            for name in (BEST, LAST) if better else (LAST,):
                save_checkpoint(self.folder / name, plain_state(model), meta)
        accuracy = f"mIoU {shown(result['miou'])}  pixel accuracy {shown(result['pixel_accuracy'])}"
        self.display.say(
            f"step {now.step}/{self.recipe.train.steps}  val {accuracy}{'  best' if better else ''}"
        )
        if self._is_over() and now.step < self.recipe.train.steps:
            self.display.say(f"stopped early: nothing better in {now.stale} validations (train.patience)")

    def _save(self) -> None:
        if not self.log:
            return
        self._count_time()
        state = {
            "key": self.key,
            "step": self.standing.step,
            "standing": asdict(self.standing),
            "learner": self.learner.state(),
            "log_length": self.log.length(),
        }
        save_state(self.folder, state)
        self.saved_at = monotonic()

    def _stop(self) -> None:
        """Store the state and stop."""
        self._save()
        self.display.say(f"stopped after step {self.standing.step}; the same command goes on from here")
        raise KeyboardInterrupt
