"""A scripted model over HTTP, for driving real agents offline: ``python -m beyondswe.gateway.scripted``.

It speaks every protocol of the gateway, streamed and whole. Which scenario a request plays: ``/s/NAME/…`` in its
address, else the last part of the model's name, else ``default``. Threads of the standard library, so that what
it answers does not hang on the parts that are tested with it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import socketserver
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from beyondswe.gateway.conversation import Reply, Request, Role, Tokens
from beyondswe.gateway.protocols import Place, place
from beyondswe.gateway.protocols.base import arguments_text
from beyondswe.gateway.scenarios import Scenario, Step, UsageFigures, played, prose, read_scenarios, render

_KEY_HEADERS = ("authorization", "x-api-key", "x-goog-api-key", "api-key")


class ScriptedModel:
    """The server: ``with ScriptedModel({"fix": {"steps": […]}}) as model: … model.url …``.

    ``requests`` holds what came in: path, headers, body, and what was answered.
    """

    def __init__(
        self,
        scenarios: Path | Mapping[str, Any] | None = None,
        *,
        port: int = 0,
        unix: Path | None = None,
        log: Path | None = None,
        key: str = "",
    ) -> None:
        """``unix`` is a socket to listen on as well; with ``key`` requests without it are answered by 401."""
        self.scenarios = read_scenarios(scenarios) if scenarios is not None else {}
        self.key = key
        self.requests: list[dict[str, Any]] = []
        self._played: dict[tuple[str, int], int] = {}
        self._lock = threading.Lock()
        self._log: IO[str] | None = log.open("a", encoding="utf-8", buffering=1) if log else None
        self._servers: list[_Server] = [_Server(("127.0.0.1", port), self)]
        self.port = int(self._servers[0].server_address[1])
        self.url = f"http://127.0.0.1:{self.port}"
        if unix is not None:
            unix.unlink(missing_ok=True)
            self._servers.append(_UnixServer(str(unix), self))
            unix.chmod(0o666)

    def __enter__(self) -> Self:
        for server in self._servers:
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()
        if self._log:
            self._log.close()

    def reset(self, scenarios: Mapping[str, Any]) -> None:
        """Play other scenarios from now on, and forget what came in."""
        with self._lock:
            self.scenarios = read_scenarios(scenarios)
            self._played.clear()
            self.requests.clear()

    def scenario_url(self, name: str) -> str:
        """Base address that plays this scenario, whatever the model's name."""
        return f"{self.url}/s/{name}"

    def pick(self, path: str, model: str) -> Scenario:
        named = re.match(r"/s/([\w.-]+)/", path)
        for name in (named[1] if named else "", model.rsplit("/", 1)[-1], "default"):
            if name in self.scenarios:
                return self.scenarios[name]
        return Scenario(steps=[Step(do="finish", text="no scenario")])

    def next(self, scenario: Scenario, request: Request, conversation: str) -> tuple[Step, Step | None]:
        """The step to play, and the fault that disturbs it."""
        done = played(scenario, request)
        index = -1
        fault: Step | None = None
        for position, step in enumerate(scenario.steps):
            if step.is_fault:
                if index + 1 == done and fault is None:
                    fault = self._due(step, (conversation, position))
                continue
            index += 1
            if index == done:
                return step, fault
        # Played out. Some agents ask for the end twice (a review before they submit): it is said again.
        last = [step for step in scenario.steps if step.do == "finish"] or [Step(do="finish")]
        return last[-1], fault

    def _due(self, step: Step, place: tuple[str, int]) -> Step | None:
        with self._lock:
            count = self._played.get(place, 0)
            self._played[place] = count + 1
        if step.always:
            return step.model_copy(update={"status": step.statuses[count % len(step.statuses)]})
        if count >= len(step.statuses):
            return None
        return step.model_copy(update={"status": step.statuses[count]})

    def record(self, entry: dict[str, Any]) -> None:
        with self._lock:
            self.requests.append(entry)
            if self._log:
                shown = {name: value for name, value in entry.items() if name not in ("body", "headers")}
                self._log.write(json.dumps(shown, ensure_ascii=False, default=str) + "\n")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "scripted-model"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, *_args: Any) -> None:
        """Nothing on standard error: there is a log of our own."""

    def address_string(self) -> str:
        return "unix" if isinstance(self.client_address, str | bytes) else super().address_string()

    def do_HEAD(self) -> None:
        self._answer(200, b"")

    def do_GET(self) -> None:
        path = self.path.split("?")[0].rstrip("/")
        self.server.model.record({"method": "GET", "path": self.path, "headers": self._headers()})
        if not self._has_key():
            return
        if path.endswith("/models"):
            models = [{"id": "scripted", "object": "model", "created": 0, "owned_by": "scripted"}]
            self._json({"object": "list", "data": models})
        else:
            self._json({"error": {"message": f"not scripted: GET {path}", "type": "not_found"}}, 404)

    def do_POST(self) -> None:
        raw = self._body()
        path = self.path.split("?")[0]
        entry = {"method": "POST", "path": self.path, "t": round(time.time(), 3), "headers": self._headers()}
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            self.server.model.record({**entry, "note": "not JSON"})
            self._json({"error": {"message": "the body is not JSON", "type": "invalid_request_error"}}, 400)
            return
        if not self._has_key():
            self.server.model.record({**entry, "body": body, "note": "no key"})
            return
        where = place(path)
        if where is None or not isinstance(body, dict):
            self.server.model.record({**entry, "body": body, "note": "not scripted"})
            self._json({"error": {"message": f"not scripted: POST {path}", "type": "not_found"}}, 404)
        elif where.counting:
            count = _tokens(json.dumps(body))
            self._json({"input_tokens": count, "totalTokens": count})
        else:
            self._play(where, where.body(body), path, entry)

    def _play(self, where: Place, body: Mapping[str, Any], path: str, entry: dict[str, Any]) -> None:
        model = self.server.model
        request = where.protocol.parse_request(body)
        scenario = model.pick(path, request.model)
        opening = [message.text for message in request.messages if message.role is Role.USER][:2]
        conversation = hashlib.sha256(json.dumps([request.model, path, opening]).encode()).hexdigest()
        step, fault = model.next(scenario, request, conversation)
        if not request.tools and scenario.toolless == "prose":
            reply = Reply(prose(scenario, request))
        else:
            reply = render(step, request, scenario.root)
        tokens = _usage(step.usage or scenario.usage, body, reply)
        reply = Reply(reply.text, reply.reasoning, reply.calls, tokens)
        entry |= {
            "protocol": where.protocol.name,
            "model": request.model,
            "stream": request.stream,
            "step": played(scenario, request),
            "tools": sorted(tool.name for tool in request.tools),
            "agent": self.headers.get("User-Agent"),
            "auth": sorted(name for name in _KEY_HEADERS if self.headers.get(name)),
            "fault": fault.do if fault else None,
            "reply": {"text": reply.text, "calls": [[call.name, call.arguments] for call in reply.calls]},
            "usage": {"input": tokens.input, "cached": tokens.cached, "output": tokens.output},
            "body": body,
        }
        model.record(entry)
        try:
            self._send(where, body, request, reply, step, fault)
        except (BrokenPipeError, ConnectionResetError):
            model.record({"path": self.path, "note": "the client went away"})

    def _send(
        self,
        where: Place,
        body: Mapping[str, Any],
        request: Request,
        reply: Reply,
        step: Step,
        fault: Step | None,
    ) -> None:
        if fault is not None and fault.do == "http":
            error = {"message": "scripted fault", "type": "server_error", "code": fault.status}
            self._json({"error": error}, fault.statuses[0], fault.headers)
            return
        if fault is not None and fault.do == "garbage":
            self._answer(200, b"<html>this is no model</html>", {"Content-Type": "text/html"})
            return
        if fault is not None and fault.do == "hang":
            time.sleep(fault.seconds)
        cut = fault is not None and fault.do == "cut"
        if request.stream:
            events = [event.encode() for event in where.protocol.render_events(request, reply, body)]
            self._stream(iter(events[: len(events) // 2] if cut else events), step.delay, cut)
            return
        time.sleep(step.delay)
        whole = json.dumps(where.protocol.render(request, reply), ensure_ascii=False).encode()
        self._answer(200, whole, cut_at=len(whole) // 2 if cut else None)

    def _stream(self, events: Iterator[bytes], delay: float, cut: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in events:
            time.sleep(delay)
            self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
            self.wfile.flush()
        if cut:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def _has_key(self) -> bool:
        key = self.server.model.key
        if not key or any(key in (self.headers.get(name) or "") for name in _KEY_HEADERS):
            return True
        self._json({"error": {"message": "no such key", "type": "authentication_error"}}, 401)
        return False

    def _headers(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.headers.items()}

    def _body(self) -> bytes:
        if "chunked" not in (self.headers.get("Transfer-Encoding") or "").lower():
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _json(self, document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self._answer(status, json.dumps(document).encode(), headers)

    def _answer(
        self,
        status: int,
        data: bytes,
        headers: Mapping[str, str] | None = None,
        cut_at: int | None = None,
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data if cut_at is None else data[:cut_at])
        if cut_at is not None:
            self.close_connection = True


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, address: Any, model: ScriptedModel) -> None:
        self.model = model
        super().__init__(address, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is nothing to print; a fault of this server is."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _UnixServer(_Server):
    import socket as _socket

    address_family = _socket.AF_UNIX

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)  # the HTTP server's own wants a host and a port
        self.server_name, self.server_port = "unix", 0


def _tokens(text: str) -> int:
    return max(1, len(text) // 4)


def _usage(figures: UsageFigures | None, body: Mapping[str, Any], reply: Reply) -> Tokens:
    figures = figures or UsageFigures()
    said = reply.text + "".join(arguments_text(call.arguments) for call in reply.calls)
    return Tokens(
        input=_tokens(json.dumps(body)) if figures.input is None else figures.input,
        output=_tokens(said) if figures.output is None else figures.output,
        cached=figures.cached,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m beyondswe.gateway.scripted",
        description="A scripted model, for driving agents offline.",
    )
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; default: a free one")
    parser.add_argument("--unix", type=Path, help="a socket to listen on as well")
    parser.add_argument("--scenarios", type=Path, help="JSON file: {NAME: {root, steps}}")
    parser.add_argument("--log", type=Path, help="one JSON line a request")
    parser.add_argument("--key", default="", help="answer 401 to requests without this key")
    given = parser.parse_args()
    model = ScriptedModel(given.scenarios, port=given.port, unix=given.unix, log=given.log, key=given.key)
    with model:
        print(f"listening on {model.url}", flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
