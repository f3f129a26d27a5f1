"""What the blocklist is asked and what it answers: a target, a policy, a decision.

Plain frozen dataclasses of the standard library: the same code is loaded inside the egress proxy's own environment.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class Target:
    """The repository of an instance, and what else it is called.

    ``repo`` and ``aliases`` are ``owner/name`` (an alias may be a bare name); ``distributions`` are names on a package
    index; ``docs_hosts`` are hosts, or hosts with the beginning of a path (``docs.example.org/projects/name``).
    """

    repo: str
    distributions: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    docs_hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Policy:
    """The choices that could be argued; docs/blocklist.md gives the reason of each default."""

    forks: bool = True
    """Repositories of the target's name under other owners are blocked."""
    owner_repositories: bool = False
    """Other repositories of the target's owner are blocked."""
    package_pages: bool = True
    """Pages, APIs and release lists that package indexes keep on the target are blocked."""
    package_files: bool = True
    """Source archives, wheels and distribution packages of the target are blocked."""
    container_images: bool = True
    """Images under the target's name in container registries are blocked."""
    documentation: bool = True
    """The target's documentation site is blocked (its source listings always are)."""
    opaque_ids: bool = True
    """Routes that name a repository by a number or hash only are closed for all."""
    site_search: bool = True
    """Searches of forges and code search sites that name the target are blocked."""
    wrappers: bool = False
    """Readers, caches, archives and translators are blocked altogether, not only when they wrap the target."""
    shorteners: bool = True
    """Addresses that hide where they lead are blocked."""
    search_pages: bool = True
    """Result pages of search engines are blocked."""
    raw_addresses: bool = True
    """Hosts given as public IP addresses are blocked (private ones always are)."""
    prompt_addresses: tuple[str, ...] = ()
    """Pages of the target that the prompt itself names and that may be read."""
    allow_hosts: tuple[str, ...] = ()
    """Hosts (``host`` or ``host:port``) that are reached although they are addresses, internal or shorteners."""
    loopback_in_bash: bool = True
    """Commands may talk to servers on the sandbox's own loopback."""
    dns_tools: bool = True
    """Commands that look names up by hand are blocked."""
    list_refs: bool = True
    """Commands that list refs which are not the agent's own are blocked."""
    pack_bytes: bool = True
    """Commands that read files below .git/objects are blocked."""
    dependents: bool = True
    """Installing other packages with their dependencies beside the environment is blocked."""
    credential_files: bool = True
    """Commands that read files of credentials are blocked."""
    hidden_tests: bool = True
    """Commands that look for the hidden tests by name are blocked."""

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> Policy:
        """A policy from a mapping of settings (JSON); an unknown name or a wrong type is a ValueError."""
        known = {field.name: getattr(cls(), field.name) for field in fields(cls)}
        chosen: dict[str, Any] = {}
        for name, value in settings.items():
            if name not in known:
                raise ValueError(f"unknown setting {name!r}; known: {', '.join(known)}")
            if isinstance(known[name], bool):
                if not isinstance(value, bool):
                    raise ValueError(f"setting {name!r} must be true or false, not {value!r}")
                chosen[name] = value
            elif isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
                chosen[name] = tuple(value)
            else:
                raise ValueError(f"setting {name!r} must be a list of strings, not {value!r}")
        return cls(**chosen)


DEFAULT = Policy()


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether something is blocked, by which rule, and what it was that the rule met."""

    blocked: bool
    rule: str = ""
    detail: str = ""


ALLOWED = Decision(False)
