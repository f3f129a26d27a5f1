"""The egress proxy of a run: one process on the host, a socket for each attempt, a log for each attempt."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import threading
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import beyondswe
from beyondswe.errors import EngineError, UsageError
from beyondswe.gateway.egress_config import EgressConfig, default_index, egress_config
from beyondswe.gateway.egress_rules import EgressLimits, EgressPolicy, same_host
from beyondswe.gateway.folders import own_folder
from beyondswe.gateway.link import Socket
from beyondswe.gateway.proxy_build import proxy_python
from beyondswe.resources import resource
from beyondswe.sandbox.host import host_bundle
from beyondswe.sandbox.types import Network

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from beyondswe.instances.model import Instance


def policy_for(
    network: Network, allow_hosts: Sequence[str] = (), config: EgressConfig | None = None
) -> Callable[[Instance], EgressPolicy] | None:
    """What holds for attempts of each instance; None where no proxy is needed. `UsageError` for hosts that are none,
    or that the network gives no use.

    ``filtered`` is the web less the target, and the hosts; ``model`` with hosts is these hosts alone.
    """
    hosts = tuple(map(allowed_host, allow_hosts))
    if hosts and network in (Network.NONE, Network.OPEN):
        raise UsageError(
            f"--allow-host has no effect with --network {network.value}: give it with --network model or filtered"
        )
    if network is not Network.FILTERED and not hosts:
        return None
    limits = EgressLimits(**(config or egress_config()).limits.model_dump())

    def policy(instance: Instance) -> EgressPolicy:
        return EgressPolicy(
            repo=instance.repo,
            distributions=instance.distributions,
            aliases=instance.aliases,
            docs_hosts=instance.docs_hosts,
            index_date=instance.index_date,
            allow_hosts=hosts,
            only_allowed=network is Network.MODEL,
            limits=limits,
        )

    return policy


def allowed_host(text: str) -> str:
    """A host of ``--allow-host`` as it is compared: HOST or HOST:PORT, lower case. `UsageError` if it is neither."""
    name, colon, port = text.strip().rpartition(":") if re.search(r":\d+$", text) else (text.strip(), "", "")
    host = same_host(name)
    if not host or not re.fullmatch(r"[^\s/?#@*]+", name) or (colon and not 0 < int(port) < 65536):
        raise UsageError(f"--allow-host {text!r} is no HOST or HOST:PORT, such as api.example.com")
    return f"{host}{colon}{port}"


@dataclass(frozen=True)
class EgressAttempt:
    """One attempt's way out. The socket's folder holds nothing else: it is what a side container may see."""

    name: str
    socket: Socket
    log: Path
    authority: str
    """The certificate (PEM) by which the proxy answers for others. Its key never leaves the proxy's folder."""

    def records(self) -> bytes:
        """``egress.jsonl`` so far."""
        return self.log.read_bytes() if self.log.exists() else b""


class EgressProxy:
    """The proxy's process, started when first asked for. Safe to use from many threads; `stop` ends it.

    ``config`` is this machine's where none is given.
    """

    def __init__(self, config: EgressConfig | None = None) -> None:
        self.config = config or egress_config()
        self._process: subprocess.Popen[str] | None = None
        self._folder: Path | None = None
        self._authority = ""
        self._lock = threading.Lock()
        self._number = 0

    def start(self) -> None:
        """Start the process now, its environment made if need be: what is wrong with it is told before anything
        begins.
        """
        with self._lock:
            self._start()

    def open(self, policy: EgressPolicy) -> EgressAttempt:
        """A way out for one attempt; the caller closes it."""
        with self._lock:
            self._start()
            assert self._folder is not None
            self._number += 1
            name = str(self._number)
            folder = self._folder / name
            attempt = EgressAttempt(
                name, Socket(folder / "s", "proxy"), folder / "egress.jsonl", self._authority
            )
            attempt.socket.folder.mkdir(parents=True)
            # The folder above is this user's alone; a side container sees only this one, as a mount.
            attempt.socket.folder.chmod(0o755)
            self._order(
                {
                    "open": name,
                    "socket": str(attempt.socket.path),
                    "log": str(attempt.log),
                    "policy": policy.to_dict(),
                }
            )
        return attempt

    def close(self, attempt: EgressAttempt) -> bytes:
        """End an attempt's connections; its whole ``egress.jsonl``. `EngineError` where the proxy has ended before:
        the attempt was without its web.
        """
        with self._lock:
            try:
                if not attempt.socket.folder.is_dir() or self._folder not in attempt.log.parents:
                    raise EngineError("the egress proxy ended while the agent worked")
                self._order({"close": attempt.name})
                return attempt.records()
            finally:
                shutil.rmtree(attempt.log.parent, ignore_errors=True)

    def stop(self) -> None:
        """End the process and remove its folder, key and all. Can be called twice."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None and process.stdout is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __enter__(self) -> EgressProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self) -> None:
        if self._process is not None:
            if self._process.poll() is None:
                return
            self._end()  # it died by itself; those whose way it was learn it when they close
        python = proxy_python()
        self._folder = own_folder("beyondswe-proxy-")
        errors = (self._folder / "stderr").open("wb")
        with errors:
            self._process = subprocess.Popen(
                [str(python), "-I", "-B", str(resource("harness", "proxy", "main.py"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=_environment(),
                cwd=self._folder,
                start_new_session=True,  # Ctrl-C is for the run, which then closes attempts one by one
            )
        (self._folder / "ca").mkdir(mode=0o700)
        settings = {
            "package": str(Path(beyondswe.__file__).parent),
            "folder": str(self._folder / "ca"),
            "trust": str(self._trust()),
            "hosts": self.config.hosts,
            "index": self.config.index or default_index(),
            "proxies": urllib.request.getproxies_environment(),
        }
        self._authority = self._order(settings)["ca"]

    def _trust(self) -> Path:
        """The authorities that the proxy believes: the host's, or everybody's, and those of the configuration."""
        import certifi

        assert self._folder is not None
        parts = [(host_bundle() or Path(certifi.where())).read_text(encoding="utf-8", errors="replace")]
        if self.config.certificates is not None:
            try:
                parts.append(self.config.certificates.read_text(encoding="utf-8"))
            except OSError as error:
                raise UsageError(f"certificates: {self.config.certificates}: {error.strerror}") from None
        path = self._folder / "trust.pem"
        path.write_text("\n".join(parts), encoding="utf-8")
        return path

    def _order(self, order: dict[str, Any]) -> dict[str, Any]:
        assert (
            self._process is not None and self._process.stdin is not None and self._process.stdout is not None
        )
        try:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except (BrokenPipeError, ValueError):
            line = ""
        if not line:
            raise EngineError(f"the egress proxy has ended by itself: {self._last_words()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise EngineError(f"the egress proxy could not carry out an order: {answer['error']}")
        return answer

    def _last_words(self) -> str:
        if self._folder is None:
            return "it said nothing"
        said = (self._folder / "stderr").read_text(encoding="utf-8", errors="replace").strip()
        return said[-2000:] or "it said nothing"


def _environment() -> dict[str, str]:
    """What the proxy's process is given: nothing of the host's keys."""
    kept = ("PATH", "HOME", "LANG", "TMPDIR", "SSL_CERT_DIR")
    return {name: os.environ[name] for name in kept if name in os.environ}
