"""The egress proxy as a sandbox meets it: real clients and hostile ones, against a web of our own on loopback."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from beyondswe.errors import EngineError
from beyondswe.gateway.egress import EgressProxy
from beyondswe.gateway.egress_config import EgressConfig
from beyondswe.gateway.egress_rules import EgressLimits, EgressPolicy
from beyondswe.gateway.proxy_build import environment_folder
from beyondswe.gateway.proxy_env import proxy_variables
from tests.gateway import web as standin
from tests.gateway.web import (
    BEHIND,
    FILES,
    FORGE,
    INDEX,
    INDEX_DATE,
    NPM,
    OLD_INDEX,
    READER,
    TARGET,
    WEB,
    Web,
    company_proxy,
    forwarder,
)

pytestmark = pytest.mark.index  # the proxy's own packages come from one, once

POLICY = EgressPolicy(repo=TARGET, index_date=INDEX_DATE)


@pytest.fixture(scope="session")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    web = Web(tmp_path_factory.mktemp("web"))
    web.start()
    yield web
    web.stop()


@pytest.fixture(scope="session")
def proxy(web: Web) -> Iterator[EgressProxy]:
    config = EgressConfig(hosts=web.hosts, certificates=web.authority, index=f"https://{INDEX}/simple/")
    with EgressProxy(config) as proxy:
        yield proxy


@dataclass
class Way:
    """An attempt's way out as a client has it."""

    port: int
    env: dict[str, str]
    folder: Path
    asked: list[str]
    records: Callable[[], list[dict[str, Any]]]
    """The log; the way is closed with it."""

    def run(self, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.folder, env={**self.env, **more}, capture_output=True, text=True, timeout=120
        )

    def curl(self, *arguments: str) -> tuple[int, str]:
        """Status and body."""
        done = self.run("curl", "-sS", "-w", "\n%{http_code}", *arguments)
        body, _, status = done.stdout.rpartition("\n")
        return int(status), body + done.stderr

    def raw(self, sent: bytes, *, answered: bool = True) -> bytes:
        """What comes back for bytes: an HTTP answer to its end, or what there is when the proxy closes."""
        with socket.create_connection(("127.0.0.1", self.port), 20) as connection:
            connection.sendall(sent)
            if not answered:
                connection.shutdown(socket.SHUT_WR)
            return read_answer(connection)

    def tunnel(self, host: str, port: int = 443, *, sni: str | None = None) -> ssl.SSLSocket:
        """A TLS connection through the proxy."""
        connection = socket.create_connection(("127.0.0.1", self.port), 20)
        connection.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        assert b" 200 " in connection.recv(65536)
        context = ssl.create_default_context(cafile=self.env["SSL_CERT_FILE"])
        context.check_hostname = False
        return context.wrap_socket(connection, server_hostname=sni or host)


def read_answer(connection: socket.socket) -> bytes:
    """Head and body of one HTTP answer, or all that came before the other side closed."""
    found = b""
    while True:
        head, gap, body = found.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        if gap and len(body) >= int(length[1] if length else 0):
            return found
        data = connection.recv(65536)
        if not data:
            return found
        found += data


@pytest.fixture
def way(web: Web, proxy: EgressProxy, tmp_path: Path) -> Iterator[Callable[[EgressPolicy], Way]]:
    opened = []
    closed: set[str] = set()

    def open_(policy: EgressPolicy = POLICY) -> Way:
        attempt = proxy.open(policy)
        port = forwarder(attempt.socket.path)
        opened.append((attempt, port))
        bundle = tmp_path / "proxy-ca.pem"
        bundle.write_text(attempt.authority)
        env = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
        env |= {
            "HOME": str(tmp_path),
            "PIP_CONFIG_FILE": os.devnull,
            "GIT_CONFIG_GLOBAL": os.devnull,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }
        number = port.__enter__()
        env |= proxy_variables(number, bundle=str(bundle))
        web.asked.clear()

        @functools.cache
        def records() -> list[dict[str, Any]]:
            closed.add(attempt.name)
            return [json.loads(line) for line in proxy.close(attempt).splitlines()]

        return Way(number, env, tmp_path, web.asked, records)

    yield open_
    for attempt, port in opened:
        port.__exit__(None, None, None)
        if attempt.name not in closed:
            proxy.close(attempt)


# The web, and the target in it


def test_pages_are_reached_over_both_protocols_and_written_down(way: Callable[..., Way]) -> None:
    out = way()
    for address, version in (
        (f"https://{WEB}/a?token=s3cret&q=1", "--http2"),
        (f"https://{WEB}/b", "--http1.1"),
        (f"http://someone:pw@{WEB}/c", "--http1.1"),
    ):
        status, body = out.curl(version, address)
        assert status == 200 and "page" in body
    records = out.records()
    assert [record["url"] for record in records] == [
        f"https://{WEB}/a?token=***&q=1", f"https://{WEB}/b", f"http://{WEB}/c",
    ]  # fmt: skip
    for record in records:
        assert record["decision"] == "allowed" and record["status"] == 200 and record["method"] == "GET"
        assert record["size"] > 0 and record["time"].endswith("Z")


def test_target_is_refused_to_every_client_and_named(way: Callable[..., Way], tmp_path: Path) -> None:
    """Its pull request by curl, Python, git, pip and through a reader."""
    out = way()
    pull = f"https://{FORGE}/{TARGET}/pull/7"
    status, body = out.curl(pull)
    assert status == 403 and "target-repository" in body and standin.ANSWER not in body
    status, body = out.curl(f"https://{READER}/{pull}")
    assert status == 403 and standin.ANSWER not in body
    status, body = out.curl("-L", f"https://{WEB}/away")
    assert status == 403 and standin.ANSWER not in body
    assert f"GET {WEB}/away" in out.asked
    script = (
        "import urllib.request, urllib.error\n"
        f"try: print(urllib.request.urlopen({pull!r}).read())\n"
        "except urllib.error.HTTPError as error: print(error.code, error.headers['x-refused-rule'])"
    )
    assert out.run(sys.executable, "-c", script).stdout.strip() == "403 target-repository"
    for address in (
        f"https://{FORGE}/{TARGET}",
        f"https://{FORGE}/{TARGET}.git",
        f"http://{FORGE}/{TARGET}.git",
    ):
        done = out.run("git", "clone", address, "stolen")
        assert done.returncode != 0 and "403" in done.stderr
        assert not (tmp_path / "stolen").exists()
    done = out.run(sys.executable, "-m", "pip", "download", "--no-deps", f"git+https://{FORGE}/{TARGET}")
    assert done.returncode != 0
    blocked = [record for record in out.records() if record["decision"] == "blocked"]
    assert len(blocked) >= 8
    assert {record["rule"] for record in blocked} == {"target-repository"}
    assert not [line for line in out.asked if TARGET in line]


def test_git_gets_other_repositories(way: Callable[..., Way], tmp_path: Path) -> None:
    out = way()
    done = out.run("git", "clone", "-q", f"https://{FORGE}/other/lib.git", "lib")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "lib" / "lib.py").read_text() == "x = 1\n"
    for address in (f"git://{FORGE}/other/lib.git", f"ssh://git@{FORGE}/other/lib.git"):
        done = out.run(
            "git", "clone", address, "x", GIT_SSH_COMMAND="ssh -o BatchMode=yes -o ConnectTimeout=5"
        )
        assert done.returncode != 0


# Package indexes


def pip(out: Way, *arguments: str) -> subprocess.CompletedProcess[str]:
    return out.run(
        sys.executable, "-m", "pip", "download", "--no-cache-dir", "--no-deps", "-d", "got", *arguments
    )


def got(out: Way) -> list[str]:
    return sorted(path.name for path in (out.folder / "got").glob("*"))


def test_pip_sees_the_index_of_the_day(way: Callable[..., Way]) -> None:
    out = way()
    index = ("-i", f"https://{INDEX}/simple")
    done = pip(out, *index, "helper")
    assert done.returncode == 0, done.stderr
    assert got(out) == ["helper-1.1-py3-none-any.whl"]
    assert pip(out, *index, "helper==2.0").returncode != 0
    newer = f"https://{FILES}/packages/helper-2.0-py3-none-any.whl"
    assert pip(out, newer).returncode != 0
    assert pip(out, f"https://{FILES}/packages/helper-1.0-py3-none-any.whl").returncode == 0
    by_url = [record for record in out.records() if record["url"] == newer]
    assert {record["rule"] for record in by_url} == {"index-date"}
    assert not any("2.0" in line for line in out.asked)


@pytest.mark.parametrize(
    "asked",
    [
        ("-i", f"https://{INDEX}/simple", "tiny"),
        ("-i", f"https://{INDEX}/simple", "--pre", "TINY==1.1"),
        (f"https://{FILES}/packages/tiny-1.0-py3-none-any.whl",),
        (f"https://{FILES}/other/place/tiny-1.1-py3-none-any.whl",),
        ("--find-links", f"https://{OLD_INDEX}/simple/tiny/", "--no-index", "tiny"),
    ],
)  # fmt: skip
def test_pip_never_gets_the_target(way: Callable[..., Way], asked: tuple[str, ...]) -> None:
    out = way()
    assert pip(out, *asked).returncode != 0
    assert got(out) == []
    assert any(record["decision"] == "blocked" for record in out.records())
    assert not any(line.startswith(f"GET {FILES}") for line in out.asked)


def test_uv_sees_the_index_of_the_day_with_its_date_turned_off(way: Callable[..., Way]) -> None:
    from uv import find_uv_bin

    out = way()
    uv = (
        find_uv_bin(),
        "pip",
        "install",
        "--no-cache",
        "--target",
        "site",
        "--index-url",
        f"https://{INDEX}/simple",
    )
    done = out.run(*uv, "--python", sys.executable, "--exclude-newer", "2099-01-01", "helper")
    assert done.returncode == 0, done.stderr
    assert (out.folder / "site" / "helper.py").read_text() == "VERSION = '1.1'\n"
    done = out.run(*uv, "--python", sys.executable, "tiny")
    assert done.returncode != 0


def test_index_without_times_is_refused_with_the_reason(way: Callable[..., Way]) -> None:
    out = way()
    status, body = out.curl(f"https://{OLD_INDEX}/simple/helper/")
    assert status == 403 and "index-no-times" in body
    assert pip(out, "-i", f"https://{OLD_INDEX}/simple", "helper").returncode != 0
    assert {record["rule"] for record in out.records()} == {"index-no-times"}


def test_index_without_a_date_in_the_instance_is_refused(way: Callable[..., Way]) -> None:
    out = way(EgressPolicy(repo=TARGET))
    assert out.curl(f"https://{INDEX}/simple/helper/")[0] == 403
    assert out.curl(f"https://{WEB}/page")[0] == 200
    assert [record["rule"] for record in out.records()] == ["index-undated", ""]


def test_json_beside_the_index(way: Callable[..., Way]) -> None:
    out = way()
    status, body = out.curl(f"https://{INDEX}/pypi/helper/json")
    page = json.loads(body)
    assert status == 200 and list(page["releases"]) == ["1.0", "1.1"]
    assert page["info"] == {"name": "helper", "version": "1.1"}
    assert out.curl(f"https://{INDEX}/pypi/tiny/json")[0] == 403
    assert out.curl(f"https://{INDEX}/simple/")[0] == 403
    assert out.curl("-X", "POST", f"https://{INDEX}/simple/helper/")[0] == 403
    assert "2.0" not in out.curl("--path-as-is", f"https://{INDEX}/simple/./x/../helper/")[1]


@pytest.mark.skipif(shutil.which("npm") is None, reason="no npm here")
def test_npm_sees_its_registry_of_the_day(way: Callable[..., Way]) -> None:
    out = way()
    npm = ("npm", "install", "--no-audit", "--no-fund", "--registry", f"https://{NPM}/", "--cache", "cache")
    done = out.run(*npm, "left")
    assert done.returncode == 0, done.stderr
    assert (
        json.loads((out.folder / "node_modules" / "left" / "package.json").read_text())["version"] == "1.2.0"
    )
    assert out.run(*npm, "left@2.0.0").returncode != 0
    assert out.curl(f"https://{NPM}/left/-/left-2.0.0.tgz")[0] == 403
    assert out.curl(f"https://{NPM}/left/2.0.0")[0] == 403
    status, body = out.curl(f"https://{NPM}/left/latest")
    assert status == 200 and json.loads(body)["version"] == "1.2.0"


# Hostile clients


@pytest.mark.parametrize(
    ("request_", "rule"),
    [
        (f"CONNECT {WEB}:22 HTTP/1.1\r\nHost: {WEB}:22\r\n\r\n", "port"),
        (f"CONNECT {WEB}:8443 HTTP/1.1\r\n\r\n", "port"),
        ("CONNECT 127.0.0.1:443 HTTP/1.1\r\n\r\n", "internal-address"),
        ("CONNECT 2130706433:443 HTTP/1.1\r\n\r\n", "internal-address"),
        ("CONNECT 0x7f.1:443 HTTP/1.1\r\n\r\n", "internal-address"),
        ("CONNECT [::1]:443 HTTP/1.1\r\n\r\n", "internal-address"),
        ("CONNECT [::ffff:10.0.0.1]:443 HTTP/1.1\r\n\r\n", "internal-address"),
        ("CONNECT 169.254.169.254:80 HTTP/1.1\r\n\r\n", "internal-address"),
        ("CONNECT 8.8.8.8:443 HTTP/1.1\r\n\r\n", "raw-address"),
        ("CONNECT [2001:4860:4860::8888]:443 HTTP/1.1\r\n\r\n", "raw-address"),
        ("CONNECT localhost:443 HTTP/1.1\r\n\r\n", "internal-address"),
        ("GET http://8.8.8.8/dns-query HTTP/1.1\r\nHost: 8.8.8.8\r\n\r\n", "raw-address"),
        (f"GET http://{WEB}:22/ HTTP/1.1\r\nHost: {WEB}:22\r\n\r\n", "port"),
        (f"GET http://{WEB}/ HTTP/1.1\r\nHost: {FORGE}\r\n\r\n", "host-mismatch"),
        (f"GET http://{WEB}/ HTTP/1.1\r\nHost: {WEB}\r\nHost: {FORGE}\r\n\r\n", ""),
        (f"GET http://{WEB}/ HTTP/1.1\r\nHost: {WEB}:443\r\n\r\n", "host-mismatch"),
        (f"GET http://{WEB}/{'a' * 20_000} HTTP/1.1\r\nHost: {WEB}\r\n\r\n", "long-url"),
        (
            f"GET http://{WEB}/socket HTTP/1.1\r\nHost: {WEB}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
            "websocket",
        ),
        (f"GET http://{WEB}/ HTTP/1.1\r\nHost: {WEB}\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n", ""),
        (f"TRACE http://{WEB}/ HTTP/1.1\r\nHost: {WEB}\r\n\r\n", "protocol"),
        (f"GET http://{WEB}/\xff\xfe HTTP/1.1\r\nHost: {WEB}\r\n\r\n", "protocol"),
        (f"POST http://{WEB}/ HTTP/1.1\r\nHost: {WEB}\r\nContent-Length: \xb2\r\n\r\n", ""),
        (f"GET http://{WEB}\\@{FORGE}/{TARGET} HTTP/1.1\r\nHost: {WEB}\r\n\r\n", ""),
        (f"GET http://{WEB}%2f@{FORGE}/{TARGET} HTTP/1.1\r\nHost: {FORGE}\r\n\r\n", ""),
        ("\x16\x03\x01\x00\x05hello", "protocol"),
        ("SSH-2.0-OpenSSH_9.2\r\n", "protocol"),
        ("\x00\x1d\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03www\x07example\x03org\x00\x00\x01\x00\x01",
         "protocol"),
    ],
)  # fmt: skip
def test_hostile_requests(way: Callable[..., Way], request_: str, rule: str) -> None:
    out = way()
    answer = out.raw(request_.encode("latin-1"), answered="HTTP/1.1" in request_)
    if rule:
        assert out.asked == []
        if rule != "protocol" or "TRACE" in request_:
            assert answer.startswith(b"HTTP/1.1 403 ") and rule.encode() in answer
    else:
        assert not any(FORGE in line for line in out.asked)
        assert standin.ANSWER.encode() not in answer
    assert [record["rule"] for record in out.records()] == [rule] or not rule


def ask(connection: ssl.SSLSocket, request: str) -> bytes:
    connection.sendall(request.encode())
    return read_answer(connection)


def test_http2_authority_must_agree(way: Callable[..., Way]) -> None:
    out = way()
    status, body = out.curl("--http2", "-H", f"Host: {FORGE}", f"https://{WEB}/{TARGET}/pull/7")
    assert status == 403 and "host-mismatch" in body
    assert out.asked == []


def test_large_requests(way: Callable[..., Way], tmp_path: Path) -> None:
    out = way(EgressPolicy(repo=TARGET, limits=EgressLimits(request=8 << 20)))
    (tmp_path / "large").write_bytes(b"x" * (3 << 20))
    (tmp_path / "larger").write_bytes(b"x" * (9 << 20))
    send = ("-X", "POST", "-H", "Expect:", "--data-binary")
    assert out.curl(*send, "@large", f"https://{WEB}/read")[1].startswith("3145728")
    for version in ("--http1.1", "--http2"):
        answer = out.curl(*send, "@large", "-H", "Transfer-Encoding: chunked", version, f"https://{WEB}/read")
        assert answer[1].startswith("3145728")
    assert out.curl(*send, "@larger", f"https://{WEB}/read")[0] in (0, 403)
    assert out.curl(*send, "@larger", "-H", "Transfer-Encoding: chunked", f"https://{WEB}/read")[0] == 0
    assert out.curl(*send, "@large", f"https://{FORGE}/{TARGET}/git-receive-pack")[0] in (0, 403)
    assert [record["rule"] for record in out.records()] == ["", "", "", "size", "size", "target-repository"]


@pytest.mark.parametrize(
    ("host", "sni", "header"), [(WEB, FORGE, WEB), (WEB, WEB, FORGE), (FORGE, WEB, WEB), (WEB, FORGE, FORGE)]
)
def test_tunnel_tls_and_header_must_agree(way: Callable[..., Way], host: str, sni: str, header: str) -> None:
    out = way()
    with out.tunnel(host, sni=sni) as connection:
        answer = ask(connection, f"GET /{TARGET}/pull/7 HTTP/1.1\r\nHost: {header}\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 403 ") and b"host-mismatch" in answer
    assert out.asked == []


def test_tunnel_in_a_tunnel_and_other_protocols_in_one(way: Callable[..., Way]) -> None:
    out = way()
    with out.tunnel(WEB) as connection:
        answer = ask(connection, f"CONNECT {FORGE}:443 HTTP/1.1\r\nHost: {FORGE}:443\r\n\r\n")
    assert b" 200 " not in answer.partition(b"\r\n")[0]
    with out.tunnel(WEB) as connection:
        answer = ask(connection, f"GET http://{FORGE}/{TARGET} HTTP/1.1\r\nHost: {WEB}\r\n\r\n")
    assert standin.ANSWER.encode() not in answer
    greeting = out.raw(f"CONNECT {WEB}:443 HTTP/1.1\r\n\r\nSSH-2.0-x\r\n".encode())
    assert b"SSH" not in greeting
    assert out.asked == [] or not any(FORGE in line for line in out.asked)


def test_a_connection_without_a_word_is_no_request(way: Callable[..., Way]) -> None:
    out = way()
    assert out.raw(b"", answered=False) == b""
    assert out.records() == []


def test_client_that_does_not_trust_the_proxy_is_written_down(way: Callable[..., Way]) -> None:
    out = way()
    done = out.run("curl", "-sS", f"https://{WEB}/", CURL_CA_BUNDLE=str(environment_folder() / "none"))
    assert done.returncode != 0
    assert out.curl("--cacert", "/etc/ssl/certs/ca-certificates.crt", f"https://{WEB}/")[0] == 0
    assert "TLS" in out.records()[-1]["detail"]


# Limits


def test_sizes_are_limited(way: Callable[..., Way]) -> None:
    out = way(EgressPolicy(repo=TARGET, limits=EgressLimits(response=100_000, total=250_000)))
    status, body = out.curl(f"https://{WEB}/bytes/200000")
    assert status == 403 and "100,000" in body
    assert len(out.curl(f"https://{WEB}/endless")[1]) < 200_000
    for _ in range(2):
        assert out.curl(f"https://{WEB}/bytes/90000")[0] in (200, 403)
    assert out.curl(f"https://{WEB}/bytes/90000")[0] == 403
    rules = [record["rule"] for record in out.records()]
    assert rules[0] == rules[1] == rules[-1] == "size"


def test_rate_is_limited(way: Callable[..., Way]) -> None:
    out = way(EgressPolicy(repo=TARGET, limits=EgressLimits(rate=0.001, burst=3)))
    statuses = [out.curl(f"http://{WEB}/{number}")[0] for number in range(5)]
    assert statuses == [200, 200, 200, 429, 429]
    assert out.records()[-1]["rule"] == "rate"


# Attempts side by side


def test_attempts_do_not_share_rules_or_logs(way: Callable[..., Way]) -> None:
    mine, other = way(), way(EgressPolicy(repo="other/lib", index_date=INDEX_DATE))
    assert mine.curl(f"https://{FORGE}/{TARGET}/pull/7")[0] == 403
    assert other.curl(f"https://{FORGE}/{TARGET}/pull/7")[0] == 200
    assert other.curl(f"https://{FORGE}/other/lib")[0] == 403
    assert len(mine.records()) == 1 and len(other.records()) == 2


def test_only_allowed_hosts(way: Callable[..., Way]) -> None:
    out = way(EgressPolicy(repo=TARGET, allow_hosts=(WEB,), only_allowed=True))
    assert out.curl(f"https://{WEB}/x")[0] == 200
    assert out.run("curl", "-sS", f"https://{FORGE}/other/lib").returncode != 0
    assert out.records()[-1]["rule"] == "not-allowed"


def test_an_allowed_host_may_be_inside(way: Callable[..., Way], web: Web) -> None:
    """The user who names an address of the own machine gets it, on that port alone."""
    port = web.ports["http"]
    assert way().curl("-g", "--noproxy", "x", f"http://127.0.0.1:{port}/")[0] == 403
    out = way(EgressPolicy(repo=TARGET, allow_hosts=(f"127.0.0.1:{port}",)))
    assert out.curl("--noproxy", "x", f"http://127.0.0.1:{port}/")[0] == 200
    assert out.curl("--noproxy", "x", f"http://127.0.0.1:{web.ports['https']}/")[0] == 403
    assert out.curl(f"https://{FORGE}/{TARGET}")[0] == 403


def test_heads_of_discussions_are_kept_for_the_audit(way: Callable[..., Way]) -> None:
    out = way()
    assert out.curl("--compressed", f"https://{FORGE}/other/lib/pull/3")[0] == 200
    assert out.curl(f"https://{FORGE}/other/lib/blob/main/x.py")[0] == 200
    first, second = out.records()
    assert standin.ANSWER in first["head"]
    assert "head" not in second


def test_behind_the_proxy_of_a_company(web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host's own proxy is used, with its login, by requests and by what the proxy asks for itself."""
    config = EgressConfig(certificates=web.authority, index=f"https://{BEHIND}/simple/")
    with company_proxy(web, "me:secret") as (port, asked):
        for name in ("http_proxy", "https_proxy"):
            monkeypatch.setenv(name, f"http://me:secret@127.0.0.1:{port}")
        with EgressProxy(config) as proxy, contextlib.ExitStack() as stack:
            attempt = proxy.open(POLICY)
            number = stack.enter_context(forwarder(attempt.socket.path))
            bundle = tmp_path / "ca.pem"
            bundle.write_text(attempt.authority)
            env = {**os.environ, **proxy_variables(number, bundle=str(bundle))}
            out = Way(number, env, tmp_path, web.asked, list)
            assert out.curl(f"https://{BEHIND}/a")[0] == 200
            assert out.curl(f"http://{BEHIND}/b")[0] == 200
            assert out.curl(f"https://{BEHIND}/helper-2.0-py3-none-any.whl")[0] == 403
            assert out.curl(f"https://{FORGE}/{TARGET}")[0] == 403
            assert asked == [f"CONNECT {BEHIND}:443", f"GET http://{BEHIND}/b", f"CONNECT {BEHIND}:443"]
            assert b"secret" not in attempt.records()


def test_the_authority_is_new_and_its_key_goes(web: Web, proxy: EgressProxy) -> None:
    first = proxy.open(POLICY)
    proxy.close(first)
    another = EgressProxy(EgressConfig())
    attempt = another.open(POLICY)
    assert attempt.authority != first.authority and "PRIVATE KEY" not in attempt.authority
    folder = attempt.log.parent.parent
    assert (folder.stat().st_mode & 0o077) == 0
    assert list(attempt.socket.folder.iterdir()) == [attempt.socket.path]
    another.stop()
    assert not folder.exists()


def test_a_proxy_that_dies_is_started_again(web: Web) -> None:
    with EgressProxy(EgressConfig()) as proxy:
        lost = proxy.open(POLICY)
        process = proxy._process
        assert process is not None
        process.kill()
        process.wait()
        attempt = proxy.open(POLICY)
        assert attempt.authority != lost.authority
        with pytest.raises(EngineError, match="ended while the agent worked"):
            proxy.close(lost)
        assert proxy.close(attempt) == b""


def test_the_proxy_ends_with_the_run_that_was_killed() -> None:
    script = (
        "import os; from beyondswe.gateway.egress import *; p = EgressProxy(); a = p.open(EgressPolicy());"
        "print(p._process.pid, a.log.parent.parent / 'ca', flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    pid, folder = done.stdout.split()
    for _ in range(200):
        if not Path(f"/proc/{pid}").exists():
            break
        time.sleep(0.05)
    assert not Path(f"/proc/{pid}").exists()
    assert not Path(folder).exists()
    shutil.rmtree(Path(folder).parent, ignore_errors=True)  # a run beside this one may have been quicker
