"""The CSV log of a training: one row every few steps, and one at each validation.

`seconds` is wall time since the row before (steps, waiting for data, validation, checkpoints), so its sum is
what the training took, however often it was interrupted. After a resume the log is cut back to the length it
had at the checkpoint, so that no step is logged twice.
"""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

from deploy.errors import InputError

COLUMNS = ("step", "epoch", "lr", "loss", "images_per_s", "val_miou", "val_pixel_accuracy", "seconds")


class Logbook:
    """An appended CSV file.

    Args:
        path: the file; length: bytes to keep of it (what a checkpoint noted), 0 to start anew.

    Raises:
        InputError: the file cannot be written.
    """

    def __init__(self, path: Path, length: int = 0) -> None:
        self.path = path
        try:
            self._file = open(path, "r+b" if path.exists() else "w+b")  # noqa: SIM115
            self._file.truncate(min(length, os.path.getsize(path)))
            self._file.seek(0, os.SEEK_END)
        except OSError as error:
            raise InputError(f"cannot write {path}", got=error.strerror) from error
        self.columns = self._header() or COLUMNS
        if not self._file.tell():
            self._write(COLUMNS)

    def add(self, **values: float | None) -> None:
        """One row; columns not given stay empty."""
        unknown = set(values) - set(COLUMNS)
        assert not unknown, unknown
        self._write([_text(values.get(name)) for name in self.columns])

    def length(self) -> int:
        """Bytes so far, all of them on disk when this returns."""
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise InputError(f"cannot write {self.path}", got=error.strerror, fix="free space") from error
        return self._file.tell()

    def close(self) -> None:
        """Write what is buffered."""
        self.length()
        self._file.close()

    def _header(self) -> list[str]:
        """Columns of a log that goes on (it may be older than this program), empty for a new one."""
        self._file.seek(0)
        line = self._file.readline().decode("utf-8", "replace").rstrip("\n")
        self._file.seek(0, os.SEEK_END)
        return line.split(",") if line else []

    def _write(self, row: tuple[str, ...] | list[str]) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(row)
        try:
            self._file.write(text.getvalue().encode())
        except OSError as error:
            raise InputError(f"cannot write {self.path}", got=error.strerror, fix="free space") from error


def read_log(path: Path) -> list[dict[str, float]]:
    """Rows of a log as numbers, without the empty cells."""
    with open(path, newline="", encoding="utf-8") as stream:
        return [{k: float(v) for k, v in row.items() if k and v} for row in csv.DictReader(stream)]


def _text(value: float | None) -> str:
    return "" if value is None else str(value) if isinstance(value, int) else f"{value:.6g}"
