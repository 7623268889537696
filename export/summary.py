"""The table that `export build` prints: what a bundle is, its proof, and how close it is to the checkpoint.

Everything shown is read from the bundle itself. Refuses to know how it was built.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from deploy.bundle import Bundle
from pipeline.accuracy import points
from pipeline.display import plain_console


def show(bundle: Bundle, source: str, how: str) -> None:
    """Print the table; `source`: what it was compared on; `how`: it came about."""
    table = Table(show_header=False, title=bundle.manifest.name, title_justify="left")
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows(bundle, source, how):
        table.add_row(name, text)
    plain_console().print(table)


def rows(bundle: Bundle, source: str, how: str) -> Iterator[tuple[str, str]]:
    """(name, text) lines."""
    manifest = bundle.manifest
    parity, accuracy = manifest.parity, manifest.accuracy
    assert parity is not None, "build writes no bundle without parity"
    height, width = manifest.preprocess.size
    yield "target", f"{manifest.target.runtime} {manifest.target.precision} {height}x{width}"
    yield "proof", parity.proof
    yield "compared on", source
    yield "agreement", f"{parity.agreement:.6f}"
    errors = (parity.max_abs_error, parity.mean_abs_error)
    shown = None not in errors
    yield "logit error", "max {:.3g}, mean {:.3g}".format(*errors) if shown else "not shown by this target"
    if accuracy and accuracy.miou_here is not None and accuracy.miou_fp32 is not None:
        change = 100 * (accuracy.miou_here - accuracy.miou_fp32)
        yield (
            "mIoU",
            f"{accuracy.miou_here:.4f} (checkpoint {accuracy.miou_fp32:.4f}, {points(change)} points)",
        )
    else:
        yield "mIoU", "no masks of the network's classes"
    total = sum(entry.bytes for entry in manifest.files)
    yield "size", f"{total:,} bytes"
    yield "bundle", str(bundle.root)
    yield "state", how
