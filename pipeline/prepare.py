"""`python -m pipeline prepare`: make a labelled folder of one of the kinds in `pipeline/datasets`.

The folder appears complete or not at all, and carries a stamp (`prepared.json`) of what was asked for: the
same request again does nothing. A folder without the stamp is somebody's own and is never replaced. Knows
nothing of the kinds beyond their registry.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from deploy.errors import InputError
from deploy.files import atomic_folder, write_json
from pipeline.datasets import Option, kinds, load_kind, options

STAMP = "prepared.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --kind, --out and every option that some kind has."""
    parser.add_argument("--kind", required=True, choices=kinds(), help="what to make")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="labelled folder to write")
    users: dict[str, list[str]] = {}
    known: dict[str, Option] = {}
    for kind, own in options().items():
        for option in own:
            known.setdefault(option.name, option)
            users.setdefault(option.name, []).append(kind)
    for name, option in known.items():
        note = f"{option.help} ({', '.join(users[name])}; {_default(option.default)})"
        parser.add_argument(f"--{name}", metavar=name.upper(), help=note)


def run(args: argparse.Namespace) -> int:
    """Make the folder, or say that it is there already; then run the label gate over it."""
    from pipeline.datasets.gate import check_labels, print_report
    from pipeline.display import counting

    kind, out = load_kind(args.kind), Path(args.out)
    request = _request(args, kind)
    stamp = {"kind": args.kind, "version": kind.VERSION, "request": request}
    if _is_done(out, stamp):
        print(f"cached: {out} already holds this request")
        return 0
    with counting(f"{args.kind} -> {out}") as progress, atomic_folder(out) as folder:
        kind.write(folder, request, progress)
        write_json(folder / STAMP, {**stamp, "files": _files(folder)})
    with counting(f"checking {out}") as progress:
        report = check_labels(out, _splits(out), progress)
    print_report(report)
    print(f"wrote {out}")
    return 0


def _default(value: Any) -> str:
    if value is None:
        return "required"
    return "default " + ("x".join(map(str, value)) if isinstance(value, tuple) else str(value))


def _request(args: argparse.Namespace, kind: ModuleType) -> dict[str, Any]:
    """Values of the kind's options; refused: an option that only other kinds have, a required one missing."""
    own = {option.name: option for option in kind.OPTIONS}
    for name in sorted({option.name for others in options().values() for option in others} - set(own)):
        if getattr(args, name, None) is not None:
            known = ", ".join(f"--{option}" for option in own) or "none"
            raise InputError(f"--{name} is no option of kind {args.kind!r}", expected=known)
    given = {name: getattr(args, name, None) for name in own}
    for name, option in own.items():
        if given[name] is None and option.default is None:
            raise InputError(f"kind {args.kind!r} needs --{name}", expected=option.help)
    return {
        name: option.default if given[name] is None else option.parse(given[name])
        for name, option in own.items()
    }


def _is_done(out: Path, stamp: Mapping[str, Any]) -> bool:
    """Does the folder hold this very request? Raises InputError when it is not ours to replace."""
    if not out.exists():
        return False
    path = out / STAMP
    if not path.is_file():
        if out.is_dir() and not any(out.iterdir()):
            return False
        raise InputError(
            f"{out} exists and was not made by `prepare`", fix="choose another --out or remove it"
        )
    try:
        old = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return False
    same = isinstance(old, dict) and old.get("files") == _files(out)
    return same and all(old.get(key) == value for key, value in json.loads(json.dumps(stamp)).items())


def _files(folder: Path) -> dict[str, int]:
    """Number of files in every split's images and masks: enough to see that some were taken away."""
    parts = [path for path in sorted(folder.glob("*/*")) if path.is_dir()]
    return {str(part.relative_to(folder)): sum(1 for _ in part.iterdir()) for part in parts}


def _splits(folder: Path) -> list[str]:
    return sorted(path.parent.name for path in folder.glob("*/images"))
