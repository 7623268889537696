"""What the README's generated tables share: stored JSON files, a line of cells, a table, a size."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

Record = dict[str, Any]


def stored(path: Path) -> Record | None:
    """A report, or None where none is stored."""
    return json.loads(path.read_text()) if path.is_file() else None


def each(folder: Path, pattern: str, part: Callable[[Record], str], missing: str) -> str:
    """A part of a document for every report of that name, or that there is none."""
    records = [json.loads(path.read_text()) for path in sorted(folder.glob(pattern))]
    return "\n\n".join(map(part, records)) if records else missing


def line(*cells: str) -> str:
    """A line of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table."""
    return [line(*head), "|---" * len(head) + "|", *(line(*cells) for cells in rows)]


def by(size: Any) -> str:
    """(H, W) as HxW."""
    return f"{size[0]}x{size[1]}"
