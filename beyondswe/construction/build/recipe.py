"""An environment written down: the Dockerfile of one instance with what it needs beside it, and its image.

The context is a folder that anybody can build again with ``docker build``: ``Dockerfile``, ``requirements.txt``
(every package with its version, and what it is for) and ``repository.bundle`` (the base commit's history). Two
images must be there, which `ensure_tools` makes: the base image that ``FROM`` names, and the one with uv.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from pathlib import Path

from beyondswe.construction.build.diagnosis import is_of_the_network
from beyondswe.construction.build.workshop import CHECKOUT, NETWORK_TRIES, PYTHON, WORKDIR, index_variables
from beyondswe.errors import EngineError
from beyondswe.resources import resource
from beyondswe.sandbox.build import BuildFailed, OnLine, build_image
from beyondswe.sandbox.engine import Engine, labels
from beyondswe.sandbox.locks import exclusive
from beyondswe.sandbox.scratch import temporary_folder

TEMPLATE = "instance.Dockerfile.j2"
DOCKERFILE, REQUIREMENTS, DATES = "Dockerfile", "requirements.txt", "uv.toml"
BUNDLE, BUILD_LIMITS, CONSTRAINTS = "repository.bundle", "build-constraints.txt", "constraints.txt"


@dataclass(frozen=True)
class Step:
    """A shell command of a Dockerfile, and what it is for."""

    command: str
    why: str = ""


@dataclass(frozen=True)
class Recipe:
    """All that an image is made of."""

    instance_id: str
    repo: str
    commit: str
    builder: str
    python: str
    base: str  # tag of the base image
    base_digest: str  # what that tag was when this was written
    uv: str  # tag of the image with uv
    day: date  # nothing newer is installed
    committed: date  # the base commit's
    dates: str = ""  # uv.toml: nothing newer than the day
    system: Mapping[str, str] = field(default_factory=dict)  # Debian package → why
    system_versions: Mapping[str, str] = field(default_factory=dict)
    pins: Mapping[str, str] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)  # package → what it is for
    build_limits: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    install: Sequence[Step] = ()  # in the repository's folder
    constraints: Mapping[str, str] = field(default_factory=dict)  # versions for commands that name none
    empty: str = ""  # Doc2Repo: name of the empty package that stands in the repository's place

    def context(self, bundle: bytes) -> dict[str, bytes]:
        """The files of the build's context."""
        files = {DOCKERFILE: self.dockerfile().encode()}
        if self.pins:
            files[REQUIREMENTS] = self.requirements().encode()
            files[DATES] = self.dates.encode()
        if self.constraints:
            files[CONSTRAINTS] = "".join(
                f"{name}=={version}\n" for name, version in sorted(self.constraints.items())
            ).encode()
            files[DATES] = self.dates.encode()
        if self.build_limits:
            files[BUILD_LIMITS] = "".join(
                f"# {_line(why)}\n{limit}\n" for limit, why in self.build_limits.items()
            ).encode()
        if not self.empty:
            files[BUNDLE] = bundle
        return files

    def dockerfile(self) -> str:
        import jinja2

        environment = jinja2.Environment(
            undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        environment.filters["line"] = _line
        environment.filters["label"] = lambda text: re.sub(r'(["\\$])', r"\\\1", text)
        return environment.from_string(resource("dockerfiles", TEMPLATE).read_text()).render(
            recipe=self,
            workdir=WORKDIR,
            venv_python=PYTHON,
            checkout=[command.format(bundle="/tmp/repository.bundle") for command in CHECKOUT],
        )

    def requirements(self) -> str:
        """Pins, each with what it is for."""
        lines = [f"# Python {self.python}, nothing newer than {self.day.isoformat()} unless said otherwise"]
        for name, version in sorted(self.pins.items()):
            why = self.reasons.get(name, "")
            lines.append(f"{name}=={version}" + (f"  # {_line(why)}" if why else ""))
        return "\n".join(lines) + "\n"


def _line(text: str) -> str:
    """A text for a comment: one line, printable, not too long."""
    shown = re.sub(r"\s+", " ", "".join(char if char.isprintable() else " " for char in text)).strip()
    return shown if len(shown) <= 160 else f"{shown[:157]}..."


def image_tag(instance_id: str, context: Mapping[str, bytes]) -> str:
    """``beyondswe/built:<instance_id>-<hash of what it is built from>``."""
    digest = hashlib.sha256(
        json.dumps(
            {name: hashlib.sha256(data).hexdigest() for name, data in context.items()}, sort_keys=True
        ).encode()
    ).hexdigest()[:12]
    name = re.sub(r"[^a-z0-9_.-]+", "-", instance_id.lower()).strip("-._")[:100] or "instance"
    return f"beyondswe/built:{name}-{digest}"


def build(engine: Engine, recipe: Recipe, bundle: bytes, *, on_line: OnLine | None = None) -> str:
    """The tag of a recipe's image, built if it is not there. Raises `BuildFailed`."""
    return build_context(engine, recipe.instance_id, recipe.context(bundle), on_line=on_line)


def build_context(
    engine: Engine, instance_id: str, context: Mapping[str, bytes], *, on_line: OnLine | None = None
) -> str:
    tag = image_tag(instance_id, context)
    if not engine.has_image(tag):
        with exclusive(f"{engine.host} {tag}"):
            for number in range(NETWORK_TRIES):
                try:
                    _build_image(engine, context, tag, on_line)
                    break
                except BuildFailed as error:
                    if number == NETWORK_TRIES - 1 or not is_of_the_network(f"{error.reason}\n{error.tail}"):
                        raise
    return tag


def _build_image(engine: Engine, context: Mapping[str, bytes], tag: str, on_line: OnLine | None) -> None:
    build_image(
        engine,
        context={name: data for name, data in context.items() if name != DOCKERFILE},
        dockerfile=context[DOCKERFILE].decode(),
        tag=tag,
        buildargs=index_variables(),
        labels=labels(role="environment"),  # the same for all, or no layer would be shared
        on_line=on_line,
    )


def rebuild(engine: Engine, folder: Path, instance_id: str, *, on_line: OnLine | None = None) -> str:
    """Build a written context again."""
    context = {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}
    known = (DOCKERFILE, REQUIREMENTS, DATES, BUNDLE, BUILD_LIMITS, CONSTRAINTS)
    return build_context(
        engine, instance_id, {name: context[name] for name in known if name in context}, on_line=on_line
    )


@cache
def uv_binary() -> Path:
    from uv import find_uv_bin

    return Path(find_uv_bin())


@cache
def _uv_version() -> str:
    shown = subprocess.run([uv_binary(), "--version"], capture_output=True, text=True, check=True).stdout
    return shown.split()[1]


def ensure_uv_image(engine: Engine) -> str:
    """An image that holds uv and nothing else, for ``COPY --from``."""
    tag = f"beyondswe/uv:{_uv_version()}"
    if not engine.has_image(tag):
        with exclusive(f"{engine.host} {tag}"):
            if not engine.has_image(tag):
                with temporary_folder() as folder:
                    shutil.copy(uv_binary(), folder / "uv")
                    build_image(
                        engine,
                        context=folder,
                        dockerfile="FROM scratch\nCOPY uv /uv\n",
                        tag=tag,
                        network="none",
                        labels=labels(role="base"),
                    )
    return tag


def digest_of(engine: Engine, tag: str) -> str:
    """The digest of an image as a registry knows it, else its id here."""
    from docker.errors import DockerException

    try:
        found = engine.client.images.get(tag).attrs
    except DockerException as error:
        raise EngineError(f"image {tag} is not there: {error}") from error
    digests = found.get("RepoDigests") or []
    return str(digests[0] if digests else found["Id"])
