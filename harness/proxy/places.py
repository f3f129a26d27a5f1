"""Where names may lead: every connection of the proxy is to an address that was looked at here."""

import asyncio
import contextvars
import socket
import time
import urllib.request
from urllib.parse import unquote, urlsplit

from beyondswe.gateway.egress_rules import Refused, is_public, same_host

REMEMBERED = 30.0  # seconds that a name's addresses are kept: what was vetted is what is connected to

allowed = contextvars.ContextVar("allowed", default=lambda host, port: False)
"""Whether the attempt that a task works for was given this host and port by its user."""


class Places:
    """Resolves names, refusing those that lead into the host's own networks.

    ``hosts`` maps HOST:PORT to another address (a mirror inside, a stand-in in a test); those are not looked at
    further. ``proxies`` are the host's own, by scheme, as `urllib` names them.
    """

    def __init__(self, hosts, proxies):
        self._hosts = {name: split(address) for name, address in hosts.items()}
        self._proxies = proxies
        self._known = {}
        self._logins = {}
        for url in proxies.values():
            if "://" in url:
                parts = urlsplit(url)
                login = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else ""
                self._logins[parts.hostname, parts.port or 80] = login

    def via(self, scheme, host, port):
        """The host's proxy for a request, as (scheme, (host, port)); None where there is none."""
        url = self._proxies.get(scheme)
        if not url or f"{host}:{port}" in self._hosts:
            return None
        if urllib.request.proxy_bypass_environment(f"{host}:{port}", self._proxies):
            return None
        parts = urlsplit(url)
        return parts.scheme, (parts.hostname, parts.port or 80)

    def login(self, address):
        """The user and password for one of the host's proxies, or ''."""
        return self._logins.get(address, "")

    async def vet(self, host, port, *, proxied):
        """Raise `Refused` where a name leads into the host's networks; OSError where it leads nowhere."""
        try:
            await self.addresses(host, port)
        except socket.gaierror:
            if not proxied:  # a company's proxy may know names that we do not
                raise

    async def addresses(self, host, port):
        """What to connect to for a host and port, best first."""
        host = same_host(host)
        mapped = self._hosts.get(f"{host}:{port}")
        if mapped:
            return [mapped]
        if (host, port) in self._logins:
            return await self._resolve(host, port)
        found = await self._resolve(host.strip("[]"), port)
        if not allowed.get()(host, port):
            closed = [address for address, _ in found if not is_public(address)]
            if closed:
                raise Inside(f"{host} leads to {closed[0]}, which is no address of the open internet")
        return found

    async def _resolve(self, host, port):
        now = time.monotonic()
        known = self._known.get((host, port))
        if known and now - known[0] < REMEMBERED:
            return known[1]
        if len(self._known) > 10_000:
            self._known.clear()
        rows = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        found = list(dict.fromkeys(row[4][:2] for row in rows))
        self._known[(host, port)] = (now, found)
        return found


class Inside(Refused, OSError):
    """A name that leads into the host's own networks; an OSError for those that connect."""

    def __init__(self, detail):
        Refused.__init__(self, "internal-address", detail)


def split(address):
    host, _, port = address.rpartition(":")
    return (host.strip("[]").lower(), int(port)) if host and port.isdigit() else (address.lower(), 80)
