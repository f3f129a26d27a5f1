"""Serves a built site to this machine, for a look."""

from __future__ import annotations

from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from beyondswe.errors import UsageError


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Nothing: standard error is for people."""

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()


def server(folder: Path, port: int) -> ThreadingHTTPServer:
    """A server on the loopback address; port 0 takes a free one. Raises `UsageError` for a port that is taken."""
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), partial(_Quiet, directory=str(folder)))
    except OSError as error:
        raise UsageError(
            f"--port {port} cannot be had: {error.strerror or error}; 0 takes a free one"
        ) from error
