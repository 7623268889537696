"""The device's side of a remote run: files by their hash, jobs that outlive the connection, their removal.

Started over ssh as `python3 FILE.pyz _ondevice ACTION FOLDER`; everything lies below FOLDER:
`files/<sha256>`, `jobs/<id>/` (bundle, data, log, status, report), `bundles/<name>/`. A job holds a lock as
long as it lives, so that a killed one is told from one that runs. Refuses names that could leave the folder.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import deploy
from deploy.errors import InputError
from deploy.files import atomic_write_text, sha256_file
from deploy.manifest import check_relative_path

_PROGRAM = Path(str(deploy.__file__)).resolve().parent.parent  # the one file
_TAIL = 4096
_BLOCK = 1 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """ACTION FOLDER [NAME]; the rest comes by standard input."""
    parser.add_argument("action", choices=list(_ACTIONS))
    parser.add_argument("folder", type=Path)
    parser.add_argument("name", nargs="?", default="")


def run(args: argparse.Namespace) -> int:
    """Do one action and print its answer as JSON."""
    if args.name and not re.fullmatch(r"\w[\w.+-]{0,120}", args.name):
        raise InputError("name", got=repr(args.name), expected="letters, digits, . + -")
    answer = _ACTIONS[args.action](args.folder, args.name)
    if answer is not None:
        print(json.dumps(answer))
    return 0


def lacking(folder: Path, name: str) -> Any:
    """Of the hashes that come as a JSON list, those that are not here or have changed."""
    return [digest for digest in _read_json() if not _is_here(_file(folder, digest), digest)]


def put(folder: Path, name: str) -> Any:
    """Store files from a stream of (line "sha256 bytes", content); each appears only when it is complete."""
    stored = 0
    while header := sys.stdin.buffer.readline():
        digest, size = header.decode("ascii").split()
        _store(_file(folder, digest), digest, int(size), sys.stdin.buffer)
        stored += 1
    return {"stored": stored}


def lay(folder: Path, name: str) -> Any:
    """Make `bundles/<name>` from stored files: a JSON object path -> sha256."""
    place = folder / "bundles" / name
    shutil.rmtree(place, ignore_errors=True)
    _lay_out(folder, place, _read_json())
    return {"path": str(place)}


def reserve(folder: Path, name: str) -> Any:
    """Announce a job, so that the end of another one leaves the files that are sent for this one."""
    (folder / "jobs" / name).mkdir(parents=True, exist_ok=True)
    return {"id": name}


def start(folder: Path, name: str) -> Any:
    """Lay out a job's folders and start it in a session of its own, so that it outlives this connection."""
    order = _read_json()
    job = folder / "jobs" / name
    for part, files in order["folders"].items():
        check_relative_path(part, "job")
        _lay_out(folder, job / part, files)
    atomic_write_text(job / "order.json", json.dumps(order))
    environment = {**os.environ, "EDGESEG_PROGRESS": "1"}
    with open(job / "lock", "wb") as lock, open(job / "log", "ab") as log:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.Popen(
            [sys.executable, str(_PROGRAM), "_ondevice", "work", str(folder), name],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment,
            start_new_session=True, pass_fds=[lock.fileno()],
        )  # fmt: skip
    return {"id": name}


def work(folder: Path, name: str) -> Any:
    """The job itself: verify, then bench; `status.json` is written last."""
    job = folder / "jobs" / name
    order = json.loads((job / "order.json").read_text())
    for step in order["steps"]:
        code = subprocess.call([sys.executable, str(_PROGRAM), *step], cwd=job)
        if code:
            break
    atomic_write_text(job / "status.json", json.dumps({"code": code, "step": step[0]}))


def poll(folder: Path, name: str) -> Any:
    """A job's state (running, done, failed, killed) and the last line it printed."""
    job = _job(folder, name)
    with open(job / "log", "rb") as log:
        log.seek(max(0, os.path.getsize(job / "log") - _TAIL))
        lines = log.read().decode("utf-8", "replace").replace("\r", "\n").strip().splitlines()
    line = lines[-1].strip() if lines else ""
    if _runs(job):
        return {"state": "running", "line": line}
    if not (job / "status.json").is_file():
        return {"state": "killed", "line": line}
    status = json.loads((job / "status.json").read_text())
    return {"state": "failed" if status["code"] else "done", "line": line, **status}


def fetch(folder: Path, name: str) -> Any:
    """A finished job's report."""
    return json.loads((_job(folder, name) / "report.json").read_text())


def end(folder: Path, name: str) -> Any:
    """Remove a job; stored files stay for the next one."""
    shutil.rmtree(folder / "jobs" / name, ignore_errors=True)
    return {"removed": name}


def clear(folder: Path, name: str) -> Any:
    """Remove everything that was put here, unless another job is here or a bundle was pushed on purpose."""
    end(folder, name)
    others = list(folder.glob("jobs/*"))
    if not others and not any(folder.glob("bundles/*")):
        for part in ("jobs", "files", "bundles"):
            shutil.rmtree(folder / part, ignore_errors=True)
        for path in folder.glob("*edgeseg-*.pyz*"):
            path.unlink()
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    return {"others": len(others)}


_ACTIONS: dict[str, Callable[[Path, str], Any]] = {
    action.__name__: action for action in (lacking, put, lay, reserve, start, work, poll, fetch, end, clear)
}


def _read_json() -> Any:
    return json.loads(sys.stdin.buffer.read())


def _file(folder: Path, digest: str) -> Path:
    if not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise InputError("sha256", got=repr(digest)[:80], expected="64 hexadecimal digits")
    return folder / "files" / digest


def _is_here(path: Path, digest: str) -> bool:
    return path.is_file() and sha256_file(path) == digest


def _store(path: Path, digest: str, size: int, source: BinaryIO) -> None:
    temporary, found = path.with_name(f".{digest}.{os.getpid()}"), hashlib.sha256()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "wb") as target:
            while size and (block := source.read(min(_BLOCK, size))):
                target.write(block)
                found.update(block)
                size -= len(block)
        if size or found.hexdigest() != digest:
            raise InputError("a file arrived incomplete", fix="send it again")
        os.replace(temporary, path)
    except OSError as error:
        raise InputError(
            f"cannot store files in {path.parent}", error.strerror, fix="free space there"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def _lay_out(folder: Path, place: Path, files: Mapping[str, str]) -> None:
    """Give stored files their names: hard links, or copies where the file system has none."""
    for name, digest in files.items():
        check_relative_path(name, str(place))
        source, target = _file(folder, digest), place / name
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(source, target)
        except OSError:
            shutil.copyfile(source, target)


def _job(folder: Path, name: str) -> Path:
    job = folder / "jobs" / name
    if not name or not (job / "log").is_file():
        known = ", ".join(sorted(path.name for path in folder.glob("jobs/*"))) or "none"
        raise InputError(f"no run {name!r} on this device", expected=f"one of: {known}")
    return job


def _runs(job: Path) -> bool:
    """Whether a process still holds the job's lock."""
    try:
        with open(job / "lock", "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False
