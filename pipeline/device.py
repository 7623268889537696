"""Where the work runs: device, threads, determinism, tool versions. Never part of a recipe."""

from __future__ import annotations

import importlib.metadata
import os
from typing import TypeVar

import torch
from torch import nn

from deploy.errors import InputError

Module = TypeVar("Module", bound=nn.Module)


def pick_device(name: str, index: int = 0) -> torch.device:
    """ "auto" (CUDA where there is one), "cpu" or "cuda"; `index`: which of several GPUs.

    Raises:
        InputError: another name, or CUDA where there is none.
    """
    if name not in ("auto", "cpu", "cuda"):
        raise InputError("--device", got=repr(name), expected="auto, cpu or cuda")
    there = torch.cuda.is_available()
    if name == "cuda" and not there:
        raise InputError("--device cuda", got="no CUDA device", expected="auto or cpu here")
    return torch.device("cuda", index) if there and name != "cpu" else torch.device("cpu")


def loader_workers(wanted: int, device: torch.device, processes: int) -> int:
    """Loader processes of one of so many training processes; -1: none on a CPU, else a share of the cores."""
    if wanted >= 0:
        return wanted
    return 0 if device.type == "cpu" else max(1, min(8, (os.cpu_count() or 1) // processes))


def set_threads(count: int | None) -> int:
    """Use `count` CPU threads (None: as PyTorch and OMP_NUM_THREADS say); returns how many that are."""
    if count:
        torch.set_num_threads(count)
    return torch.get_num_threads()


def make_deterministic(seed: int, device: torch.device) -> None:
    """Seed torch, and use only operators that give the same bits each time (on CUDA: where they exist)."""
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True, warn_only=device.type == "cuda")
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # a check for defects that costs time


def to_channels_last(module: Module) -> Module:
    """Kernels with their channels last in memory: convolutions take half the time on a CPU."""
    done: Module = module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return done


def versions() -> dict[str, str]:
    """Versions of the packages that decide the numbers."""
    names = ("torch", "numpy", "opencv-python-headless", "albumentations")
    return {name: importlib.metadata.version(name) for name in names}
