"""What the README's generated tables share: a stored JSON file, a line of cells, a size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Record = dict[str, Any]


def stored(path: Path) -> Record | None:
    """A report, or None where none is stored."""
    return json.loads(path.read_text()) if path.is_file() else None


def line(*cells: str) -> str:
    """A line of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def by(size: Any) -> str:
    """(H, W) as HxW."""
    return f"{size[0]}x{size[1]}"
