"""One connection to a device by the OpenSSH client, shared by all commands (one log-in, one password prompt).

Host keys, keys and passwords are ssh's own business; its refusals become one line with what helps. Refuses to
know what is run. Source: OpenSSH's manual pages ssh(1) and ssh_config(5).
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from deploy.errors import InputError
from deploy.remote.address import Address

_LOST = 255  # ssh's own exit status where the connection, not the command, failed
_LIMIT = 4 << 20
_ALIVE = ("ConnectTimeout=15", "ServerAliveInterval=5", "ServerAliveCountMax=3")
_HELP = {
    "host key verification failed": "unknown or changed host key: see `ssh-keygen -R`, then ssh to it once",
    "permission denied": "check the user, the password or the key: ssh must work by hand",
    "could not resolve": "check the name",
    "connection refused": "is its ssh server running?",
    "timed out": "is it switched on and reachable?",
}


class ConnectionLost(InputError):
    """The connection broke or could not be made; the command may run on."""


class RemoteError(InputError):
    """The command ran and failed; its last line says why."""


class Connection:
    """A context manager around one shared connection.

    Args:
        address: the device.
        config: an ssh configuration file instead of the user's own.

    Raises:
        ConnectionLost: ssh is refused or cannot reach the device.
    """

    def __init__(self, address: Address, config: Path | None = None) -> None:
        self.address = address
        self._options = ["-F", str(config)] if config else []
        self._options += [word for option in _ALIVE for word in ("-o", option)]
        self._folder = Path(tempfile.mkdtemp(prefix="edgeseg-ssh-"))
        self._socket = self._folder / "s"
        self._master: subprocess.Popen[bytes] | None = None

    def open(self) -> None:
        """Connect, or connect again."""
        self._end_master()
        command = ["ssh", *self._options, "-M", "-N", "-S", str(self._socket), *self.address.arguments()]
        with open(self._folder / "log", "wb") as log:
            try:
                self._master = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            except FileNotFoundError as error:
                fix = "install OpenSSH's client"
                raise InputError("ssh is not installed here", fix=fix) from error
        while not self._socket.exists():
            if self._master.poll() is not None:
                raise self._lost((self._folder / "log").read_bytes())
            time.sleep(0.02)

    def run(self, command: str, sent: Iterable[bytes] = ()) -> bytes:
        """What a command prints, given `sent` as its input.

        Raises:
            ConnectionLost: see there. RemoteError: the command failed.
        """
        shared = ["-S", str(self._socket), "-o", "ControlMaster=no", "-o", "BatchMode=yes"]
        words = ["ssh", *self._options, *shared, *self.address.arguments(), command]
        with open(self._folder / "errors", "w+b") as errors, open(self._folder / "out", "w+b") as out:
            with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=out, stderr=errors) as process:
                _feed(process, sent)
            out.seek(0)
            errors.seek(0)
            if process.returncode == _LOST:
                raise self._lost(errors.read(_LIMIT))
            if process.returncode:
                raise RemoteError(f"{self.address}: {_last_line(errors.read(_LIMIT) or out.read(_LIMIT))}")
            return out.read(_LIMIT)

    def close(self) -> None:
        """End the connection and leave no file."""
        self._end_master()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Connection:
        try:
            self.open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _end_master(self) -> None:
        if self._master:
            self._master.terminate()
            self._master.wait()
        self._socket.unlink(missing_ok=True)

    def _lost(self, text: bytes) -> ConnectionLost:
        words = plain(text.decode("utf-8", "replace"))
        fix = next((help_ for sign, help_ in _HELP.items() if sign in words.lower()), None)
        return ConnectionLost(f"{self.address}: no connection", got=_last_line(text), fix=fix)


def plain(text: str) -> str:
    """A device's text without control characters, so that it cannot steer this terminal."""
    return "".join(char if char.isprintable() or char == "\n" else " " for char in text)


def _feed(process: subprocess.Popen[bytes], sent: Iterable[bytes]) -> None:
    assert process.stdin is not None
    try:
        for block in sent:
            process.stdin.write(block)
        process.stdin.close()
    except BrokenPipeError:
        pass  # the other end has gone: its exit status says why
    process.wait()


def _last_line(text: bytes) -> str:
    lines = [line for line in plain(text.decode("utf-8", "replace")).splitlines() if line.strip()]
    return (lines[-1].removeprefix("error: ") if lines else "it said nothing")[:500]
