"""What must be refused is refused, and the server goes on serving."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="edgeseg[serve] is not installed")

from deploy.server.guard import Guard

CONCURRENT = 400


@pytest.fixture(scope="module")
def guarded(needs_web, serve, tiny_bundle, tmp_path_factory: pytest.TempPathFactory) -> Iterator:
    """As on an interface that others reach: a token, and TLS by a certificate made at the start."""
    folder = tmp_path_factory.mktemp("guarded")
    with serve([tiny_bundle.root], folder / "reports", "--host", "0.0.0.0", "--tls", home=folder) as running:
        yield running


def _still_serves(server, **headers: str) -> None:
    status, found, body = server.request("/", **headers)
    assert status == 200 and b"<title>edgeseg" in body and found["content-type"].startswith("text/html")


def test_the_headers_isolate_the_page(server) -> None:
    _, headers, _ = server.request("/")
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cross-origin-embedder-policy"] == "require-corp"
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self' 'wasm-unsafe-eval';")
    assert "unsafe-inline" not in policy and "'unsafe-eval'" not in policy and "http" not in policy
    assert "uvicorn" not in headers.get("server", "")


def test_nothing_but_declared_files_is_served(server, tiny_bundle) -> None:
    assert server.request("/bundles/0/model.onnx")[0] == 200
    assert server.request("/bundles/0/model.onnx")[2] == (tiny_bundle.root / "model.onnx").read_bytes()
    (tiny_bundle.root / "secret.txt").write_text("not declared")
    try:
        paths = [
            "/bundles/0/secret.txt",
            "/bundles/0/../0/secret.txt",
            "/bundles/1/model.onnx",
            "/index.html/",
        ]
        paths += ["/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fetc%2fpasswd", "//etc/passwd"]
        paths += [
            "/bundles/0/..%5c..%5cetc",
            "/bundles/0/model.onnx%00.png",
            "/bundles/0/",
            "/app.py",
            "/ort/",
        ]
        for path in paths:
            assert server.request(path)[0] == 404, path
    finally:
        (tiny_bundle.root / "secret.txt").unlink()
    _still_serves(server)


def test_only_reading_and_only_known_methods(server) -> None:
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
        assert server.request("/app.js", method, origin=server.origin)[0] == 405
    assert server.request("/app.js", "POST", b"x", origin=server.origin)[0] == 405
    _still_serves(server)


def test_a_foreign_host_is_refused_on_loopback(server) -> None:
    for host in ("evil.example", f"evil.example:{server.port}", "localhost.evil.example", "a@localhost", ""):
        assert server.request("/", host=host)[0] in (400, 421), host
    for host in (f"127.0.0.1:{server.port}", "localhost", f"[::1]:{server.port}"):
        assert server.request("/", host=host)[0] == 200, host


def test_a_foreign_origin_sends_no_report(server, make_report, tiny_bundle) -> None:
    report = make_report(tiny_bundle)
    for origin in (
        "https://evil.example",
        "null",
        f"http://localhost:{server.port + 1}",
        server.origin + "/",
    ):
        status, told = server.post(report, origin=origin)
        assert status == 403 and "own requests" in told
    status, _, _ = server.request("/reports", "POST", json.dumps(report).encode())
    assert status == 403
    assert not list(server.reports.glob("*.json"))


def test_malformed_reports_are_refused(server, make_report, tiny_bundle) -> None:
    good = make_report(tiny_bundle)
    bad = [
        b"", b"{", b"[]", b"\xff\xfe", b"null", b'{"schema_version": 2}', b"[" * 200_000,
        {**good, "latency_ms": {**good["latency_ms"], "p50": -1}},
    ]  # fmt: skip
    for report in bad:
        status, told = server.post(report)
        assert status == 422 and "\n" not in told["error"] and len(told["error"]) < 1000
    assert not list(server.reports.glob("*.json"))
    _still_serves(server)


def test_a_huge_upload_is_refused_before_it_is_read(server) -> None:
    connection = server.connect()
    connection.putrequest("POST", "/reports", skip_host=True)
    for name, value in (("Host", f"localhost:{server.port}"), ("Origin", server.origin)):
        connection.putheader(name, value)
    connection.putheader("Content-Length", str(1 << 30))
    connection.endheaders()
    sent = 0
    try:
        for _ in range(1024):
            connection.send(b"0" * (1 << 20))
            sent += 1
    except OSError:
        pass  # the server hung up
    else:
        pytest.fail("1 GB was taken")
    assert sent < 64
    connection.close()
    _still_serves(server)


def test_a_huge_upload_without_a_length_is_refused(server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as raw:
        head = f"POST /reports HTTP/1.1\r\nHost: localhost:{server.port}\r\nOrigin: {server.origin}\r\n"
        raw.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        chunk = b"10000\r\n" + b"0" * 65536 + b"\r\n"
        sent = 0
        try:
            for _ in range(16384):
                raw.sendall(chunk)
                sent += 1
        except OSError:
            pass
    assert sent < 1024
    _still_serves(server)


def test_too_many_reports_are_refused(needs_web, serve, make_report, tiny_bundle, tmp_path: Path) -> None:
    with serve([tiny_bundle.root], tmp_path) as server:
        answers = [server.post(make_report(tiny_bundle, frames=100 + n))[0] for n in range(15)]
        assert answers[:12] == [201] * 12 and answers[12:] == [429] * 3
        assert len(list(tmp_path.glob("*.json"))) == 12
        _still_serves(server)


@pytest.mark.parametrize("kind", ["server", "guarded"])
def test_many_connections_at_once(kind: str, request: pytest.FixtureRequest) -> None:
    """None of them says anything: over TLS they never come to a request."""
    server = request.getfixturevalue(kind)
    idle = []
    try:
        for _ in range(CONCURRENT):
            idle.append(socket.create_connection(("127.0.0.1", server.port), timeout=20))
        held = sum(_is_open(connection) for connection in idle)
        assert 0 < held <= 64
    finally:
        for connection in idle:
            connection.close()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, http.client.HTTPException):
            return _answers(server)
        time.sleep(0.1)
    _answers(server)


def _answers(server) -> None:
    assert server.request("/")[0] == (401 if server.token else 200)


def test_few_open_files_are_enough(needs_web, serve, tiny_bundle, tmp_path: Path) -> None:
    """As on macOS, where a program may open 256 at first."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    try:
        with serve([tiny_bundle.root], tmp_path) as server:
            _still_serves(server)
            limits = Path(f"/proc/{server.process.pid}/limits").read_text()
            assert int(re.search(r"Max open files +([0-9]+)", limits)[1]) == 1024
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("kind", ["server", "guarded"])
def test_an_answer_that_nobody_takes_holds_little_memory(kind: str, request: pytest.FixtureRequest) -> None:
    server = request.getfixturevalue(kind)
    cookie = _enter(server)
    before = _memory_bytes(server)
    visitors = [_ask(server, "/ort/ort-wasm-simd-threaded.wasm", cookie) for _ in range(40)]
    try:
        time.sleep(1)
        assert _memory_bytes(server) - before < 64 << 20
    finally:
        for visitor in visitors:
            visitor.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["server", "guarded"])
def test_an_answer_that_nobody_takes_is_given_up(kind: str, request: pytest.FixtureRequest) -> None:
    server = request.getfixturevalue(kind)
    visitor = _ask(server, "/ort/ort-wasm-simd-threaded.wasm", _enter(server))
    time.sleep(35)
    received = 0
    with contextlib.suppress(OSError):
        while data := visitor.recv(1 << 20):
            received += len(data)
    assert received < 10_000_000, "all of it was kept for the visitor"


@pytest.mark.slow
def test_a_handshake_that_never_ends_is_closed(guarded) -> None:
    with socket.create_connection(("127.0.0.1", guarded.port), timeout=20) as raw:
        start = time.monotonic()
        with contextlib.suppress(ConnectionResetError):
            assert raw.recv(1) == b""
        assert 8 < time.monotonic() - start < 14


def _enter(server) -> str:
    """The cookie of the link, where there is one."""
    if not server.token:
        return ""
    return server.request(f"/?token={server.token}")[1]["set-cookie"].split(";")[0]


def _ask(server, path: str, cookie: str) -> socket.socket:
    """A visitor who asks and reads nothing."""
    connection = server.connect()
    connection.connect()
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.request("GET", path, headers={"host": f"localhost:{server.port}", "cookie": cookie})
    return connection.sock


def _memory_bytes(server) -> int:
    return int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]) * 4096


def _is_open(connection: socket.socket) -> bool:
    connection.settimeout(0.05)
    try:
        return connection.recv(1) != b""
    except TimeoutError:
        return True
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize(
    "first", [b"", b"GET /icon.svg HTTP/1.1\r\nHost: localhost\r\n\r\n"], ids=["first", "second"]
)
def test_a_request_that_never_ends_is_closed(server, first: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as raw:
        if first:
            raw.sendall(first)
            time.sleep(1)
            assert raw.recv(65536).startswith(b"HTTP/1.1 200")
        start = time.monotonic()
        raw.settimeout(1)
        while time.monotonic() - start < 30:
            try:
                raw.sendall(b"G" if time.monotonic() - start < 2 else b"E")  # drop by drop
                if raw.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        assert 8 < time.monotonic() - start < 14


@pytest.mark.parametrize("head", ["GET / HTTP/1.1\r\nX: " + "a" * 100_000, "\x00\x01\x02\r\n\r\n", "GET /"])
def test_no_http_at_all(server, head: str) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as raw:
        raw.sendall(head.encode())
        raw.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionResetError):
            assert b"200" not in raw.recv(4096)
    _still_serves(server)


def test_without_the_token_nothing_is_served(guarded) -> None:
    for path in ("/", "/app.js", "/bundles/0/model.onnx", "/reports", "/?token=", "/?token=" + "x" * 22):
        status, headers, body = guarded.request(path)
        assert status == 401 and b"whole link" in body and "set-cookie" not in headers, path
    for cookie in ("edgeseg=", "edgeseg=wrong", "edgeseg=é", "=;;=", "edgeseg"):
        assert guarded.request("/", cookie=cookie.encode().decode("latin-1"))[0] == 401
    assert guarded.request("/app.js?token=" + guarded.token)[0] == 401


def test_the_link_lets_in(guarded, make_report, tiny_bundle) -> None:
    status, headers, _ = guarded.request(f"/?token={guarded.token}")
    assert status == 303 and headers["location"] == "/"
    assert re.search(r"HttpOnly.*SameSite=lax; Secure", headers["set-cookie"])
    cookie = headers["set-cookie"].split(";")[0]
    _still_serves(guarded, cookie=cookie)
    report = make_report(tiny_bundle)
    assert guarded.post(report)[0] == 401
    assert guarded.post(report, cookie=cookie, origin="https://evil.example")[0] == 403
    assert guarded.post(report, cookie=cookie)[0] == 201


def test_a_defect_is_told_on_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    async def broken(scope, receive, send) -> None:
        raise RuntimeError("the defect")

    scope = {"type": "http", "method": "GET", "scheme": "http", "headers": [(b"host", b"localhost")]}
    with pytest.raises(RuntimeError):
        asyncio.run(Guard(broken, None)(scope, None, None))
    assert "RuntimeError: the defect" in capfd.readouterr().err


def test_an_end_with_open_answers_says_nothing(needs_web, serve, tiny_bundle, tmp_path: Path) -> None:
    with serve([tiny_bundle.root], tmp_path) as server:
        visitors = [_ask(server, "/ort/ort-wasm-simd-threaded.wasm", "") for _ in range(5)]
        time.sleep(0.5)
        server.process.send_signal(signal.SIGINT)
        assert server.process.stdout.read() == "interrupted\n"
        assert server.process.wait(10) == 130 and visitors


def test_two_servers_on_one_machine_share_no_cookie(guarded) -> None:
    """A browser sends both, since cookies know no port."""
    own, other = _enter(guarded), "edgeseg-1=another"
    assert own.startswith(f"edgeseg-{guarded.port}=")
    for cookie in (f"{own}; {other}", f"{other}; {own}"):
        _still_serves(guarded, cookie=cookie)


def test_the_certificate_is_kept_and_its_key_is_secret(guarded) -> None:
    folder = guarded.reports.parent / "edgeseg"
    assert (folder / "key.pem").stat().st_mode & 0o777 == 0o600
    assert b"BEGIN CERTIFICATE" in (folder / "certificate.pem").read_bytes()


def test_other_interfaces_need_tls(needs_web, tiny_bundle) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "deploy", "serve", str(tiny_bundle.root), "--host", "0.0.0.0", "--port", "0"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2 and done.stderr.startswith("error: --host 0.0.0.0 needs TLS")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--cert", "nowhere.pem"], "--cert and --key | got one of them"),
        (["--cert", "nowhere.pem", "--key", "nowhere.pem"], "expected PEM files"),
    ],
)
def test_a_certificate_that_is_none(needs_web, tiny_bundle, options: list[str], message: str) -> None:
    command = [sys.executable, "-m", "deploy", "serve", str(tiny_bundle.root), "--port", "0", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and message in done.stderr


def test_a_certificate_of_one_s_own(guarded, serve, tiny_bundle, tmp_path: Path) -> None:
    folder = guarded.reports.parent / "edgeseg"
    options = ("--cert", str(folder / "certificate.pem"), "--key", str(folder / "key.pem"))
    with serve([tiny_bundle.root], tmp_path, *options) as server:
        assert server.tls and server.token is None
        _still_serves(server)
