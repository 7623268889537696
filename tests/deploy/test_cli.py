"""The command line as a user meets it, in processes of its own: help, errors, and what gets imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.__main__ import COMMANDS
from deploy.bundle import Bundle

ROOT = Path(__file__).resolve().parents[2]
# Everything outside the standard library that a device has; numpy and onnxruntime may import what they bring.
DEVICE = {"deploy", "numpy", "cv2", "onnxruntime", "tomli"}
GUARD = """
import sys
from importlib.machinery import PathFinder
class Device:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in ALLOWED or top in sys.stdlib_module_names:
            return PathFinder.find_spec(name, path, target)
ALLOWED = %r
sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not PathFinder] + [Device()]
sys.argv = ["deploy", *sys.argv[1:]]
import runpy
try:
    runpy.run_module("deploy", run_name="__main__", alter_sys=True)
finally:
    tops = {name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names) - {"__main__"}
    print("IMPORTED", *sorted(tops), file=sys.stderr)
"""


def _deploy(
    *arguments: object, code: str | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    start = ["-c", code] if code else ["-m", "deploy"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *start, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=cwd, timeout=120)


def _imported(done: subprocess.CompletedProcess[str]) -> set[str]:
    names = done.stderr.strip().splitlines()[-1].split()[1:]
    return {name for name in names if "cython" not in name}  # part of numpy 1's own binaries


def test_top_help_imports_nothing_heavy() -> None:
    done = _deploy("--help", code=GUARD % {"deploy"})
    assert done.returncode == 0 and all(command in done.stdout for command in COMMANDS)
    assert _imported(done) - _site_modules() == {"deploy"}
    assert _deploy().returncode == 0


def test_everything_runs_with_three_packages_only(
    tiny_bundle: Bundle, colour_folder: Path, tmp_path: Path
) -> None:
    """Any import outside the standard library, numpy, cv2 and onnxruntime raises in the child."""
    steps: list[list[object]] = [
        ["info", tiny_bundle.root],
        ["verify", tiny_bundle.root, "--threads", 1],
        ["run", tiny_bundle.root, colour_folder / "val" / "images", "--out", "o"],
        [
            "bench",
            tiny_bundle.root,
            "--data",
            colour_folder,
            "--frames",
            3,
            "--warmup",
            1,
            "--json",
            "r.json",
        ],
        ["report", "r.json", "--html", "p.html"],
    ]
    for step in steps:
        done = _deploy(*step, code=GUARD % DEVICE, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert _imported(done) - DEVICE <= _site_modules()


def test_the_guard_blocks_what_this_environment_has() -> None:
    for name in ("torch", "onnx", "PIL"):
        done = _deploy(code=f"{(GUARD % DEVICE).split('sys.argv =')[0]}\nimport {name}")
        assert done.returncode == 1 and f"No module named '{name}'" in done.stderr


def _site_modules() -> set[str]:
    """What this environment's .pth files import before any program runs."""
    done = _deploy(code="import sys; print(*{n.partition('.')[0] for n in sys.modules})")
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["verify", "nowhere"], 2, "no bundle at nowhere"),
        (["verify"], 2, "BUNDLE"),
        (["bench", "b", "--threads", "0"], 2, "--threads"),
        (["bench", "b", "--threads", "two"], 2, "--threads"),
        (["run", "b", "i"], 2, "--out"),
        (["report", "none.json", "--html", "x.html"], 2, "no measurement none.json"),
    ],
)
def test_wrong_use_is_one_line(arguments: list[str], status: int, words: str, tmp_path: Path) -> None:
    done = _deploy(*arguments, cwd=tmp_path)
    assert done.returncode == status and words in done.stderr
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1 and done.stdout == ""


def test_missing_data_folder_and_truncated_image(
    tiny_bundle: Bundle, colour_folder: Path, tmp_path: Path
) -> None:
    done = _deploy("bench", tiny_bundle.root, "--data", tmp_path / "none")
    assert done.returncode == 2 and "no data folder" in done.stderr and done.stderr.count("\n") == 1
    data = (colour_folder / "val" / "images" / "0.png").read_bytes()
    (tmp_path / "cut ü.png").write_bytes(data[:60])
    done = _deploy("run", tiny_bundle.root, tmp_path / "cut ü.png", "--out", tmp_path / "o")
    assert done.returncode == 2 and "cut ü.png is truncated" in done.stderr and done.stderr.count("\n") == 1
