"""Reports that visitors send: bounded, valid, of a bundle served here, not too many; kept by their hash.

The time and the command are the server's own: a visitor's clock and words prove nothing. Refuses to believe
that figures are true; only that they are possible.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from deploy.bundle import Bundle
from deploy.errors import InputError
from deploy.measurement import FILE_LIMIT, Measurement, identity, keep_measurement, measurement_from_json
from deploy.schema import parse_json
from deploy.server.catalog import labelled

TARGET = "onnxruntime-web"
MOST_REPORTS = 2000  # in the folder
_NEVER = ("offline", "sustained", "interrupted", "dice", "volume_dice")  # what the page does not measure
_PER_MINUTE = 12  # of one visitor
_ALL_PER_MINUTE = 120
_WINDOW_S = 60.0


class Refused(Exception):
    """A report that is not taken: HTTP status, and why in one line."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Rate:
    """How often visitors may write; what is older than a minute is forgotten."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: list[tuple[float, str]] = []

    def take(self, visitor: str) -> None:
        """Count one try; refuses when there were too many."""
        now = self._clock()
        self._seen = [(when, who) for when, who in self._seen if now - when < _WINDOW_S]
        own = sum(who == visitor for _, who in self._seen)
        if own >= _PER_MINUTE or len(self._seen) >= _ALL_PER_MINUTE:
            raise Refused(429, "too many reports, wait a minute")
        self._seen.append((now, visitor))


async def read_body(chunks: AsyncIterator[bytes], declared: str | None) -> bytes:
    """At most `FILE_LIMIT` bytes; a larger one is refused before it is read.

    Args:
        declared: the Content-Length.
    """
    if declared and (not declared.isdecimal() or int(declared[:20]) > FILE_LIMIT):
        raise Refused(413, f"a report has at most {FILE_LIMIT} bytes")
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > FILE_LIMIT:
            raise Refused(413, f"a report has at most {FILE_LIMIT} bytes")
    return bytes(body)


class Intake:
    """Takes reports into a folder.

    Args:
        command: how the server was started; it stands in every report.
    """

    def __init__(self, folder: Path, bundles: Mapping[str, Bundle], command: str) -> None:
        self.folder, self._command = folder, command
        told = map(_told, bundles.values())
        self._own = {(one["bundle_sha256"], one["name"]): one for one in told}

    def keep(self, body: bytes) -> Path:
        """The file that now holds the report.

        Raises:
            Refused: not JSON, no measurement, of another bundle, or the folder is full.
        """
        try:
            measurement = measurement_from_json(parse_json(body, "report"), "report")
        except InputError as error:
            raise Refused(422, str(error)) from error
        self._require_own(measurement)
        if sum(1 for _ in self.folder.glob("*.json")) >= MOST_REPORTS:
            raise Refused(507, f"{self.folder} holds {MOST_REPORTS} reports")
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        return keep_measurement(self.folder, replace(measurement, command=self._command, timestamp=now))

    def _require_own(self, m: Measurement) -> None:
        """What a report says of its bundle must be what the bundle says."""
        own = self._own.get((m.bundle_sha256, m.name))
        if own is None:
            raise Refused(422, "report: name and bundle_sha256 are of no bundle that is served here")
        found = {**vars(m), "classes": set(m.iou or {})}
        wrong = [name for name, value in own.items() if found[name] != value]
        wrong += [name for name in _NEVER if found[name]]
        wrong += [] if m.machine.platform == "browser" else ["machine.platform"]
        if wrong:
            raise Refused(422, f"report: {', '.join(wrong)} not as in the bundle")


def _told(bundle: Bundle) -> dict[str, Any]:
    """What a report of the bundle must say; `classes`: those of its IoU."""
    frames = labelled(bundle)
    names = [entry.name for entry in bundle.manifest.classes]
    return {
        **identity(bundle),
        "target": TARGET,
        "brought": False,
        "dataset": frames.reference() if frames else None,
        "images": len(frames) if frames else 0,
        "classes": set(names if frames else ()),
    }
