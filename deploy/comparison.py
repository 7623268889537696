"""Which measurements may stand in one comparison, and what they say together: Pareto front, speed-ups, noise.

Rows are alike where everything but the network and its program is the same: device and its settings, threads,
input size, data. A row of a brought model has no data of its own and joins every group that is otherwise
alike, for its latency. Refuses to compare across groups; `differing` says what keeps them apart.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from deploy.measurement import Measurement

REPEAT_LIMIT = 0.05
Rows = Sequence[Measurement]
Key = tuple[str, ...]


@dataclass(frozen=True)
class Speedup:
    """One network with linear attention against its softmax twin; `ratio` above 1: linear is faster."""

    linear: Measurement
    softmax: Measurement

    @property
    def ratio(self) -> float:
        """Softmax latency over linear latency (p50)."""
        return self.softmax.latency_ms.p50 / self.linear.latency_ms.p50


def processor(m: Measurement) -> str:
    """The device's name: its board where it has one of its own, and its processor."""
    machine = m.machine
    if machine.platform == "browser":  # which does not tell the processor, and computes by its own means
        return f"{machine.software or 'a browser'} on {machine.board or machine.architecture}"
    names = dict.fromkeys(filter(None, (machine.board, machine.cpu_model)))
    return ", ".join(names) or machine.architecture


def power_mode(m: Measurement) -> str:
    """Everything that an owner can set and that changes speed."""
    machine = m.machine
    words = [machine.power_mode or "", f"governor {machine.governor}" if machine.governor else ""]
    words += ["clocks locked" if machine.clocks_locked else ""]
    return ", ".join(filter(None, words)) or "as it is"


def limits(m: Measurement) -> str:
    """What a container leaves of the device."""
    machine = m.machine
    words = [f"{machine.cpu_limit:g} cores" if machine.cpu_limit else ""]
    words += [f"{machine.memory_limit_bytes / 2**30:.1f} GiB" if machine.memory_limit_bytes else ""]
    return ", ".join(filter(None, words)) or "none"


def size(m: Measurement) -> str:
    """Height x width of the network's input."""
    return f"{m.size[0]}x{m.size[1]}"


def data(m: Measurement) -> str:
    """Which labelled images, and how many; the digest's start tells two sets of one name apart."""
    return f"{m.dataset.name} {m.dataset.split} ({m.images})" if m.dataset else "none"


_DEVICE: dict[str, Callable[[Measurement], str]] = {
    "device": processor,
    "power mode": power_mode,
    "limits": limits,
    "threads": lambda m: str(m.threads),
    "size": size,
}
CONDITIONS: dict[str, Callable[[Measurement], str]] = {
    **_DEVICE,
    "data": lambda m: f"{data(m)} {m.dataset.sha256[:8]}" if m.dataset else "none",
}
PROGRAM: dict[str, Callable[[Measurement], str]] = {
    "model": lambda m: " ".join(f"{key}={value}" for key, value in sorted(m.model.items())),
    "target": lambda m: m.target,
    "precision": lambda m: m.precision,
    "provider": lambda m: str(m.options.get("providers", "")),
}


def key_of(m: Measurement, fields: dict[str, Callable[[Measurement], str]]) -> Key:
    """The fields' values."""
    return tuple(value(m) for value in fields.values())


def groups(rows: Rows) -> list[list[Measurement]]:
    """Rows that may be compared, each list ordered by target, precision and model."""
    found: dict[Key, list[Measurement]] = {}
    for m in rows:
        if not m.brought:
            found.setdefault(key_of(m, CONDITIONS), []).append(m)
    for m in rows:
        if m.brought:
            alike = [group for key, group in found.items() if key[:-1] == key_of(m, _DEVICE)]
            for group in alike or [found.setdefault(key_of(m, CONDITIONS), [])]:
                group.append(m)
    return [sorted(group, key=lambda m: (m.target, m.precision, m.name)) for group in found.values()]


def differing(
    rows: Rows, fields: dict[str, Callable[[Measurement], str]] = CONDITIONS
) -> dict[str, list[str]]:
    """Name of each field that is not the same in all rows -> its values."""
    values = {
        name: sorted({value(m) for m in rows if not (m.brought and name == "data")})
        for name, value in fields.items()
    }
    return {name: found for name, found in values.items() if len(found) > 1}


def pareto(rows: Rows) -> list[Measurement]:
    """Rows that no other row beats in both latency and mIoU, by latency; rows without a mIoU are left out."""
    front: list[Measurement] = []
    measured = [m for m in rows if m.miou is not None]
    for m in sorted(measured, key=lambda m: (m.latency_ms.p50, -(m.miou or 0))):
        if not front or (m.miou or 0) > (front[-1].miou or 0):
            front.append(m)
    return front


def speedups(group: Rows) -> Iterator[Speedup]:
    """Every linear row of a group with the softmax row that differs from it in nothing else."""
    softmax = {_twin(m): m for m in group if m.model.get("attention") == "softmax"}
    for m in group:
        if m.model.get("attention") == "linear" and _twin(m) in softmax:
            yield Speedup(m, softmax[_twin(m)])


def repeats(rows: Rows) -> dict[int, float]:
    """id of a row -> how far the medians of its bundle's runs in this group lie apart, where over 5 %."""
    runs: dict[Key, list[Measurement]] = {}
    for m in rows:
        runs.setdefault((m.bundle_sha256, *key_of(m, {**CONDITIONS, **PROGRAM})), []).append(m)
    apart: dict[int, float] = {}
    for same in runs.values():
        medians = [m.latency_ms.p50 for m in same]
        spread = max(medians) / min(medians) - 1
        if spread > REPEAT_LIMIT:
            apart |= dict.fromkeys(map(id, same), spread)
    return apart


def noise_of(runs: Rows) -> float:
    """How far the median of these runs of one thing may be off, as a share, by their own word."""
    own = [_own_noise(m) for m in runs]
    medians = [m.latency_ms.p50 for m in runs]
    return max(*own, max(medians) / min(medians) - 1, 0.0)


def median_p50(runs: Rows) -> float:
    """Median of the runs' medians, in ms."""
    return statistics.median(m.latency_ms.p50 for m in runs)


def _own_noise(m: Measurement) -> float:
    """Spread of the run's parts, or what others took of the machine; a run that cannot tell counts as 5 %."""
    if m.noise is None or m.noise.spread is None:
        return REPEAT_LIMIT
    others = m.noise.others_cpu or 0.0
    return max(m.noise.spread, others if others > REPEAT_LIMIT else 0.0)


def _twin(m: Measurement) -> Key:
    model = sorted((key, str(value)) for key, value in m.model.items() if key != "attention")
    return (str(model), m.target, m.precision, str(m.options.get("providers", "")))
