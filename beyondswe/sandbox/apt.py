"""Debian and Ubuntu: which release this is, where its packages come from, installing some, making a root of
them.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from beyondswe.errors import EngineError

_ARCHIVE_KEYRINGS = ("debian-archive", "ubuntu-archive")


@dataclass(frozen=True)
class Release:
    """A release of Debian or Ubuntu."""

    distribution: str  # debian or ubuntu
    codename: str  # as bookworm

    def __str__(self) -> str:
        return f"{self.distribution.capitalize()} {self.codename}"


def this_release(os_release: Path = Path("/etc/os-release")) -> Release:
    """The release that this machine runs, derivatives counted as what they derive from. Raises
    `EngineError`.
    """
    fields: dict[str, str] = {}
    if os_release.is_file():
        for line in os_release.read_text(encoding="utf-8", errors="replace").splitlines():
            key, separator, value = line.partition("=")
            if separator:
                fields[key] = "".join(shlex.split(value))
    kin = [fields.get("ID", ""), *fields.get("ID_LIKE", "").split()]
    distribution = next((name for name in ("ubuntu", "debian") if name in kin), None)
    if distribution is None:
        raise EngineError(
            f"this machine ({fields.get('PRETTY_NAME') or platform.platform()}) is neither Debian nor Ubuntu"
        )
    codename = (
        fields.get(f"{distribution.upper()}_CODENAME")
        or fields.get("VERSION_CODENAME")
        or {"debian": "sid", "ubuntu": "devel"}[distribution]
    )
    return Release(distribution, codename)


def architecture() -> str:
    """Debian's name of this machine's architecture."""
    return subprocess.run(
        ["dpkg", "--print-architecture"], capture_output=True, text=True, check=True
    ).stdout.strip()


def archive_sources(release: Release, etc_apt: Path = Path("/etc/apt")) -> str:
    """This machine's sources of the distribution itself, in sources.list's one-line form; other vendors' are
    left out.

    ``""`` when there are none: mmdebstrap then takes the distribution's default.
    """
    lines: list[str] = []
    parts = etc_apt / "sources.list.d"
    for path in [etc_apt / "sources.list", *sorted(parts.iterdir() if parts.is_dir() else ())]:
        if path.is_file() and path.suffix in {".list", ".sources"}:
            text = path.read_text(encoding="utf-8", errors="replace")
            entries = _one_line(text) if path.suffix == ".list" else _deb822(text)
            lines += [entry for entry, options in entries if _is_archive(entry, options, release)]
    return "".join(f"{line}\n" for line in dict.fromkeys(lines))


def _one_line(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        line = line.partition("#")[0].strip()
        if match := re.match(r"deb\s+(\[[^\]]*\])?", line):
            yield line, match[1] or ""


def _deb822(text: str) -> Iterator[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)
    for stanza in re.split(r"\n\s*\n", text):
        fields = {
            match[1].lower(): match[2].split()
            for match in re.finditer(r"^([A-Za-z-]+):((?:.*)(?:\n[ \t]+.*)*)", stanza, flags=re.MULTILINE)
        }
        if "deb" not in fields.get("types", []) or fields.get("enabled") == ["no"]:
            continue
        signed = fields.get("signed-by", [])
        inline = any(
            "BEGIN" in word for word in signed
        )  # a key written into the file itself: not the archive's keyring
        options = (
            f"[signed-by={','.join(signed)}]"
            if signed and not inline
            else ("[signed-by=inline]" if inline else "")
        )
        for uri in fields.get("uris", []):
            for suite in fields.get("suites", []):
                words = ["deb", options, uri, suite, *fields.get("components", [])]
                yield " ".join(word for word in words if word), options


def _is_archive(entry: str, options: str, release: Release) -> bool:
    _uri, suite, *components = entry.removeprefix("deb").replace(options, "", 1).split()
    signed = re.search(r"signed-by=([^\s\]]+)", options)
    return (
        suite in {release.codename, *(f"{release.codename}-{part}" for part in ("updates", "security"))}
        and "main" in components
        and (signed is None or any(name in signed[1] for name in _ARCHIVE_KEYRINGS))
    )


def bootstrap(release: Release, sources: str, packages: Sequence[str], archive: Path) -> None:
    """Make a minimal root with ``packages`` as a tar archive. Raises `EngineError` with mmdebstrap's last
    words.
    """
    if shutil.which("mmdebstrap") is None:
        raise EngineError(
            "mmdebstrap is missing, which makes base images where no registry answers: "
            "run `beyondswe engine setup --yes` as root, or `apt-get install mmdebstrap`"
        )
    command = ["mmdebstrap", "--variant=minbase", "--format=tar", f"--include={','.join(packages)}"]
    command += [f"--dpkgopt=path-exclude=/usr/share/{part}/*" for part in ("man", "doc", "info", "locale")]
    command += [f"--aptopt={option}" for option in _fetch_options()]
    # the host's way to the archive is the host's affair: images get theirs from the environment
    command += [
        "--customize-hook=rm -f $1/etc/apt/apt.conf.d/99mmdebstrap $1/etc/hostname $1/etc/resolv.conf"
    ]
    command += [release.codename, str(archive), *(["-"] if sources else [])]
    made = subprocess.run(command, input=sources, capture_output=True, text=True, check=False)
    if made.returncode:
        tail = "\n".join(made.stderr.strip().splitlines()[-15:])
        raise EngineError(
            f"mmdebstrap could not make a root of {release} (exit {made.returncode}):\n{tail}\n"
            "Check that `apt-get update` works on this machine: the same sources and keyrings are used."
        )


def _fetch_options() -> list[str]:
    """How this machine's apt reaches the archive (proxy, certificates, stale mirrors): mmdebstrap's apt does
    not ask.
    """
    dump = subprocess.run(
        ["apt-config", "dump", "Acquire"], capture_output=True, text=True, check=False
    ).stdout
    wanted = re.compile(r'Acquire::(https?::(?!.*User-Agent).*|Check-Valid-Until|Check-Date|Retries) "(.+)";')
    return [line.rstrip(";") for line in dump.splitlines() if wanted.fullmatch(line)]


def installed(packages: Sequence[str]) -> set[str]:
    """Which of these packages are installed."""
    shown = subprocess.run(
        ["dpkg-query", "-W", "-f=${Package} ${db:Status-Status}\\n", *packages],
        capture_output=True,
        text=True,
        check=False,  # unknown names make it fail, and are none the less answered for the others
    )
    return {line.split()[0] for line in shown.stdout.splitlines() if line.endswith(" installed")}


def install(packages: Sequence[str]) -> None:
    """Install packages without asking, removing none; lists are fetched if missing or too old. Raises
    `EngineError`.
    """
    lists = Path("/var/lib/apt/lists")
    fresh = not any(lists.glob("*_Packages*"))
    if fresh:
        _apt_get("update")
    command = ("install", "--yes", "--no-install-recommends", "--no-remove", *packages)
    try:
        _apt_get(*command)
    except EngineError:
        if fresh:
            raise
        _apt_get("update")  # lists older than the archive name files that are gone
        _apt_get(*command)


def _apt_get(*words: str) -> None:
    environment: Mapping[str, str] = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    ran = subprocess.run(
        ["apt-get", "-o", "DPkg::Lock::Timeout=300", *words],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        stdin=subprocess.DEVNULL,
    )
    if ran.returncode:
        tail = "\n".join((ran.stdout + ran.stderr).strip().splitlines()[-15:])
        raise EngineError(f"`apt-get {' '.join(words)}` failed (exit {ran.returncode}):\n{tail}")
