"""Writes the generated parts of README.md and of pages in docs/: tables (from reports/*.json) and the tree.

Between `<!-- begin NAME -->` and `<!-- end NAME -->` the text belongs to this script, so that no figure in
them can differ from a stored measurement. `python docs/readme.py --check` exits 1 where it would change
anything (run by the tests). It refuses to know how a figure was measured: the report's own command says that.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import benchmark_tables  # beside this file
import domain_tables
import precision_tables
import target_tables  # beside this file
import training_table

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
TREE_FOLDERS = ("pipeline", "calibration", "export", "deploy")


def measurements() -> str:
    """One row per stored device report in reports/, as a Markdown table."""
    rows = [json.loads(path.read_text()) for path in sorted((ROOT / "reports").glob("bench_*.json"))]
    lines = [
        "| model | data (images) | target, precision | size | proof | mIoU | p50 ms | fps | peak MB |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        model, data = row["model"], row["dataset"]
        lines.append(
            f"| {model['variant']} {model['attention']} | {data['name']} {data['split']} ({row['images']}) "
            f"| {row['target']}, {row['precision']} | {row['size'][0]}x{row['size'][1]} | {row['proof']} "
            f"| {row['miou']:.3f} | {row['latency_ms']['p50']:.1f} | {row['throughput_fps']:.1f} "
            f"| {row['peak_memory_bytes'] / 1e6:.0f} |"
        )
    machines = sorted({f"{r['machine']['cpu_model']}, {r['threads']} threads" for r in rows})
    return "\n".join(
        [*lines, "", f"Measured on {'; '.join(machines)}." if rows else "No measurement stored yet."]
    )


def tree() -> str:
    """Every source file of the four packages with the first sentence of its docstring."""
    return "\n".join(["```", *_tree_lines(), "```"])


def _tree_lines() -> Iterator[str]:
    for folder in TREE_FOLDERS:
        yield f"{folder}/"
        for path in _tracked(folder):
            depth = len(path.relative_to(ROOT / folder).parts)
            yield f"{'  ' * depth}{path.relative_to(ROOT / folder).as_posix():<28} {_first_line(path)}"


def _tracked(folder: str) -> list[Path]:
    """Python files of a package that git knows or would add; empty `__init__`s are left out."""
    command = ["git", "ls-files", "-co", "--exclude-standard", "--", f"{folder}/*.py"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    paths = sorted({ROOT / name for name in names if (ROOT / name).exists()})
    return [path for path in paths if path.name != "__init__.py" or path.parent != ROOT / folder]


def _first_line(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    return text.split("\n\n")[0].replace("\n", " ").split(". ")[0].rstrip(".")


PARTS: dict[str, Callable[[], str]] = {
    "measurements": measurements,
    "benchmark_plain": benchmark_tables.plain,
    "benchmark_scaling": benchmark_tables.scaling,
    "attention": benchmark_tables.attention,
    "benchmark_operators": benchmark_tables.operators,
    "targets": target_tables.matrix,
    "weights": training_table.weights,
    "tree": tree,
}


DOMAIN_PARTS: dict[str, Callable[[], str]] = {
    "sweeps": domain_tables.sweeps,
    "packs": domain_tables.packs,
    "zoo": domain_tables.zoo,
}
APP_PARTS: dict[str, Callable[[], str]] = {"browser": benchmark_tables.browser}
PRECISION_PARTS: dict[str, Callable[[], str]] = {
    "searches": precision_tables.searches,
    "results": precision_tables.results,
    "operators": precision_tables.operators,
    "helps": precision_tables.helps,
}
FILES = {
    README: PARTS,
    ROOT / "docs" / "app.md": APP_PARTS,
    ROOT / "docs" / "domains.md": DOMAIN_PARTS,
    ROOT / "docs" / "precision.md": PRECISION_PARTS,
}


def rewritten(text: str, parts: dict[str, Callable[[], str]]) -> str:
    """A document with every generated part made anew."""
    for name, make in parts.items():
        pattern = re.compile(rf"(<!-- begin {name} -->\n).*?(\n?<!-- end {name} -->)", re.DOTALL)
        body = make()
        text = pattern.sub(lambda match, body=body: f"{match[1]}{body}\n{match[2].lstrip()}", text)
    return text


def main() -> int:
    """Rewrite the documents, or with --check only compare."""
    differs = 0
    for path, parts in FILES.items():
        old = path.read_text()
        new = rewritten(old, parts)
        if "--check" not in sys.argv[1:]:
            path.write_text(new)
        elif old != new:
            print(f"{path.name} differs from reports/ or the sources | run: make readme", file=sys.stderr)
            differs = 1
    return differs


if __name__ == "__main__":
    sys.exit(main())
