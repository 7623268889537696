"""Writes docs/report.schema.json: the JSON Schema of the files that `python -m deploy bench --json` writes.

Made from the dataclasses in deploy/measurement.py, which remain the truth: a test compares the two. Ranges of
numbers are checked by `read_measurement`, not here. `--check` exits 1 where it would change anything.
Source: JSON Schema, draft 2020-12.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import types
import typing
from pathlib import Path
from typing import Any

from deploy.measurement import READABLE, Measurement

TARGET = Path(__file__).with_name("report.schema.json")
_SCALARS = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def schema() -> dict[str, Any]:
    """The whole document; each dataclass is a definition of its own."""
    definitions: dict[str, Any] = {}
    root = _object(Measurement, definitions)
    root["properties"]["schema_version"] = {"enum": list(READABLE)}
    root["required"] = ["schema_version", *root["required"]]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "edgeseg measurement",
        **root,
        "$defs": dict(sorted(definitions.items())),
    }


def _object(cls: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    fields = dataclasses.fields(cls)
    missing = dataclasses.MISSING
    return {
        "description": " ".join((cls.__doc__ or "").split()),
        "type": "object",
        "properties": {field.name: _type(hints[field.name], definitions) for field in fields},
        "required": [f.name for f in fields if f.default is missing and f.default_factory is missing],
        "additionalProperties": False,
    }


def _type(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint):
        definitions.setdefault(hint.__name__, _object(hint, definitions))
        return {"$ref": f"#/$defs/{hint.__name__}"}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_type(option, definitions) for option in arguments]}
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _type(arguments[1], definitions)}
    if origin is tuple and arguments[-1] is Ellipsis:
        return {"type": "array", "items": _type(arguments[0], definitions)}
    if origin is tuple:
        items = [_type(option, definitions) for option in arguments]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    return {"type": _SCALARS[hint]}


def main() -> int:
    """Write the schema, or with --check only compare."""
    text = json.dumps(schema(), indent=2) + "\n"
    if "--check" in sys.argv[1:]:
        return int(not TARGET.is_file() or TARGET.read_text() != text)
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
