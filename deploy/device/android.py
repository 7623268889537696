"""Android, from within Termux: phone, chip, release, clocks, and the battery's temperature and current.

Battery figures need the Termux:API app and its package. Sources: Android's documentation of system
properties and BatteryManager, Termux's of termux-battery-status.
"""

from __future__ import annotations

import json
from typing import Any

from deploy.device import Machine, Sample, make_machine
from deploy.device._host import Figures, Host, Unreadable, first
from deploy.device.linux import clock_mhz, common, temperature_c


def rank(host: Host) -> int:
    """Android's own list of properties, or a Python that was built for Android."""
    return 2 * int(host.system == "Android" or (host.root / "system/build.prop").exists())


def describe(host: Host) -> Machine:
    """The phone and its release."""
    figures = common(host)
    figures.take(
        "cpu_model", lambda: first(lambda: prop(host, "ro.soc.model"), lambda: prop(host, "ro.hardware"))
    )
    figures.take("board", lambda: f"{prop(host, 'ro.product.manufacturer')} {prop(host, 'ro.product.model')}")
    figures.take("software", lambda: f"Android {prop(host, 'ro.build.version.release')}")
    figures.take("power_mode", power_mode, host)
    return make_machine("android", figures)


class Meter:
    """Clock from /sys, temperature from /sys or the battery, power from the battery."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def read(self) -> Sample:
        """The present moment; the battery is asked once."""
        host, figures = self._host, Figures()
        status = figures.take("power_w", battery, host) or {}
        figures.take("clock_mhz", clock_mhz, host)
        figures.take("temperature_c", lambda: first(lambda: temperature_c(host), lambda: _celsius(status)))
        if status:
            figures.take("power_w", battery_power_w, status)
        return Sample(**figures.found, absent=figures.absent)


def prop(host: Host, name: str) -> str:
    """A system property by `getprop`."""
    return host.output("getprop", name)


def power_mode(host: Host) -> str:
    """Battery saver on or off."""
    value = host.output("settings", "get", "global", "low_power")
    return "battery saver" if value == "1" else "normal"


def battery(host: Host) -> dict[str, Any]:
    """What termux-battery-status prints."""
    try:
        value = json.loads(host.output("termux-battery-status"))
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise Unreadable("termux-battery-status printed no JSON object")
    return value


def battery_power_w(status: dict[str, Any]) -> float:
    """What the battery gives: microamperes (negative while it discharges) times millivolts."""
    if status.get("plugged", "UNPLUGGED") != "UNPLUGGED":
        raise Unreadable("the charger feeds the phone, so the battery's current is not its power")
    try:
        return abs(float(status["current"])) * float(status["voltage"]) / 1e9
    except (KeyError, TypeError, ValueError):
        raise Unreadable("termux-battery-status gives no current and voltage") from None


def _celsius(status: dict[str, Any]) -> float:
    if not isinstance(status.get("temperature"), (int, float)):
        raise Unreadable("no battery temperature")
    return float(status["temperature"])
