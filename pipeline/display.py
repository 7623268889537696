"""What is shown on a terminal: a training's bar with ETA (elsewhere a line now and then), and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

_LINE_EVERY_S = 30.0


def plain_console(stderr: bool = False) -> Console:
    """Where tables are printed: nothing in a name from outside is taken for a style or an emoji."""
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


class Display:
    """A context manager around the training loop.

    Args:
        steps: number of steps in all; start: those done already; quiet: nothing is shown.
    """

    def __init__(self, steps: int, start: int, quiet: bool = False) -> None:
        self.console = Console(highlight=False, quiet=quiet)
        self.bar = Progress(
            TextColumn("train"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("ETA"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[text]}"),
            console=self.console,
            disable=quiet or not self.console.is_terminal,
        )
        self.task = self.bar.add_task("train", total=steps, completed=start, text="")
        self.steps, self.start = steps, start
        self.began = self.last = monotonic()

    def step(self, done: int, loss: float, lr: float, rate: float) -> None:
        """Show the state after `done` steps; `rate` in images/s."""
        text = f"loss {loss:.3f}  lr {lr:.2e}  {rate:.0f} img/s"
        self.bar.update(self.task, completed=done, text=text)
        if not self.console.is_terminal and monotonic() - self.last > _LINE_EVERY_S:
            self.last = monotonic()
            self.say(f"step {done}/{self.steps}  {text}  ETA {_clock(self._left(done))}")

    def walk(self, indices: Sequence[int]) -> Iterator[int]:
        """Yield the indices of a validation and show how far it is."""
        for done, index in enumerate(indices):
            self.bar.update(self.task, text=f"validating {done + 1}/{len(indices)}")
            yield index

    def say(self, text: str) -> None:
        """A line that stays."""
        self.console.print(text, markup=False, soft_wrap=True)

    def _left(self, done: int) -> float:
        """Seconds to go, by the mean speed since the start."""
        return (monotonic() - self.began) / max(1, done - self.start) * (self.steps - done)

    def __enter__(self) -> Display:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()


@contextmanager
def counting(title: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr where that is a terminal, as a function of (done, total); it is gone afterwards."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
