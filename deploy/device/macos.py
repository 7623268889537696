"""macOS: chip, model, memory, low power mode and thermal pressure, by the system's own commands.

Clocks and watts need root there (powermetrics), so they are absent. Sources: the manual pages of sysctl,
sw_vers and pmset.
"""

from __future__ import annotations

import re

from deploy.device import Machine, Sample, make_machine
from deploy.device._host import Figures, Host, Unreadable

_ROOT_ONLY = "macOS shows it to root only (powermetrics)"


def rank(host: Host) -> int:
    """The kernel's name."""
    return int(host.system == "Darwin")


def describe(host: Host) -> Machine:
    """Chip, model and settings."""
    figures = Figures()
    figures.take("cpu_model", host.output, "sysctl", "-n", "machdep.cpu.brand_string")
    figures.take("board", host.output, "sysctl", "-n", "hw.model")
    figures.take("memory_bytes", lambda: int(host.output("sysctl", "-n", "hw.memsize")))
    figures.take("software", lambda: f"macOS {host.output('sw_vers', '-productVersion')}")
    figures.take("power_mode", power_mode, host)
    figures.take("throttled", throttled, host)
    figures.leave("macOS has no governors", "governor")
    figures.leave(_ROOT_ONLY, "max_clock_mhz")
    return make_machine("macos", figures)


class Meter:
    """Nothing that a user without root may read."""

    def __init__(self, host: Host) -> None:
        self._absent = dict.fromkeys(("clock_mhz", "temperature_c", "power_w"), _ROOT_ONLY)

    def read(self) -> Sample:
        """Three absent figures."""
        return Sample(absent=self._absent)


def power_mode(host: Host) -> str:
    """Low power mode and the source of power, such as "normal, AC Power"."""
    match = re.search(r"lowpowermode\s+(\d)", host.output("pmset", "-g"))
    if match is None:
        raise Unreadable("pmset -g names no lowpowermode")
    source = re.search(r"'([^']+)'", host.output("pmset", "-g", "batt"))
    mode = "low power" if match[1] == "1" else "normal"
    return f"{mode}, {source[1]}" if source else mode


def throttled(host: Host) -> tuple[str, ...]:
    """A limit below 100 % that thermal management has set (`pmset -g therm`)."""
    found = re.findall(
        r"(CPU_Speed_Limit|CPU_Scheduler_Limit)\s*=\s*(\d+)", host.output("pmset", "-g", "therm")
    )
    return tuple(f"{name} {value} %" for name, value in found if int(value) < 100)
