"""A real OpenSSH server on the loopback interface, for one test module, with keys of its own.

Skips with the reason where there is none (`make system` installs it) or where it cannot be started.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from getpass import getuser
from pathlib import Path

import pytest


@dataclass
class Server:
    """`uri` with the client's `config`; its connections can be cut."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        return f"ssh://{getuser()}@127.0.0.1:{self.port}"

    @property
    def config(self) -> Path:
        return self.folder / "client"

    def start(self) -> None:
        command = [str(shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")), "-D", "-e", "-f"]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen([*command, str(self.folder / "sshd")], stderr=log)
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        pytest.skip(f"sshd does not start: {(self.folder / 'log').read_text()[-300:]}")

    def cut(self) -> int:
        """End every connection, as a network that breaks does; the server and what runs under it stay."""
        assert self.process
        children = [pid for pid in _children(self.process.pid) if _name(pid).startswith("sshd")]
        inner = [pid for child in children for pid in _children(child) if _name(pid).startswith("sshd")]
        for pid in (*children, *inner):
            os.kill(pid, signal.SIGKILL)
        return len(children)

    def stop(self) -> None:
        self.cut()
        assert self.process
        self.process.terminate()
        self.process.wait()


def _children(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            found += [int(entry.name)] if int(fields[1]) == parent else []
    return found


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A running server that takes one key."""
    if not shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin") or not shutil.which("ssh"):
        pytest.skip("no OpenSSH server and client here; make system installs them")
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # its privilege separation asks for it
    folder = tmp_path_factory.mktemp("sshd")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    shutil.copy(folder / "user.pub", folder / "authorized")
    known = (folder / "host.pub").read_text()
    (folder / "known").write_text("".join(f"[{name}]:{port} {known}" for name in ("127.0.0.1", "localhost")))
    (folder / "sshd").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nPidFile none\nStrictModes no\n"
        "UsePAM no\n"
        f"AuthorizedKeysFile {folder}/authorized\nPasswordAuthentication yes\nPermitRootLogin yes\n"
    )
    write_client(folder / "client", folder / "user", folder / "known")
    found = Server(folder, port)
    found.start()
    yield found
    found.stop()


def write_client(path: Path, key: Path | None, known: Path) -> Path:
    """A client configuration that uses nothing of the user's own."""
    identity = (
        f"IdentityFile {key}\n" if key else "PreferredAuthentications password\nNumberOfPasswordPrompts 1\n"
    )
    path.write_text(
        f"Host *\nUserKnownHostsFile {known}\nGlobalKnownHostsFile none\nStrictHostKeyChecking yes\n"
        f"IdentitiesOnly yes\nIdentityAgent none\n{identity}"
    )
    return path
