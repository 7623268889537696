"""Every probe on made-up trees and command output in their documented formats, and the real machine."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

import pytest

from deploy import device
from deploy.device import Machine, jetson, linux, open_meter, this_machine
from deploy.device._host import Figures, Unreadable
from deploy.schema import decode, encode

CPU = "sys/devices/system/cpu/cpu{}/cpufreq/{}"
PC = {
    "proc/cpuinfo": "processor : 0\nmodel name\t: Intel(R) Core(TM) i5-1145G7E @ 2.60GHz\ncpu MHz : 2600.0\n",
    "proc/meminfo": "MemTotal:       16165488 kB\nMemFree: 1 kB\n",
    "sys/class/dmi/id/sys_vendor": "Advantech\n",
    "sys/class/dmi/id/product_name": "UNO-148\n",
    "etc/os-release": 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 22.04.4 LTS"\n',
    CPU.format(0, "scaling_governor"): "powersave\n",
    CPU.format(1, "scaling_governor"): "performance\n",
    CPU.format(0, "scaling_max_freq"): "4400000\n",
    CPU.format(1, "scaling_max_freq"): "3000000\n",
    CPU.format(0, "scaling_cur_freq"): "2000000\n",
    CPU.format(1, "scaling_cur_freq"): "1000000\n",
    "sys/class/thermal/thermal_zone0/temp": "48000\n",
    "sys/class/thermal/thermal_zone1/temp": "61500\n",
    "sys/class/thermal/thermal_zone2/temp": "-274000\n",  # a sensor that is switched off
    "proc/self/cgroup": "0::/system.slice/bench.service\n",
    "sys/fs/cgroup/system.slice/cpu.max": "150000 100000\n",
    "sys/fs/cgroup/system.slice/bench.service/cpu.max": "max 100000\n",
    "sys/fs/cgroup/system.slice/memory.max": "max\n",
    "sys/fs/cgroup/system.slice/bench.service/memory.max": "2147483648\n",
    "sys/class/powercap/intel-rapl:0/energy_uj": "900000\n",
    "sys/class/powercap/intel-rapl:0/max_energy_range_uj": "1000000\n",
    "sys/class/powercap/intel-rapl:0:0/energy_uj": "5\n",
}


def test_an_industrial_pc(make_host: Any) -> None:
    machine = this_machine(make_host(PC))
    assert machine.platform == "linux" and machine.board == "Advantech UNO-148"
    assert machine.cpu_model == "Intel(R) Core(TM) i5-1145G7E @ 2.60GHz"
    assert machine.memory_bytes == 16165488 * 1024 and machine.software == "Ubuntu 22.04.4 LTS"
    assert machine.governor == "powersave+performance" and machine.max_clock_mhz == 4400
    assert machine.cpu_limit == 1.5 and machine.memory_limit_bytes == 2 << 30


def test_clock_temperature_and_power_over_time(make_host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    host = make_host(PC)
    times = iter([10.0, 12.0, 14.0])
    monkeypatch.setattr(linux, "monotonic", lambda: next(times))
    meter = open_meter(host)
    first = meter.read()
    assert first.clock_mhz == 1500 and first.temperature_c == 61.5
    assert first.power_w is None and "second reading" in first.absent["power_w"]
    counter = host.root / "sys/class/powercap/intel-rapl:0/energy_uj"
    counter.write_text("990000")
    assert meter.read().power_w == pytest.approx(0.09 / 2)
    counter.write_text("30000")  # the counter has passed its range
    assert meter.read().power_w == pytest.approx(0.04 / 2)


def test_the_counters_of_root_only_are_absent_with_the_reason(make_host: Any) -> None:
    host = make_host({name: text for name, text in PC.items() if "powercap" not in name})
    folder = host.root / "sys/class/powercap/intel-rapl:0"
    (folder / "energy_uj").mkdir(parents=True)  # cannot be read by anyone, root or not
    sample = open_meter(host).read()
    assert sample.power_w is None and "energy_uj: Is a directory" in sample.absent["power_w"]


def test_version_1_control_groups(make_host: Any) -> None:
    files = {
        "proc/self/cgroup": "5:cpu,cpuacct:/docker/ab\n4:memory:/docker/ab\n0::/\n",
        "sys/fs/cgroup/cpu/docker/ab/cpu.cfs_quota_us": "50000",
        "sys/fs/cgroup/cpu/docker/ab/cpu.cfs_period_us": "100000",
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
        "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
        "sys/fs/cgroup/memory/docker/ab/memory.limit_in_bytes": "1073741824",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
    }
    machine = this_machine(make_host(files))
    assert machine.cpu_limit == 0.5 and machine.memory_limit_bytes == 1 << 30
    files["proc/self/cgroup"] = "0::/nowhere\n"
    machine = this_machine(make_host(files))
    assert machine.cpu_limit is None and "no control group limits" in machine.absent["cpu_limit"]


ORIN = {
    "etc/nv_tegra_release": "# R36 (release), REVISION: 4.0, GCID: 37537400, BOARD: generic, EABI: aarch64\n",
    "proc/device-tree/model": "NVIDIA Jetson Orin Nano Developer Kit\0",
    "proc/cpuinfo": "processor\t: 0\nBogoMIPS\t: 62.50\nCPU implementer\t: 0x41\n",
    "proc/meminfo": "MemTotal:        7802980 kB\n",
    "sys/class/devfreq/17000000.gpu/min_freq": "624750000",
    "sys/class/devfreq/17000000.gpu/max_freq": "624750000",
}
HWMON = "sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon1/"
RAILS = {
    f"{HWMON}{name}": text
    for name, text in {
        "in1_label": "VDD_IN", "in1_input": "5064", "curr1_input": "992",
        "in2_label": "VDD_CPU_GPU_CV", "in2_input": "5056", "curr2_input": "104",
        "in7_label": "sum of shunt voltages", "in7_input": "1",
    }.items()
}  # fmt: skip
TEGRASTATS = {
    "orin nano": (
        "11-28-2024 10:12:13 RAM 2121/7620MB (lfb 4x4MB) SWAP 0/3810MB (cached 0MB) CPU [3%@1510,1%@1510,"
        "0%@1510,0%@1510,off,off] EMC_FREQ 0%@2133 GR3D_FREQ 0%@[624] NVDEC off NVJPG off VIC off OFA off "
        "APE 200 cpu@49.5C soc2@48.6C soc0@49C gpu@50.3C tj@50.3C soc1@49.7C VDD_IN 4893mW/4877mW "
        "VDD_CPU_GPU_CV 527mW/527mW VDD_SOC 1457mW/1457mW",
        {"VDD_IN": 4.893, "VDD_CPU_GPU_CV": 0.527, "VDD_SOC": 1.457}, 4.893,
    ),
    "agx orin": (
        "RAM 3162/30536MB (lfb 5x4MB) SWAP 0/15268MB (cached 0MB) CPU [2%@729,0%@729] EMC_FREQ 0% "
        "GR3D_FREQ 0% CPU@45.5C tboard@34.5C SOC2@42.4C tdiode@36.1C tj@46.1C VDD_GPU_SOC 3205mW/3205mW "
        "VDD_CPU_CV 400mW/400mW VIN_SYS_5V0 2811mW/2811mW NC 0mW/0mW VDDQ_VDD2_1V8AO 402mW/402mW",
        {"VDD_GPU_SOC": 3.205, "VDD_CPU_CV": 0.4, "VIN_SYS_5V0": 2.811, "VDDQ_VDD2_1V8AO": 0.402}, 6.818,
    ),
    "nano": (
        "RAM 1024/3964MB (lfb 2x4MB) SWAP 0/1982MB (cached 0MB) IRAM 0/252kB(lfb 252kB) CPU [9%@102,4%@102,"
        "0%@102,0%@102] EMC_FREQ 3%@204 GR3D_FREQ 0%@76 APE 25 PLL@27C CPU@31C PMIC@100C GPU@29.5C AO@37.5C "
        "thermal@30.25C POM_5V_IN 1936/1936 POM_5V_GPU 0/0 POM_5V_CPU 121/121",
        {"POM_5V_IN": 1.936, "POM_5V_GPU": 0.0, "POM_5V_CPU": 0.121}, 1.936,
    ),
}  # fmt: skip


def test_a_jetson(make_host: Any) -> None:
    commands = {
        "nvpmodel -q": "NV Power Mode: 15W\n0\n",
        "dpkg-query -W -f=${Version} nvidia-jetpack": "6.1+b123",
    }
    host = make_host({**ORIN, **RAILS}, commands)
    machine = this_machine(host)
    assert machine.platform == "jetson" and machine.cpu_model == "NVIDIA Jetson Orin Nano Developer Kit"
    assert machine.software == "JetPack 6.1+b123, L4T R36.4.0"
    assert machine.power_mode == "15W" and machine.clocks_locked is True
    assert jetson.sensor_rails_w(host) == pytest.approx({"VDD_IN": 5.023488, "VDD_CPU_GPU_CV": 0.525824})
    assert open_meter(host).read().power_w == pytest.approx(5.023488)
    (host.root / "sys/class/devfreq/17000000.gpu/min_freq").write_text("306000000")
    assert this_machine(host).clocks_locked is False


def test_a_jetson_without_its_tools_says_so(make_host: Any) -> None:
    host = make_host(ORIN, {"nvpmodel -q": "!NVPM ERROR: Error opening /var/lib/nvpmodel/status: 13\n"})
    machine = this_machine(host)
    assert machine.software == "L4T R36.4.0" and machine.power_mode is None
    assert machine.absent["power_mode"] == (
        "nvpmodel failed with 3: NVPM ERROR: Error opening /var/lib/nvpmodel/status: 13"
    )
    sample = open_meter(host).read()
    assert sample.power_w is None and "tegrastats is not installed" in sample.absent["power_w"]


@pytest.mark.parametrize("name", TEGRASTATS)
def test_tegrastats_lines(name: str, make_host: Any) -> None:
    line, rails, total = TEGRASTATS[name]
    assert jetson.tegrastats_rails_w(line) == pytest.approx(rails)
    host = make_host(ORIN, {"tegrastats --interval 200": f"{line}\n{line}\n"})
    assert open_meter(host).read().power_w == pytest.approx(total)
    with pytest.raises(Unreadable):
        jetson.tegrastats_rails_w("RAM 1024/3964MB (lfb 2x4MB) CPU [9%@102] PLL@27C GPU 0/x")


def test_tegrastats_that_runs_on_is_ended_after_one_line(make_host: Any) -> None:
    host = make_host(ORIN)
    program = Path(host.path.partition(":")[0]) / "tegrastats"
    program.write_text("#!/bin/sh\nwhile echo 'VDD_IN 4000mW/4000mW'; do :; done\n")
    program.chmod(0o755)
    assert open_meter(host).read().power_w == 4.0


PI = {
    "proc/device-tree/model": "Raspberry Pi 5 Model B Rev 1.0\0",
    "proc/cpuinfo": "processor : 0\nBogoMIPS : 108.00\n\nModel\t: Raspberry Pi 5 Model B Rev 1.0\n",
    "proc/meminfo": "MemTotal: 8255728 kB\n",
    "sys/class/thermal/thermal_zone0/temp": "50000",
    CPU.format(0, "scaling_cur_freq"): "2400000",
}
VCGENCMD = {
    "vcgencmd get_throttled": "throttled=0x50005\n",
    "vcgencmd measure_clock arm": "frequency(0)=1500019456\n",
    "vcgencmd measure_temp": "temp=82.9'C\n",
    "vcgencmd pmic_read_adc": "     3V7_WL_SW_A current(0)=0.10000000A\n"
    "   VDD_CORE_A current(7)=2.00000000A\n"
    "     3V7_WL_SW_V volt(8)=3.70000000V\n   VDD_CORE_V volt(15)=0.90000000V\n      EXT5V_V volt(24)=5.1V\n",
}


def test_a_raspberry_pi(make_host: Any) -> None:
    host = make_host(PI, VCGENCMD)
    machine = this_machine(host)
    assert machine.platform == "raspberrypi" and machine.board == "Raspberry Pi 5 Model B Rev 1.0"
    assert machine.throttled == (
        "under-voltage now", "throttled now", "under-voltage since boot", "throttled since boot",
    )  # fmt: skip
    sample = open_meter(host).read()
    assert sample.clock_mhz == pytest.approx(1500.019) and sample.temperature_c == 82.9
    assert sample.power_w == pytest.approx(0.37 + 1.8)


def test_a_raspberry_pi_without_vcgencmd_is_read_from_the_kernel(make_host: Any) -> None:
    host = make_host(PI, {"vcgencmd get_throttled": "error=1 error_msg=Command not registered"})
    machine, sample = this_machine(host), open_meter(host).read()
    assert machine.throttled is None and "Command not registered" in machine.absent["throttled"]
    assert sample.clock_mhz == 2400 and sample.temperature_c == 50 and sample.power_w is None
    quiet = make_host(PI, {**VCGENCMD, "vcgencmd get_throttled": "throttled=0x0\n"})
    assert this_machine(quiet).throttled == ()


def test_a_mac(make_host: Any) -> None:
    commands = {
        "sysctl -n machdep.cpu.brand_string": "Apple M2 Pro\n",
        "sysctl -n hw.model": "Mac14,10\n",
        "sysctl -n hw.memsize": "17179869184\n",
        "sw_vers -productVersion": "14.5\n",
        "pmset -g": "System-wide power settings:\nCurrently in use:\n standby   1\n lowpowermode         0\n",
        "pmset -g batt": "Now drawing from 'AC Power'\n -InternalBattery-0 (id=1)\t100%; charged\n",
        "pmset -g therm": "Note: No thermal warning level has been recorded\n\tCPU_Scheduler_Limit \t= 100\n"
        "\tCPU_Available_CPUs \t= 12\n\tCPU_Speed_Limit \t= 73\n",
    }
    machine = this_machine(make_host({}, commands, "Darwin"))
    assert machine.platform == "macos" and machine.cpu_model == "Apple M2 Pro" and machine.board == "Mac14,10"
    assert machine.memory_bytes == 16 << 30 and machine.software == "macOS 14.5"
    assert machine.power_mode == "normal, AC Power" and machine.throttled == ("CPU_Speed_Limit 73 %",)
    sample = open_meter(make_host({}, commands, "Darwin")).read()
    assert sample.temperature_c is None and "root only" in sample.absent["temperature_c"]


PHONE = {
    "getprop ro.product.manufacturer": "Google\n",
    "getprop ro.product.model": "Pixel 8\n",
    "getprop ro.soc.model": "Tensor G3\n",
    "getprop ro.build.version.release": "15\n",
    "settings get global low_power": "0\n",
    "termux-battery-status": json.dumps(
        {"health": "GOOD", "percentage": 80, "plugged": "UNPLUGGED", "status": "DISCHARGING",
         "temperature": 31.5, "current": -450000, "voltage": 3900}
    ),
}  # fmt: skip


def test_a_phone(make_host: Any) -> None:
    files = {"system/build.prop": "ro.build.version.sdk=35\n", CPU.format(0, "scaling_cur_freq"): "1704000"}
    host = make_host(files, PHONE)
    machine, sample = this_machine(host), open_meter(host).read()
    assert machine.platform == "android" and machine.board == "Google Pixel 8"
    assert (
        machine.cpu_model == "Tensor G3"
        and machine.software == "Android 15"
        and machine.power_mode == "normal"
    )
    assert sample.clock_mhz == 1704 and sample.temperature_c == 31.5
    assert sample.power_w == pytest.approx(0.45 * 3.9)
    charging = PHONE["termux-battery-status"].replace("UNPLUGGED", "PLUGGED_USB")
    sample = open_meter(make_host(files, {**PHONE, "termux-battery-status": charging})).read()
    assert sample.power_w is None and "charger" in sample.absent["power_w"]
    sample = open_meter(make_host(files, {**PHONE, "termux-battery-status": "[]"})).read()
    assert "no JSON object" in sample.absent["power_w"] and sample.temperature_c is None


def test_an_unknown_system_says_so(make_host: Any) -> None:
    host = make_host({}, system="Plan9")
    machine = this_machine(host)
    assert machine.cores >= 1 and machine.cpu_model is None
    assert machine.absent["cpu_model"] == machine.absent["platform"] == "no probe for Plan9"
    assert open_meter(host).read().absent["clock_mhz"] == "no probe for Plan9"


def test_every_absent_figure_has_its_reason_and_a_damaged_tree_raises_nothing(make_host: Any) -> None:
    trees = [
        {},
        {name: "\x1b[31m rubbish \udcff".encode("utf-8", "replace").decode() for name in (*PC, *ORIN)},
    ]
    for files in trees:
        for system in ("Linux", "Darwin", "Android", "Windows"):
            host = make_host(files, system=system)
            machine = this_machine(host)
            for entry in dataclasses.fields(Machine):
                assert (getattr(machine, entry.name) is None) == (entry.name in machine.absent)
            assert decode(Machine, json.loads(json.dumps(encode(machine))), "machine") == machine
            sample = open_meter(host).read()
            missing = {
                key for key in ("clock_mhz", "temperature_c", "power_w") if getattr(sample, key) is None
            }
            assert missing == set(sample.absent)


def test_the_folder_is_the_registry() -> None:
    assert device.names() == ["android", "jetson", "linux", "macos", "raspberrypi"]


def test_commands_that_hang_or_print_nothing(make_host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    host = make_host({})
    monkeypatch.setattr("deploy.device._host._LIMIT_S", 0.2)
    for words, reason in ((("sleep", "5"), "took longer"), (("true",), "printed nothing")):
        with pytest.raises(Unreadable, match=reason):
            host.output(*words)
    assert Figures().take("x", host.output, "no-such-program") is None


def test_this_very_machine() -> None:
    machine = this_machine()
    assert machine.cores >= 1 and machine.python == platform.python_version() and machine.architecture
    if sys.platform == "linux":
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        assert machine.platform in ("linux", "jetson", "raspberrypi") and machine.cpu_model
        assert machine.memory_bytes == pytest.approx(total, rel=0.01)
