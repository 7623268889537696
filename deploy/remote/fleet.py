"""Several devices at once: one thread and one progress line each; one that fails does not stop the others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import TypeVar

from deploy.errors import InputError
from deploy.remote.address import Address, parse_address
from deploy.remote.device import Device
from deploy.remote.ssh import Connection

T = TypeVar("T")
FOLDER = ".edgeseg"


class Lines:
    """A line a device on stderr: kept up to date on a terminal, printed where it changes elsewhere."""

    def __init__(self, names: Sequence[str]) -> None:
        self._texts = dict.fromkeys(names, "connecting")
        self._width = max(map(len, names))
        self._lock, self._drawn, self._terminal = Lock(), False, sys.stderr.isatty()

    def show(self, name: str, text: str) -> None:
        """Replace one device's line."""
        with self._lock:
            if self._texts[name] == text:
                return
            self._texts[name] = text
            if not self._terminal:
                sys.stderr.write(f"{name}: {text}\n")
            else:
                up = f"\033[{len(self._texts)}A" if self._drawn else ""
                lines = (
                    f"\r{key:<{self._width}}  {value[:100]}\033[K\n" for key, value in self._texts.items()
                )
                sys.stderr.write(up + "".join(lines))
                self._drawn = True
            sys.stderr.flush()


def each_device(
    uris: Sequence[str], config: Path | None, folder: str | None, python: str, work: Callable[[Device], T]
) -> Mapping[Address, T | InputError]:
    """Run `work` on every device at once; its result, or the error that ended it.

    Raises:
        InputError: an address that is none, or given twice.
    """
    addresses = [parse_address(uri) for uri in uris]
    if len(set(addresses)) < len(addresses):
        raise InputError("--device", got="an address twice", expected="each once")
    lines = Lines([str(address) for address in addresses])

    def one(address: Address) -> T | InputError:
        try:
            with Connection(address, config) as connection:
                show = lambda text: lines.show(str(address), text)  # noqa: E731
                result = work(Device(connection, folder or FOLDER, python, show))
            lines.show(str(address), "done")
            return result
        except InputError as error:
            lines.show(str(address), "failed")
            return error

    with ThreadPoolExecutor(len(addresses)) as pool:
        return dict(zip(addresses, pool.map(one, addresses), strict=True))
