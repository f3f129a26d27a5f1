"""What every judge of a call needs: the target's names, the policy, and how a refusal is raised."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from beyondswe.blocklist import networks
from beyondswe.blocklist.address import Address, NotAnAddress, flatten, parse
from beyondswe.blocklist.bash.words import UNKNOWN
from beyondswe.blocklist.names import Names
from beyondswe.blocklist.types import Decision, Policy
from beyondswe.blocklist.urls import BENCHMARK, decide_address

_LOOKS = re.compile(
    r"^(?:[a-z][a-z0-9+.-]*://|git@|www\.|//[\w-]+\.)|^[\w.-]+@[\w-]+(?:\.[\w-]+)+:|^(?:[\w-]+\.)+[a-z]{2,18}(?::\d+)?/",
    re.I,
)
_ENGINE_PORTS = ("2375", "2376")
_WITHOUT_SEARCH = ("api.github.com", "github.io", "githubusercontent.com")
_HOSTNAME = re.compile(r"^(?:[a-z0-9-]+\.)+[a-z]{2,18}$", re.I)


class Refused(Exception):
    """A call that is blocked."""

    def __init__(self, decision: Decision) -> None:
        super().__init__(decision.detail)
        self.decision = decision


def refuse(rule: str, detail: str) -> NoReturn:
    raise Refused(Decision(True, rule, detail.replace(UNKNOWN, "…")[:200]))


@dataclass(frozen=True)
class Context:
    """The question that a whole command is asked."""

    names: Names
    policy: Policy
    search: bool

    def looks_like_address(self, text: str) -> bool:
        return bool(_LOOKS.match(text))

    def address(self, text: str) -> None:
        """Refuse what an address leads to; schemes are no reason here, files of the sandbox are its own."""
        text = text.strip().strip("<>")
        address = self._parsed(text)
        if address is None or address.scheme == "file":
            return
        policy = self.policy
        if networks.is_loopback(address.host) and policy.loopback_in_bash:
            if address.port in _ENGINE_PORTS:
                refuse("container-engine", text)
            return
        if not self.search and address.host.endswith(_WITHOUT_SEARCH):
            refuse("no-search", address.host)
        decision = decide_address(address, self.names, policy)
        if decision.blocked:
            raise Refused(decision)

    def _parsed(self, text: str) -> Address | None:
        if re.match(r"^file:", text, re.I):
            return None
        text = re.sub(r"^(?:git|hg|svn|bzr)\+", "", text, flags=re.I)
        scheme, separator, rest = text.rpartition("://") if text.count("://") == 1 else ("", "", text)
        if UNKNOWN in text:
            host, slash, path = rest.partition("/")
            host = re.sub(f"^.*{UNKNOWN}.*$", "unknown.example", host) if UNKNOWN in host else host
            text = f"{scheme}{separator}{host}{slash}{path}".replace(UNKNOWN, "x")
        try:
            return parse(text)
        except NotAnAddress:
            return None

    def host(self, host: str) -> None:
        self.address(f"https://{host}/")

    def text(self, text: str) -> None:
        """Refuse a text that is sent or asked for and that names the target's repository."""
        self.benchmark(text)
        slug = self.names.slug.search(flatten(text))
        if slug:
            refuse("target-repository", slug[0])

    def benchmark(self, text: str) -> None:
        """Refuse a text that names the benchmark's own data."""
        found = BENCHMARK.search(flatten(text))
        if found:
            refuse("benchmark", found[0])

    def argument(self, text: str) -> None:
        """Refuse an argument of a program that may fetch it: an address, alone or after an equals sign."""
        for one in (text, text.partition("=")[2]):
            if one and self.looks_like_address(one):
                self.address(one)

    def distribution(self, name: str) -> bool:
        from beyondswe.blocklist.names import canonical

        return canonical(name) in self.names.distributions

    def requests(self, text: str, hosts: list[str]) -> None:
        """Refuse what requests written by hand ask for: request lines and paths with the hosts that are named."""
        headers = re.findall(r"(?im)^host:[ \t]*([\w.-]+)", text)
        for path in re.findall(r"\b(?:GET|POST|HEAD|PUT|CONNECT|OPTIONS)[ \t]+(\S+)", text):
            if "://" in path:
                self.address(path)
            for host in [*headers, *hosts] or ["unknown.example"]:
                self.address(f"https://{host}/{path.lstrip('/')}")

    def strings(self, texts: list[str]) -> None:
        """Refuse what the texts of a program that uses the network ask for, each alone and host with path."""
        hosts = [one for one in texts if _HOSTNAME.match(one)]
        for one in texts:
            if self.looks_like_address(one):
                self.address(one)
            elif one.startswith("/") and not one.startswith("//"):
                for host in hosts:
                    self.address(f"https://{host}{one}")
            self.text(one)
            self.requests(one, hosts)
        for host in hosts:
            self.host(host)
