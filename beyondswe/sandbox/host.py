"""What of the host's way to the network reaches builds and sandboxes: its proxies, and certificates it
trusts.

Behind a company's proxy nothing inside a container can fetch anything without them. Proxies are passed when
something is built or started (never stored in an image); certificates that are not in everybody's set are
part of base images.
"""

from __future__ import annotations

import hashlib
import os
import re
import ssl
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from beyondswe.errors import DataError, UsageError

CA_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
"""Where every base image keeps the certificates that it trusts, the host's included."""

CA_VARIABLES = (
    "SSL_CERT_FILE",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
)
"""Each tool has its own name for it; base images set them all to `CA_BUNDLE`."""

_PROXY_VARIABLES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy")
_SYSTEM_BUNDLES = (
    CA_BUNDLE,
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def proxies() -> dict[str, str]:
    """The host's proxy settings, each in lower and upper case: programs disagree on which they read."""
    found: dict[str, str] = {}
    for name in _PROXY_VARIABLES:
        if value := os.environ.get(name) or os.environ.get(name.upper()):
            found[name] = found[name.upper()] = value
    return found


def package_index() -> str | None:
    """The user's package index, where it is one that a container can ask too. `UsageError` where its address holds a
    login: that would stand in the history of images, and before a model that leads a build.
    """
    names = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
    name, named = next(((name, value) for name in names if (value := os.environ.get(name))), ("", ""))
    if not named.startswith(("http://", "https://")):
        return None
    if without_login(named) != named:
        raise UsageError(
            f"{name} ({without_login(named)}) holds a login, which would be kept in the images that are built; "
            "name a mirror or a proxy of that index that asks for none"
        )
    return named


def without_login(text: str) -> str:
    """A text without the user and password of the addresses in it."""
    return re.sub(r"(:[/\\]{2})[^/\s'\"<>?#]*@", r"\1", text)


def loopback_proxies() -> list[str]:
    """Proxies that listen on the host's loopback: a container has its own loopback and cannot reach them."""
    return sorted(
        {url for name, url in proxies().items() if "no_proxy" not in name.lower() and _is_loopback(url)}
    )


def host_environment() -> dict[str, str]:
    """Environment for a sandbox with network: the host's proxies, less those on its loopback."""
    unreachable = loopback_proxies()
    kept = {name: value for name, value in proxies().items() if value not in unreachable}
    return kept if any("no_proxy" not in name.lower() for name in kept) else {}


@cache
def extra_certificates() -> tuple[str, ...]:
    """Certificates (PEM) that the host trusts and that Mozilla's set, which everybody has, does not hold."""
    import certifi

    bundle = host_bundle()
    if bundle is None:
        return ()
    public: set[str] = set()
    for path in (Path(certifi.where()), *Path("/usr/share/ca-certificates").glob("mozilla/*.crt")):
        public |= _certificates(path).keys()
    trusted = _certificates(bundle)
    return tuple(trusted[fingerprint] for fingerprint in sorted(trusted.keys() - public))


def host_bundle() -> Path | None:
    """The file with the certificates that the host trusts: what the environment names, else the system's."""
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        if value := os.environ.get(name):
            if not Path(value).is_file():
                raise DataError(f"{name} names {value}, which is no file; correct or unset it")
            return Path(value)
    return next((Path(path) for path in _SYSTEM_BUNDLES if Path(path).is_file()), None)


def _certificates(bundle: Path) -> dict[str, str]:
    """The certificates in a file by their fingerprint."""
    pems = _PEM.findall(bundle.read_text(encoding="utf-8", errors="replace"))
    return {hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest(): pem for pem in pems}


def _is_loopback(url: str) -> bool:
    host = urlsplit(url if "//" in url else f"//{url}").hostname or ""
    return host in {"localhost", "::1"} or host.startswith("127.")
