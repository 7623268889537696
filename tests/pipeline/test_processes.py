"""Several processes train as one: two gloo processes against one with the same batch, kill and resume."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from deploy.errors import InputError
from pipeline.config import Recipe, TrainConfig
from pipeline.group import Group
from pipeline.loader import TrainLoader
from pipeline.logbook import read_log
from pipeline.losses import SegmentationLoss
from pipeline.machines import read_machines
from pipeline.models.checkpoints import read_meta

ROOT = Path(__file__).resolve().parents[2]
TOLERANCE = 1e-5  # of the weights after 20 steps, relative
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
Pair = list["subprocess.Popen[str]"]


def start_two(tmp_path: Path, *arguments: object) -> Pair:
    """`python -m pipeline ...` as two processes of one training, as torchrun would start them."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(probe.getsockname()[1]), "WORLD_SIZE": "2"}
    return [
        subprocess.Popen(
            [sys.executable, "-m", "pipeline", *map(str, arguments)],
            cwd=tmp_path,
            env=ENVIRONMENT | address | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]


def said_by(pair: Pair) -> tuple[str, str]:
    """What both said, when they have ended."""
    main, other = (process.communicate(timeout=300)[0] for process in pair)
    return main, other


def norm(tensor: torch.Tensor) -> float:
    return float(tensor.double().norm())


def test_twenty_steps_give_the_weights_of_one_process(labelled_folder, tmp_path) -> None:
    """In float64 each tensor; in float32 all weights as one vector: biases that start at 0 are rounding."""
    program = ROOT / "tests/pipeline/twenty_steps.py"
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    for name, launcher in (("alone", [sys.executable]), ("both", torchrun)):
        subprocess.run([*launcher, program, labelled_folder, tmp_path / name], env=ENVIRONMENT, check=True)
    alone, both = (torch.load(tmp_path / name, weights_only=True) for name in ("alone", "both"))
    for case in ("float32", "float64"):
        one, two = alone[case], both[case]
        assert two["losses"] == pytest.approx(one["losses"], rel=TOLERANCE)
        assert sum(one["losses"][-5:]) < 0.99 * sum(one["losses"][:5]), "it must have learnt"
        distances = {
            name: norm(w - two["model"][name]) / max(norm(w), 1e-30) for name, w in one["model"].items()
        }
        if case == "float64":
            assert max(distances.values()) <= TOLERANCE, max(distances, key=distances.__getitem__)
        names = [name for name in one["model"] if not re.search("running_|num_batches", name)]
        whole, other = (torch.cat([r["model"][n].flatten() for n in names]) for r in (one, two))
        assert norm(whole - other) <= TOLERANCE * norm(whole)


def test_a_killed_training_of_two_goes_on_to_the_same_bytes(make_data, recipe, tmp_path) -> None:
    sets = ("train.steps=30", "train.eval_every=12", "train.checkpoint_seconds=0", "finish.share=0.2")
    more = ("finish.size=48x64", "finish.batch=2")
    options = [word for setting in (*sets, *more) for word in ("--set", setting)]
    command = ("train", "--recipe", recipe, "--data", make_data(train=7), *options)
    killed, unbroken = (tmp_path / "runs" / name / "train" for name in ("killed", "unbroken"))
    pair = start_two(tmp_path, *command, "--run", "killed")
    while not (killed / "state.previous.pt").exists():
        assert pair[0].poll() is None, said_by(pair)
        time.sleep(0.01)
    pair[1].send_signal(signal.SIGKILL)  # the other one cannot go on alone
    said_by(pair)
    assert pair[0].returncode != 0 and not (killed / "stage.json").exists()

    pairs = [start_two(tmp_path, *command, "--run", name) for name in ("unbroken", "killed")]
    (whole, silent), (rest, _) = map(said_by, pairs)
    assert [process.returncode for pair in pairs for process in pair] == [0] * 4, whole + rest
    assert "going on after step" in rest and "best mIoU" in whole and silent == ""
    for name in ("best.safetensors", "last.safetensors", "stage.json"):
        assert (killed / name).read_bytes() == (unbroken / name).read_bytes(), name
    rows = [row for row in read_log(killed / "log.csv") if "loss" in row]
    assert [row["step"] for row in rows] == list(range(2, 31, 2)), "one log"
    assert rows[-1]["epoch"] == 30 * 2 // 7, "both shares are counted"
    assert read_meta(killed / "best.safetensors").metrics["images"] == 3, "each image was validated once"
    assert read_machines(killed)[0]["processes"] == 2


def test_ctrl_c_stops_both_and_the_state_is_stored(make_data, recipe, tmp_path) -> None:
    sets = ("train.steps=5000", "train.eval_every=0", "train.checkpoint_seconds=1000")
    options = [word for setting in sets for word in ("--set", setting)]
    pair = start_two(tmp_path, "train", "--recipe", recipe, "--data", make_data(), *options)
    log = tmp_path / "runs/tiny/train/log.csv"
    while not log.exists() or log.stat().st_size < 200:
        assert pair[0].poll() is None, said_by(pair)
        time.sleep(0.02)
        for process in pair[1:]:
            assert process.poll() is None
    pair[1].send_signal(signal.SIGTERM)  # what a launcher sends; here to one of them only
    main, _ = said_by(pair)
    assert "stopped after step" in main and [process.returncode for process in pair] == [130, 130]
    assert (log.parent / "state.pt").exists()


def test_errors_are_said_once(make_data, recipe, tmp_path) -> None:
    (make_data() / "train/images/train2.png").write_bytes(b"no picture")
    pair = start_two(tmp_path, "train", "--recipe", recipe, "--data", "data")
    main, other = said_by(pair)
    assert "train2.png" in main and main.count("error:") == 1 and other == ""
    assert [process.returncode for process in pair] == [1, 1]


def test_a_batch_that_does_not_split_is_refused() -> None:
    recipe = Recipe("r", train=TrainConfig(steps=4, batch=3, warmup=0))
    with pytest.raises(InputError, match=r"got 3 \| expected a multiple of the 2 processes"):
        TrainLoader(recipe, [], 255, shard=(0, 2))


def test_means_of_parts_with_their_weights_make_up_the_mean_of_the_whole() -> None:
    """What processes do, without processes: loss and gradient of halves with unequal weights."""
    from pipeline.config import LossConfig

    torch.manual_seed(0)
    logits, masks = torch.randn(4, 3, 6, 8), torch.randint(0, 4, (4, 48, 64)).to(torch.uint8)
    masks[:2, :30] = 255
    for config in (LossConfig(), LossConfig(label_smoothing=0.1)):
        loss = SegmentationLoss(config, 3, torch.tensor([0.2, 1.0, 3.0]))
        whole = logits.clone().requires_grad_()
        loss(whole, masks).backward()
        parts = logits.clone().requires_grad_()
        halves = [loss.weighted(parts[rank::2], masks[rank::2]) for rank in range(2)]
        total = sum(weight for _, weight in halves)
        assert not torch.isclose(*[weight for _, weight in halves])
        sum(mean * weight / total for mean, weight in halves).backward()
        torch.testing.assert_close(parts.grad, whole.grad, rtol=1e-5, atol=1e-8)


def test_a_group_of_one_needs_no_others() -> None:
    group = Group()
    assert group.main and group.gather("x") == ["x"] and group.any(True) and not group.any(False)
    assert group.decide(lambda: 7) == 7 and group.sum(torch.ones(2)).tolist() == [1, 1]
