"""One device, over one connection: program and files sent by hash, jobs started, watched and collected.

A dropped connection is made again; the job does not notice. Refuses to trust what comes back: a report is
read as any other file from outside.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from secrets import token_hex
from typing import Any

from deploy.errors import GateError, InputError
from deploy.files import sha256_file
from deploy.measurement import Measurement, read_measurement
from deploy.onefile import device_file
from deploy.remote.ssh import Connection, ConnectionLost, RemoteError, plain

Show = Callable[[str], None]
Folder = Mapping[str, Path]  # path on the device, below a folder -> file here
_BLOCK = 1 << 18
_POLL_S = 1.0
_PATIENCE_S = 60.0
# Stores the one file and checks it, with nothing but the device's own Python.
_FIRST = """
import hashlib, os, sys
folder, name, digest = sys.argv[1:]
if sys.version_info < (3, 10): sys.exit("error: Python %d.%d | expected >= 3.10" % sys.version_info[:2])
path = os.path.join(folder, name)
if os.path.isfile(path) and hashlib.sha256(open(path, "rb").read()).hexdigest() == digest: sys.exit(0)
data = sys.stdin.buffer.read()
if not data: sys.exit(7)
if hashlib.sha256(data).hexdigest() != digest: sys.exit("error: the program arrived incomplete")
try:
    os.makedirs(folder, exist_ok=True)
    with open(path + ".part", "wb") as target: target.write(data)
    os.replace(path + ".part", path)
except OSError as error:
    try: os.unlink(path + ".part")
    except OSError: pass
    try: os.rmdir(folder)
    except OSError: pass
    sys.exit("error: cannot store the program in %s | got %s | free space there" % (folder, error.strerror))
"""


class Device:
    """Args:
    connection: open.
    folder: where everything lies there, relative to the home folder.
    python: its interpreter.
    show: takes a line about what is going on.
    """

    def __init__(self, connection: Connection, folder: str, python: str, show: Show) -> None:
        self._connection, self._folder, self.python, self.show = connection, folder, python, show
        self.program = ""

    def send_program(self) -> None:
        """Copy the one file, unless this very one is there."""
        data = device_file()
        digest = hashlib.sha256(data).hexdigest()
        name = f"edgeseg-{digest[:16]}.pyz"
        command = shlex.join([self.python, "-c", _FIRST, self._folder, name, digest])
        try:
            self._connection.run(command)
        except RemoteError:
            self.show("sending the program")
            self._connection.run(command, _blocks(data))
        self.program = f"{self._folder}/{name}"

    def send(self, files: Folder) -> dict[str, str]:
        """Copy the files that the device lacks; path -> sha256 of all of them."""
        digests = {name: sha256_file(path) for name, path in files.items()}
        wanted = self._ask("lacking", sent=json.dumps(sorted(set(digests.values()))))
        by_digest = {digests[name]: path for name, path in files.items()}
        missing = {digest: by_digest[digest] for digest in wanted if digest in by_digest}
        total = sum(path.stat().st_size for path in missing.values())
        self.show(f"sending {len(missing)} of {len(files)} files, {total / 1e6:.1f} MB")
        if missing:
            self._ask("put", sent=_stream(missing))
        return digests

    def reserve(self) -> str:
        """The id of a job that will be started."""
        name = f"{datetime.now(timezone.utc):%Y%m%d-%H%M%S}-{token_hex(3)}"
        self._ask("reserve", name)
        return name

    def start(self, job: str, folders: Mapping[str, Mapping[str, str]], steps: list[list[str]]) -> None:
        """Start a job on folders of sent files."""
        self._ask("start", job, sent=json.dumps({"folders": folders, "steps": steps}))

    def wait(self, job: str) -> None:
        """Watch a job until it has ended; connects again where the connection breaks.

        Raises:
            ConnectionLost: gone for good; the job runs on. GateError: the job failed or was killed.
        """
        while (state := self._poll(job))["state"] == "running":
            if line := _line(state):
                self.show(line)
            time.sleep(_POLL_S)
        if state["state"] == "killed":
            raise GateError(
                f"{self._connection.address}: the run was killed", got=_line(state) or "no output"
            )
        if state["state"] != "done":
            raise GateError(f"{self._connection.address}: {state.get('step')} failed", got=_line(state))

    def fetch(self, job: str) -> Measurement:
        """The job's report, checked as any file from outside."""
        with tempfile.TemporaryDirectory(prefix="edgeseg-") as folder:
            path = Path(folder) / "report.json"
            path.write_bytes(self._run(self._command("fetch", job)))
            return read_measurement(path)

    def lay(self, name: str, digests: Mapping[str, str]) -> str:
        """Make a folder of sent files that stays there; returns its path."""
        return str(self._ask("lay", name, sent=json.dumps(dict(digests)))["path"])

    def call(self, *arguments: str) -> str:
        """Run the one file with these arguments and return what it prints."""
        command = shlex.join([self.python, self.program, *arguments])
        return plain(self._run(command).decode("utf-8", "replace"))

    def end(self, job: str | None, leave: bool) -> None:
        """Remove the job, and with `leave` false everything else that was put there; raises nothing."""
        with contextlib.suppress(InputError):
            self._ask("end" if leave else "clear", job or "none")

    def _poll(self, job: str) -> dict[str, Any]:
        value = self._ask("poll", job)
        return value if isinstance(value, dict) and "state" in value else {"state": "killed"}

    def _ask(self, action: str, name: str = "", sent: str | Iterator[bytes] = "") -> Any:
        data = (_blocks(sent.encode()) if sent else None) if isinstance(sent, str) else sent
        answer = self._run(self._command(action, name), data)
        try:
            return json.loads(answer)
        except ValueError as error:
            got = plain(answer.decode("utf-8", "replace"))[:120]
            raise InputError(f"{self._connection.address}: {action} gave no answer", got=got) from error

    def _command(self, action: str, name: str) -> str:
        words = [self.python, self.program, "_ondevice", action, self._folder, *([name] if name else [])]
        return shlex.join(words)

    def _run(self, command: str, sent: Iterator[bytes] | None = None) -> bytes:
        """Run a command; what takes no input is tried again over a new connection for a minute."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                return self._connection.run(command, sent or ())
            except ConnectionLost:
                self.show("connection lost, trying again")
                if sent is not None or not self._reconnect(deadline):
                    raise

    def _reconnect(self, deadline: float) -> bool:
        while time.monotonic() < deadline:
            try:
                self._connection.open()
                return True
            except ConnectionLost:
                time.sleep(_POLL_S)
        return False


def _line(state: Mapping[str, Any]) -> str:
    return plain(str(state.get("line", ""))).removeprefix("error: ")[:300]


def _blocks(data: bytes) -> Iterator[bytes]:
    for position in range(0, len(data), _BLOCK):
        yield data[position : position + _BLOCK]


def _stream(files: Mapping[str, Path]) -> Iterator[bytes]:
    """Each file after a line with its hash and size."""
    for digest, path in files.items():
        yield f"{digest} {path.stat().st_size}\n".encode()
        with open(path, "rb") as source:
            while block := source.read(_BLOCK):
                yield block
