"""Cuts the history of an image's repositories, so that nothing later than the base commit is left to be
found.

Git directories are not cleaned but made anew: on the host, with the host's git, from the base commit and
the tags on its ancestors, reading objects out of a copy of the old one. What git does not copy cannot be
forgotten by us: refs, notes, reflogs, stashes, hooks, remotes, alternates, work trees, submodule stores,
large files and all else that a git directory can hold. `check` then proves it by counting: every object in
the database is reachable from what may stay, and every other file is on a short list. The price: aliases,
filters and the like are gone for agents too.
"""

from __future__ import annotations

import os
import posixpath
import shlex
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from beyondswe.errors import DataError, EngineError
from beyondswe.sandbox.gitdirs import Carrier, GitDir
from beyondswe.sandbox.paths import parents
from beyondswe.sandbox.repository import (
    MOST_SHOWN,
    Repository,
    git,
    is_plain,
    problems_of,
    remake,
    submodules,
    tags_on,
    tracked_paths,
)
from beyondswe.sandbox.scratch import temporary_folder
from beyondswe.sandbox.tarstream import Kind, Member, members
from beyondswe.sandbox.trees import EMPTY_TREE, Trees
from beyondswe.sandbox.types import Sandbox

_FIXED = {"NAME": "beyondswe", "EMAIL": "beyondswe@localhost", "DATE": "2000-01-01T00:00:00+0000"}
_COMMAND_TIMEOUT = 600.0
_LONGEST_ARGUMENT = 50_000


@dataclass(frozen=True)
class History:
    """What an environment's repository holds after the cut."""

    root: str | None  # folder of the repository that the workdir is in; None: it is in none
    commit: str = ""
    tracked: tuple[bytes, ...] | None = None  # paths below the workdir that the commit tracks
    leftovers: tuple[
        bytes, ...
    ] = ()  # files that may hold later changes, relative to the workdir, not tracked
    notes: tuple[str, ...] = ()


def cut(sandbox: Sandbox, *, base_commit: str | None) -> History:
    """Cut every repository in and around the workdir: its own to ``base_commit``, others to where they stand.

    ``base_commit`` "" is the commit that is checked out, with a note; None says the same without one (for a
    second cut, after commands that may have committed). Files of the image that are not tracked stay.
    Tracked files are touched only where another commit than the base is checked out. `DataError` if the
    base commit is not there.
    """
    with temporary_folder() as folder:
        top = _root(sandbox) or sandbox.workdir
        found = Carrier(sandbox, _made(folder / "old")).find(top)
        plan = _Plan(folder)
        own = next((git_dir for git_dir in found.git_dirs if git_dir.root == top and not git_dir.bare), None)
        commit, tracked, links = "", None, {}
        if own is None and base_commit:
            plan.notes.append(f"{top} is no git repository; base commit {base_commit} is not looked for")
        if own is not None:
            old = Repository.read(own)
            commit = _base(old, base_commit, plan.notes)
            if commit:
                plan.drop_work_trees(old, commit)
                tracked = plan.renew(old, commit)
                links = _gitlinks(old, commit, top)
            else:
                plan.renew(old, "")
        for git_dir in found.git_dirs:
            if git_dir is not own and not _is_below(git_dir.root, plan.remove):
                _plan_other(plan, git_dir, commit, links.get(git_dir.root, ""), tracked or [], top)
        plan.remove += found.dangling
        plan.notes += [f"removed {place}: it leads nowhere" for place in found.dangling]
        plan.carry_out(sandbox)
    known = set(tracked or ())
    leftovers = [path for path in found.leftovers if path not in known]
    return History(
        root=top if commit else None,
        commit=commit,
        tracked=None if tracked is None else tuple(_below(tracked, top, sandbox.workdir)),
        leftovers=tuple(_below(leftovers, top, sandbox.workdir)),
        notes=tuple(plan.notes),
    )


def commit_all(sandbox: Sandbox) -> History:
    """Make the workdir, which is no repository, one with a single commit of its files, so that ``git diff``
    works.

    Author and date are fixed. What its own ``.gitignore`` files ignore is not part of the commit.
    """
    top = sandbox.workdir
    with temporary_folder() as folder, Trees.create(folder / "files") as trees:
        with trees.importer() as importer, sandbox.get(top) as pieces:
            importer.add(pieces, strip=os.fsencode(posixpath.basename(top)))
        with sandbox.get(top) as pieces:
            first = next(members(pieces))
            owner = (first.uid, first.gid)
        tree = trees.edit(EMPTY_TREE, importer.entries)
        tree = trees.edit(tree, dict.fromkeys(_ignored(folder, trees.git_dir, tree)))
        identity = {
            f"GIT_{who}_{key}": value for who in ("AUTHOR", "COMMITTER") for key, value in _FIXED.items()
        }
        commit = git(trees.git_dir, "commit-tree", "-m", "snapshot", tree, env=identity).decode().strip()
        new = folder / "new"
        remake(new, [trees.git_dir / "objects"], commit, branch="main")
        plan = _Plan(folder, put=[(new, GitDir(top, new, new, *owner))])
        plan.carry_out(sandbox)
        tracked = tracked_paths(Repository.of(new), commit)
    note = f"{top} was no git repository: one commit was made of its files"
    return History(root=top, commit=commit, tracked=tuple(tracked), notes=(note,))


def check(sandbox: Sandbox) -> None:
    """Prove by counting that nothing but permitted history is left; `EngineError` names what is."""
    with temporary_folder() as folder:
        found = Carrier(sandbox, _made(folder / "old")).find(_root(sandbox) or sandbox.workdir)
        wrong = [f"{place} leads nowhere" for place in found.dangling]
        for git_dir in found.git_dirs:
            if not git_dir.bare:  # those that are left are files that the base commit tracks
                wrong += [f"{git_dir.place}: {problem}" for problem in problems_of(git_dir)]
    if wrong:
        more = f" and {len(wrong) - MOST_SHOWN} more" if len(wrong) > MOST_SHOWN else ""
        raise EngineError("history was not cut: " + "; ".join(wrong[:MOST_SHOWN]) + more)


def _base(old: Repository, base_commit: str | None, notes: list[str]) -> str:
    """The commit to cut to; "" where nothing is checked out and none is asked for."""
    if not base_commit:
        if base_commit is not None and old.head:
            notes.append(f"no base commit is given: {old.head}, which is checked out, is taken for it")
        return old.head
    commit = old.resolve(base_commit)
    if not commit:
        place = old.of_sandbox.root if old.of_sandbox else old.git_dir
        raise DataError(
            f"base commit {base_commit} is not in the image's repository {place} "
            f"(checked out there: {old.head or 'nothing'}). Correct base_commit or the image."
        )
    return commit


@dataclass
class _Plan:
    """What has to happen in the sandbox: gathered first, then done."""

    folder: Path
    remove: list[str] = field(default_factory=list)
    put: list[tuple[Path, GitDir]] = field(default_factory=list)
    checkouts: list[tuple[Path, GitDir, set[bytes]]] = field(
        default_factory=list
    )  # with paths tracked before
    notes: list[str] = field(default_factory=list)

    def renew(self, old: Repository, commit: str) -> list[bytes]:
        """Plan a new git directory and, if another commit is checked out, new files; the paths that are
        tracked.
        """
        git_dir = old.of_sandbox
        assert git_dir is not None
        if old.clean and old.head == commit and is_plain(old.branch):
            return tracked_paths(old, commit) if commit else []
        new = self.folder / f"new-{len(self.put)}"
        complete = remake(
            new,
            old.objects,
            commit,
            branch=old.branch if is_plain(old.branch) else "main",
            tags=tags_on(old, commit) if commit else {},
            settings=old.settings,
            shallow=old.git_dir / "shallow",
            exclude=old.git_dir / "info" / "exclude",
            bare=git_dir.bare,
        )
        if not complete:
            self.notes.append(
                f"{git_dir.place}: objects of earlier commits are missing; history begins at {commit}"
            )
        self.put.append((new, git_dir))
        self.remove += git_dir.stores
        self.notes += [f"removed {store}: it held history of {git_dir.place}" for store in git_dir.stores]
        tracked = tracked_paths(Repository.of(new), commit) if commit else []
        if old.head != commit and not git_dir.bare:
            before = set(tracked_paths(old, old.head)) if old.head else set()
            before |= set(old.git("ls-files", "-z").split(b"\0")[:-1])
            self.checkouts.append((new, git_dir, before))
            self.notes.append(f"{git_dir.root}: {old.head or 'nothing'} was checked out; now it is {commit}")
        return tracked

    def drop_work_trees(self, old: Repository, commit: str) -> None:
        """Linked work trees elsewhere: their files go if they are later than ``commit``, else the pointer
        alone.
        """
        for place, head in old.work_trees.items():
            at = old.resolve(head)
            if at and old.is_ancestor(at, commit):
                self.remove.append(posixpath.join(place, ".git"))
            else:
                self.remove.append(place)
                self.notes.append(
                    f"removed {place}: a linked work tree at {at or head}, later than the base commit"
                )

    def carry_out(self, sandbox: Sandbox) -> None:
        """Replace, remove and check out, in the sandbox."""
        places = [git_dir.place for _, git_dir in self.put]
        _run(sandbox, "rm -rf -- " + " ".join(shlex.quote(place) for place in [*places, *self.remove]))
        for new, git_dir in self.put:
            with tempfile.TemporaryFile(dir=self.folder) as archive:
                _pack(archive, {posixpath.basename(git_dir.place): new}, git_dir)
                sandbox.put(archive, posixpath.dirname(git_dir.place))
        for new, git_dir, before in self.checkouts:
            _check_out(sandbox, self.folder, new, git_dir, before)
        for _, git_dir in self.put:
            if not git_dir.bare:
                _refresh(sandbox, git_dir)


def _plan_other(
    plan: _Plan, git_dir: GitDir, commit: str, linked: str, tracked: Sequence[bytes], top: str
) -> None:
    """A repository below the workdir that is not its own: kept to where it stands, or not at all.

    ``linked`` is the commit that the base commit records for it, where it is a submodule.
    """
    if git_dir.bare:
        within = os.fsencode(posixpath.relpath(git_dir.root, top)) + b"/"
        if any(path.startswith(within) for path in tracked):
            return  # files of the project, such as a repository that its tests use
    old = Repository.read(git_dir)
    target = (old.resolve(linked) if linked else "") or old.head
    if commit and target and old.resolve(commit) and not old.is_ancestor(target, commit):
        plan.remove.append(git_dir.place)
        plan.remove += git_dir.stores
        plan.notes.append(
            f"removed {git_dir.place}: the same project at {target}, later than the base commit"
            + ("" if git_dir.bare else "; the files beside it are still there")
        )
        return
    plan.renew(old, target)


def _is_below(path: str, places: Iterable[str]) -> bool:
    return any(path == place or path.startswith(f"{place}/") for place in places)


def _below(paths: Iterable[bytes], top: str, workdir: str) -> Iterator[bytes]:
    """Those paths of ``top`` that lie in ``workdir``, relative to it."""
    within = b"" if top == workdir else os.fsencode(posixpath.relpath(workdir, top)) + b"/"
    return (path[len(within) :] for path in paths if path.startswith(within))


def _gitlinks(old: Repository, commit: str, top: str) -> dict[str, str]:
    return {
        posixpath.join(top, os.fsdecode(path)): oid.decode() for path, oid in submodules(old, commit).items()
    }


def _ignored(folder: Path, git_dir: Path, tree: str) -> list[bytes]:
    """Files of a tree that its own ``.gitignore`` files ignore."""
    index, work_tree = folder / "ignored-index", _made(folder / "ignored-tree")
    more = {"GIT_INDEX_FILE": str(index), "GIT_WORK_TREE": str(work_tree)}
    git(git_dir, "read-tree", tree, env=more)
    rules = []
    for line in git(git_dir, "ls-files", "-s", "-z", env=more).split(b"\0")[:-1]:
        meta, _, path = line.partition(b"\t")
        if path.rpartition(b"/")[2] == b".gitignore" and not meta.startswith(b"120000"):
            rules.append(path)
    if not rules:
        return []
    git(git_dir, "checkout-index", "-z", "--stdin", stdin=b"\0".join(rules) + b"\0", env=more)
    listed = git(git_dir, "ls-files", "-c", "-i", "--exclude-per-directory=.gitignore", "-z", env=more)
    return listed.split(b"\0")[:-1]


def _root(sandbox: Sandbox) -> str | None:
    """The folder of the repository that the workdir is in: it or the nearest one above it that has a
    ``.git``.
    """
    place = posixpath.normpath(sandbox.workdir)
    while True:
        try:
            with sandbox.get(posixpath.join(place, ".git")):
                return place
        except FileNotFoundError:
            pass
        if place == "/":
            return None
        place = posixpath.dirname(place)


def _run(sandbox: Sandbox, script: str) -> None:
    """Run a few commands as root. A long script (lists of paths) goes in by standard input."""
    short = len(script) < _LONGEST_ARGUMENT
    command = ["/bin/sh", "-e", *(["-c", script] if short else [])]
    stdin = None if short else os.fsencode(script)
    done = sandbox.run(command, stdin=stdin, user="0", cwd="/", timeout=_COMMAND_TIMEOUT)
    if done.exit_code != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise EngineError(f"could not replace git directories in the sandbox ({done.exit_code}): {said}")


def _refresh(sandbox: Sandbox, git_dir: GitDir) -> None:
    """Let the image's git note the files' times in the new index, so that no agent's first ``git status``
    reads all.

    A convenience: an image without git has nobody to whom it matters, and a file that differs is no fault.
    """
    script = (
        "command -v git > /dev/null || exit 0; git -c safe.directory='*' update-index -q --refresh || true"
    )
    sandbox.run(script, cwd=git_dir.root, user=f"{git_dir.uid}:{git_dir.gid}", timeout=_COMMAND_TIMEOUT)


def _check_out(sandbox: Sandbox, folder: Path, new: Path, git_dir: GitDir, before: set[bytes]) -> None:
    """Bring tracked files to the commit that is checked out in ``new``; what differs is written, all else
    stays.
    """
    wanted = _made(folder / f"{new.name}-files")
    index = folder / f"{new.name}-index"
    more = {"GIT_INDEX_FILE": str(index), "GIT_WORK_TREE": str(wanted)}
    git(new, "read-tree", "--reset", "-u", "HEAD", env=more)
    tracked = set(tracked_paths(Repository.of(new), "HEAD"))
    stale = {path for path in tracked if not _is_folder(wanted / os.fsdecode(path))}
    with sandbox.get(git_dir.root) as pieces:
        for member in members(pieces):
            _, _, path = member.name.rstrip(b"/").partition(b"/")
            if path in stale and _same(wanted / os.fsdecode(path), member):
                stale.discard(path)
    quoted = [shlex.quote(f"./{os.fsdecode(path)}") for path in sorted((before - tracked) | stale)]
    folders = sorted({parent for path in before - tracked for parent in parents(path)}, reverse=True)
    script = f"cd {shlex.quote(git_dir.root)}\n"
    script += "".join(f"rm -rf -- {path}\n" for path in quoted)
    script += "".join(f"rmdir -- {shlex.quote(os.fsdecode(path))} 2> /dev/null || true\n" for path in folders)
    _run(sandbox, script)
    with tempfile.TemporaryFile(dir=folder) as archive:
        _pack(archive, {os.fsdecode(path): wanted / os.fsdecode(path) for path in sorted(stale)}, git_dir)
        sandbox.put(archive, git_dir.root)


def _same(path: Path, member: Member) -> bool:
    if member.kind is Kind.SYMLINK:
        return path.is_symlink() and os.fsencode(path.readlink()) == member.target
    if member.kind is not Kind.FILE or path.is_symlink() or path.stat().st_size != member.size:
        return False
    if bool(path.stat().st_mode & 0o100) != bool(member.mode & 0o100):
        return False
    with path.open("rb") as handle:
        return all(handle.read(len(piece)) == piece for piece in member.data)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _pack(archive: IO[bytes], files: Mapping[str, Path], owner: GitDir) -> None:
    """Write files and folders as a tar that belongs to the owner of the old git directory."""

    def belong(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid, member.gid, member.uname, member.gname = owner.uid, owner.gid, "", ""
        member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
        return member

    with tarfile.open(
        fileobj=archive, mode="w", format=tarfile.PAX_FORMAT, encoding="utf-8", errors="surrogateescape"
    ) as tar:
        for name, path in files.items():
            tar.add(path, name, filter=belong)
    archive.seek(0)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
