"""The image that Harbor verifiers take the scorer from: our own code, with a Python and a git that run in any image.

It holds one folder and no system. What is in it is a copy of what runs here (same files, same versions), so a verdict
there is the verdict of this installation; its tag is a digest of all that.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import beyondswe
from beyondswe.agents.portable import make_portable
from beyondswe.agents.pythons import FoundPython
from beyondswe.agents.runtimes import install_python, patchelf
from beyondswe.errors import EngineError
from beyondswe.export.harbor.verifier import HOME
from beyondswe.resources import resource
from beyondswe.sandbox import hostgit
from beyondswe.sandbox.build import build_image
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.locks import exclusive

DISTRIBUTIONS = (
    "annotated-types",
    "pydantic",
    "pydantic-core",
    "PyYAML",
    "typing-extensions",
    "typing-inspection",
    "unidiff",
)
"""What scoring imports beside the standard library; a test holds it."""

_PARTS = (
    "errors.py",
    "export/__init__.py",
    "export/harbor",
    "instances",
    "resources.py",
    "sandbox",
    "scoring",
)
_FORM = "1"  # of the image; another number makes it anew


def ensure_scorer(engine: Engine, prefix: str) -> str:
    """The tag of the image below ``prefix``, made if it is not there."""
    tag = f"{prefix}harbor-scorer:{_digest()}"
    with exclusive("harbor scorer"):
        if not engine.has_image(tag):
            with tempfile.TemporaryDirectory() as folder:
                fill(Path(folder) / "root")
                build_image(
                    engine,
                    context=Path(folder) / "root",
                    dockerfile=f"FROM scratch\nCOPY . {HOME}/\n",
                    tag=tag,
                    network="none",
                    labels={"role": "harbor-scorer"},
                )
    return tag


def fill(root: Path) -> None:
    """Put into ``root`` what lies at `HOME` in the image."""
    root.mkdir()
    version = ".".join(map(str, sys.version_info[:3]))
    python = FoundPython(version, Path(sys.base_prefix), "the one that this program runs on")
    if not python.program.is_file():
        raise EngineError(
            f"the interpreter {python.program} is not there; install this program with another Python"
        )
    install_python(python, root, str(HOME))
    (root / "bin" / "python3").symlink_to(python.program.name)
    packages = root / "lib" / f"python{python.minor}" / "site-packages"
    for name, source in carried():
        target = packages / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    shutil.copy2(Path(hostgit.git()).resolve(), root / "bin" / "git")
    make_portable(root, str(HOME), root / "bin" / "git", [], patchelf())


def carried() -> Iterator[tuple[str, Path]]:
    """What goes beside the interpreter's own library, by its name there."""
    package = Path(beyondswe.__file__).parent
    yield "beyondswe/__init__.py", package / "__init__.py"
    for part in _PARTS:
        found = [package / part] if part.endswith(".py") else sorted((package / part).rglob("*.py"))
        yield from ((f"beyondswe/{path.relative_to(package)}", path) for path in found)
    runner = resource("harness", "runner")
    yield from ((f"harness/runner/{path.name}", path) for path in sorted(runner.glob("*.py")))
    for name in DISTRIBUTIONS:
        for file in metadata.distribution(name).files or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                yield str(file), Path(str(file.locate()))


def _digest() -> str:
    digest = hashlib.sha256(f"{_FORM} {sys.version} {Path(hostgit.git()).stat().st_size}".encode())
    for name, path in carried():
        digest.update(f"\0{name}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]
