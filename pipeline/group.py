"""The processes that train together: this one alone, or those that torchrun started, on one or more machines.

The first of them ("main") owns the folder: it decides, logs, prints and writes; the others only compute.
Knows nothing of training. Source: torch.distributed; gloo between CPUs, NCCL between GPUs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from deploy.errors import InputError

T = TypeVar("T")


class Group:
    """Some processes and this one's place among them. Alone, nothing is communicated.

    Attributes:
        rank: 0 to size - 1; size: how many; local_rank: among those of this machine.
    """

    def __init__(self, rank: int = 0, size: int = 1, local_rank: int = 0) -> None:
        self.rank, self.size, self.local_rank = rank, size, local_rank

    @property
    def main(self) -> bool:
        """Whether this is the process that writes."""
        return self.rank == 0

    def sum(self, value: Tensor) -> Tensor:
        """The sum of all processes' tensors, in place."""
        if self.size > 1:
            dist.all_reduce(value)
        return value

    def any(self, flag: bool) -> bool:
        """Whether it is true in some process."""
        return bool(self.sum(torch.tensor(int(flag))) > 0)

    def gather(self, value: T) -> list[T]:
        """All processes' values, in the order of their ranks."""
        if self.size == 1:
            return [value]
        values: list[T | None] = [None] * self.size
        dist.all_gather_object(values, value)
        return values  # type: ignore[return-value]

    def take_mains(self, tensors: Iterable[Tensor]) -> None:
        """Overwrite every process's tensors by the main one's."""
        if self.size > 1:
            for tensor in tensors:
                dist.broadcast(tensor, 0)

    def decide(self, ask: Callable[[], T]) -> T:
        """What `ask` returns in the main process, in all of them.

        Raises:
            InputError: as `ask`, in the main process; the others then exit with the same status, silently.
        """
        if self.size == 1:
            return ask()
        answer: list[T | None] = [None, None]  # the answer, and a status to exit with
        error: InputError | None = None
        if self.main:
            try:
                answer = [ask(), None]
            except InputError as caught:
                error, answer = caught, [None, caught.exit_status]  # type: ignore[list-item]
        dist.broadcast_object_list(answer, 0)
        if error:
            raise error
        if answer[1] is not None:
            raise SystemExit(answer[1])
        return answer[0]  # type: ignore[return-value]


@contextmanager
def processes() -> Iterator[Group]:
    """The group of this process while the block runs.

    Raises:
        InputError: started by torchrun, but the others cannot be reached.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield Group()
        return
    try:
        dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    except (RuntimeError, ValueError) as error:
        raise InputError(
            "the processes of this training do not meet", error, "torchrun's variables"
        ) from error
    try:
        yield Group(dist.get_rank(), size, int(os.environ.get("LOCAL_RANK", "0")))
    finally:
        dist.destroy_process_group()
