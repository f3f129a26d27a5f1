"""What one attempt may reach: model gateway, egress proxy and the link to both, opened and closed as one.

By network: ``none`` has no link (an agent that works outside the sandbox still has the gateway's socket);
``model`` links the gateway, ``filtered`` the proxy and the gateway; ``open`` has the engine's own network, and
the link to the gateway in it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from beyondswe.errors import BeyondSWEError
from beyondswe.gateway.egress import EgressAttempt, EgressProxy
from beyondswe.gateway.egress_rules import EgressPolicy
from beyondswe.gateway.link import MODEL_PORT, PROXY_PORT, Link, Socket, check_local
from beyondswe.gateway.process import Account, Gateway, GatewaySettings, OpenSession
from beyondswe.gateway.proxy_env import let_trust, proxy_variables
from beyondswe.gateway.types import ModelAccess
from beyondswe.sandbox.host import host_environment
from beyondswe.sandbox.types import Network, Sandbox

if TYPE_CHECKING:
    from beyondswe.instances.model import Instance
    from beyondswe.sandbox.engine import Engine

_LOOK = 30.0  # seconds of one question whether a session is over


@dataclass(frozen=True)
class AccessSettings:
    """What the agents of a run may reach."""

    network: Network = Network.NONE
    model: GatewaySettings | None = None
    roles: frozenset[str] = (
        frozenset()
    )  # of calls beside the agent's own; only for agents outside the sandbox
    policy: Callable[[Instance], EgressPolicy] | None = None  # with network filtered


def check_access(engine: Engine, settings: AccessSettings) -> None:
    """Raise `UsageError` for what this engine cannot give."""
    inside = settings.model is not None and settings.network is not Network.NONE
    if inside or settings.network is Network.FILTERED:
        check_local(engine)


class Access:
    """Opens what the attempts of a run may reach. Safe to use from many threads; leave the context to end it."""

    def __init__(self, engine: Engine, settings: AccessSettings, run_labels: Mapping[str, str]) -> None:
        self._engine, self.settings, self._labels = engine, settings, run_labels
        self._gateway = Gateway(settings.model) if settings.model else None
        self._proxy = EgressProxy() if settings.policy else None

    def __enter__(self) -> Self:
        if self._proxy is not None:
            self._proxy.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        try:
            if self._gateway is not None:
                self._gateway.stop()
        finally:
            if self._proxy is not None:
                self._proxy.stop()

    def open(self, name: str, instance: Instance, record_to: Path) -> AttemptAccess:
        """For one attempt; ``name`` is unique among those open. The caller closes it. Nothing is left on an
        error.
        """
        opened = AttemptAccess(self._engine)
        network = self.settings.network
        try:
            forwards: dict[int, Socket] = {}
            if self._gateway is not None:
                opened.session = self._gateway.open(name, record_to, roles=tuple(sorted(self.settings.roles)))
                if network is not Network.NONE:
                    forwards[MODEL_PORT] = opened.session.socket
            if self._proxy is not None and self.settings.policy is not None:
                opened.egress = self._proxy, self._proxy.open(self.settings.policy(instance))
                forwards[PROXY_PORT] = opened.egress[1].socket
            opened.network = "open" if network is Network.OPEN else "none"
            if forwards:
                inner = "default" if network is Network.OPEN else "none"
                opened.link = Link.start(self._engine, forwards, network=inner, run_labels=self._labels)
                opened.network = opened.link.network
                opened.sandbox_env = _open_environment() if network is Network.OPEN else {}
        except BaseException:
            opened.abandon()
            raise
        return opened


def _open_environment() -> dict[str, str]:
    """The host's proxies, but not for the loopback, where the gateway is."""
    found = host_environment()
    for name in ("no_proxy", "NO_PROXY") if found else ():
        found[name] = ",".join(part for part in (found.get(name), "127.0.0.1", "localhost") if part)
    return found


@dataclass
class Left:
    """What a closed access leaves."""

    account: Account | None = None  # of the model, where the attempt had one
    egress: bytes | None = None  # ``egress.jsonl``, where it was behind the proxy


@dataclass
class AttemptAccess:
    """One attempt's access. `network` and `sandbox_env` are for starting its sandbox, `model` and `env` for the
    agent in it.
    """

    engine: Engine
    network: str = "none"
    sandbox_env: Mapping[str, str] = field(default_factory=dict)
    session: OpenSession | None = None
    egress: tuple[EgressProxy, EgressAttempt] | None = None
    link: Link | None = None

    @property
    def model(self) -> ModelAccess | None:
        return self.session.access if self.session else None

    @property
    def env(self) -> dict[str, str]:
        """Variables of the agent's commands."""
        return proxy_variables() if self.egress else {}

    def make_ready(self, sandbox: Sandbox) -> None:
        """What the sandbox needs before the agent starts."""
        if self.link:
            self.link.wait()
        if self.egress:
            let_trust(sandbox, self.egress[1].authority)

    def watch(self, end: Callable[[], None]) -> Watch:
        """While it is entered, ``end`` is called once when the gateway says that the attempt is over."""
        return Watch(self.session, end)

    def close(self) -> Left:
        """End the access; what it took. Raises what went wrong, once everything is closed. Called once."""
        left = Left()
        try:
            if self.session is not None:
                session, self.session = self.session, None
                left.account = session.close()
            if self.egress is not None:
                (proxy, attempt), self.egress = self.egress, None
                left.egress = proxy.close(attempt)
            if self.link is not None:
                self.link.check()
        finally:
            self.abandon()
        return left

    def abandon(self) -> None:
        """Close what is still open, without asking what it took. Can be called twice."""
        errors: list[BeyondSWEError] = []
        session, egress, link = self.session, self.egress, self.link
        self.session = self.egress = self.link = None
        steps: list[Callable[[], Any]] = []
        if session is not None:
            steps.append(session.close)
        if egress is not None:
            steps.append(lambda: egress[0].close(egress[1]))
        if link is not None:
            steps.append(link.stop)
        for step in steps:
            try:
                step()
            except BeyondSWEError as error:
                errors.append(error)  # the others are closed all the same; what was asked for is lost anyway


class Watch:
    """Asks the gateway in the background whether an attempt is over; ``over`` tells."""

    def __init__(self, session: OpenSession | None, end: Callable[[], None]) -> None:
        self.over = False
        self._session, self._end = session, end
        self._left = threading.Event()

    def __enter__(self) -> Self:
        if self._session is not None:
            threading.Thread(target=self._ask, daemon=True, name="beyondswe-budget").start()
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()  # the last question is answered when the session is closed

    def _ask(self) -> None:
        assert self._session is not None
        while not self._left.is_set():
            try:
                over = self._session.state(wait=_LOOK)["over"]
                if over and not self._left.is_set():
                    self.over = True
                    self._end()
                    return
            except BeyondSWEError:
                # the gateway or the engine is gone: whoever waits for the agent will say it
                if self._left.wait(5.0):
                    return
