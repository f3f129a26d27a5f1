"""Where a repository's history lies, and reading it there: a local one as it is, a remote one from a bare copy.

Nothing is checked out and nothing in the repository is run. Whoever needs a git directory for ``owner/name``
asks `git_directory`.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

from beyondswe.errors import DataError, UsageError
from beyondswe.resources import cache_dir
from beyondswe.sandbox import hostgit
from beyondswe.sandbox.locks import exclusive

_BRANCHES = ("main", "master", "develop", "trunk", "devel", "dev")
"""Default branches to try where HEAD names one that is not there, as in mirrors that were made by hand."""


@dataclass(frozen=True)
class Commit:
    """One commit as its history tells it; times are in UTC."""

    oid: str
    parents: tuple[str, ...]
    tree: str
    author: str
    authored: datetime
    committed: datetime
    message: str


def expand(template: str, repo: str) -> str:
    """The URL that a template such as ``https://host/{owner}/{name}.git`` gives for ``owner/name``."""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repo):
        raise UsageError(f"--repo {repo}: not the name of a repository; write OWNER/NAME")
    owner, _, name = repo.partition("/")
    values = {"owner": owner, "name": name, "repo": repo}
    unknown = sorted(set(re.findall(r"\{(\w*)\}", template)) - set(values))
    if unknown:
        raise UsageError(
            f"--repo-url {template}: there is no {{{unknown[0]}}}; a template may have {{owner}}, {{name}}, {{repo}}"
        )
    return re.sub(r"\{(\w+)\}", lambda match: values[match[1]], template)


def git_directory(
    template: str, repo: str, on_step: Callable[[str], None] = lambda _: None
) -> tuple[Path, str]:
    """The git directory of a repository, whole history, and its URL. Local ones are read where they lie; remote
    ones (http, https) are copied into the cache and brought up to date.

    `DataError` if there is none, it is empty, or it is a shallow clone.
    """
    url = expand(template, repo)
    scheme = urlsplit(url).scheme if "://" in url else ""
    if scheme in ("", "file"):
        found = _local(Path(unquote(urlsplit(url).path)) if scheme else Path(url), repo)
    elif scheme in ("http", "https"):
        found = _copied(url, repo, on_step)
    else:
        raise UsageError(f"--repo-url {template}: a repository is read from a folder, file, http or https")
    if (found / "shallow").exists():
        raise DataError(
            f"{url}: this is a shallow clone of {repo}, most of its history is not there; complete it with"
            " `git fetch --unshallow`, or name a full one"
        )
    return found, url


def _local(path: Path, repo: str) -> Path:
    for candidate in (path, path / ".git", path.with_name(path.name + ".git")):
        if candidate.is_file():  # a work tree or submodule whose git directory lies elsewhere
            text = candidate.read_text(encoding="utf-8", errors="replace")
            if text.startswith("gitdir:"):
                candidate = (candidate.parent / text.removeprefix("gitdir:").strip()).resolve()
        common = candidate / "commondir"
        if common.is_file():  # a linked work tree: objects and branches are the main one's
            candidate = (candidate / common.read_text().strip()).resolve()
        if (candidate / "HEAD").is_file() and (candidate / "objects").is_dir():
            return candidate
    raise DataError(f"{path}: there is no git repository of {repo}; --repo-url says where it lies")


def _copied(url: str, repo: str, on_step: Callable[[str], None]) -> Path:
    key = hashlib.sha256(url.encode()).hexdigest()[:12]
    folder = cache_dir("repositories") / f"{repo.replace('/', '+')}-{key}"
    with exclusive(f"repository {url}"):
        if not (folder / "HEAD").is_file():
            _git(None, "init", "--quiet", "--bare", "--template=", str(folder))
        on_step(f"{repo}: fetching its history from {url}")
        web = over_web(url)
        head = _git(folder, *web, "ls-remote", "--symref", url, "HEAD").decode()
        _git(folder, *web, "fetch", "--quiet", "--prune", "--no-tags", url, "+refs/heads/*:refs/heads/*")
        match = re.search(r"^ref: (refs/heads/\S+)\tHEAD$", head, re.MULTILINE)
        if match:
            _git(folder, "symbolic-ref", "HEAD", match[1])
    return folder


class History:
    """The commits of one branch, and what trees hold."""

    def __init__(self, git_dir: Path, repo: str, branch: str = "") -> None:
        self.git_dir, self.repo = git_dir, repo
        if self.git("rev-parse", "--show-object-format").strip() != b"sha1":
            raise DataError(
                f"{repo}: its git names objects by another hash than SHA-1, which cannot be read yet"
            )
        self.branch, self.tip = self._branch(branch)

    def git(self, *arguments: str) -> bytes:
        """Standard output of one git command; `DataError` with git's words."""
        return _git(self.git_dir, *arguments)

    def _branch(self, asked: str) -> tuple[str, str]:
        heads = dict(
            line.split(" ", 1)
            for line in self.git("for-each-ref", "--format=%(refname) %(objectname)", "refs/heads/")
            .decode()
            .splitlines()
        )
        if asked:
            oid = heads.get(f"refs/heads/{asked}")
            if oid is None:
                there = ", ".join(sorted(name.removeprefix("refs/heads/") for name in heads)[:20]) or "none"
                raise UsageError(f"--branch {asked}: {self.repo} has no such branch; there are: {there}")
            return asked, oid
        head = (self.git_dir / "HEAD").read_text().strip()
        if not head.startswith("ref: "):
            return "", self.git("rev-parse", "HEAD").decode().strip()
        names = [head.removeprefix("ref: "), *(f"refs/heads/{name}" for name in _BRANCHES)]
        names += list(heads) if len(heads) == 1 else []
        for name in names:
            if name in heads:
                return name.removeprefix("refs/heads/"), heads[name]
        if heads:
            raise UsageError(
                f"{self.repo}: its HEAD names {names[0]}, which is not there; name a branch with --branch"
                f" ({', '.join(sorted(name.removeprefix('refs/heads/') for name in heads)[:20])})"
            )
        raise DataError(
            f"{self.git_dir}: the repository {self.repo} is empty; it has no commit on any branch"
        )

    def commits(self) -> Iterator[Commit]:
        """All commits of the branch, newest first."""
        yield from self._log(self.tip)

    def commits_between(self, known: str, head: str) -> Iterator[Commit]:
        """The commits of ``head`` that ``known`` does not have, newest first."""
        yield from self._log(f"{known}..{head}")

    def _log(self, what: str) -> Iterator[Commit]:
        form = "%x1f".join(("%H", "%P", "%T", "%an", "%at", "%ct", "%B"))
        listing = self.git("log", "-z", "--topo-order", "--encoding=UTF-8", f"--format={form}", what)
        for record in listing.decode("utf-8", "replace").split("\0"):
            if record.strip():
                oid, parents, tree, author, authored, committed, message = record.split("\x1f", 6)
                yield Commit(
                    oid.strip(),
                    tuple(parents.split()),
                    tree,
                    author,
                    _time(authored),
                    _time(committed),
                    message,
                )

    def main_line(self) -> list[str]:
        """The commits that were the branch's tip, newest first: each the first parent of the one before it."""
        return self.git("rev-list", "--first-parent", self.tip).decode().split()

    def files(self, tree: str) -> dict[str, int]:
        """Path → bytes of the files of a tree, without links to other repositories."""
        sizes = {}
        for line in self.git("ls-tree", "-r", "-z", "-l", "--full-tree", tree).split(b"\0")[:-1]:
            meta, _, path = line.partition(b"\t")
            if meta.split()[3] != b"-":
                sizes[path.decode("utf-8", "surrogateescape")] = int(meta.split()[3])
        return sizes

    def read(self, commit: str, path: str) -> str | None:
        """A file's text at a commit; None where it is not there."""
        try:
            return self.git("cat-file", "blob", f"{commit}:{path}").decode("utf-8", "replace")
        except DataError:
            return None


def _time(seconds: str) -> datetime:
    try:
        return datetime.fromtimestamp(int(seconds or 0), UTC)
    except (OverflowError, ValueError, OSError):
        return datetime.fromtimestamp(0, UTC)


_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_NETWORK = (*_PROXIES, *map(str.upper, _PROXIES), "GIT_SSL_CAINFO", "SSL_CERT_FILE")
"""What this machine needs to reach the web; nothing else of the caller's environment gets to git."""


def over_web(url: str) -> tuple[str, ...]:
    """Options with which git may ask ``url``, and gives up a server that says nothing for two minutes."""
    settings = {
        f"protocol.{urlsplit(url).scheme}.allow": "always",
        "http.lowSpeedLimit": 1,
        "http.lowSpeedTime": 120,
    }
    return tuple(word for key, value in settings.items() for word in ("-c", f"{key}={value}"))


def network_environment() -> dict[str, str]:
    """What git gets of the caller's environment to reach the web."""
    return {name: os.environ[name] for name in _NETWORK if name in os.environ}


def _git(git_dir: Path | None, *arguments: str) -> bytes:
    where = {**network_environment(), **({"GIT_DIR": str(git_dir)} if git_dir else {})}
    ended = subprocess.run(
        hostgit.command(*arguments),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=hostgit.environment(**where),
        check=False,
    )
    if ended.returncode:
        shown = next((word for word in arguments if not word.startswith("-") and "=" not in word), "")
        raise DataError(f"{git_dir}: git {shown} failed: {hostgit.words(ended.stderr)}")
    return ended.stdout
