"""bench and push over a real ssh connection, and everything that can go wrong with one."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy import bench, push
from deploy.bundle import Bundle
from deploy.errors import GateError, InputError
from deploy.measurement import read_measurement
from deploy.options import Parser
from deploy.remote import device as remote_device
from deploy.remote.address import Address, parse_address
from deploy.remote.ssh import ConnectionLost
from deploy.turns import measured

from .conftest import Server, write_client

Run = Callable[..., int]


@pytest.fixture(autouse=True)
def no_file_stays_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever happens, the host's temporary folder is empty afterwards (a short path: it holds a socket)."""
    folder = tempfile.mkdtemp()
    monkeypatch.setattr(tempfile, "tempdir", folder)
    yield
    assert list(Path(folder).iterdir()) == []
    Path(folder).rmdir()


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """The folder on the device."""
    return tmp_path / "device" / "edgeseg"


@pytest.fixture
def run(server: Server, there: Path) -> Run:
    """run("bench" or "push", bundle, options...) on the server's device."""
    there.parent.mkdir()

    def call(
        command: str, bundle: Path, *options: object, uri: str = server.uri, config: Path | None = None
    ) -> int:
        module: Any = {"bench": bench, "push": push}[command]
        parser = Parser()
        module.add_arguments(parser)
        words = [bundle, "--device", uri, "--ssh-config", config or server.config, "--remote-dir", there]
        words += ["--python", sys.executable, *options]
        return int(module.run(parser.parse_args([str(word) for word in words])))

    return call


def test_a_report_comes_back_and_nothing_stays(
    run: Run, tiny_bundle: Bundle, colour_folder: Path, there: Path, tmp_path: Path, capfd: Any
) -> None:
    out = tmp_path / "r.json"
    options = ["--frames", 5, "--warmup", 1, "--threads", 1, "--data", colour_folder, "--json", out]
    assert run("bench", tiny_bundle.root, *options) == 0
    m = read_measurement(out)
    assert m.bundle_sha256 == tiny_bundle.sha256 and m.images == 3 and m.miou is not None and m.threads == 1
    assert m.frames == 5 and m.command.startswith("python -m deploy bench bundle --threads 1")
    captured = capfd.readouterr()
    assert "sending the program" in captured.err and "done" in captured.err and "latency" in captured.out
    assert not there.exists()


def test_another_program_measures_there_too(server: Server, tiny_bundle: Bundle, there: Path) -> None:
    """As a search for a precision plan does: with the device among its words, in a process of its own."""
    there.parent.mkdir()
    words = ["--device", server.uri, "--ssh-config", server.config, "--remote-dir", there]
    words += ["--python", sys.executable, "--frames", 3, "--warmup", 1, "--threads", 1]
    found = measured(tiny_bundle.root, [str(word) for word in words])
    assert found.bundle_sha256 == tiny_bundle.sha256 and found.frames == 3 and found.latency_ms.p50 > 0


def test_only_what_has_changed_is_sent(run: Run, make_bundle: Any, there: Path, capfd: Any) -> None:
    bundle = make_bundle("labels", name="first")
    quick = ["--frames", 2, "--warmup", 1, "--leave"]
    run("bench", bundle.root, *quick)
    assert "sending 3 of 3 files" in capfd.readouterr().err and not list(there.glob("jobs/*"))
    run("bench", bundle.root, *quick)
    again = capfd.readouterr().err
    assert "sending 0 of 3 files" in again and "sending the program" not in again
    (there / "files" / max((p.stat().st_size, p.name) for p in (there / "files").iterdir())[1]).write_text(
        "rot"
    )
    run("push", make_bundle("labels", name="second").root)
    assert "sending 2 of 3 files" in capfd.readouterr().err, (
        "another manifest, and the file that rotted there"
    )


def test_push_leaves_a_bundle_that_is_verified(
    run: Run, tiny_bundle: Bundle, there: Path, capfd: Any
) -> None:
    assert run("push", tiny_bundle.root) == 0
    command = capfd.readouterr().out.partition("there: ")[2].strip()
    done = subprocess.run(
        f"{command} --frames 2 --warmup 1", shell=True, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and "latency" in done.stdout, done.stderr
    run("bench", tiny_bundle.root, "--frames", 2, "--warmup", 1)
    assert list(there.glob("bundles/*/bundle.json")), "what was pushed on purpose stays"


def _when(condition: Callable[[], bool], then: Callable[[], Any]) -> threading.Thread:
    """Do something as soon as a condition holds, beside the run."""

    def watch() -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not condition():
            time.sleep(0.05)
        then()

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def _measuring(there: Path) -> Callable[[], bool]:
    return lambda: any("sustained" in log.read_text() for log in there.glob("jobs/*/log"))


LONG = ["--frames", 2, "--warmup", 1, "--sustained", "6s"]


def test_a_cut_connection_is_made_again_and_the_run_does_not_notice(
    run: Run, server: Server, tiny_bundle: Bundle, there: Path, tmp_path: Path
) -> None:
    cuts: list[int] = []
    watch = _when(_measuring(there), lambda: cuts.append(server.cut()))
    assert run("bench", tiny_bundle.root, *LONG, "--json", tmp_path / "r.json") == 0
    watch.join()
    curve = read_measurement(tmp_path / "r.json").sustained
    assert cuts and cuts[0] >= 1, "a connection was cut"
    assert curve is not None and curve.duration_s >= 6 and not there.exists()


def test_a_device_that_is_gone_can_be_attached_to_later(
    run: Run,
    server: Server,
    tiny_bundle: Bundle,
    there: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remote_device, "_PATIENCE_S", 0.5)
    watch = _when(_measuring(there), server.stop)
    with pytest.raises(ConnectionLost, match=r"the run goes on: --attach (\S+)") as error:
        run("bench", tiny_bundle.root, *LONG)
    watch.join()
    server.start()
    job = str(error.value).rpartition(" ")[2]
    assert run("bench", tiny_bundle.root, "--attach", job, "--json", tmp_path / "r.json") == 0
    assert read_measurement(tmp_path / "r.json").sustained is not None and not there.exists()
    with pytest.raises(InputError, match=f"no run '{job}' on this device"):
        run("bench", tiny_bundle.root, "--attach", job)


def test_a_run_that_is_killed_says_so(run: Run, tiny_bundle: Bundle, there: Path) -> None:
    def kill() -> None:
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    words = (entry / "cmdline").read_bytes().split(b"\0")
                    here = os.readlink(entry / "cwd").startswith(str(there))
                except OSError:
                    continue
                if (b"work" in words and str(there).encode() in words) or here:
                    os.kill(int(entry.name), signal.SIGKILL)

    watch = _when(_measuring(there), kill)
    with pytest.raises(GateError, match="the run was killed"):
        run("bench", tiny_bundle.root, *LONG)
    watch.join()
    assert not there.exists()


def test_a_bundle_that_fails_there_leaves_nothing(run: Run, make_bundle: Any, there: Path) -> None:
    from deploy.bundle import Golden

    never = make_bundle("logits", golden=Golden("golden.npz", 0.0, 1.0), name="never")
    broken = never.root / "golden.npz"
    shutil.copy(broken, broken.with_suffix(".bak"))
    with pytest.raises(GateError, match=r"verify failed \| got golden not met"):
        run("bench", never.root, "--frames", 1)
    assert not there.exists()


def test_a_full_disk_is_said_and_nothing_stays(
    run: Run, make_bundle: Any, there: Path, tmp_path: Path
) -> None:
    there.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(there)]
    if os.getuid() or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("no right to mount a small file system here")
    try:
        bundle = make_bundle("labels", size=(512, 1024))  # 3 MB of golden
        with pytest.raises(
            InputError, match=r"cannot store files in .* No space left on device.* free space"
        ):
            run("bench", bundle.root, "--frames", 1)
        assert [path for path in there.rglob("*") if path.is_file()] == []
        (there / "ballast").write_bytes(bytes((1 << 20) - (40 << 10)))
        with pytest.raises(InputError, match=r"cannot store the program in .* No space left on device"):
            run("bench", bundle.root, "--frames", 1)
        assert [path.name for path in there.rglob("*")] == ["ballast"]
    finally:
        subprocess.run(["umount", str(there)], check=True)


def test_a_wrong_host_key(run: Run, server: Server, tiny_bundle: Bundle, tmp_path: Path) -> None:
    (tmp_path / "known").write_text(f"[127.0.0.1]:{server.port} {(server.folder / 'user.pub').read_text()}")
    config = write_client(tmp_path / "client", server.folder / "user", tmp_path / "known")
    with pytest.raises(ConnectionLost, match=r"Host key verification failed.* unknown or changed host key"):
        run("bench", tiny_bundle.root, config=config)


def test_a_wrong_password(
    run: Run, server: Server, tiny_bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = tmp_path / "ask"
    asked.write_text("#!/bin/sh\necho wrong\n")
    asked.chmod(0o755)
    monkeypatch.setenv("SSH_ASKPASS", str(asked))
    monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "force")
    config = write_client(tmp_path / "client", None, server.folder / "known")
    with pytest.raises(ConnectionLost, match=r"Permission denied.* check the user, the password or the key"):
        run("bench", tiny_bundle.root, config=config)


def test_nobody_there(run: Run, tiny_bundle: Bundle) -> None:
    with pytest.raises(ConnectionLost, match=r"Connection refused.* ssh server"):
        run("bench", tiny_bundle.root, uri="ssh://127.0.0.1:1")


def test_a_device_without_python(run: Run, tiny_bundle: Bundle, there: Path) -> None:
    with pytest.raises(InputError, match="no-such-python"):
        run("bench", tiny_bundle.root, "--python", "no-such-python")
    assert not there.exists()


def test_several_devices_at_once(
    run: Run, server: Server, tiny_bundle: Bundle, tmp_path: Path, capfd: Any
) -> None:
    """Two names of one machine, and one that is not there: the others' reports are kept."""
    other = ["--device", server.uri.replace("127.0.0.1", "localhost")]
    options = ["--frames", 2, "--warmup", 1, "--keep", tmp_path / "kept", "--device", "ssh://127.0.0.1:1"]
    with pytest.raises(ConnectionLost, match="Connection refused"):
        run("bench", tiny_bundle.root, *other, *options)
    errors = capfd.readouterr().err
    assert "@127.0.0.1: done" in errors and "@localhost: done" in errors
    assert len([read_measurement(path) for path in (tmp_path / "kept").glob("*.json")]) == 2
    with pytest.raises(InputError, match=r"--json \| got 2 devices"):
        run("bench", tiny_bundle.root, *other, "--json", tmp_path / "r.json")


def test_addresses() -> None:
    assert parse_address("ssh://pi@raspberrypi.local") == Address("raspberrypi.local", "pi")
    assert parse_address("ssh://jetson:2222").arguments() == ["-p", "2222", "jetson"]


@pytest.mark.parametrize(
    "text",
    ["pi@host", "http://host", "ssh://", "ssh://-oProxyCommand=x", "ssh://a b@host", "ssh://host/path",
     "ssh://user:secret@host", "ssh://host:99999", "ssh://-l@host", "ssh://ho;st"],
)  # fmt: skip
def test_addresses_that_are_none(text: str) -> None:
    with pytest.raises(InputError, match="device"):
        parse_address(text)
