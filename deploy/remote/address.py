"""A device's address, `ssh://user@host:port`, as the arguments that OpenSSH's client takes.

Everything else about the connection (keys, jump hosts, aliases) belongs to the user's ssh configuration.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from deploy.errors import InputError


@dataclass(frozen=True)
class Address:
    """Where a device is; `user` and `port` None: as ssh's configuration says."""

    host: str
    user: str | None = None
    port: int | None = None

    def __str__(self) -> str:
        """For progress lines and errors."""
        return f"{self.user}@{self.host}" if self.user else self.host

    def arguments(self) -> list[str]:
        """Options and host; a host can never be read as an option."""
        user = ["-l", self.user] if self.user else []
        return [*user, *(["-p", str(self.port)] if self.port else []), self.host]


def parse_address(text: str) -> Address:
    """The address in an URI.

    Raises:
        InputError: another scheme, a path, a password, or characters that no host or user has.
    """
    expected = "ssh://user@host or ssh://user@host:port"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise InputError("device", got=f"{text!r} ({error})", expected=expected) from error
    if (
        parts.scheme != "ssh"
        or parts.path not in ("", "/")
        or parts.query
        or parts.fragment
        or parts.password
    ):
        raise InputError("device", got=repr(text), expected=expected)
    host, user = parts.hostname or "", parts.username
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._:-]*", host) or not re.fullmatch(r"\w[\w.-]*", user or "x"):
        raise InputError("device", got=repr(text), expected=expected)
    return Address(host, user, port)
