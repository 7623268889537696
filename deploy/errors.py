"""The two errors a user can meet, and how a command line turns them into an exit status.

Knows nothing of images or models. Internal invariants use `assert`; everything a user can cause is one
of the classes here, printed as one line: what | got | expected | how to fix it.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable


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
        super().__init__(" | ".join(" ".join(str(part).split()) for part in parts))


class GateError(InputError):
    """A contract or gate was not met: parity, golden replay, label gate (exit status 1)."""

    exit_status = 1


def run_cli(main: Callable[[], int | None]) -> int:
    """Run `main` and return its exit status: 0 done, 1 gate not met, 2 wrong use, 130 interrupted.

    A user's mistake prints one line and no stack trace; any other exception is a defect and keeps it.
    """
    try:
        return main() or 0
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if not package or importlib.util.find_spec(package):
            raise  # a part of something installed is missing: a defect
        fix = "make setup, or on a device: pip install 'edgeseg[onnxruntime]'"
        print(f"error: {InputError(f'package {package} is not installed', fix=fix)}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        sys.stderr.close()  # the reader went away (`| head`): not an error of ours
        return 0
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
