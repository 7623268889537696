"""How probes read a device: files below a root and the output of short commands, each with a time limit.

What cannot be read raises `Unreadable` with the reason, which ends as the reason of an absent figure. Tests
give another root and another PATH. Refuses to know what the figures mean.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from threading import Timer
from typing import Any, TypeVar

T = TypeVar("T")
_LIMIT_BYTES = 1 << 20
_LIMIT_S = 5.0


class Unreadable(Exception):
    """Why a figure cannot be had, in a few words."""


class Host:
    """A device to ask.

    Args:
        root: folder that stands for `/`.
        path: folders of its commands, as in $PATH.
        system: "Linux", "Darwin", ...: what `platform.system()` says.
    """

    def __init__(self, root: Path = Path("/"), path: str | None = None, system: str | None = None) -> None:
        self.root = root
        self.path = os.environ.get("PATH", os.defpath) if path is None else path
        self.system = platform.system() if system is None else system

    def text(self, name: str) -> str:
        """A file's text, stripped of white space and zero bytes at its ends.

        Raises:
            Unreadable: missing, not permitted, or empty.
        """
        try:
            with open(self.root / name, "rb") as stream:
                text = stream.read(_LIMIT_BYTES).decode("utf-8", "replace").strip("\0 \n\t")
        except OSError as error:
            raise Unreadable(f"/{name}: {error.strerror}") from error
        if not text:
            raise Unreadable(f"/{name} is empty")
        return text

    def number(self, name: str) -> float:
        """A file that holds one number.

        Raises:
            Unreadable: as in `text`, or no number.
        """
        text = self.text(name)
        try:
            return float(text)
        except ValueError:
            raise Unreadable(f"/{name} holds no number: {text[:40]!r}") from None

    def glob(self, pattern: str) -> list[str]:
        """Files and folders below the root, in their natural order (2 before 10).

        Raises:
            Unreadable: none.
        """
        found = [path.relative_to(self.root).as_posix() for path in self.root.glob(pattern)]
        if not found:
            raise Unreadable(f"no /{pattern}")
        return sorted(
            found, key=lambda name: [int(n) if n.isdigit() else n for n in re.split(r"(\d+)", name)]
        )

    def output(self, *command: str, lines: int | None = None) -> str:
        """What a command prints; with `lines`, it is ended after so many (tegrastats runs for ever).

        Raises:
            Unreadable: not installed, failed, silent or too slow.
        """
        program = shutil.which(command[0], path=self.path)
        if program is None:
            raise Unreadable(f"{command[0]} is not installed")
        try:
            text = _first_lines([program, *command[1:]], lines) if lines else _all([program, *command[1:]])
        except subprocess.TimeoutExpired:
            raise Unreadable(f"{command[0]} took longer than {_LIMIT_S:.0f} s") from None
        except OSError as error:
            raise Unreadable(f"{command[0]}: {error.strerror}") from error
        if not text.strip():
            raise Unreadable(f"{' '.join(command)} printed nothing")
        return text.strip()


class Figures:
    """Collects figures for a dataclass; a reader that raises Unreadable leaves None and its reason."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}
        self.absent: dict[str, str] = {}

    def take(self, name: str, reader: Callable[..., Any], *arguments: Any) -> Any:
        """Read one figure and return it, or None; a text in another format than expected is a reason, too."""
        try:
            self.found[name] = _plain(reader(*arguments))
            self.absent.pop(name, None)
        except Unreadable as reason:
            self.leave(str(reason), name)
        except (ValueError, IndexError, ZeroDivisionError) as error:
            self.leave(f"in another format than expected: {error}", name)
        return self.found[name]

    def leave(self, reason: str, *names: str) -> None:
        """Figures that this platform does not have."""
        for name in names:
            self.found[name] = None
            self.absent[name] = str(_plain(reason))


def _plain(value: Any) -> Any:
    """A text without control characters, of a length that a report may hold; anything else as it is."""
    if not isinstance(value, str):
        return value
    return "".join(char if char.isprintable() else " " for char in value)[:300]


def first(*readers: Callable[[], T]) -> T:
    """The first reader's answer that is there.

    Raises:
        Unreadable: none answered; all their reasons.
    """
    reasons = []
    for reader in readers:
        try:
            return reader()
        except Unreadable as reason:
            reasons.append(str(reason))
    raise Unreadable("; ".join(reasons))


def _all(command: list[str]) -> str:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_LIMIT_S)
    text = done.stdout.decode("utf-8", "replace")
    if done.returncode:
        words = (
            done.stderr.decode("utf-8", "replace").strip().splitlines() or text.strip().splitlines() or [""]
        )
        raise Unreadable(f"{Path(command[0]).name} failed with {done.returncode}: {words[-1][:120]}")
    return text


def _first_lines(command: list[str], lines: int) -> str:
    """Read so many lines, then end the program."""
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        limit = Timer(_LIMIT_S, process.kill)
        limit.start()
        try:
            return b"".join(process.stdout.readline() for _ in range(lines)).decode("utf-8", "replace")
        finally:
            limit.cancel()
            process.kill()
