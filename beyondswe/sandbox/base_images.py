"""Base images: Debian, git, C tools and one Python with pytest, from a registry where one answers, else
bootstrapped.

A root comes first: the registry's ``python:X-slim``, or a Debian made by ``mmdebstrap`` from this machine's
own package sources and shared by all Pythons. On it goes one interpreter (the root's own, one from a folder
in pyenv's layout, or one that uv manages) and ``/opt/venv``, by ``dockerfiles/base.Dockerfile.j2``. The tag
names everything that was asked for, so the second call costs one look-up; where the parts came from is said
while building and kept in a label.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from beyondswe.errors import DataError, EngineError, UsageError
from beyondswe.resources import cache_dir, resource
from beyondswe.sandbox import apt, host
from beyondswe.sandbox.build import OnLine, build_image
from beyondswe.sandbox.engine import Engine, labels
from beyondswe.sandbox.images import PullFailed, pull
from beyondswe.sandbox.locks import exclusive

REPOSITORY = "beyondswe/base"
ROOT_REPOSITORY = "beyondswe/debian"

PACKAGES = (
    "ca-certificates",
    "git",
    "build-essential",
    "pkg-config",
    # what CPython and many packages are built against; these names are the same in every release
    "libssl-dev",
    "libffi-dev",
    "libsqlite3-dev",
    "zlib1g-dev",
    "libbz2-dev",
    "liblzma-dev",
    "libreadline-dev",
    "libncurses-dev",
    "uuid-dev",
    "libexpat1-dev",
)
ROOT_PYTHON = ("python3", "python3-venv", "python3-dev")

_REQUEST = re.compile(r"3\.\d+(\.\d+)?")
_ANSWER_WITHIN = 15  # seconds of silence after which a registry counts as not there


@dataclass(frozen=True)
class Interpreter:
    """A CPython installation in a folder of its own, to be copied into an image."""

    version: str  # as 3.9.18
    prefix: Path
    origin: str  # where it was found, in words

    @property
    def minor(self) -> str:
        return minor_version(self.version)


@dataclass(frozen=True)
class _Root:
    image: str
    packages: tuple[str, ...]  # still to be installed
    python: str  # its own interpreter, "" when another is copied in
    origin: str


def ensure_base_image(
    engine: Engine, python: str = "3.11", *, python_dir: Path | None = None, on_line: OnLine | None = None
) -> str:
    """The tag of the base image with this Python (``3.9`` or ``3.9.18``), built if it is not there.

    ``python_dir`` is a folder of interpreters in pyenv's layout (``<dir>/3.9.18/bin/python3.9``) that must
    have it; without it: the registry, the machine's own Debian, pyenv's folder, uv's managed interpreters,
    in this order. ``BEYONDSWE_REGISTRY`` names a mirror to ask in place of the default registry, or ``none``
    to ask none.
    """
    if not _REQUEST.fullmatch(python):
        raise UsageError(f"{python!r} is no Python version; write it as 3.11 or 3.11.7")
    given = _given_interpreter(python, python_dir) if python_dir else None
    tag = f"{REPOSITORY}:py{python}-{_key(python, given)}"
    if engine.has_image(tag):
        return tag
    with exclusive(f"{engine.host} {tag}"):
        if not engine.has_image(tag):
            _build(engine, python, given, tag, on_line or _say)
    return tag


def base_images(engine: Engine) -> list[str]:
    """Tags of the base images that are there, whichever namespace made them."""
    found = engine.api.images(filters={"label": "io.beyondswe.role=base"})
    return sorted(tag for image in found for tag in image.get("RepoTags") or () if f"{REPOSITORY}:" in tag)


def find_interpreter(folder: Path, python: str, origin: str) -> Interpreter | None:
    """The newest interpreter of this version in a folder laid out as pyenv's or as uv's."""
    found = []
    for entry in folder.iterdir() if folder.is_dir() else ():
        match = re.fullmatch(r"(?:cpython-)?(3\.\d+\.\d+)(?:-linux-.*)?", entry.name)
        if match and _satisfies(match[1], python):
            found.append((_numbers(match[1]), entry))
    for numbers, entry in sorted(found, reverse=True):
        version = ".".join(map(str, numbers))
        if (entry / "bin" / f"python{minor_version(version)}").is_file():
            return Interpreter(version, entry.resolve(), origin)
    return None


def tool_requirements(python: str) -> list[str]:
    """What ``/opt/venv`` holds from the start, each as ``name==version``, dated by the Python version."""
    from packaging.requirements import Requirement

    chosen = []
    for line in resource("dockerfiles", "base-tools.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            requirement = Requirement(line)
            assert requirement.marker is not None, line
            if requirement.marker.evaluate({"python_version": minor_version(python)}):
                chosen.append(f"{requirement.name}{requirement.specifier}")
    if not chosen:
        raise UsageError(f"there are no base images for Python {python}; the oldest is 3.6")
    return chosen


def minor_version(version: str) -> str:
    """``3.9`` of ``3.9.18``."""
    return ".".join(version.split(".")[:2])


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _satisfies(version: str, asked: str) -> bool:
    return version == asked or version.startswith(f"{asked}.")


def _key(python: str, given: Interpreter | None) -> str:
    parts = [
        resource("dockerfiles", "base.Dockerfile.j2").read_text(),
        tool_requirements(python),
        PACKAGES,
        ROOT_PYTHON,
        host.extra_certificates(),
        f"{given.prefix} {given.version}" if given else "",
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]


def _given_interpreter(python: str, folder: Path) -> Interpreter:
    found = find_interpreter(folder, python, str(folder))
    if found is None:
        there = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
        raise DataError(
            f"{folder} has no Python {python} (a folder <version>/bin/python{minor_version(python)}); "
            f"it has: {', '.join(there) or 'nothing'}"
        )
    return found


def _build(engine: Engine, python: str, given: Interpreter | None, tag: str, say: OnLine) -> None:
    root = None if given else _registry_root(engine, python, say)
    interpreter = given
    if root is None:
        root = _debian_root(engine, say)
        if given is None and root.python == f"/usr/bin/python{python}":
            say(f"Python {python}: {root.origin}'s own")
        else:
            interpreter = given or _some_interpreter(python, say)
            say(f"Python {python}: {interpreter.version} from {interpreter.origin}")
    with tempfile.TemporaryDirectory(prefix="beyondswe-base-") as folder:
        context = Path(folder)
        _put_certificates(context / "certificates")
        _download_tools(context / "wheels", python)
        prefix = ""
        if interpreter:
            prefix = f"/opt/python/{interpreter.version}"
            copy_interpreter(interpreter, context / "python", prefix)
        dockerfile = _render(
            root=root.image,
            packages=root.packages,
            python=f"{prefix}/bin/python{minor_version(python)}" if prefix else root.python,
            prefix=prefix,
            ca_bundle=host.CA_BUNDLE,
            ca_variables=host.CA_VARIABLES,
        )
        origin = (
            f"{root.origin}; Python {interpreter.version} from {interpreter.origin}"
            if interpreter
            else root.origin
        )
        say(f"building {tag}")
        build_image(
            engine,
            context=context,
            dockerfile=dockerfile,
            tag=tag,
            network=None if root.packages else "none",
            labels=labels(role="base", python=python, origin=origin),
        )


def _render(**values: object) -> str:
    import jinja2

    template = resource("dockerfiles", "base.Dockerfile.j2").read_text()
    return jinja2.Environment(undefined=jinja2.StrictUndefined).from_string(template).render(values)


def _registry_root(engine: Engine, python: str, say: OnLine) -> _Root | None:
    """The registry's image of this Python; None, with the reason said, where no registry gives it."""
    registry = os.environ.get("BEYONDSWE_REGISTRY", "")
    if registry == "none":
        say("no registry is asked (BEYONDSWE_REGISTRY=none)")
        return None
    ref = f"{registry.rstrip('/')}/python:{python}-slim".lstrip("/")
    say(f"asking the registry for {ref}")
    try:
        pull(engine, ref, silence=_ANSWER_WITHIN)
    except PullFailed as error:
        say(f"no registry gives {ref} ({error.reason}): bootstrapping from Debian packages instead")
        return None
    return _Root(ref, PACKAGES, f"/usr/local/bin/python{minor_version(python)}", ref)


def _debian_root(engine: Engine, say: OnLine) -> _Root:
    """The bootstrapped root, made by mmdebstrap from this machine's package sources if it is not there."""
    release = apt.this_release()
    sources = apt.archive_sources(release)
    packages = (*PACKAGES, *ROOT_PYTHON)
    key = hashlib.sha256(json.dumps([packages, sources, apt.architecture()]).encode()).hexdigest()[:12]
    tag = f"{ROOT_REPOSITORY}:{release.codename}-{key}"
    if not engine.has_image(tag):
        with exclusive(f"{engine.host} {tag}"):
            if not engine.has_image(tag):
                _bootstrap(engine, release, sources, packages, tag, say)
    python = str(engine.client.images.get(tag).labels["io.beyondswe.python"])
    return _Root(tag, (), f"/usr/bin/python{python}", str(release))


def _bootstrap(
    engine: Engine, release: apt.Release, sources: str, packages: tuple[str, ...], tag: str, say: OnLine
) -> None:
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    say(f"making {tag} from {release} packages with mmdebstrap (about a minute)")
    with tempfile.TemporaryDirectory(prefix="beyondswe-root-") as folder:
        archive = Path(folder) / "root.tar"
        apt.bootstrap(release, sources, packages, archive)
        with tarfile.open(archive) as tar:
            names = (re.fullmatch(r"\./usr/bin/python(3\.\d+)", member.name) for member in tar)
            python = next((match[1] for match in names if match), None)
        if python is None:
            raise EngineError(
                f"mmdebstrap made a root without Python from {release}; look at its package python3"
            )
        marks = labels(role="root", origin=str(release), python=python)
        changes = [f"LABEL {json.dumps(key)}={json.dumps(value)}" for key, value in marks.items()]
        try:
            # the tag inside the name: as a parameter of its own Podman ignores it
            engine.api.import_image_from_file(str(archive), repository=tag, changes=changes)
        except (DockerException, RequestException) as error:
            raise EngineError(
                f"the engine at {engine.host} did not take the bootstrapped root {tag}: {error}"
            ) from error


def _some_interpreter(python: str, say: OnLine) -> Interpreter:
    """From pyenv's folder where that exists, else from uv, which downloads one."""
    for folder in pyenv_folders():
        if found := find_interpreter(folder, python, str(folder)):
            return found
    folder = cache_dir("pythons")
    if found := find_interpreter(folder, python, "uv's managed interpreters"):
        return found
    say(f"fetching Python {python} with uv")
    fetched = subprocess.run(
        [_uv(), "python", "install", "--no-bin", "--install-dir", str(folder), python],
        capture_output=True,
        text=True,
        check=False,
    )
    if fetched.returncode == 0 and (found := find_interpreter(folder, python, "uv's managed interpreters")):
        return found
    raise EngineError(
        f"no Python {python} for the base image: no registry has it, {apt.this_release()} brings another, "
        f"pyenv's folder has none, and uv could not fetch one:\n{fetched.stderr.strip()}\n"
        f"Install it with pyenv, or name a folder with <version>/bin/python{minor_version(python)}."
    )


def pyenv_folders() -> Iterator[Path]:
    """Where pyenv keeps its interpreters, whether it is there or not."""
    if root := os.environ.get("PYENV_ROOT"):
        yield Path(root) / "versions"
    yield Path.home() / ".pyenv" / "versions"


def _uv() -> str:
    from uv import find_uv_bin

    return str(find_uv_bin())


def copy_interpreter(interpreter: Interpreter, target: Path, prefix: str) -> None:
    """Copy an installation so that it works at ``prefix``: without what others installed into it, its own
    test suite (``test.support`` stays) and static libraries, and with its old place rewritten where build
    tools read it.
    """
    source = interpreter.prefix
    library = source / "lib" / f"python{interpreter.minor}"

    def left_out(folder: str, names: list[str]) -> set[str]:
        path = Path(folder)
        unwanted = {name for name in names if name == "__pycache__" or name.endswith((".a", ".pyc"))}
        if path == source / "bin":
            unwanted |= {name for name in names if not name.startswith("python")}
        elif path == source:
            unwanted |= {
                name
                for name in names
                if name not in {"bin", "lib", "include"} and not _has_libraries(path / name)
            }
        elif path == library / "site-packages":
            unwanted |= set(names)
        elif path == library / "test":
            unwanted |= {name for name in names if name not in {"__init__.py", "support"}}
        return unwanted

    shutil.copytree(source, target, symlinks=True, ignore=left_out)
    for path in _place_files(target):
        text = path.read_bytes()
        for old in {str(source), *_built_prefixes(target)}:
            text = text.replace(old.encode(), prefix.encode())
        path.write_bytes(text)


def _has_libraries(path: Path) -> bool:
    return path.is_dir() and any(path.rglob("*.so*"))


def _built_prefixes(target: Path) -> set[str]:
    """Where the interpreter was configured to lie, which is not where it was found if it has been moved or
    linked.
    """
    found = set()
    for path in target.glob("lib/python3.*/_sysconfigdata*.py"):
        if match := re.search(r"'prefix': '([^']+)'", path.read_text(encoding="utf-8", errors="replace")):
            found.add(match[1])
    return {prefix for prefix in found if len(Path(prefix).parts) > 2}  # not / and not /usr


def _place_files(target: Path) -> Iterator[Path]:
    for pattern in (
        "bin/python*-config",
        "lib/pkgconfig/*.pc",
        "lib/python3.*/_sysconfigdata*.py",
        "lib/python3.*/config-*/Makefile",
        "lib/python3.*/config-*/python-config.py",
    ):
        for path in target.glob(pattern):
            if path.is_file() and not path.is_symlink():
                yield path


def _put_certificates(folder: Path) -> None:
    folder.mkdir()
    for number, pem in enumerate(host.extra_certificates()):
        (folder / f"{number:03}.crt").write_text(pem + "\n")


def _download_tools(folder: Path, python: str) -> None:
    """Plain wheels only, whatever machine this is: the image's Python is not the one that runs here."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", "--platform=any", "--implementation=py", "--abi=none"]
    command += [
        f"--python-version={minor_version(python)}",
        "--dest",
        str(folder),
        *tool_requirements(python),
    ]
    fetched = subprocess.run(command, capture_output=True, text=True, check=False)
    if fetched.returncode:
        raise EngineError(
            f"pip could not fetch what base images hold for Python {python}: "
            f"{host.without_login(fetched.stderr.strip())}\n"
            "Check package index (PIP_INDEX_URL), proxy and certificates (`beyondswe engine doctor`)."
        )


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
