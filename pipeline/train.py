"""`python -m pipeline train`: recipe and labelled folder -> checkpoints, log, pictures in runs/NAME/train.

    best.safetensors last.safetensors    averaged weights with their description; equal inputs: equal bytes
    state.pt state.previous.pt           to go on after a kill (state.py)
    log.csv machines.json                loss, mIoU and seconds (logbook.py); where it ran (machines.py)
    curves.png samples.png samples/{images,masks}/*.png recipe.json stage.json

The same command on a finished run with equal inputs says "cached", on an unfinished one goes on. The label
gate runs first. This module decides and connects; each part has its own.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from deploy.errors import InputError
from deploy.options import count
from pipeline import artifact
from pipeline.artifact import Stage, changed_outputs, changes, read_record

if TYPE_CHECKING:
    import torch

    from pipeline.accuracy import Evaluation, Walk
    from pipeline.config import Recipe
    from pipeline.datasets.gate import LabelReport
    from pipeline.job import Job
    from pipeline.loop import Training
    from pipeline.models.efficientvit import EfficientViTSeg


_DAMAGED = "start over with --fresh"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `train`."""
    parser.add_argument("--recipe", required=True, type=Path, metavar="FILE", help="recipes/NAME.toml")
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="labelled folder (default: the recipe's data.dir)"
    )
    parser.add_argument("--run", metavar="NAME", help="runs/NAME (default: the recipe's name)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="e.g. train.lr=3e-4; repeatable"
    )
    parser.add_argument(
        "--fresh", action="store_true", help="start over; the old folder is kept as train.old"
    )
    parser.add_argument("--tensorboard", action="store_true", help="write the log as TensorBoard events, too")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda (default: auto)")
    parser.add_argument("--threads", type=count, metavar="N", help="CPU threads (default: all cores)")


def run(args: argparse.Namespace) -> int:
    """Train, go on, or find everything done."""
    from pipeline.config import load_recipe

    recipe = load_recipe(args.recipe, args.set)
    folder = artifact.run_folder(args.run or default_run(recipe)) / "train"
    data = args.data or recipe.data.dir
    if not data:
        raise InputError("no data to train on", expected="--data DIR, or data.dir in the recipe")

    from pipeline.job import Job
    from pipeline.lock import exclusive

    job = Job(recipe, Path(data))
    with exclusive(folder):
        if not args.fresh and is_cached(folder, job.stage):
            print(f"cached: {folder} is this very training, finished (--fresh trains again)")
            return 0
        _train(job, folder, args)
    return 0


def default_run(recipe: Recipe) -> str:
    """The recipe's name, with the attention where it is not the usual one."""
    return recipe.name + ("" if recipe.model.attention == "linear" else f"-{recipe.model.attention}")


def is_cached(folder: Path, stage: Stage) -> bool:
    """Whether the folder holds the finished stage, files unchanged; says what differs if it holds another.

    Raises:
        InputError: it holds an unfinished one with other inputs (they are named).
    """
    done, begun = (read_record(folder / name, _DAMAGED) for name in (artifact.DONE, artifact.BEGUN))
    if done:
        differences = changes(done, stage) or [
            f"{name} was changed" for name in changed_outputs(folder, done)
        ]
        if differences:
            print(f"{folder} is finished, but: {'; '.join(differences)}")
        return not differences
    differences = changes(begun, stage) if begun else []
    if differences:
        fix = "take the old settings and data to go on, another --run, or --fresh to start over"
        raise InputError(
            f"{folder} holds an unfinished training", got=f"changed: {'; '.join(differences)}", fix=fix
        )
    return False


def _train(job: Job, folder: Path, args: argparse.Namespace) -> None:
    """The label gate, the loop, the pictures; then the stage is closed."""
    from pipeline.board import Board, require_tensorboard
    from pipeline.datasets.gate import check_labels, print_report
    from pipeline.device import pick_device, set_threads
    from pipeline.display import counting
    from pipeline.gallery import draw_gallery
    from pipeline.models.checkpoints import load_checkpoint
    from pipeline.predict import Predictor

    if args.tensorboard:
        require_tensorboard()
    device = pick_device(args.device)
    set_threads(args.threads)
    with counting("checking labels") as progress:
        report = check_labels(job.info.root, (job.train_set.split, job.val_set.split), progress)
    print_report(report)
    training = _open(job, folder, args.fresh, device, report)
    board = Board(folder / "tensorboard", training.standing.step) if args.tensorboard else None
    standing = training.run(board)
    best = load_checkpoint(folder / "best.safetensors")[0]
    draw_gallery(folder, Predictor(best, job.rule, device), job.val_set)
    results = {"best_miou": standing.best_miou, "best_step": standing.best_step, "steps": standing.step}
    artifact.finish(folder, job.stage, ("best.safetensors", "last.safetensors"), results)
    _say_result(folder, training)


def _open(job: Job, folder: Path, fresh: bool, device: torch.device, report: LabelReport) -> Training:
    """The training in its folder: a new one, or one that goes on."""
    from pipeline.machines import note_machine
    from pipeline.state import has_state, load_state

    if (folder / artifact.DONE).exists() or (fresh and folder.exists()):
        print(f"the old result is kept in {artifact.set_aside(folder)}")
    begun = read_record(folder / artifact.BEGUN, _DAMAGED)
    if begun:
        job.keep_notes(begun["notes"])
    state = load_state(folder, job.stage.key) if begun and has_state(folder) else None
    training = build(job, folder, device, report)
    if state:
        training.restore(state)
        print(f"going on after step {training.standing.step} of {job.recipe.train.steps}")
    else:
        artifact.begin(folder, job.stage)
    note_machine(folder, training.standing.step, device)
    return training


def build(job: Job, folder: Path, device: torch.device, report: LabelReport) -> Training:
    """A training at its first step, all parts connected."""
    from pipeline.accuracy import evaluate
    from pipeline.device import make_deterministic
    from pipeline.learner import Learner
    from pipeline.loader import TrainLoader
    from pipeline.loop import Training
    from pipeline.losses import SegmentationLoss
    from pipeline.predict import Predictor
    from pipeline.samples import Cached

    recipe, limit = job.recipe, job.recipe.data.cache_gb * 1e9
    make_deterministic(recipe.train.seed, device)
    loss = SegmentationLoss(recipe.loss, job.classes, _weights(job, report))
    learner = Learner(_model(job), loss, recipe.train, device)
    pairs, val_pairs = Cached(job.train_set, limit), Cached(job.val_set, limit / 4)
    loader = TrainLoader(recipe, pairs, job.pad_label)

    def validate(model: EfficientViTSeg, walk: Walk) -> Evaluation:
        return evaluate(Predictor(model, job.rule), val_pairs, job.info, walk)

    return Training(recipe, learner, loader, folder, job.stage.key, validate, job.describe)


def _weights(job: Job, report: LabelReport) -> torch.Tensor:
    """`[C]` class weights from the gate's counts of the train split."""
    import torch

    from pipeline.balance import class_weights

    seen = report.splits[0]
    return torch.from_numpy(
        class_weights(job.recipe.loss.balance, seen.pixels, seen.images_with, seen.images)
    )


def _model(job: Job) -> EfficientViTSeg:
    """A fresh model, or one that starts from `model.init`."""
    from pipeline.models.checkpoints import init_from
    from pipeline.models.efficientvit import create_model

    wanted = job.recipe.model
    model = create_model(wanted.variant, job.classes, wanted.attention, wanted.head)
    if job.init:
        fresh = init_from(model, job.init)
        print(
            f"starting from {job.init}" + (f"; {len(fresh)} tensors of the head stay fresh" if fresh else "")
        )
    return model


def _say_result(folder: Path, training: Training) -> None:
    """Accuracy, and the speed of the step and of the loader alone."""
    standing = training.standing
    print(f"best mIoU {standing.best_miou:.4f} at step {standing.best_step}: {folder / 'best.safetensors'}")
    if training.speed.images:
        alone, workers = training.loader.images_per_second(), training.recipe.train.workers
        print(
            f"training step {training.speed.rate:.1f} images/s, loader alone {alone:.1f} ({workers} workers)"
        )
