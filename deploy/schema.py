"""Strict JSON for frozen dataclasses: every key known, every value of its declared type, sizes bounded.

What a dataclass declares is the schema: int, float, str, bool, None, Literal, unions, tuples, str-keyed dicts
and other dataclasses. A field with a default may be absent, so that a later field does not break an old file;
everything else is an error that names the place. Refuses to know what the fields mean.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
import types
import typing
import unicodedata
from pathlib import Path
from typing import Any, TypeVar

from deploy.errors import InputError

T = TypeVar("T")
JSON_LIMIT = 4 << 20


def read_json(path: Path, limit: int = JSON_LIMIT) -> Any:
    """Parse a JSON file of at most `limit` bytes.

    Raises:
        InputError: missing, too large, not UTF-8, not JSON, too deeply nested, or a non-finite number.
    """
    try:
        with open(path, "rb") as stream:
            data = stream.read(limit + 1)  # a pipe or a device has no size to ask for
    except OSError as error:
        raise InputError(f"cannot read {path}", got=error.strerror) from error
    if len(data) > limit:
        raise InputError(f"{path} is too large", expected=f"at most {limit} bytes")
    return parse_json(data, str(path))


def parse_json(data: bytes, where: str) -> Any:
    """Parse JSON; `where` names the place in errors.

    Raises:
        InputError: not UTF-8, not JSON, too deeply nested, or a non-finite number.
    """
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_refuse_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} is not valid JSON", got=error) from error


def decode(cls: type[T], value: Any, where: str) -> T:
    """Build the dataclass `cls` from parsed JSON; `where` names the place in errors.

    Raises:
        InputError: an unknown or missing key, or a value of another type.
    """
    if not isinstance(value, dict):
        raise InputError(where, got=_short(value), expected=f"an object with the keys of {cls.__name__}")
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    unknown = sorted(set(value) - set(fields))
    if unknown:
        raise InputError(
            f"{where}: unknown key", got=", ".join(map(_short, unknown)), expected=", ".join(fields)
        )
    missing = [name for name, field in fields.items() if name not in value and _required(field)]
    if missing:
        raise InputError(f"{where}: missing key", got=", ".join(missing), expected=", ".join(fields))
    hints = _hints(cls)  # type: ignore[arg-type]
    return cls(**{key: _value(hints[key], item, f"{where}.{key}") for key, item in value.items()})


def read_versioned(
    cls: type[T], path: Path, version: int, fix: str | None = None, limit: int = JSON_LIMIT
) -> T:
    """Read a JSON file of this `schema_version` as the dataclass `cls`; `fix`: where it is of another.

    Raises:
        InputError: as `read_json` and `decode`, or another version.
    """
    value = read_json(path, limit)
    found = value.get("schema_version") if isinstance(value, dict) else None
    if found != version:
        raise InputError(f"{path}: schema_version", repr(found), version, fix)
    return decode(cls, value, str(path))


def encode(value: Any) -> Any:
    """Plain JSON values of a dataclass instance (tuples become lists); nan and inf become None."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: encode(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def digest(value: Any) -> str:
    """Hex SHA-256 over a dataclass instance's fields but `key`, which holds it."""
    content = {name: item for name, item in encode(value).items() if name != "key"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@functools.cache
def _hints(cls: type[Any]) -> dict[str, Any]:
    """A dataclass's declared types; thousands of files are read with the same ones."""
    return typing.get_type_hints(cls)


def _value(hint: Any, value: Any, where: str) -> Any:
    """`value` as the type `hint`, or InputError."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return decode(hint, value, where)
    if origin in (typing.Union, types.UnionType):
        return _union(arguments, value, where)
    if origin is tuple:
        return _tuple(arguments, value, where)
    if origin is dict:
        if not isinstance(value, dict):
            raise InputError(where, got=_short(value), expected="an object")
        return {
            _text(key, where): _value(arguments[1], item, f"{where}.{_short(key)}")
            for key, item in value.items()
        }
    if origin is typing.Literal:
        if value not in arguments or isinstance(value, bool):
            raise InputError(where, got=_short(value), expected=" or ".join(map(str, arguments)))
        return value
    return _scalar(hint, value, where)


def _union(options: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and type(None) in options:
        return None
    rest = [option for option in options if option is not type(None)]
    if len(rest) == 1:
        return _value(rest[0], value, where)
    if type(value) not in rest:
        raise InputError(where, got=_short(value), expected=" or ".join(option.__name__ for option in rest))
    return _text(value, where) if isinstance(value, str) else value


def _tuple(arguments: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise InputError(where, got=_short(value), expected="a list")
    if arguments[-1] is Ellipsis:
        arguments = (arguments[0],) * len(value)
    if len(value) != len(arguments):
        raise InputError(where, got=f"{len(value)} entries", expected=f"{len(arguments)}")
    return tuple(
        _value(hint, item, f"{where}[{index}]")
        for index, (hint, item) in enumerate(zip(arguments, value, strict=True))
    )


def _scalar(hint: Any, value: Any, where: str) -> Any:
    if hint is float and type(value) is int and abs(value) < 1 << 53:
        return float(value)
    if type(value) is not hint:
        raise InputError(where, got=_short(value), expected=hint.__name__)
    return _text(value, where) if isinstance(value, str) else value


def is_plain_text(value: str) -> bool:
    """No control characters (they would reach a terminal), no lone surrogates (no file can hold them)."""
    return value.isprintable() or not any(
        unicodedata.category(char) in ("Cc", "Cs") and char not in "\n\t" for char in value
    )


def _text(value: str, where: str) -> str:
    if not is_plain_text(value):
        raise InputError(where, got=_short(value), expected="text without control characters")
    return value


def _required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"number out of range: {text[:40]}")
    return value


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")
