"""Reads a copy of a git directory, makes a new one out of it, and proves what one holds; all with the
host's git.

A copy may be anybody's: before git is asked anything its configuration is replaced, and its hooks,
attributes and pointers to other places are taken out. Of the old configuration a few settings are kept that
describe the work tree.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from beyondswe.errors import DataError, EngineError
from beyondswe.sandbox import hostgit
from beyondswe.sandbox.gitdirs import GitDir
from beyondswe.sandbox.hostgit import GitError

SETTINGS = (
    "core.autocrlf",
    "core.bare",
    "core.eol",
    "core.filemode",
    "core.ignorecase",
    "core.logallrefupdates",
    "core.precomposeunicode",
    "core.repositoryformatversion",
    "core.safecrlf",
    "core.symlinks",
    "extensions.objectformat",
    "user.email",
    "user.name",
)
"""What may stand in the configuration of a repository: it describes the work tree, or who commits."""

_FILES = re.compile(
    rb"HEAD|config|index|packed-refs|shallow|info/exclude"
    rb"|objects/pack/pack-[0-9a-f]{40,64}\.(pack|idx|rev)|objects/[0-9a-f]{2}/[0-9a-f]{38,62}"
    rb"|refs/heads/.+|refs/tags/.+"
)
"""The only files that a git directory may hold."""

_PLAIN_BRANCH = re.compile(
    r"main|master|trunk|dev|devel|develop|default|stable|v?\d+([._-](\d+|x))*|(release|stable|maint)[/-]v?[\d.x]+"
)
"""Names of branches that say nothing about a fix; any other is called main."""

MOST_SHOWN = 20
_LONGEST_PATTERN = 256


@dataclass
class Repository:
    """A copy of a git directory, made safe to ask: none of its settings, hooks or pointers is in force."""

    git_dir: Path
    of_sandbox: GitDir | None
    branch: str = ""
    head: str = ""  # the commit that is checked out, or "" where there is none
    settings: dict[str, str] = field(default_factory=dict)
    objects: list[Path] = field(default_factory=list)
    clean: bool = False  # there is nothing to cut
    work_trees: dict[str, str] = field(
        default_factory=dict
    )  # linked work trees: folder in the sandbox → HEAD

    @classmethod
    def read(cls, git_dir: GitDir) -> Repository:
        """Disarm the copy for good."""
        common = git_dir.common
        clean = not git_dir.bare and not problems_of(git_dir)
        settings = {key: value for key, value in _settings(common / "config").items() if key in SETTINGS}
        work_trees = {}
        for linked in sorted((common / "worktrees").glob("*/gitdir")):
            if linked.parent != git_dir.head:
                place = posixpath.dirname(os.fsdecode(linked.read_bytes().strip()))
                work_trees[place] = (linked.parent / "HEAD").read_text(errors="replace").strip()
        if git_dir.head != common:
            shutil.copy(git_dir.head / "HEAD", common / "HEAD")
            (common / "index").unlink(missing_ok=True)
            if (git_dir.head / "index").is_file():
                shutil.copy(git_dir.head / "index", common / "index")
        objects = [common / "objects", *git_dir.alternates]
        shutil.rmtree(common / "hooks", ignore_errors=True)
        for name in ("commondir", "gitdir", "info/grafts", "info/attributes"):
            (common / name).unlink(missing_ok=True)
        for store in objects:
            for name in ("alternates", "http-alternates", "commit-graph"):
                (store / "info" / name).unlink(missing_ok=True)
            shutil.rmtree(store / "info" / "commit-graphs", ignore_errors=True)
            (store / "pack").mkdir(parents=True, exist_ok=True)
        (common / "refs").mkdir(exist_ok=True)
        _write_config(common, settings)
        old = cls.of(common, git_dir)
        old.settings, old.objects, old.clean, old.work_trees = settings, objects, clean, work_trees
        old.head = old.resolve("HEAD")
        return old

    @classmethod
    def of(cls, directory: Path, git_dir: GitDir | None = None) -> Repository:
        """A directory that is safe already."""
        old = cls(directory, git_dir, objects=[directory / "objects"])
        text = (directory / "HEAD").read_bytes().decode(errors="replace").strip()
        if text.startswith("ref:"):
            old.branch = text.removeprefix("ref:").strip().removeprefix("refs/heads/")
        old.head = old.resolve("HEAD")
        return old

    def git(self, *arguments: str | bytes, stdin: bytes = b"") -> bytes:
        borrowed = ":".join(str(path) for path in self.objects[1:])
        return git(self.git_dir, *arguments, stdin=stdin, env={"GIT_ALTERNATE_OBJECT_DIRECTORIES": borrowed})

    def resolve(self, name: str) -> str:
        """The commit that a name stands for, or ""."""
        name = name.removeprefix("ref:").strip()
        try:
            return (
                self.git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
                .decode()
                .strip()
            )
        except GitError:
            return ""

    def is_ancestor(self, commit: str, of: str) -> bool:
        """Whether a commit is another one or comes before it."""
        try:
            self.git("merge-base", "--is-ancestor", commit, of)
        except GitError:
            return False
        return True


def remake(
    new: Path,
    objects: Sequence[Path],
    commit: str,
    *,
    branch: str,
    tags: Mapping[str, bytes] | None = None,
    settings: Mapping[str, str] | None = None,
    shallow: Path | None = None,
    exclude: Path | None = None,
    bare: bool = False,
) -> bool:
    """A new git directory with ``commit`` (or without any), its history and ``tags``, read out of
    ``objects``.

    False if objects of earlier commits are missing there (a partial clone): then ``commit`` has no ancestors.
    """
    for name in ("objects/pack", "objects/info", "refs/heads", "refs/tags", "info"):
        (new / name).mkdir(parents=True)
    (new / "HEAD").write_text(f"ref: refs/heads/{branch}\n")
    _write_config(new, {**(settings or {}), "core.bare": "true" if bare else "false"})
    if exclude is not None and exclude.is_file():
        kept = [
            line for line in exclude.read_bytes().splitlines() if line.strip() and not line.startswith(b"#")
        ]
        (new / "info" / "exclude").write_bytes(b"".join(line[:_LONGEST_PATTERN] + b"\n" for line in kept))
    if not commit:
        return True
    borrowed = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": ":".join(str(path) for path in objects)}
    tags = dict(tags or {})
    complete = True
    if shallow is not None and shallow.is_file():
        shutil.copy(shallow, new / "shallow")
    try:
        _pack_objects(new, [commit.encode(), *tags.values()], borrowed)
    except GitError:
        complete = False
        for begun in (new / "objects" / "pack").iterdir():
            begun.unlink()
        (new / "shallow").write_text(f"{commit}\n")
        peeled = {
            name: git(new, "rev-parse", f"{oid.decode()}^{{}}", env=borrowed) for name, oid in tags.items()
        }
        tags = {name: oid for name, oid in tags.items() if peeled[name].strip() == commit.encode()}
        try:
            _pack_objects(new, [commit.encode(), *tags.values()], borrowed)
        except GitError as error:
            raise DataError(
                f"the image's repository does not hold all of commit {commit}: {error}"
            ) from error
    if (new / "shallow").is_file():
        known = set(git(new, "rev-list", commit).split())
        edge = [line for line in (new / "shallow").read_bytes().split() if line in known]
        (new / "shallow").write_bytes(b"".join(line + b"\n" for line in edge))
        if not edge:
            (new / "shallow").unlink()
    head = new / "refs" / "heads" / branch
    head.parent.mkdir(parents=True, exist_ok=True)
    head.write_text(f"{commit}\n")
    if tags:
        lines = sorted((os.fsencode(name), oid) for name, oid in tags.items())
        (new / "packed-refs").write_bytes(b"".join(b"%b %b\n" % (oid, name) for name, oid in lines))
    if not bare:
        git(new, "read-tree", commit)
    wrong = problems(new)
    if wrong:
        raise EngineError(f"the new git directory is not what it must be: {'; '.join(wrong[:MOST_SHOWN])}")
    return complete


def problems(git_dir: Path) -> list[str]:
    """What a git directory holds beyond the history of the commit that is checked out and the tags on it.

    Looks at every file and every object. The directory may be anybody's: git is only run on it once its
    files and its configuration are known to be harmless.
    """
    paths = set(_files(git_dir))
    wrong = [f"file {os.fsdecode(path)}" for path in sorted(paths) if not _FILES.fullmatch(path)]
    for path in sorted(paths):
        stem = path.rpartition(b".")[0]
        if path.startswith(b"objects/pack/") and not {stem + b".pack", stem + b".idx"} <= paths:
            wrong.append(f"file {os.fsdecode(path)} is half a pack")
    wrong += [f"setting {key}" for key in _settings(git_dir / "config") if key not in SETTINGS]
    if b"HEAD" not in paths or b"config" not in paths:
        wrong.append("it is not complete")
    if wrong:
        return wrong
    old = Repository.of(git_dir)
    refs = _refs(old)
    tags = tags_on(old, old.head) if old.head else {}
    own = f"refs/heads/{old.branch}"
    wrong += [f"ref {name}" for name in refs if name not in tags and not (old.head and name == own)]
    reachable = _reachable(old, [old.head, *tags.values()]) if old.head else set()
    listing = old.git("cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objectname)")
    present = set(listing.split())
    wrong += [
        f"object {oid.decode()} is reachable from nothing that may stay"
        for oid in sorted(present - reachable)
    ]
    wrong += [f"object {oid.decode()} is missing" for oid in sorted(reachable - present)]
    if b"index" in paths:
        known = present | set(submodules(old, old.head).values())
        for line in old.git("ls-files", "-s", "-z").split(b"\0")[:-1]:
            if line.split(b" ")[1] not in known:
                wrong.append(f"index entry {os.fsdecode(line)!r}")
    return wrong


def problems_of(git_dir: GitDir) -> list[str]:
    wrong = [] if git_dir.is_folder else ["it is a pointer to a place elsewhere"]
    wrong += [f"it borrows objects from {store}" for store in git_dir.stores]
    return wrong or problems(git_dir.common)


def is_plain(branch: str) -> bool:
    return bool(_PLAIN_BRANCH.fullmatch(branch))


def tracked_paths(repository: Repository, commit: str) -> list[bytes]:
    """Paths that a commit tracks; a submodule is one path."""
    return repository.git("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit).split(b"\0")[:-1]


def tags_on(old: Repository, commit: str) -> dict[str, bytes]:
    """Tags on a commit and its ancestors."""
    form = "--format=%(objectname) %(refname)"
    lines = old.git("for-each-ref", form, "--merged", commit, "refs/tags").splitlines()
    return {os.fsdecode(line.split(b" ", 1)[1]): line.split(b" ", 1)[0] for line in lines}


def git(git_dir: Path, *arguments: str | bytes, stdin: bytes = b"", env: Mapping[str, str] = {}) -> bytes:
    """Standard output of the host's git; `GitError` where it fails."""
    done = subprocess.run(
        hostgit.command(*arguments),
        input=stdin,
        capture_output=True,
        env=hostgit.environment(**{"GIT_DIR": str(git_dir), **env}),
        cwd=git_dir,
        check=False,
    )
    if done.returncode != 0:
        shown = " ".join(os.fsdecode(argument) for argument in arguments[:3])
        raise GitError(f"git {shown} … failed on a copy of the repository: {hostgit.words(done.stderr)}")
    return done.stdout


def submodules(old: Repository, commit: str) -> dict[bytes, bytes]:
    """Submodules that a commit records: path → commit."""
    if not commit:
        return {}
    found = {}
    for line in old.git("ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0")[:-1]:
        meta, _, path = line.partition(b"\t")
        if meta.startswith(b"160000 "):
            found[path] = meta.split(b" ")[2]
    return found


def _refs(old: Repository) -> dict[str, bytes]:
    lines = old.git("for-each-ref", "--format=%(objectname) %(refname)").splitlines()
    return {os.fsdecode(line.split(b" ", 1)[1]): line.split(b" ", 1)[0] for line in lines}


def _reachable(old: Repository, tips: Sequence[str | bytes]) -> set[bytes]:
    lines = b"".join((tip if isinstance(tip, bytes) else tip.encode()) + b"\n" for tip in tips)
    return set(old.git("rev-list", "--objects", "--no-object-names", "--stdin", stdin=lines).split())


def _pack_objects(new: Path, tips: Sequence[bytes], borrowed: Mapping[str, str]) -> None:
    git(
        new,
        *(
            "-c",
            "pack.compression=1",
            "-c",
            "pack.writeReverseIndex=false",
            "-c",
            "core.commitGraph=false",
            "-c",
            "core.multiPackIndex=false",
        ),
        # Deltas that are there are kept, new ones not looked for: in a tree of 1 GiB that takes minutes.
        *("pack-objects", "--revs", "--delta-base-offset", "--no-write-bitmap-index", "--window=0", "-q"),
        str(new / "objects" / "pack" / "pack"),
        stdin=b"\n".join(tips) + b"\n",
        env=borrowed,
    )


def _write_config(git_dir: Path, settings: Mapping[str, str]) -> None:
    """The configuration of a git directory of ours, written by git so that values are quoted as they must
    be.
    """
    is_sha256 = settings.get("extensions.objectformat") == "sha256"
    config = git_dir / "config"
    config.unlink(missing_ok=True)
    values = {
        "core.filemode": "true",
        "core.bare": "false",
        "core.logallrefupdates": "true",
        **settings,
        "core.repositoryformatversion": "1" if is_sha256 else "0",
    }
    values.pop("extensions.objectformat", None)
    if is_sha256:
        values["extensions.objectformat"] = "sha256"
    text = ""
    for section in dict.fromkeys(key.partition(".")[0] for key in values):
        text += f"[{section}]\n"
        for key, value in values.items():
            if key.startswith(f"{section}."):
                quoted = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
                text += f'\t{key.partition(".")[2]} = "{quoted}"\n'
    config.write_text(text, encoding="utf-8", errors="surrogateescape")


def _settings(config: Path) -> dict[str, str]:
    """Settings of a configuration file, which is only read: nothing that it includes is. Keys in lower
    case.
    """
    if not config.is_file():
        return {}
    listing = git(
        config.parent,
        "config",
        "--no-includes",
        "--file",
        str(config),
        "--list",
        "-z",
        env={"GIT_DIR": os.devnull},
    )
    items = (item.partition(b"\n") for item in listing.split(b"\0")[:-1])
    return {os.fsdecode(key): os.fsdecode(value) if newline else "true" for key, newline, value in items}


def _files(folder: Path) -> Iterator[bytes]:
    """All files below a folder, relative to it, as bytes."""
    for base, _, names in os.walk(os.fsencode(folder)):
        within = os.path.relpath(base, os.fsencode(folder))
        for name in names:
            yield name if within == b"." else within + b"/" + name
