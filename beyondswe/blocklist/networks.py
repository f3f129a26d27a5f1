"""Addresses that do not lead into the public web: loopback, private networks, cloud metadata, names of the inside."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

from beyondswe.blocklist.hosts import INTERNAL_SUFFIXES, WILDCARD_DNS

INSIDE = INTERNAL_SUFFIXES + WILDCARD_DNS
"""Ends of names that lead inside."""

ROOTS = frozenset(suffix[1:] for suffix in INSIDE)
"""The same names by themselves."""

_METADATA = frozenset(("metadata", "instance-data", "100.100.100.200", "168.63.129.16", "fd00:ec2::254"))


def is_address(host: str) -> bool:
    """Whether a host is an IP address; hosts are as the parser wrote them, so odd notations are gone."""
    return host.startswith("[") or (host[-1:].isdigit() and host.replace(".", "").isdigit())


def is_loopback(host: str) -> bool:
    """Whether a host is the machine itself."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    if not is_address(host):
        return False
    parsed = _parsed(host)
    return parsed is not None and (parsed.is_loopback or parsed.is_unspecified)


def kind(host: str) -> str:
    """``internal`` for what is not of the public web, ``raw`` for a public address, "" for any other name."""
    if is_address(host):
        parsed = _parsed(host)
        if parsed is None or not parsed.is_global or parsed.is_multicast or host in _METADATA:
            return "internal"
        return "raw"
    if "." not in host or host.endswith(INSIDE):
        return "internal"
    if host in ROOTS:
        return "internal"
    return ""


@lru_cache(maxsize=4096)
def _parsed(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address, and where an IPv6 address carries an IPv4 one, that one."""
    try:
        found = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None
    if isinstance(found, ipaddress.IPv6Address):
        inside = found.ipv4_mapped or found.sixtofour or (found.teredo and found.teredo[1])
        if inside:
            return inside
        if found in _NAT64:
            return ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        if int(found) >> 32 == 0 and int(found) > 1:
            return ipaddress.IPv4Address(int(found))
    return found


_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
