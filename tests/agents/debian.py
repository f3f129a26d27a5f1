"""Images of several Debian releases, bootstrapped from this machine's package sources: other glibc, other Pythons."""

from __future__ import annotations

import tempfile
from pathlib import Path

from beyondswe.sandbox import apt
from beyondswe.sandbox.engine import Engine, labels
from beyondswe.sandbox.locks import exclusive

RELEASES = {"bullseye": "2.31", "bookworm": "2.36", "trixie": "2.41"}
"""Code name → version of its C library."""


def debian_image(engine: Engine, codename: str) -> str:
    """An image of this release with git and Python, made if it is not there (about 40 seconds)."""
    tag = f"beyondswe/debian-test:{codename}"
    with exclusive(f"{engine.host} {tag}"):
        if not engine.has_image(tag):
            here = apt.this_release()
            lines = apt.archive_sources(here).splitlines()
            main = next(line for line in lines if f" {here.codename} " in line)
            sources = main.replace(f" {here.codename} ", f" {codename} ") + "\n"
            with tempfile.TemporaryDirectory(prefix="beyondswe-debian-") as folder:
                archive = Path(folder) / "root.tar"
                apt.bootstrap(apt.Release("debian", codename), sources, ("git", "python3"), archive)
                marks = labels(role="test-debian")
                changes = [f'LABEL {key}="{value}"' for key, value in marks.items()]
                engine.api.import_image_from_file(str(archive), repository=tag, changes=changes)
    return tag
