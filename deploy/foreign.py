"""Files from anywhere in other people's parsers: whatever a damaged one makes them raise is one error."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.errors import InputError


@contextmanager
def reading(path: Path, kind: str) -> Iterator[None]:
    """Run a parser on `path`, and keep its warnings to itself.

    Raises:
        InputError: for anything it raises; `kind` says what was expected.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (InputError, ModuleNotFoundError):
        raise
    except Exception as error:  # parsers of hostile bytes raise anything
        got = f"{type(error).__name__}: {error}"
        raise InputError(f"{path} cannot be read", got=got, expected=f"a complete {kind} file") from error
