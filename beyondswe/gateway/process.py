"""The run's hold on its gateway: starts the process, opens and closes a session an attempt, ends it.

A process of its own rather than a thread: the libraries and the conversations of a hundred attempts stay out of
the run's memory, and streams do not wait for the run's other work.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from beyondswe.errors import EngineError
from beyondswe.gateway.folders import own_folder
from beyondswe.gateway.link import MODEL_PORT, Socket
from beyondswe.gateway.metering import Budget
from beyondswe.gateway.pacing import Patience
from beyondswe.gateway.prices import Price, Prices
from beyondswe.gateway.types import ModelAccess
from beyondswe.gateway.upstream import Upstream

_READY_WITHIN = 60.0  # seconds
_SOCKET = "model.sock"


@dataclass(frozen=True)
class GatewaySettings:
    """What a run's gateway is started with. The keys are not here: its process has them from the environment."""

    model: str
    url: str | None = None
    budget: Budget = field(default_factory=Budget)
    prices: Mapping[str, Price] = field(default_factory=dict)
    rate: float | None = None  # calls a minute of one model
    provider_tools: bool = False
    request: Mapping[str, Any] = field(default_factory=dict)  # put into the body of every call of an agent
    patience: Patience = field(default_factory=Patience)

    def check(self) -> list[str]:
        """Raise `UsageError` for what can be told before anything starts: no key, no address, no price where a
        limit on cost needs it. Notes on what will not be counted.
        """
        from beyondswe.errors import UsageError

        Upstream.from_environment(self.url, os.environ)
        if Prices(dict(self.prices)).knows_frugally(self.model):
            return []
        if self.budget.max_cost is not None:
            raise UsageError(
                f"--max-cost cannot hold: the price of model {self.model!r} is not known; give it by --prices FILE"
            )
        return [
            f"the price of model {self.model!r} is not known, so costs are not counted; --prices FILE gives it"
        ]

    def knock(self) -> None:
        """Raise `UsageError` where nothing can answer at the model's address."""
        Upstream(self.url).knock()


@dataclass(frozen=True)
class Account:
    """What a closed session left."""

    state: Mapping[str, Any]  # as `session.Session.state`
    calls: Path  # one JSON line a call, as `recorder.Recorder` writes them

    @property
    def usage(self) -> dict[str, Any]:
        return dict(self.state["usage"])


class Gateway:
    """A running gateway. Safe to use from many threads; leave the context to end it."""

    def __init__(self, settings: GatewaySettings) -> None:
        self.settings = settings
        self._folder = own_folder("beyondswe-gateway-")
        self._control = self._folder / "control.sock"
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop()

    def open(self, name: str, record_to: Path, *, roles: tuple[str, ...] = ()) -> OpenSession:
        """A session for one attempt; ``name`` is any text, unique among those open. The caller closes it.

        What passes is recorded in ``record_to``. ``roles``: see `session.SessionOptions`.
        """
        self._start()
        token = f"bsw-{secrets.token_urlsafe(24)}"
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        folder.chmod(0o755)  # read by the link's user; the folder above is closed to others
        document = {
            "token": token,
            "record_to": str(record_to),
            "budget": asdict(self.settings.budget),
            "roles": list(roles),
            "socket": str(folder / _SOCKET),
        }
        self.ask("PUT", name, document)
        access = ModelAccess(
            name=self.settings.model,
            url=f"http://127.0.0.1:{MODEL_PORT}",
            token=token,
            socket=folder / _SOCKET,
            max_turns=self.settings.budget.max_turns or 0,
        )
        return OpenSession(self, name, access, record_to)

    def ask(
        self, method: str, name: str, document: Mapping[str, Any] | None = None, *, wait: float = 0.0
    ) -> dict[str, Any]:
        """One request to the control socket."""
        connection = _UnixConnection(str(self._control), timeout=wait + 60.0)
        path = f"/sessions/{quote(name, safe='')}" + (f"?wait={wait}" if wait else "")
        try:
            connection.request(method, path, json.dumps(document) if document is not None else None)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise EngineError(
                f"the model gateway's process does not answer ({error}){self._last_words()}"
            ) from error
        finally:
            connection.close()
        if answer.status != 200:
            raise EngineError(
                f"the model gateway refused {method} of session {name}: {answer.status} {content[:300]!r}"
            )
        return dict(json.loads(content))

    def stop(self) -> None:
        """End the process. Can be called twice."""
        with self._lock:
            if self._process is not None and self._process.stdin is not None:
                with contextlib.suppress(OSError):
                    self._process.stdin.close()
                try:
                    self._process.wait(10)
                except subprocess.TimeoutExpired:
                    self._process.kill()
                    self._process.wait()
            self._process = None
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def pid(self) -> int | None:
        """Of the process, where it runs."""
        return self._process.pid if self._process is not None else None

    def _start(self) -> None:
        with self._lock:
            if self._process is not None:
                if self._process.poll() is None:
                    return
                self._process = None  # it died by itself; those whose way it was learn it when they close
            self._folder.mkdir(mode=0o700, exist_ok=True)
            with (self._folder / "errors.log").open("w") as errors:
                process = subprocess.Popen(
                    [sys.executable, "-m", "beyondswe.gateway.server"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                    start_new_session=True,  # Ctrl-C is the run's to handle
                )
            assert process.stdin is not None and process.stdout is not None
            document = {
                "control": str(self._control),
                "url": self.settings.url,
                "prices": {name: price.model_dump() for name, price in self.settings.prices.items()},
                "rate": self.settings.rate,
                "provider_tools": self.settings.provider_tools,
                "request": dict(self.settings.request),
                "patience": asdict(self.settings.patience),
            }
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(json.dumps(document) + "\n")
                process.stdin.flush()
            watch = threading.Timer(_READY_WITHIN, process.kill)
            watch.start()
            said = process.stdout.readline()
            watch.cancel()
            if said != "ready\n":
                process.kill()
                process.wait()
                raise EngineError(f"the model gateway did not start{self._last_words()}", permanent=True)
            self._process = process

    def _last_words(self) -> str:
        try:
            words = (self._folder / "errors.log").read_text(errors="replace").strip()
        except OSError:
            return ""
        return f": {words[-800:]}" if words else ""


class OpenSession:
    """One attempt's session."""

    def __init__(self, gateway: Gateway, name: str, access: ModelAccess, calls: Path) -> None:
        self._gateway, self._name, self.access, self._calls = gateway, name, access, calls
        self._closed = threading.Event()

    @property
    def socket(self) -> Socket:
        return Socket(self.access.socket.parent, self.access.socket.name)

    def state(self, *, wait: float = 0.0) -> dict[str, Any]:
        """How it stands now, or when it is over, after ``wait`` seconds at most."""
        return self._gateway.ask("GET", self._name, wait=wait)

    def close(self) -> Account:
        """Nothing is answered any more; what it took."""
        state = self._gateway.ask("DELETE", self._name)
        shutil.rmtree(self.access.socket.parent, ignore_errors=True)
        return Account(state, self._calls)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
