"""A registry on loopback that speaks the real protocol (v2), with images made on the spot and faults on
demand.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
INDEX = "application/vnd.docker.distribution.manifest.list.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
PLAIN_LAYER = "application/vnd.docker.image.rootfs.diff.tar"


@dataclass
class Registry:
    """What it holds and what was asked of it."""

    address: str
    manifests: dict[tuple[str, str], tuple[str, bytes]] = field(default_factory=dict)
    blobs: dict[str, bytes | Path] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    status: int = 200  # anything else is the answer to every request for a manifest
    silent: threading.Event | None = None  # answers wait for it

    def add(self, name: str, tag: str, *, platform: str = "linux/amd64", size: int = 1 << 20) -> str:
        """An image of one layer with a file of ``size`` random bytes; gives its digest."""
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as tar:
            info = tarfile.TarInfo("file")
            info.size = size
            tar.addfile(info, io.BytesIO(os.urandom(size)))
        layer = data.getvalue()
        packed = gzip.compress(layer, 1)
        return self.add_layers(name, tag, [(LAYER, packed, _digest(layer))], platform)

    def add_layers(
        self,
        name: str,
        tag: str,
        layers: list[tuple[str, bytes | Path, str]],
        platform: str,
        **config: object,
    ) -> str:
        """An image of these layers (media type, content, digest of the unpacked archive)."""
        system, _, machine = platform.partition("/")
        described = {
            "architecture": machine,
            "os": system,
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [unpacked for _, _, unpacked in layers]},
        }
        body = json.dumps(described).encode()
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": CONFIG, "size": len(body), "digest": self._blob(body)},
            "layers": [
                {"mediaType": kind, "size": _length(content), "digest": self._blob(content)}
                for kind, content, _ in layers
            ],
        }
        return self._manifest(name, tag, MANIFEST, manifest)

    def add_index(self, name: str, tag: str, digests: dict[str, str]) -> str:
        """A list of manifests by platform, as multi-platform images have."""
        entries = []
        for platform, digest in digests.items():
            system, _, machine = platform.partition("/")
            size = len(self.manifests[name, digest][1])
            entries.append(
                {
                    "mediaType": MANIFEST,
                    "size": size,
                    "digest": digest,
                    "platform": {"os": system, "architecture": machine},
                }
            )
        return self._manifest(
            name, tag, INDEX, {"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}
        )

    def _blob(self, content: bytes | Path) -> str:
        digest = _digest(content)
        self.blobs[digest] = content
        return digest

    def _manifest(self, name: str, tag: str, kind: str, document: object) -> str:
        body = json.dumps(document).encode()
        digest = _digest(body)
        self.manifests[name, tag] = self.manifests[name, digest] = (kind, body)
        return digest


def _digest(content: bytes | Path) -> str:
    if isinstance(content, Path):
        with content.open("rb") as stream:
            return "sha256:" + hashlib.file_digest(stream, "sha256").hexdigest()
    return "sha256:" + hashlib.sha256(content).hexdigest()


def _length(content: bytes | Path) -> int:
    return content.stat().st_size if isinstance(content, Path) else len(content)


@contextmanager
def serving() -> Iterator[Registry]:
    """A registry that answers while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            registry.requests.append(self.path)
            if registry.silent:
                registry.silent.wait(60)
            parts = self.path.split("?")[0].strip("/").split("/")
            if parts == ["v2"]:
                return self._answer(200, "application/json", b"{}")
            name, kind, ref = "/".join(parts[1:-2]), parts[-2], parts[-1]
            if kind == "manifests":
                if registry.status != 200:
                    return self._answer(registry.status, "application/json", b'{"errors": []}')
                if found := registry.manifests.get((name, ref)):
                    return self._answer(200, found[0], found[1], _digest(found[1]))
                missing = {"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}
                return self._answer(404, "application/json", json.dumps(missing).encode())
            if kind == "blobs" and ref in registry.blobs:
                return self._answer(200, "application/octet-stream", registry.blobs[ref], ref)
            return self._answer(404, "application/json", b"{}")

        def _answer(self, status: int, kind: str, body: bytes | Path, digest: str = "") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(_length(body)))
            self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
            if digest:
                self.send_header("Docker-Content-Digest", digest)
            self.end_headers()
            if self.command == "HEAD":
                return
            if isinstance(body, Path):
                with body.open("rb") as stream:
                    while chunk := stream.read(1 << 20):
                        self.wfile.write(chunk)
            else:
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet: what was asked is in `requests`."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    registry = Registry(f"127.0.0.1:{server.server_address[1]}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield registry
    finally:
        if registry.silent:
            registry.silent.set()
        server.shutdown()
        server.server_close()
