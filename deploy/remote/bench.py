"""`bench BUNDLE --device URI`: send, verify and measure on devices, and bring the reports back.

A run goes on where the connection breaks; `--attach ID` takes it up again. Nothing stays on a device unless
`--leave` asks for it, so that the next run sends only what has changed.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from deploy.bundle import MANIFEST_FILE, load_bundle
from deploy.errors import GateError, InputError
from deploy.labels import list_pairs, read_dataset
from deploy.measurement import Measurement
from deploy.remote.device import Device, Folder
from deploy.remote.fleet import each_device
from deploy.remote.ssh import ConnectionLost


def measure_on(args: argparse.Namespace) -> tuple[dict[str, Measurement], list[InputError]]:
    """(device -> its measurement, the errors of the others), when all have ended.

    Raises:
        InputError: options that contradict each other, or a bundle or data that cannot be sent.
    """
    if args.attach and len(args.device) > 1:
        raise InputError("--attach", got=f"{len(args.device)} devices", expected="one")
    data = _data_files(args.data, args.split)
    folders = {"bundle": bundle_files(args.bundle), **({"data": data} if data else {})}
    steps = _steps(args)
    results = each_device(
        args.device, args.ssh_config, args.remote_dir, args.python,
        lambda device: _measure(device, args.attach, folders, steps, args.leave),
    )  # fmt: skip
    found = {str(key): value for key, value in results.items() if isinstance(value, Measurement)}
    return found, [value for value in results.values() if isinstance(value, InputError)]


def _measure(
    device: Device, job: str | None, folders: Mapping[str, Folder], steps: list[list[str]], leave: bool
) -> Measurement:
    """One device, from the first file to its report; a job that is given is only taken up again."""
    attached = job is not None
    try:
        device.send_program()
        if job is None:
            job = device.reserve()
            device.start(job, {name: device.send(files) for name, files in folders.items()}, steps)
            device.show(f"started, {job}")
        device.wait(job)
        found = device.fetch(job)
    except ConnectionLost as error:
        raise ConnectionLost(f"{error} | the run goes on: --attach {job}" if job else f"{error}") from error
    except InputError as error:
        if not attached or isinstance(error, GateError):
            device.end(job, leave)
        raise
    device.end(job, leave)
    return found


def bundle_files(root: Path) -> dict[str, Path]:
    """Path in the bundle -> file, of a checked bundle."""
    bundle = load_bundle(root)
    listed = {entry.path: bundle.path(entry) for entry in bundle.manifest.files}
    return {MANIFEST_FILE: root / MANIFEST_FILE, **listed}


def _data_files(root: Path | None, split: str) -> dict[str, Path]:
    """A split of a labelled folder, and its dataset.toml."""
    if root is None:
        return {}
    info = read_dataset(root)
    paths = [path for pair in list_pairs(info, split) for path in (pair.image, pair.mask)]
    return {path.relative_to(root).as_posix(): path for path in [root / "dataset.toml", *paths]}


def _steps(args: argparse.Namespace) -> list[list[str]]:
    """What the job runs there, one after the other."""
    same = ["--threads", str(args.threads)] if args.threads else []
    same += ["--domain", args.domain] if args.domain else []
    bench = ["bench", "bundle", *same, "--frames", str(args.frames), "--warmup", str(args.warmup)]
    bench += ["--data", "data", "--split", args.split] if args.data else []
    bench += ["--offline"] if args.offline else []
    bench += ["--sustained", f"{args.sustained:g}s"] if args.sustained else []
    bench += ["--provider", args.provider] if args.provider else []
    return [["verify", "bundle", *same], [*bench, "--json", "report.json"]]
