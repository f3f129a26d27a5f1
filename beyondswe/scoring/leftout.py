"""What of a change is not part of the patch: caches, environments, build products, ignored files."""

from __future__ import annotations

import subprocess
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from beyondswe.sandbox import hostgit
from beyondswe.sandbox.hostgit import GitError
from beyondswe.sandbox.importing import RESERVED
from beyondswe.sandbox.paths import parents, quoted, reserved
from beyondswe.sandbox.scratch import temporary_folder
from beyondswe.sandbox.trees import SYMLINK, Entry, Trees

_CACHES = {b"__pycache__": "bytecode", b".pytest_cache": "pytest's cache", b".tox": "tox's environments"}
_SETUPTOOLS = (b"lib.", b"temp.", b"bdist.", b"scripts-")
_LISTED = 10
"""So many files of one folder that are left out for one reason are named; more are counted."""


@dataclass
class LeftOut:
    """Everything that was left out, by path (a folder stands for all below it), with the reason."""

    reasons: dict[bytes, str] = field(default_factory=dict)

    def lines(self) -> tuple[str, ...]:
        groups: dict[tuple[bytes, str], list[bytes]] = {}
        for path, reason in sorted(self.reasons.items()):
            groups.setdefault((path.rpartition(b"/")[0], reason), []).append(path)
        lines = []
        for (folder, reason), paths in groups.items():
            if len(paths) > _LISTED:
                lines.append(f"{quoted(folder + b'/') if folder else './'} ({len(paths)} of it): {reason}")
            else:
                lines.extend(f"{quoted(path)}: {reason}" for path in paths)
        return tuple(lines)


@dataclass(frozen=True)
class Rules:
    """Which paths are left out. Those that the base commit tracks never are."""

    tracked: Collection[bytes]
    tracked_folders: frozenset[bytes]  # that hold a tracked path
    environments: frozenset[bytes]  # folders with a pyvenv.cfg
    setuptools: bool  # whether a build/ at the root can be setuptools' work: it is no package
    ignore_files: Mapping[bytes, bytes]  # the base commit's .gitignore files

    @classmethod
    def of(cls, trees: Trees, base: Mapping[bytes, Entry], present: Collection[bytes]) -> Rules:
        """``base``: what the base commit tracks; ``present``: the paths that are or were there."""
        return cls(
            tracked=base.keys(),
            tracked_folders=frozenset(folder for path in base for folder in parents(path)),
            environments=frozenset(
                path.rpartition(b"/")[0]
                for path in present
                if path.endswith(b"/pyvenv.cfg") and path not in base
            ),
            setuptools=b"build/__init__.py" not in present,
            ignore_files={
                path: trees.read(entry.oid)
                for path, entry in base.items()
                if path.rpartition(b"/")[2] == b".gitignore" and entry.mode != SYMLINK
            },
        )

    def apply(self, paths: Iterable[bytes], left_out: LeftOut) -> list[bytes]:
        """The paths that stay; the others are added to ``left_out``."""
        paths = [path for path in paths if not self.leave(path, left_out)]
        asked = [path for path in paths if path not in self.tracked]
        ignored = self._ignored(asked)
        left_out.reasons.update(ignored)
        return [path for path in paths if path not in ignored]

    def leave(self, path: bytes, left_out: LeftOut) -> bool:
        """Whether a path is left out for its name alone; then that is noted."""
        if name := reserved(path):
            if name.rpartition(b"/")[2] != b".git":
                left_out.reasons[name] = RESERVED
            return True
        if path in self.tracked or (found := self._by_name(path)) is None:
            return False
        folder, reason = found
        left_out.reasons[path if folder in self.tracked_folders else folder] = reason
        return True

    def _by_name(self, path: bytes) -> tuple[bytes, str] | None:
        for part in [*parents(path), path]:
            name = part.rpartition(b"/")[2]
            if name in _CACHES:
                return part, _CACHES[name]
            if name.endswith(b".egg-info"):
                return part, "metadata that setuptools writes"
            if part in self.environments:
                return part, "a virtual environment"
        if path.endswith(b".pyc"):
            return path, "bytecode"
        top, _, rest = path.partition(b"/")
        inner = rest.partition(b"/")[0]
        built = top == b"build" and self.setuptools and (inner == b"lib" or inner.startswith(_SETUPTOOLS))
        if built and b"build/" + inner not in self.tracked_folders:
            return b"build/" + inner, "built by setuptools"
        return None

    def _ignored(self, paths: list[bytes]) -> dict[bytes, str]:
        """Those that the base commit's ``.gitignore`` files ignore, as git itself reads them."""
        if not paths or not self.ignore_files:
            return {}
        with temporary_folder() as folder:
            tree = folder / "tree"
            tree.mkdir()
            for path, data in self.ignore_files.items():
                file = tree / path.decode("utf-8", "surrogateescape")
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
            Trees.create(folder / "git")
            answer = _check_ignore(folder / "git", tree, paths)
        ignored = {}
        fields = answer.split(b"\0")
        for source, line, pattern, path in zip(
            fields[0:-1:4], fields[1::4], fields[2::4], fields[3::4], strict=True
        ):
            if not pattern.startswith(b"!"):
                ignored[path.removeprefix(b"./")] = f"ignored by {quoted(source)}:{line.decode()}"
        return ignored


def _check_ignore(git_dir: Path, tree: Path, paths: list[bytes]) -> bytes:
    done = subprocess.run(
        hostgit.command("-c", "core.bare=false", "check-ignore", "--no-index", "--verbose", "-z", "--stdin"),
        input=b"".join(b"./%b\0" % path for path in paths),  # so that a leading colon means nothing
        capture_output=True,
        env=hostgit.environment(GIT_DIR=str(git_dir), GIT_WORK_TREE=str(tree), GIT_LITERAL_PATHSPECS="0"),
        cwd=tree,
        check=False,
    )
    if done.returncode not in (0, 1):  # 1: none is ignored
        raise GitError(f"git check-ignore failed: {hostgit.words(done.stderr)}")
    return done.stdout
