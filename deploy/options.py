"""The command line's common ground: a parser with one-line errors, dispatch to commands, shared arguments.

Knows no command. Everything here needs the standard library only, so that `--help` works before anything is
installed.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from deploy.errors import InputError
from deploy.files import require_writable
from deploy.manifest import MAX_SIDE

Commands = Mapping[str, tuple[str, str]]  # name -> (module with add_arguments and run, one line of help)


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that reports wrong use as InputError instead of printing its usage."""

    def error(self, message: str) -> NoReturn:
        """Raise InputError."""
        raise InputError(message, fix=f"see: {self.prog} --help")


def dispatch(program: str, description: str, commands: Commands, internal: Commands | None = None) -> int:
    """Run the command that `sys.argv` names and return its exit status; only its module is imported.

    Args:
        program: the package, as in `python -m PROGRAM`.
        internal: commands that the program starts itself; help does not list them.

    Raises:
        InputError: an unknown command or wrong options. SystemExit: help was asked for, and printed.
    """
    known = {**commands, **(internal or {})}
    parser = Parser(prog=f"python -m {program}", description=description)
    width = max(map(len, commands))
    listing = "\n".join(f"  {name:<{width}}  {text}" for name, (_, text) in commands.items())
    parser.usage = f"{parser.prog} COMMAND ... (COMMAND --help for its options)\n\n{listing}"
    parser.add_argument("command", help=argparse.SUPPRESS)
    command = parser.parse_args(sys.argv[1:2] or ["--help"]).command
    if command not in known:
        parser.error(f"unknown command {command!r}, expected one of {', '.join(commands)}")
    module_name, text = known[command]
    if "" in sys.argv[2:]:
        raise InputError("an empty argument", expected="a value (an unset variable in a script?)")
    module = importlib.import_module(module_name)
    options = Parser(prog=f"{parser.prog} {command}", description=text)
    module.add_arguments(options)
    return int(module.run(options.parse_args(sys.argv[2:])))


def add_bundle(parser: argparse.ArgumentParser) -> None:
    """BUNDLE, --domain NAME and --threads N."""
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", help="folder of the bundle")
    add_domain(parser)
    parser.add_argument(
        "--threads", type=thread_count, metavar="N", help="CPU threads of the runtime (default: all cores)"
    )


def add_domain(parser: argparse.ArgumentParser) -> None:
    """--domain NAME."""
    parser.add_argument("--domain", metavar="NAME", help="one of the bundle's domains, in the base's place")


def add_data(parser: argparse.ArgumentParser) -> None:
    """--data DIR and --split NAME."""
    parser.add_argument("--data", type=Path, metavar="DIR", help="labelled folder (dataset.toml)")
    parser.add_argument("--split", default="val", metavar="NAME", help="split of the folder (default: val)")


def add_json(parser: argparse.ArgumentParser) -> None:
    """--json FILE."""
    parser.add_argument(
        "--json", type=output_or_stdout, metavar="FILE", help="write the result as JSON (- for stdout)"
    )


def add_device(parser: argparse.ArgumentParser, required: bool = False) -> None:
    """--device URI (several times), and how to reach it."""
    parser.add_argument(
        "--device",
        action="append",
        required=required,
        metavar="URI",
        help="ssh://user@host[:port]; repeatable",
    )
    parser.add_argument("--ssh-config", type=Path, metavar="FILE", help="instead of ~/.ssh/config")
    parser.add_argument("--remote-dir", metavar="DIR", help="folder there (default: .edgeseg in the home)")
    parser.add_argument(
        "--python", default="python3", metavar="NAME", help="interpreter there (default: python3)"
    )


def count(text: str, most: int = 100_000, also: str = "") -> int:
    """argparse type: a whole number from 1 to 100000; `also`: what else is taken, for the message."""
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:7]) <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is not {also}a whole number from 1 to {most}")
    return int(text)


def duration(text: str) -> float:
    """argparse type: seconds from "90", "90s", "10m" or "2h", at most a day."""
    match = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)([smh]?)", text)
    seconds = float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]] if match else 0.0
    if not 0 < seconds <= 86400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 90s, 10m or 2h (at most 24h)")
    return seconds


def percentage(text: str) -> float:
    """argparse type: "5%" or "5" -> 0.05; from 0 to 1000."""
    match = re.fullmatch(r"([0-9]{1,4}(?:\.[0-9]{1,3})?) ?%?", text)
    if not match or float(match[1]) > 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage such as 5%")
    return float(match[1]) / 100


def thread_count(text: str) -> int:
    """argparse type: a number of threads that a machine could have."""
    return count(text, 1024)


def port(text: str) -> int:
    """argparse type: a TCP port, 0 for any free one."""
    return 0 if text == "0" else count(text, 65535, "0 for any free one, or ")


def output_or_stdout(text: str) -> str:
    """argparse type: as `output_file`, or "-"."""
    return text if text == "-" else output_file(text)


def output_file(text: str) -> str:
    """argparse type: a file that can be written, which is found out before any work is done."""
    require_writable(text)
    if Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is a folder")
    return text


def share(text: str) -> float:
    """argparse type: a number from 0 to 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1")
    return value


def parse_size(text: str) -> tuple[int, int]:
    """argparse type: "360x480" -> (360, 480), height first.

    Raises:
        InputError: not HxW with whole numbers from 1 to 16384.
    """
    match = re.fullmatch(r"([0-9]{1,5})x([0-9]{1,5})", text.strip().lower())
    size = (int(match[1]), int(match[2])) if match else (0, 0)
    if not all(1 <= side <= MAX_SIDE for side in size):
        raise InputError(
            "size", got=repr(text), expected=f"HEIGHTxWIDTH, each 1..{MAX_SIDE}, such as 360x480"
        )
    return size
