"""One commit out of a repository's history: its day, its tree as files, and a bundle of it and what led to it.

Deliberate: what goes into an image is made anew from the base commit alone (`sandbox.repository.remake`), so
that nothing later than it can be in the image, whatever the mirror holds.
"""

from __future__ import annotations

import io
import subprocess
import tarfile
from datetime import UTC, date, datetime
from pathlib import Path

from beyondswe.construction.collect.repository import git_directory, network_environment, over_web
from beyondswe.errors import DataError
from beyondswe.resources import cache_dir
from beyondswe.sandbox import hostgit
from beyondswe.sandbox.hostgit import GitError
from beyondswe.sandbox.locks import exclusive
from beyondswe.sandbox.repository import Repository, git, remake, tags_on

DEFAULT_URL = "https://github.com/{repo}.git"
BRANCH = "main"


class History:
    """A git directory that has a commit."""

    def __init__(self, git_dir: Path) -> None:
        self.git_dir = git_dir

    @classmethod
    def of(cls, template: str, repo: str, commit: str) -> History:
        """The history of ``owner/name``; `DataError` where it cannot be had or has no such commit."""
        git_dir, url = git_directory(template, repo)
        history = cls(git_dir)
        if git_dir.is_relative_to(cache_dir("repositories")):
            with exclusive(f"repository {url}"):
                history._fetch(url, "+refs/tags/*:refs/tags/*")
                if not history.has(commit):
                    history._fetch(url, commit)  # of a branch that is gone
        if not history.has(commit):
            raise DataError(f"{url} has no commit {commit}; is --repo-url right, and the mirror whole?")
        return history

    def has(self, commit: str) -> bool:
        try:
            git(self.git_dir, "cat-file", "-e", f"{commit}^{{commit}}")
        except GitError:
            return False
        return True

    def full_id(self, commit: str) -> str:
        return git(self.git_dir, "rev-parse", f"{commit}^{{commit}}").decode().strip()

    def seconds(self, commit: str) -> int:
        """When a commit was made (its committer's date), as a Unix time."""
        return int(git(self.git_dir, "show", "-s", "--format=%ct", commit).split()[0])

    def day(self, commit: str) -> date:
        """The same as a day, UTC."""
        return datetime.fromtimestamp(self.seconds(commit), UTC).date()

    def checkout(self, commit: str, folder: Path) -> None:
        """The tree of a commit as plain files, without ``.git``."""
        archive = git(self.git_dir, "archive", "--format=tar", commit)
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(folder, filter="tar")

    def bundle(self, commit: str, scratch: Path) -> bytes:
        """A bundle with ``commit``, its history and the tags on it, and nothing else."""
        made, path = scratch / "history", scratch / "repository.bundle"
        tags = tags_on(Repository.of(self.git_dir), commit)
        remake(made, [self.git_dir / "objects"], commit, branch=BRANCH, tags=tags, bare=True)
        names = (f"refs/heads/{BRANCH}", *tags)
        git(made, "-c", "pack.threads=1", "bundle", "create", "--quiet", str(path), *names)
        return path.read_bytes()

    def _fetch(self, url: str, what: str) -> None:
        options = (*over_web(url), "fetch", "--quiet", "--no-tags", "--force")
        done = subprocess.run(
            hostgit.command(*options, url, what),
            cwd=self.git_dir,
            env=hostgit.environment(**network_environment(), GIT_DIR=str(self.git_dir)),
            capture_output=True,
            check=False,
        )
        if done.returncode and what.startswith("+"):
            raise DataError(f"{url}: its tags cannot be fetched: {hostgit.words(done.stderr)}")


def patched(folder: Path, patch: str) -> str:
    """Apply a patch to plain files; "" or why it does not apply."""
    if not patch.strip():
        return ""
    done = subprocess.run(
        hostgit.command("apply", "--whitespace=nowarn", "-"),
        cwd=folder,
        env=hostgit.environment(GIT_CEILING_DIRECTORIES=str(folder.parent)),
        input=(patch if patch.endswith("\n") else f"{patch}\n").encode(),
        capture_output=True,
        check=False,
    )
    return "" if done.returncode == 0 else hostgit.words(done.stderr)
