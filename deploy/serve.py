"""`serve BUNDLE...`: one page that runs the bundles in the visitor's own browser, and takes its measurements.

On loopback by default. On another interface the link holds a token and the connection is encrypted, since
browsers give a camera to nothing less. Refuses to see what visitors see: no picture reaches the server.
"""

from __future__ import annotations

import argparse
import secrets
import shlex
import socket
import ssl
import sys
from pathlib import Path

from deploy.errors import InputError
from deploy.files import require_writable
from deploy.options import port
from deploy.server.addresses import LOOPBACK, own_addresses
from deploy.server.door import open_door

REPORTS = Path("runs/report")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `serve`."""
    parser.add_argument("bundles", type=Path, nargs="+", metavar="BUNDLE", help="folders of bundles")
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="interface (default: 127.0.0.1, loopback)"
    )
    parser.add_argument("--port", type=port, default=8700, metavar="N", help="default: 8700; 0: any free one")
    parser.add_argument("--tls", action="store_true", help="HTTPS; self-signed unless --cert is given")
    parser.add_argument("--cert", type=Path, metavar="FILE", help="your certificate (PEM), with --key")
    parser.add_argument("--key", type=Path, metavar="FILE", help="its key (PEM)")
    parser.add_argument(
        "--reports", type=Path, default=REPORTS, metavar="DIR", help=f"for measurements (default: {REPORTS})"
    )


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C.

    Raises:
        InputError: a bundle that a browser cannot run, an interface that needs TLS, a port in use.
    """
    import uvicorn

    from deploy.server.app import make_app
    from deploy.server.assets import bundle_assets, page_assets
    from deploy.server.catalog import catalog, load_bundles
    from deploy.server.connections import settings
    from deploy.server.intake import Intake

    outside = args.host not in LOOPBACK
    tls = _tls(args, outside)
    require_writable(args.reports / "report.json")
    bundles = load_bundles(args.bundles)
    assets = page_assets() | bundle_assets(bundles)
    assets["/catalog.json"] = catalog(bundles, assets)
    command = shlex.join(["python", "-m", "deploy", *sys.argv[1:]])
    token = secrets.token_urlsafe(16) if outside else None
    app = make_app(assets, Intake(args.reports, bundles, command), token)
    with open_door(args.host, args.port) as listening:
        _tell(args, listening, tls, token)
        uvicorn.Server(uvicorn.Config(**settings(app), **(tls or {}))).run(sockets=[listening])
    return 0


def _tls(args: argparse.Namespace, outside: bool) -> dict[str, str] | None:
    """uvicorn's TLS settings."""
    if (args.cert is None) != (args.key is None):
        raise InputError("--cert and --key", got="one of them", expected="both")
    if args.cert:
        return _given(args.cert, args.key)
    if args.tls:
        from deploy.server.certificate import default_folder, self_signed

        certificate, key, fingerprint = self_signed(default_folder(), own_addresses())
        print(f"self-signed certificate {certificate}\nits SHA-256 {fingerprint}")
        return {"ssl_certfile": str(certificate), "ssl_keyfile": str(key)}
    if outside:
        raise InputError(
            f"--host {args.host} needs TLS", got="none", expected="an encrypted connection",
            fix="--tls, or --cert FILE --key FILE",
        )  # fmt: skip
    return None


def _given(certificate: Path, key: Path) -> dict[str, str]:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise InputError(f"--cert {certificate} --key {key}", got=error, expected="PEM files") from error
    return {"ssl_certfile": str(certificate), "ssl_keyfile": str(key)}


def _tell(
    args: argparse.Namespace, listening: socket.socket, tls: dict[str, str] | None, token: str | None
) -> None:
    """Print the links."""
    number = listening.getsockname()[1]
    anywhere = args.host in ("0.0.0.0", "::")
    hosts = [name for name in own_addresses() if name not in LOOPBACK] if anywhere else [args.host]
    for host in ["localhost"] if token is None else hosts:
        shown = f"[{host}]" if ":" in host else host
        print(f"open http{'s' if tls else ''}://{shown}:{number}/{f'?token={token}' if token else ''}")
    print(f"measurements go to {args.reports}; Ctrl-C ends", flush=True)
