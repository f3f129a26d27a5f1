"""Time that the egress proxy adds to a request: pages, a project's page of an index, and refusals, beside the same
pages straight from the stand-in for the web; over connections that stay open, and over new ones.

Direct and through the proxy are measured in turn, one request at a time; shown are medians in milliseconds.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from beyondswe.gateway.egress import EgressAttempt, EgressProxy
from beyondswe.gateway.egress_config import EgressConfig
from beyondswe.gateway.egress_rules import EgressLimits, EgressPolicy
from tests.gateway.web import FORGE, INDEX, INDEX_DATE, TARGET, WEB, Web

REQUESTS = 200
FRESH = 40


def connection(connect: Callable[[], socket.socket], host: str, trust: Path) -> http.client.HTTPConnection:
    """An HTTPS connection over a socket that leads to ``host``."""
    context = ssl.create_default_context(cafile=str(trust))
    made = http.client.HTTPConnection(host)
    made.sock = context.wrap_socket(connect(), server_hostname=host)
    return made


def through(attempt: EgressAttempt, host: str) -> socket.socket:
    """A tunnel through the proxy, as a client of the sandbox opens it."""
    made = socket.socket(socket.AF_UNIX)
    made.connect(str(attempt.socket.path))
    made.sendall(f"CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n".encode())
    assert b" 200 " in made.recv(65536)
    return made


def ask(made: http.client.HTTPConnection, path: str, status: int) -> float:
    started = time.perf_counter()
    made.request("GET", path)
    answer = made.getresponse()
    answer.read()
    assert answer.status == status, (path, answer.status)
    return (time.perf_counter() - started) * 1000


def fresh(connect: Callable[[], socket.socket], host: str, trust: Path, path: str) -> float:
    started = time.perf_counter()
    made = connection(connect, host, trust)
    ask(made, path, 200)
    made.close()
    return (time.perf_counter() - started) * 1000


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        web = Web(folder)
        web.start()
        config = EgressConfig(hosts=web.hosts, certificates=web.authority, index=f"https://{INDEX}/simple/")
        started = time.perf_counter()
        with EgressProxy(config) as proxy:
            limits = EgressLimits(burst=100_000)
            attempt = proxy.open(EgressPolicy(repo=TARGET, index_date=INDEX_DATE, limits=limits))
            print(f"start of the proxy: {time.perf_counter() - started:.2f} s")
            trust = folder / "proxy.pem"
            trust.write_text(attempt.authority)

            def straight() -> socket.socket:
                return socket.create_connection(("127.0.0.1", web.ports["https"]))

            for what, host, path, status in (
                ("page", WEB, "/page", 200),
                ("index page", INDEX, "/simple/helper/", 200),
                ("refused", FORGE, f"/{TARGET}/pull/7", 403),
            ):
                direct = connection(straight, host, web.authority)
                proxied = connection(lambda host=host: through(attempt, host), host, trust)
                ways: tuple[list[float], list[float]] = ([], [])
                for _ in range(REQUESTS):
                    ways[0].append(ask(direct, path, 200))
                    ways[1].append(ask(proxied, path, status))
                one, two = map(statistics.median, ways)
                print(f"{what}, connection kept: direct {one:.2f} ms, through the proxy {two:.2f} ms")
            ways = ([], [])
            for _ in range(FRESH):
                ways[0].append(fresh(straight, WEB, web.authority, "/page"))
                ways[1].append(fresh(lambda: through(attempt, WEB), WEB, trust, "/page"))
            one, two = map(statistics.median, ways)
            print(f"page, new connection each: direct {one:.2f} ms, through the proxy {two:.2f} ms")
        web.stop()


if __name__ == "__main__":
    main()
