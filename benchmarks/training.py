"""`python -m benchmarks.training`: images/s in training, linear against softmax, and of the loader alone.

The optimizer step is timed on batches that are ready, the loader without a step, both on a recipe's crops;
the contenders alternate in fresh processes. What a whole training took, waiting and validations included, is
in its own log.csv. Refuses to know accuracy.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from time import perf_counter

from benchmarks import record
from benchmarks.rounds import Figures, alternate, medians, ratios
from deploy.errors import run_cli
from deploy.options import Parser, count
from deploy.runtimes import default_threads

KINDS = ("linear", "softmax")
ROUNDS = 3
READY = 4  # batches that the step is timed on


def measure(recipe: Path, data: Path, kind: str, seconds: float, threads: int) -> Figures:
    """Images/s of the step and of the loader alone, of one kind of attention, in this process."""
    import torch

    from pipeline.config import load_recipe
    from pipeline.job import Job
    from pipeline.learner import Learner
    from pipeline.loader import TrainLoader
    from pipeline.losses import SegmentationLoss
    from pipeline.models.efficientvit import create_model
    from pipeline.samples import Cached

    torch.set_num_threads(threads)
    job = Job(load_recipe(recipe), data)
    wanted = replace(job.recipe.model, attention=kind)
    model = create_model(wanted.variant, job.classes, kind, wanted.head)
    loss = SegmentationLoss(job.recipe.loss, job.classes)
    learner = Learner(model, loss, job.recipe.train, torch.device("cpu"))
    pairs = Cached(job.train_set, job.recipe.data.cache_gb * 1e9)
    pairs.fill(threads)
    loader = TrainLoader(job.recipe, pairs, job.pad_label)
    batches = list(islice(loader.batches(0), READY))

    def steps() -> int:
        return sum(len(batch[0]) for number, batch in enumerate(batches) if learner.step(number, *batch) >= 0)

    return {
        "step_images_per_s": _rate(steps, seconds),
        "loader_images_per_s": loader.images_per_second(seconds),
    }


def _rate(work: Callable[[], int], seconds: float) -> float:
    """What `work` counts, a second, after one call that is not timed."""
    work()
    done, began = 0, perf_counter()
    while perf_counter() - began < seconds:
        done += work()
    return done / (perf_counter() - began)


def compare(args: argparse.Namespace) -> dict[str, object]:
    """Both kinds in turn: medians, and linear over softmax round by round."""
    same = [
        "--recipe",
        args.recipe,
        "--data",
        args.data,
        "--seconds",
        args.seconds,
        "--threads",
        args.threads,
    ]
    child = [sys.executable, "-m", "benchmarks.training", *map(str, same)]
    rounds = alternate({kind: [*child, "--only", kind] for kind in KINDS}, args.rounds)
    return {
        "recipe": args.recipe.stem,
        **{kind: medians(figures) for kind, figures in rounds.items()},
        "linear_over_softmax": ratios(rounds["linear"], rounds["softmax"], "step_images_per_s"),
    }


def main() -> None:
    """Measure both kinds; --only: one of them, as JSON on the last line."""
    parser = Parser(prog="python -m benchmarks.training", description="images a second in training")
    parser.add_argument("--recipe", type=Path, required=True, metavar="FILE")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="labelled folder")
    parser.add_argument("--rounds", type=count, default=ROUNDS, help=f"default: {ROUNDS}")
    parser.add_argument("--seconds", type=float, default=5.0, help="timed for each figure (default: 5)")
    parser.add_argument("--threads", type=count, default=default_threads(), help="default: all cores")
    parser.add_argument("--json", metavar="FILE", default="-", help="where the result goes (default: stdout)")
    parser.add_argument("--only", choices=KINDS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.only:
        print(json.dumps(measure(args.recipe, args.data, args.only, args.seconds, args.threads)))
    else:
        record.write("training", args, compare(args))


if __name__ == "__main__":
    sys.exit(run_cli(main))
