"""What a sandbox is told of the egress proxy: where it is, and the certificate that it is to trust.

Every tool has its own name for both. All of it is in the environment of the agent's commands and in files outside
of the work folder, so none of it can get into a patch, and the scoring sandbox has none of it.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Sequence
from pathlib import Path

from beyondswe.gateway.link import PROXY_PORT
from beyondswe.sandbox.host import CA_BUNDLE, CA_VARIABLES, host_bundle
from beyondswe.sandbox.types import Sandbox

FOLDER = "/opt/beyondswe/egress"
AUTHORITY = f"{FOLDER}/proxy-ca.crt"
"""The proxy's certificate alone."""
BUNDLE = f"{FOLDER}/ca-bundle.crt"
"""The host's certificates and the proxy's: for tools whose setting replaces what they trust."""

_MORE_CA_VARIABLES = (
    "NPM_CONFIG_CAFILE",
    "CARGO_HTTP_CAINFO",
    "AWS_CA_BUNDLE",
    "CONDA_SSL_VERIFY",
    "DENO_CERT",
    "NIX_SSL_CERT_FILE",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
)

TRUST = f"""
for store in {CA_BUNDLE} /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/ca-bundle.pem /etc/ssl/cert.pem; do
    if [ -f "$store" ] && [ -w "$store" ]; then cat {AUTHORITY} >> "$store"; fi
done
if [ -d /usr/local/share/ca-certificates ] && [ -w /usr/local/share/ca-certificates ]; then
    cp {AUTHORITY} /usr/local/share/ca-certificates/beyondswe-proxy.crt
fi
"""
"""Run as root in the agent's sandbox: programs that read no variable (wget, apt) look into the system's store."""


def proxy_variables(
    port: int = PROXY_PORT, *, bundle: str = BUNDLE, direct: Sequence[str] = ()
) -> dict[str, str]:
    """Environment of an agent behind the proxy. The sandbox's own loopback, where the model gateway is, and what
    ``direct`` names are not asked through it.
    """
    url = f"http://127.0.0.1:{port}"
    found = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), url)
    found["no_proxy"] = ",".join(("localhost", "127.0.0.1", "::1", *direct))
    found |= {name.upper(): value for name, value in found.items()}
    found["NODE_USE_ENV_PROXY"] = "1"  # Node's own fetch reads the variables only where it is told to
    found |= dict.fromkeys((*CA_VARIABLES, *_MORE_CA_VARIABLES), bundle)
    return found


def let_trust(sandbox: Sandbox, authority: str) -> None:
    """Put the proxy's certificate into an agent's sandbox, for tools with and without a variable for it."""
    sandbox.put(trust_archive(authority))
    sandbox.run(TRUST, timeout=60, user="0", cwd="/")


def trust_archive(authority: str) -> bytes:
    """The certificate files as a tar for ``/``."""
    known = host_bundle()
    bundle = (known.read_text(encoding="utf-8", errors="replace") if known else "").rstrip("\n")
    files = {AUTHORITY: authority, BUNDLE: f"{bundle}\n{authority}".lstrip("\n")}
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for folder in (str(Path(FOLDER).parent), FOLDER):
            entry = tarfile.TarInfo(folder.lstrip("/"))
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        for name, text in files.items():
            data = text.encode()
            entry = tarfile.TarInfo(name.lstrip("/"))
            entry.size, entry.mode = len(data), 0o644
            archive.addfile(entry, io.BytesIO(data))
    return stream.getvalue()
