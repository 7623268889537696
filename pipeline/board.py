"""The rows of a training's log as TensorBoard events: optional, and nothing else depends on it.

Source: torch.utils.tensorboard, which needs the package `tensorboard` (extra `edgeseg[tensorboard]`).
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from deploy.errors import InputError


class Board:
    """Events in a folder, for `tensorboard --logdir runs`.

    Args:
        folder: where; after_step: events after this step are of a stretch that was lost, and are hidden.

    Raises:
        InputError: the package is not installed.
    """

    def __init__(self, folder: Path, after_step: int) -> None:
        require_tensorboard()
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(folder, purge_step=after_step + 1)

    def add(self, step: float, **values: float | None) -> None:
        """One point in the curve of each value."""
        for name, value in values.items():
            if value is not None:
                self._writer.add_scalar(name, value, int(step))

    def close(self) -> None:
        """Write what is buffered."""
        self._writer.close()


def require_tensorboard() -> None:
    """Raise InputError unless the package is installed."""
    if importlib.util.find_spec("tensorboard") is None:
        fix = "pip install 'edgeseg[tensorboard]', or leave --tensorboard out"
        raise InputError("--tensorboard", got="package tensorboard is not installed", fix=fix)
