"""A self-signed certificate for a server in one's own network, made once and kept; cameras need HTTPS.

A browser asks before it trusts it, and never gives it a service worker; `--cert` and `--key` take one that is
trusted. Refuses to be an authority: it signs itself, nothing else.
"""

from __future__ import annotations

import ipaddress
import os
from datetime import datetime, timedelta, timezone
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from deploy.errors import InputError
from deploy.files import atomic_write_bytes

DAYS = 397  # the longest that browsers take


def default_folder() -> Path:
    """Where the certificate is kept between starts."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "edgeseg"


def self_signed(folder: Path, names: list[str]) -> tuple[Path, Path, str]:
    """(certificate, key, SHA-256 fingerprint); made anew where it is missing, expired or for other names.

    Raises:
        InputError: the folder cannot be written.
    """
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    found = _read(certificate) if key.is_file() else None
    if found is None or _names(found) != set(names) or found.not_valid_after_utc < _now():
        found = _make(certificate, key, names)
    return certificate, key, found.fingerprint(hashes.SHA256()).hex(":").upper()


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _read(path: Path) -> x509.Certificate | None:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError):
        return None


def _names(certificate: x509.Certificate) -> set[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return {str(name.value) for name in names}


def _make(certificate: Path, key: Path, names: list[str]) -> x509.Certificate:
    secret = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "edgeseg on this machine")])
    built = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(secret.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_now() - timedelta(hours=1))
        .not_valid_after(_now() + timedelta(days=DAYS))
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
        .sign(secret, hashes.SHA256())
    )
    _write_secret(key, secret)
    atomic_write_bytes(certificate, built.public_bytes(serialization.Encoding.PEM))
    return built


def _write_secret(path: Path, secret: ec.EllipticCurvePrivateKey) -> None:
    """For the owner's eyes only, from the first byte on."""
    data = secret.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(data)
    except OSError as error:
        raise InputError(f"cannot write {path}", got=error.strerror) from error


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
