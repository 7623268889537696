"""A report that is taken, and what the server does not believe."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="edgeseg[serve] is not installed")

from deploy.measurement import read_measurement
from deploy.server.catalog import labelled
from deploy.server.intake import Intake, Rate, Refused


@pytest.fixture
def intake(tiny_bundle, tmp_path: Path) -> Intake:
    return Intake(tmp_path / "reports", {"0": tiny_bundle}, "python -m deploy serve bundle")


def test_a_report_is_kept_as_every_other(intake: Intake, tiny_bundle, make_report) -> None:
    path = intake.keep(json.dumps(make_report(tiny_bundle, command="rm -rf /", timestamp="1970")).encode())
    kept = read_measurement(path)
    assert kept.target == "onnxruntime-web" and kept.machine.platform == "browser"
    assert kept.command == "python -m deploy serve bundle" and kept.timestamp.startswith("20")


@pytest.mark.parametrize(
    "changes",
    [
        {"bundle_sha256": "0" * 64},
        {"name": "another"},
        {"target": "onnxruntime"},
        {"proof": "built"},
        {"model": {"attention": "softmax"}},
        {"size": [1, 1]},
        {"brought": True},
        {"surprise": 1},
        {"miou": 1.5},
        {"schema_version": 3},
        {"name": "\u001b[2J"},
        {"versions": {"a": "x" * 5000}},
        {"interrupted": True},
        {"dice": {"red": 1.0}},
        {"offline": [{"streams": 1, "threads": 1, "batch": 1, "frames": 1, "throughput_fps": 1.0}]},
        {
            "sustained": {
                "duration_s": 0,
                "window_s": 0,
                "first_ms": 0,
                "last_ms": 0,
                "verdict": "steady",
                "absent": {},
                "points": [],
            }
        },
        {
            "sustained": {
                "duration_s": 1,
                "window_s": 1,
                "first_ms": 1,
                "last_ms": 1,
                "verdict": "steady",
                "absent": {},
                "points": [],
            }
        },
        {"dataset": {"name": "any", "split": "val", "sha256": "0" * 64}, "images": 3},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_another_report_is_refused(intake: Intake, tiny_bundle, make_report, changes: dict) -> None:
    with pytest.raises(Refused) as refused:
        intake.keep(json.dumps(make_report(tiny_bundle, **changes)).encode())
    assert refused.value.status == 422
    assert not intake.folder.exists() or not list(intake.folder.iterdir())


def test_accuracy_is_of_the_bundle_s_own_images(make_bundle, colour_folder, make_report, tmp_path) -> None:
    bundle = make_bundle(more={"eval": colour_folder}, eval="eval")
    intake = Intake(tmp_path / "reports", {"0": bundle}, "")
    own = {"dataset": vars(labelled(bundle).reference()), "images": 3, "accuracy_reason": None}
    own |= {"miou": 1.0, "iou": {"red": 1.0, "green": 1.0, "blue": 1.0}, "pixel_accuracy": 1.0}
    for change in (
        {"dataset": {**own["dataset"], "name": "another"}},
        {"dataset": {**own["dataset"], "sha256": "0" * 64}},
        {"images": 2},
        {"iou": {str(number): 1.0 for number in range(255)}},
        {"iou": None},
    ):
        with pytest.raises(
            Refused, match=f"report: .*{'classes' if 'iou' in change else next(iter(change))}"
        ):
            intake.keep(json.dumps(make_report(bundle, **{**own, **change})).encode())
    assert intake.keep(json.dumps(make_report(bundle, **own)).encode()).is_file()


def test_a_full_folder_takes_nothing(intake: Intake, tiny_bundle, make_report, monkeypatch) -> None:
    monkeypatch.setattr("deploy.server.intake.MOST_REPORTS", 1)
    intake.keep(json.dumps(make_report(tiny_bundle)).encode())
    with pytest.raises(Refused) as refused:
        intake.keep(json.dumps(make_report(tiny_bundle, frames=7)).encode())
    assert refused.value.status == 507 and len(list(intake.folder.iterdir())) == 1


def test_the_rate_is_by_visitor_and_forgotten_after_a_minute() -> None:
    now = [0.0]
    rate = Rate(lambda: now[0])
    for _ in range(12):
        rate.take("a")
    with pytest.raises(Refused):
        rate.take("a")
    rate.take("b")
    now[0] = 61.0
    rate.take("a")
