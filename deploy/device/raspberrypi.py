"""Raspberry Pi: what the firmware has throttled, clock and temperature by `vcgencmd`, power on a Pi 5.

Source: the Raspberry Pi documentation of vcgencmd: get_throttled, measure_clock, measure_temp, pmic_read_adc.
"""

from __future__ import annotations

import re

from deploy.device import Machine, Sample, make_machine
from deploy.device._host import Figures, Host, Unreadable, first
from deploy.device.linux import clock_mhz, common, device_tree_model, temperature_c

_FLAGS = {
    0: "under-voltage now",
    1: "clock capped now",
    2: "throttled now",
    3: "soft temperature limit now",
    16: "under-voltage since boot",
    17: "clock capped since boot",
    18: "throttled since boot",
    19: "soft temperature limit since boot",
}


def rank(host: Host) -> int:
    """The device tree names the board."""
    try:
        return 2 * int("Raspberry Pi" in device_tree_model(host))
    except Unreadable:
        return 0


def describe(host: Host) -> Machine:
    """The board, and whether its firmware has slowed it down."""
    figures = common(host)
    figures.take("throttled", throttled, host)
    figures.leave("a Raspberry Pi has no power modes", "power_mode")
    return make_machine("raspberrypi", figures)


class Meter:
    """Clock and temperature from the firmware (which knows its own throttling), else from /sys."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def read(self) -> Sample:
        """The present moment."""
        host, figures = self._host, Figures()
        figures.take("clock_mhz", lambda: first(lambda: firmware_clock_mhz(host), lambda: clock_mhz(host)))
        figures.take(
            "temperature_c", lambda: first(lambda: firmware_temperature_c(host), lambda: temperature_c(host))
        )
        figures.take("power_w", power_w, host)
        return Sample(**figures.found, absent=figures.absent)


def throttled(host: Host) -> tuple[str, ...]:
    """The firmware's flags in words; empty where nothing has slowed it down."""
    bits = int(_value(host.output("vcgencmd", "get_throttled"), r"throttled=0x([0-9a-fA-F]+)"), 16)
    return tuple(words for bit, words in _FLAGS.items() if bits >> bit & 1)


def firmware_clock_mhz(host: Host) -> float:
    """The cores' clock as the firmware has set it."""
    return int(_value(host.output("vcgencmd", "measure_clock", "arm"), r"frequency\(\d+\)=(\d+)")) / 1e6


def firmware_temperature_c(host: Host) -> float:
    """The chip's temperature."""
    return float(_value(host.output("vcgencmd", "measure_temp"), r"temp=([\d.]+)'C"))


def power_w(host: Host) -> float:
    """Power of the rails that a Pi 5's power chip measures (the board draws more); others have none."""
    text = host.output("vcgencmd", "pmic_read_adc")
    amperes = dict(re.findall(r"(\w+)_A current\(\d+\)=([\d.]+)A", text))
    volts = dict(re.findall(r"(\w+)_V volt\(\d+\)=([\d.]+)V", text))
    rails = [float(amperes[name]) * float(volts[name]) for name in amperes if name in volts]
    if not rails:
        raise Unreadable("this board measures no power")
    return sum(rails)


def _value(text: str, pattern: str) -> str:
    match = re.search(pattern, text)
    if match is None:
        raise Unreadable(f"vcgencmd said {text[:60]!r}")
    return match[1]
