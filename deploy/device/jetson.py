"""NVIDIA Jetson: JetPack, power mode, locked clocks, and the board's own power rails.

Rails come from the INA3221 sensors in /sys, or from one line of tegrastats where those cannot be read.
Sources: NVIDIA's Jetson Linux developer guide (nvpmodel, jetson_clocks, tegrastats) and the kernel's hwmon
documentation.
"""

from __future__ import annotations

import re

from deploy.device import Machine, Sample, make_machine
from deploy.device._host import Host, Unreadable, first
from deploy.device.linux import common, read_sample

_RAILS = "sys/bus/i2c/drivers/ina3221/*/hwmon/hwmon*/in[0-9]_label"
_INPUTS = ("VDD_IN", "POM_5V_IN")  # the whole board; other rails are parts of it
_UNUSED = ("NC", "sum of shunt voltages")
_GPU_FREQ = "sys/class/devfreq/*.g*/{}_freq"  # 17000000.gpu, 57000000.gpu, 17000000.ga10b


def rank(host: Host) -> int:
    """The file by which NVIDIA's own tools know a Jetson."""
    return 2 * int((host.root / "etc/nv_tegra_release").is_file())


def describe(host: Host) -> Machine:
    """The board, its JetPack and its power mode."""
    figures = common(host)
    figures.take("software", jetpack, host)
    figures.take("power_mode", power_mode, host)
    figures.take("clocks_locked", clocks_locked, host)
    return make_machine("jetson", figures)


class Meter:
    """Clock and temperature as on any Linux, power from the board's rails."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def read(self) -> Sample:
        """The present moment."""
        return read_sample(self._host, lambda: power_w(self._host))


def jetpack(host: Host) -> str:
    """JetPack's package version with L4T's release, such as "JetPack 6.1+b123, L4T R36.4.0"."""
    match = re.search(r"# (R\d+) \(release\), REVISION: ([\d.]+)", host.text("etc/nv_tegra_release"))
    if match is None:
        raise Unreadable("/etc/nv_tegra_release names no release")
    l4t = f"L4T {match[1]}.{match[2]}"
    try:
        return f"JetPack {host.output('dpkg-query', '-W', '-f=${Version}', 'nvidia-jetpack')}, {l4t}"
    except Unreadable:
        return l4t


def power_mode(host: Host) -> str:
    """The mode's name by `nvpmodel -q`, such as "MAXN"."""
    match = re.search(r"NV Power Mode: *(\S+)", host.output("nvpmodel", "-q"))
    if match is None:
        raise Unreadable("nvpmodel -q names no mode")
    return match[1]


def clocks_locked(host: Host) -> bool:
    """Whether lowest and highest clock of the GPU are one, which is what jetson_clocks does."""
    folders = host.glob(_GPU_FREQ.format("min"))
    return all(host.number(name) == host.number(name.replace("min_freq", "max_freq")) for name in folders)


def power_w(host: Host) -> float:
    """Power of the whole board, or of all its rails together."""
    return total_w(first(lambda: sensor_rails_w(host), lambda: tegrastats_rails_w(one_line(host))))


def total_w(rails: dict[str, float]) -> float:
    """The board's input where it is measured, else the sum of the rails."""
    whole = [rails[name] for name in _INPUTS if name in rails]
    return whole[0] if whole else sum(rails.values())


def sensor_rails_w(host: Host) -> dict[str, float]:
    """Watts by rail from the INA3221 sensors (mV times mA)."""
    rails = {}
    for label in host.glob(_RAILS):
        name, channel = host.text(label), label[-len("0_label")]
        if name not in _UNUSED:
            folder = label.rpartition("/")[0]
            millivolts, milliamperes = (
                host.number(f"{folder}/{kind}{channel}_input") for kind in ("in", "curr")
            )
            rails[name] = millivolts * milliamperes / 1e6
    if not rails:
        raise Unreadable("no power rail has a name")
    return rails


def one_line(host: Host) -> str:
    """One line of tegrastats."""
    return host.output("tegrastats", "--interval", "200", lines=1)


def tegrastats_rails_w(line: str) -> dict[str, float]:
    """Watts by rail: "VDD_IN 4893mW/4893mW" (JetPack 5 and later), "POM_5V_IN 1936/1936" (before): now/mean.

    Raises:
        Unreadable: no rail in the line.
    """
    found = re.findall(r"(?:^| )((?:VDD|VIN|POM)_?\w*|[A-Z0-9_]+(?= \d+mW/)) (\d+)(?:mW)?/(\d+)(?:mW)?", line)
    rails = {name: int(now) / 1000 for name, now, _ in found if name not in _UNUSED}
    if not rails:
        raise Unreadable("tegrastats shows no power rail")
    return rails
