"""The two errors a user can meet, and how a command line turns them into an exit status.

Knows nothing of images or models. Internal invariants use `assert`; everything a user can cause is one
of the classes here, printed as one line: what | got | expected | how to fix it.
"""

from __future__ import annotations

import errno
import importlib.util
import io
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType

_LONGEST_PART = 1000
_OUT_OF_MEMORY = ("out of memory", "not enough memory", "insufficient memory", "bad_alloc", "bad allocation")


class InputError(Exception):
    """Wrong use or bad input (exit status 2).

    Args:
        what: what is wrong, with the name of the file or option.
        got: the value found.
        expected: the values that would be accepted.
        fix: what the user can do about it.
    """

    exit_status = 2

    def __init__(
        self, what: str, got: object = None, expected: object = None, fix: str | None = None
    ) -> None:
        parts = [what]
        parts += [f"got {got}"] if got is not None else []
        parts += [f"expected {expected}"] if expected is not None else []
        parts += [fix] if fix else []
        super().__init__(" | ".join(_one_line(part) for part in parts))


class GateError(InputError):
    """A contract or gate was not met: parity, golden replay, label gate (exit status 1)."""

    exit_status = 1


def run_cli(main: Callable[[], int | None]) -> int:
    """Run `main` and return its exit status: 0 done, 1 gate not met, 2 wrong use, 130 interrupted.

    A user's mistake, and what the system refuses (no permission, no space), print one line and no stack
    trace; any other exception is a defect and keeps it. SIGTERM cleans up as Ctrl-C does.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names from outside may not fit the encoding
    try:
        with _termination_as_interrupt():
            return main() or 0
    except InputError as error:
        return _fail(error)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if not package or importlib.util.find_spec(package):
            raise  # a part of something installed is missing: a defect
        fix = "make setup, or on a device: pip install 'edgeseg[onnxruntime]'"
        return _fail(InputError(f"package {package} is not installed", fix=fix))
    except BrokenPipeError:
        sys.stderr.close()  # the reader went away (`| head`): not an error of ours
        return 0
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except OSError as error:
        if error.errno is None:
            raise
        if error.errno == errno.ENOSPC and not error.filename:
            return _fail(InputError("the disk is full", fix="free space, or write to another place"))
        return _fail(InputError(f"cannot use {error.filename or 'a file'}", got=error.strerror))
    except Exception as error:
        if not _is_out_of_memory(error):
            raise
        fix = "take a smaller size or batch, or a machine with more memory"
        return _fail(InputError("out of memory", got=str(error) or None, fix=fix))


def raise_all(errors: Sequence[InputError]) -> None:
    """What went wrong one by one, after all else is done: a line each; the first one is raised."""
    for other in errors[1:]:
        _fail(other)
    if errors:
        raise errors[0]


def _fail(error: InputError) -> int:
    print(f"error: {error}", file=sys.stderr)
    return error.exit_status


def _is_out_of_memory(error: Exception) -> bool:
    """Python's own error, or what the numerical libraries raise instead (each another class)."""
    told = str(error).lower()
    return isinstance(error, MemoryError) or any(words in told for words in _OUT_OF_MEMORY)


def _one_line(part: str) -> str:
    """White space folded, and nobody's huge value in full."""
    text = " ".join(part.split())
    return text if len(text) <= _LONGEST_PART else f"{text[:_LONGEST_PART]}..."


@contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt, so that temporary files are removed."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if current_thread() is not main_thread():  # no other thread may set a handler
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
