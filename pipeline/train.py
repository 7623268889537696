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
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deploy.errors import InputError
from deploy.options import thread_count
from pipeline import artifact
from pipeline.artifact import Stage, changed_outputs, changes, read_record

if TYPE_CHECKING:
    import torch

    from pipeline.accuracy import Evaluation, Walk
    from pipeline.config import Recipe
    from pipeline.datasets.gate import LabelReport
    from pipeline.group import Group
    from pipeline.job import Job
    from pipeline.loop import Training
    from pipeline.models.efficientvit import EfficientViTSeg
    from pipeline.samples import Cached
    from pipeline.state import State


_DAMAGED = "start over with --fresh"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `train`."""
    parser.add_argument("--recipe", required=True, type=Path, metavar="FILE", help="recipes/NAME.toml")
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="labelled folder (default: the recipe's data.dir)"
    )
    parser.add_argument("--run", metavar="NAME", help="runs/NAME (default: the recipe's name)")
    add_run_arguments(parser)


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of every command that trains."""
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="e.g. train.lr=3e-4; repeatable"
    )
    parser.add_argument(
        "--fresh", action="store_true", help="start over; the old folder is kept as train.old"
    )
    parser.add_argument("--tensorboard", action="store_true", help="write the log as TensorBoard events, too")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda (default: auto)")
    parser.add_argument("--threads", type=thread_count, metavar="N", help="CPU threads (default: all cores)")


def run(args: argparse.Namespace) -> int:
    """Train, go on, or find everything done."""
    from pipeline.config import load_recipe

    recipe = load_recipe(args.recipe, args.set)
    data = args.data or recipe.data.dir
    if not data:
        raise InputError("no data to train on", expected="--data DIR, or data.dir in the recipe")
    return train(recipe, Path(data), args.run or default_run(recipe), args)


def train(recipe: Recipe, data: Path, name: str, args: argparse.Namespace) -> int:
    """Train in runs/NAME/train, with the options of `add_run_arguments`; 0 when done or cached."""
    from pipeline.group import processes
    from pipeline.job import Job
    from pipeline.lock import exclusive

    folder = artifact.run_folder(name) / "train"
    with processes() as group, ExitStack() as stack:
        job = Job(recipe, data)
        group.decide(lambda: stack.enter_context(exclusive(folder)))
        if group.decide(lambda: not args.fresh and is_cached(folder, job.stage)):
            if group.main:
                print(f"cached: {folder} is this very training, finished (--fresh trains again)")
            return 0
        _train(job, folder, args, group)
    return 0


def default_run(recipe: Recipe) -> str:
    """The recipe's name, with attention and activation where they are not the usual ones."""
    model = recipe.model
    unusual = [model.attention] if model.attention != "linear" else []
    unusual += [model.activation] if model.activation != "published" else []
    return "-".join((recipe.name, *unusual))


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


def _train(job: Job, folder: Path, args: argparse.Namespace, group: Group) -> None:
    """The label gate, the loop, the pictures; then the stage is closed."""
    from pipeline.board import Board, require_tensorboard
    from pipeline.device import pick_device, set_threads

    if args.tensorboard:
        require_tensorboard()
    device = pick_device(args.device, group.local_rank)
    set_threads(args.threads)
    report = group.decide(lambda: _check(job))
    training = _open(job, folder, args.fresh, device, report, group)
    wanted = args.tensorboard and group.main
    board = Board(folder / "tensorboard", training.standing.step) if wanted else None
    training.run(board)
    if group.main:
        _close(job, folder, device, training)


def _check(job: Job) -> LabelReport:
    """The label gate, with its table."""
    from pipeline.datasets.gate import check_labels, print_report
    from pipeline.display import counting

    with counting("checking labels") as progress:
        report = check_labels(job.info.root, (job.train_set.split, job.val_set.split), progress)
    print_report(report)
    return report


def _open(
    job: Job, folder: Path, fresh: bool, device: torch.device, report: LabelReport, group: Group
) -> Training:
    """The training in its folder: a new one, or one that goes on."""
    from pipeline.machines import note_machine

    notes, state = group.decide(lambda: _found(job, folder, fresh))
    job.keep_notes(notes)
    training = build(job, folder, device, report, group)
    if state:
        training.restore(state)
    if group.main:
        if state:
            print(f"going on after step {training.standing.step} of {job.recipe.train.steps}")
        else:
            artifact.begin(folder, job.stage)
        note_machine(folder, training.standing.step, device, group.size)
    return training


def _found(job: Job, folder: Path, fresh: bool) -> tuple[dict[str, Any], State | None]:
    """The notes to train under and the state to go on from; a finished or unwanted training is set aside."""
    from pipeline.state import has_state, load_state

    if (folder / artifact.DONE).exists() or (fresh and folder.exists()):
        print(f"the old result is kept in {artifact.set_aside(folder)}")
    begun = read_record(folder / artifact.BEGUN, _DAMAGED)
    if not begun:
        return job.stage.notes, None
    return begun["notes"], load_state(folder, job.stage.key) if has_state(folder) else None


def build(job: Job, folder: Path, device: torch.device, report: LabelReport, group: Group) -> Training:
    """A training at its first step, all parts connected."""
    from pipeline.device import loader_workers, make_deterministic
    from pipeline.learner import Learner
    from pipeline.loader import TrainLoader
    from pipeline.loop import Training
    from pipeline.losses import SegmentationLoss
    from pipeline.samples import Cached

    recipe, limit = job.recipe, job.recipe.data.cache_gb * 1e9
    make_deterministic(recipe.train.seed, device)
    loss = SegmentationLoss(recipe.loss, job.classes, _weights(job, report))
    learner = Learner(_model(job, group.main), loss, recipe.train, device, group)
    workers = loader_workers(recipe.train.workers, device, group.size)
    pairs, val_pairs = Cached(job.train_set, limit), Cached(job.val_set, limit / 4)
    if workers:
        pairs.fill(workers)  # before they are forked, so that they share what is decoded
    loader = TrainLoader(recipe, pairs, job.pad_label, workers, (group.rank, group.size))
    validate = partial(_validate, job, val_pairs, group)
    return Training(recipe, learner, loader, folder, job.stage.key, validate, job.describe)


def _validate(job: Job, pairs: Cached, group: Group, model: EfficientViTSeg, walk: Walk) -> Evaluation:
    """Accuracy on the val split; each process takes every n-th image, and all get the whole."""
    from pipeline.accuracy import evaluate
    from pipeline.predict import Predictor

    group.take_mains(model.state_dict().values())  # statistics may differ between CPUs
    part = evaluate(
        Predictor(model, job.rule), pairs, job.info, lambda all_: walk(all_[group.rank :: group.size])
    )
    first, *others = group.gather(part)
    return first.with_parts(others)


def _close(job: Job, folder: Path, device: torch.device, training: Training) -> None:
    """Pictures, the record that it is finished, and what came out."""
    from pipeline.gallery import draw_gallery
    from pipeline.models.checkpoints import load_checkpoint
    from pipeline.predict import Predictor

    standing = training.standing
    best = load_checkpoint(folder / "best.safetensors")[0]
    draw_gallery(folder, Predictor(best, job.rule, device), job.val_set)
    results = {"best_miou": standing.best_miou, "best_step": standing.best_step, "steps": standing.step}
    artifact.finish(folder, job.stage, ("best.safetensors", "last.safetensors"), results)
    _say_result(folder, training)


def _weights(job: Job, report: LabelReport) -> torch.Tensor:
    """`[C]` class weights from the gate's counts of the train split."""
    import torch

    from pipeline.balance import class_weights

    seen = report.splits[0]
    return torch.from_numpy(
        class_weights(job.recipe.loss.balance, seen.pixels, seen.images_with, seen.images)
    )


def _model(job: Job, say: bool) -> EfficientViTSeg:
    """A fresh model, one that starts from `model.init`, or a base with what a domain adds; `say`: tell so."""
    from pipeline.fakequant import round_as_int8
    from pipeline.job import model_spec
    from pipeline.models.adaptation import Adaptation, adapt
    from pipeline.models.checkpoints import build_model, init_from, load_checkpoint

    spec = model_spec(job.recipe, job.classes)
    if job.base:
        base = load_checkpoint(job.base)[0]
        adapt(base, job.classes, Adaptation(**spec["adaptation"]))
        return base
    model = build_model(spec)
    if job.init:
        fresh = init_from(model, job.init)
        stay = f"; {len(fresh)} tensors of the head stay fresh" if fresh else ""
        if say:
            print(f"starting from {job.init}{stay}")
    if job.recipe.quant.qat:
        round_as_int8(model)
    return model


def _say_result(folder: Path, training: Training) -> None:
    """Accuracy, and the speed of the step and of the loader alone."""
    standing = training.standing
    print(f"best mIoU {standing.best_miou:.4f} at step {standing.best_step}: {folder / 'best.safetensors'}")
    if training.speed.images:
        alone, workers = training.loader.images_per_second(), training.loader.workers
        print(
            f"training step {training.speed.rate:.1f} images/s, loader alone {alone:.1f} ({workers} workers)"
        )
