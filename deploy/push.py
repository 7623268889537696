"""`push BUNDLE --device URI`: a bundle and the program that runs it, copied to devices and verified there.

Only what a device lacks is sent, by hash. Both stay there, in ~/.edgeseg unless --remote-dir says otherwise.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from deploy.options import add_device

if TYPE_CHECKING:
    from deploy.remote.device import Device


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `push`."""
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", help="folder of the bundle")
    add_device(parser, required=True)


def run(args: argparse.Namespace) -> int:
    """Copy to every device; exit status of the first that failed."""
    from deploy.errors import InputError
    from deploy.remote.bench import bundle_files
    from deploy.remote.fleet import each_device

    files = bundle_files(args.bundle)
    name = re.sub(r"[^A-Za-z0-9_.+-]", "_", args.bundle.resolve().name).lstrip(".+-")[:100] or "bundle"

    def work(device: Device) -> str:
        device.send_program()
        place = device.lay(name, device.send(files))
        device.call("verify", place)
        return f"{device.python} {device.program} bench {place}"

    results = each_device(args.device, args.ssh_config, args.remote_dir, args.python, work)
    for address, result in results.items():
        if not isinstance(result, InputError):
            print(f"{address}: verified; there: {result}")
    errors = [result for result in results.values() if isinstance(result, InputError)]
    if errors:
        raise errors[0]
    return 0
