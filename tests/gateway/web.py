"""Stand-ins for the web on loopback, speaking its real protocols: TLS, pages, git, package indexes, a reader.

Every name leads here; what was really asked for is in `Web.asked`, so that a test sees what got through.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import io
import json
import os
import socket
import ssl
import subprocess
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

TARGET = "acme/tiny"
ANSWER = "the change that solves it"
FORGE = "github.com"
WEB = "www.web-standin.org"
INDEX = "index.web-standin.org"
FILES = "files.web-standin.org"
OLD_INDEX = "old.web-standin.org"  # HTML only
NPM = "registry.web-standin.org"
READER = "r.jina.ai"
BEHIND = "behind.web-standin.org"  # reached only through the company's proxy
NAMES = (FORGE, WEB, INDEX, FILES, OLD_INDEX, NPM, READER)
INDEX_DATE = "2024-03-01"

RELEASES = {  # project -> {version: day of its upload}
    "helper": {"1.0": "2023-05-01", "1.1": "2024-03-01", "2.0": "2024-09-01"},
    "tiny": {"1.0": "2023-01-01", "1.1": "2024-10-01"},
}
NPM_RELEASES = {"left": {"1.0.0": "2023-05-01", "1.2.0": "2024-02-01", "2.0.0": "2024-09-01"}}


def wheel(project: str, version: str) -> tuple[str, bytes]:
    name = f"{project}-{version}-py3-none-any.whl"
    info = f"{project}-{version}.dist-info"
    files = {
        f"{project}.py": f"VERSION = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},{_digest(text)},{len(text)}\n" for path, text in files.items())
    files[f"{info}/RECORD"] = record + f"{info}/RECORD,,\n"
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for path, text in files.items():
            archive.writestr(zipfile.ZipInfo(path, (2020, 1, 1, 0, 0, 0)), text)
    return name, stream.getvalue()


def _digest(text: str) -> str:
    raw = hashlib.sha256(text.encode()).digest()
    return "sha256=" + base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def npm_package(project: str, version: str) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for path, text in {
            "package/package.json": json.dumps({"name": project, "version": version, "main": "index.js"}),
            "package/index.js": f"module.exports = {version!r}\n",
        }.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return stream.getvalue()


@dataclass
class Answer:
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


class Web:
    """The servers, and what reached them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []
        self.git = folder / "git"
        self.files = {name: data for p, vs in RELEASES.items() for v in vs for name, data in [wheel(p, v)]}
        self._servers: list[ThreadingHTTPServer] = []
        self.authority = folder / "web-ca.pem"

    def start(self) -> None:
        _certificates(self.folder)
        for path in ("other/lib.git", f"{TARGET}.git"):
            _repository(self.git / path, self.folder / "work" / path)
        self.ports = {}
        for scheme in ("http", "https"):
            server = _Server(("127.0.0.1", 0), _Handler)
            server.web, server.scheme = self, scheme
            if scheme == "https":
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(self.folder / "server.pem", self.folder / "server.key")
                server.socket = context.wrap_socket(
                    server.socket, server_side=True, do_handshake_on_connect=False
                )
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self._servers.append(server)
            self.ports[scheme] = server.server_address[1]

    def stop(self) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()

    @property
    def hosts(self) -> dict[str, str]:
        """The mapping for the proxy's configuration."""
        return {
            f"{name}:{port}": f"127.0.0.1:{self.ports[scheme]}"
            for name in NAMES
            for scheme, port in (("http", 80), ("https", 443))
        }

    def answer(self, request: _Handler) -> Answer:
        host = request.headers.get("Host", "").partition(":")[0]
        path = urlsplit(request.path).path
        accept = request.headers.get("Accept", "")
        self.asked.append(f"{request.command} {host}{request.path}")
        if host == FORGE:
            return self._git(request) if ".git" in path else _html(f"{path}: {ANSWER}")
        if host == READER:
            return _html(f"read for you: {ANSWER}")
        if host == INDEX or (host == BEHIND and path.startswith("/simple/")):
            return self._index(path, accept)
        if host == OLD_INDEX:
            links = "".join(f'<a href="https://{FILES}/{name}">{name}</a>' for name in self.files)
            return _html(links)
        if host == FILES:
            data = self.files.get(unquote(path.rpartition("/")[2]))
            return Answer(200, data) if data else Answer(404)
        if host == NPM:
            return self._npm(path)
        if path == "/read":
            return Answer(200, str(len(_body(request))).encode())
        return self._page(path)

    def _page(self, path: str) -> Answer:
        if path == "/away":  # its address does not show where it leads
            return Answer(302, headers={"Location": f"https://{FORGE}/{TARGET}/pull/7.diff"})
        if path.startswith("/bytes/"):
            return Answer(200, b"x" * int(path.rpartition("/")[2]))
        if path.startswith("/endless"):
            return Answer(200, b"", {"X-Endless": "1"})
        return _html(f"page {path}")

    def _index(self, path: str, accept: str) -> Answer:
        parts = path.strip("/").split("/")
        if parts[0] == "simple" and len(parts) == 2 and parts[1] in RELEASES:
            files = [
                {
                    "filename": name,
                    "url": f"https://{FILES}/packages/{name}",
                    "hashes": {"sha256": hashlib.sha256(self.files[name]).hexdigest()},
                    "upload-time": f"{day}T12:00:00.000000Z",
                }
                for version, day in RELEASES[parts[1]].items()
                for name in [wheel(parts[1], version)[0]]
            ]
            if "vnd.pypi.simple.v1+json" not in accept:
                return _html("".join(f'<a href="{file["url"]}">{file["filename"]}</a>' for file in files))
            page = {"meta": {"api-version": "1.1"}, "name": parts[1], "files": files}
            page["versions"] = list(RELEASES[parts[1]])
            return _json(page, "application/vnd.pypi.simple.v1+json")
        if parts[0] == "pypi" and parts[-1] == "json" and parts[1] in RELEASES:
            releases = {
                version: [
                    {"filename": wheel(parts[1], version)[0], "upload_time_iso_8601": f"{day}T12:00:00Z"}
                ]
                for version, day in RELEASES[parts[1]].items()
            }
            newest = list(releases)[-1]
            info = {"name": parts[1], "version": newest, "description": "what is new in the newest"}
            return _json({"info": info, "releases": releases, "urls": releases[newest]})
        return Answer(404)

    def _npm(self, path: str) -> Answer:
        parts = unquote(path).strip("/").split("/")
        if parts[0] not in NPM_RELEASES:
            return Answer(404)
        days = NPM_RELEASES[parts[0]]
        if len(parts) == 3:
            version = parts[2].removeprefix(f"{parts[0]}-").removesuffix(".tgz")
            return Answer(200, npm_package(parts[0], version))
        versions = {}
        for version in days:
            data = npm_package(parts[0], version)
            url = f"https://{NPM}/{parts[0]}/-/{parts[0]}-{version}.tgz"
            versions[version] = {"name": parts[0], "version": version, "dist": {"tarball": url}}
            versions[version]["dist"]["shasum"] = hashlib.sha1(data).hexdigest()
        if len(parts) == 2:
            return _json(versions[parts[1]]) if parts[1] in versions else Answer(404)
        times = {version: f"{day}T12:00:00.000Z" for version, day in days.items()}
        return _json(
            {
                "_id": parts[0],
                "name": parts[0],
                "dist-tags": {"latest": "2.0.0"},
                "versions": versions,
                "time": {"created": times["1.0.0"], "modified": times["2.0.0"], **times},
            }
        )

    def _git(self, request: _Handler) -> Answer:
        """git's own server program, as a web server runs it."""
        parts = urlsplit(request.path)
        body = _body(request)
        env = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.git),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": request.command,
            "PATH_INFO": unquote(parts.path),
            "QUERY_STRING": parts.query,
            "CONTENT_TYPE": request.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "REMOTE_ADDR": "127.0.0.1",
            "HTTP_CONTENT_ENCODING": request.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
        }
        done = subprocess.run(["git", "http-backend"], input=body, capture_output=True, env=env, check=True)
        head, _, rest = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().splitlines())
        status = int(headers.pop("Status", "200").split()[0])
        return Answer(status, rest, headers)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    web: Web
    scheme: str

    def handle_error(self, request: object, client_address: object) -> None:
        """Connections that are cut are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, *_: object) -> None: ...

    def _reply(self) -> None:
        answer = self.server.web.answer(self)
        if "X-Endless" in answer.headers:
            self.send_response(200)
            self.end_headers()
            for _ in range(100_000):  # ended by whoever has enough of it
                self.wfile.write(b"y" * 65_536)
            return
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    do_GET = do_HEAD = do_POST = do_PUT = _reply


def _html(text: str) -> Answer:
    return Answer(200, f"<html><body>{text}</body></html>".encode(), {"Content-Type": "text/html"})


def _json(document: object, kind: str = "application/json") -> Answer:
    return Answer(200, json.dumps(document).encode(), {"Content-Type": kind, "ETag": '"1"'})


def _body(request: _Handler) -> bytes:
    if request.headers.get("Transfer-Encoding") == "chunked":
        return b"".join(_chunks(request.rfile))
    return request.rfile.read(int(request.headers.get("Content-Length") or 0))


def _chunks(stream: io.BufferedIOBase) -> Iterator[bytes]:
    while size := int(stream.readline().split(b";")[0], 16):
        yield stream.read(size)
        stream.readline()
    stream.readline()


def _repository(bare: Path, work: Path) -> None:
    work.mkdir(parents=True)
    bare.parent.mkdir(parents=True, exist_ok=True)
    (work / "lib.py").write_text("x = 1\n")
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-C", str(work)]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *command], check=True)
    subprocess.run(["git", "clone", "-q", "--bare", str(work), str(bare)], check=True)


def _certificates(folder: Path) -> None:
    """An authority, and a certificate of it for every name."""
    names = ",".join(f"DNS:{name}" for name in (*NAMES, BEHIND))
    (folder / "leaf.cnf").write_text(f"subjectAltName={names}\nbasicConstraints=CA:FALSE\n")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    key = ["-newkey", "rsa:2048", "-nodes"]
    openssl(
        "req",
        "-x509",
        *key,
        "-keyout",
        "ca.key",
        "-out",
        "web-ca.pem",
        "-days",
        "2",
        "-subj",
        "/CN=web stand-in",
    )
    openssl("req", *key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=stand-in")
    openssl(
        "x509", "-req", "-in", "server.csr", "-CA", "web-ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
        "-out", "server.pem", "-extfile", "leaf.cnf",
    )  # fmt: skip


@contextmanager
def company_proxy(web: Web, login: str) -> Iterator[tuple[int, list[str]]]:
    """A forward proxy that wants a login and leads every name to the stand-ins; its port, and what it was asked."""
    asked: list[str] = []
    expected = "Basic " + base64.b64encode(login.encode()).decode()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

        def _checked(self) -> bool:
            asked.append(f"{self.command} {self.path}")
            good = self.headers.get("Proxy-Authorization") == expected
            if not good:
                self.send_error(407)
            return good

        def do_CONNECT(self) -> None:
            if not self._checked():
                return
            self.send_response(200)
            self.end_headers()
            with socket.create_connection(("127.0.0.1", web.ports["https"])) as inner:
                thread = threading.Thread(target=pump, args=(inner, self.connection), daemon=True)
                thread.start()
                pump(self.connection, inner)
                thread.join(10)
            self.close_connection = True

        def do_GET(self) -> None:
            if not self._checked():
                return
            parts = urlsplit(self.path)
            connection = http.client.HTTPConnection("127.0.0.1", web.ports["http"])
            connection.request("GET", parts.path, headers={"Host": parts.netloc})
            answer = connection.getresponse()
            body = answer.read()
            self.send_response(answer.status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1], asked
    finally:
        server.shutdown()
        server.server_close()


def pump(source: socket.socket, sink: socket.socket) -> None:
    """Carry bytes from one socket to the other until the first ends; one that breaks ends both."""
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@contextmanager
def forwarder(path: Path) -> Iterator[int]:
    """A port of the loopback that leads to a Unix socket, as a sandbox has it; gives the port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(str(path))
            for pair in ((client, server), (server, client)):
                threading.Thread(target=pump, args=pair, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
