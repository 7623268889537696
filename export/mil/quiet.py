"""coremltools without its chatter: it warns of missing macOS libraries and untested versions, and draws bars.

What it raises still arrives. Refuses to know what it is asked to do.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import warnings
from collections.abc import Iterator
from typing import Any


def coremltools(name: str = "") -> Any:
    """The module `coremltools`, or `coremltools.<name>`, imported without its messages."""
    with quiet():
        return importlib.import_module(f"coremltools.{name}" if name else "coremltools")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Neither warnings nor anything on stderr."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
