"""The attempts that the proxy serves: each has a socket of its own, by which it is known, and a log."""

import asyncio
import itertools
import json
import time
from collections import Counter
from pathlib import Path

from mitmproxy.proxy import events, layers, mode_specs
from mitmproxy.proxy.mode_servers import ProxyConnectionHandler

from beyondswe.gateway.egress_rules import EgressPolicy, Refused

CONNECTIONS = 512  # open at once in one attempt
RECORDS = 50_000  # lines kept of each decision; what comes after is counted

GRACE = 1.0  # seconds that what is going on at the end is given

_numbers = itertools.count(1)


class Handler(ProxyConnectionHandler):
    """One connection of a sandbox."""

    master = None

    def __init__(self, attempt, reader, writer):
        # A Unix socket's peer has no name; mitmproxy wants one for its log.
        mode = mode_specs.ProxyMode.parse("regular")
        super().__init__(self.master, reader, Named(writer), self.master.options, mode)
        self.layer = layers.modes.HttpProxy(self.layer.context)
        self.attempt = attempt
        self.spoke = False  # whether the client has sent anything

    async def server_event(self, event):
        self.spoke = self.spoke or (
            isinstance(event, events.DataReceived) and event.connection is self.client
        )
        await super().server_event(event)

    def cut(self):
        """End the connection, in the middle of whatever it carries."""
        io = self.transports.get(self.client)
        if io and io.handler:
            io.handler.cancel("cut by the rules")
            io.writer.transport.abort()  # a handler that is cancelled between two events would leave it open


class Named:
    """A stream writer whose peer has a name."""

    def __init__(self, writer):
        self._writer = writer
        self._peer = ("sandbox", next(_numbers))

    def get_extra_info(self, name, default=None):
        if name in {"peername", "sockname"}:
            return self._peer
        return self._writer.get_extra_info(name, default)

    def __getattr__(self, name):
        return getattr(self._writer, name)


class Attempt:
    """What an attempt may do and has done."""

    def __init__(self, name, policy, log):
        self.name = name
        self.policy = EgressPolicy.from_dict(policy)
        self.barred = self.policy.barred
        self.limits = self.policy.limits
        self.received = 0
        self.file_hosts = set()  # that pages have pointed to which nobody vouches for
        self.handlers = {}
        self.tasks = set()
        self.server = None
        self.written = Counter()
        self.pending = set()  # requests that are not written down yet
        self._tokens, self._filled = float(self.limits.burst), time.monotonic()
        self._log = Path(log).open("a", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115

    def spend(self):
        """Take a request from the bucket; `Refused` if it is empty."""
        now = time.monotonic()
        self._tokens = min(self.limits.burst, self._tokens + (now - self._filled) * self.limits.rate)
        self._filled = now
        if self._tokens < 1:
            raise Refused(
                "rate", f"more than {self.limits.burst} requests at once, or {self.limits.rate:g} a second"
            )
        self._tokens -= 1

    def write(self, record):
        self.written[record["decision"]] += 1
        if self.written[record["decision"]] > RECORDS:
            return
        self._log.write(json.dumps(record, ensure_ascii=False) + "\n")
        self._log.flush()

    async def settled(self, seconds):
        """Wait until every request is written down, but no longer than that."""
        until = time.monotonic() + seconds
        while self.pending and time.monotonic() < until:
            await asyncio.sleep(0.02)

    def finish(self):
        for note in list(self.pending):
            note.error = note.error or "the attempt ended"
            note.write()
        for decision, count in self.written.items():
            if count > RECORDS:
                self._log.write(json.dumps({"decision": decision, "not_listed": count - RECORDS}) + "\n")
        self._log.close()


class Attempts:
    """All attempts that are going on, and which connection is whose."""

    def __init__(self, master):
        self._master = master
        self._open = {}
        self._of = {}

    def of(self, client):
        """The attempt of a connection and its handler."""
        return self._of[client.id]

    async def open(self, name, socket, log, policy):
        if name in self._open:
            raise ValueError(f"{name} is open already")
        attempt = Attempt(name, policy, log)

        async def serve(reader, writer):
            if len(attempt.handlers) >= CONNECTIONS:
                writer.close()
                return
            handler = Handler(attempt, reader, writer)
            task = asyncio.current_task()
            attempt.tasks.add(task)
            self._of[handler.client.id] = attempt, handler
            attempt.handlers[handler.client.id] = handler
            try:
                await handler.handle_client()
            finally:
                writer.close()
                attempt.tasks.discard(task)
                del self._of[handler.client.id], attempt.handlers[handler.client.id]

        Path(socket).unlink(missing_ok=True)
        attempt.server = await asyncio.start_unix_server(serve, socket)
        Path(socket).chmod(0o666)  # the forwarder's user is not ours; the folder decides who gets here
        self._open[name] = attempt

    async def close(self, name):
        """No more connections; those that are open are cut and written down."""
        attempt = self._open.pop(name)
        attempt.server.close()
        await attempt.settled(GRACE)
        for handler in list(attempt.handlers.values()):
            handler.cut()
        if attempt.tasks:
            await asyncio.wait(set(attempt.tasks), timeout=10)
        await attempt.settled(GRACE)
        attempt.finish()

    async def close_all(self):
        for name in list(self._open):
            await self.close(name)
