"""Candidates out of source releases: pairs of them for DepMigrate, single ones for Doc2Repo.

What changed from one release to the next is parted as a pull request's difference is. Base trees are also written as
git repositories, one branch a release, so that `build` finds their commits as it finds any other's.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from beyondswe.construction import commits
from beyondswe.construction.collect import lists
from beyondswe.construction.collect.candidates import Row, candidate_id, review
from beyondswe.construction.collect.filters import YES, Answer, Filter, Funnel
from beyondswe.construction.collect.index import Index, Source
from beyondswe.construction.collect.names import Names, find_names
from beyondswe.construction.collect.rows import Found, issue_row
from beyondswe.construction.collect.split import Split, is_test
from beyondswe.construction.collect.text import added_requirements, words_of
from beyondswe.construction.recipes import File, Files
from beyondswe.construction.releases import GENERATED, unpack
from beyondswe.errors import DataError
from beyondswe.instances.model import Family
from beyondswe.sandbox import hostgit
from beyondswe.sandbox.scratch import temporary_folder

_NOTES = re.compile(
    r"(^|/)(changes|changelog|history|news|releases?|release[-_]notes|whats_?new)(\.\w+)?$", re.IGNORECASE
)
_REQUIRED = re.compile(r"^Requires-Dist: (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Asked:
    """What is wanted of an index. ``repositories``: where git repositories of base trees go."""

    packages: tuple[str, ...]
    family: Family
    repositories: Path
    since: date | None = None
    until: date | None = None
    limit: int | None = None


class Release:
    """One source release with its tree, read when it is asked for."""

    def __init__(self, index: Index, source: Source) -> None:
        self._index, self.source = index, source

    @property
    def version(self) -> str:
        return str(self.source.version)

    @cached_property
    def _archive(self) -> tuple[Path, str]:
        return self._index.archive(self.source)

    @property
    def sha256(self) -> str:
        return self._archive[1]

    @cached_property
    def whole(self) -> Files:
        return unpack(self._archive[0])

    @cached_property
    def files(self) -> Files:
        """The tree without what building an archive leaves in it."""
        return {
            path: file
            for path, file in self.whole.items()
            if not any(fnmatch.fnmatchcase(path, glob) for glob in GENERATED)
        }

    @cached_property
    def day(self) -> date:
        """When it came out: as the index says, else the day of the newest file in it."""
        if self.source.uploaded is not None:
            return self.source.uploaded.astimezone(UTC).date()
        return _newest(self._archive[0])

    def text(self, path: str) -> str:
        return self.files[path].data.decode("utf-8", "replace") if path in self.files else ""

    @property
    def requirements(self) -> set[str]:
        """Requires-Dist of its metadata."""
        head = self.whole["PKG-INFO"].data.decode("utf-8", "replace") if "PKG-INFO" in self.whole else ""
        found = set(_REQUIRED.findall(head.partition("\n\n")[0]))
        for path, file in self.whole.items():
            if path.endswith(".egg-info/requires.txt"):
                found |= {
                    line.strip() for line in file.data.decode("utf-8", "replace").splitlines() if line.strip()
                }
        return found


@dataclass
class Pair:
    """Two releases, one after the other."""

    old: Release
    new: Release

    @property
    def who(self) -> str:
        return f"{self.new.source.package} {self.old.version} → {self.new.version}"

    @cached_property
    def readable(self) -> Answer:
        try:
            return YES if self.old.files and self.new.files else Answer(False, "an empty archive")
        except DataError as error:
            return Answer(False, re.sub(r"^\S+: ", "", str(error)))

    @cached_property
    def parts(self) -> Split:
        old, new = self.old.files, self.new.files
        changed = sorted(path for path in {*old, *new} if _differs(old.get(path), new.get(path)))
        tests = tuple(path for path in changed if is_test(path))
        # Notes tell of the newer release, and no environment has them.
        source = tuple(path for path in changed if path not in tests and not _NOTES.search(path))
        patch = commits.difference(old, _with(old, new, source))
        hidden = commits.difference(old, _with(old, new, tests))
        return Split(patch, hidden, source, tests, (), "\nGIT binary patch\n" in patch + hidden)

    @cached_property
    def notes(self) -> str:
        """What the release notes say that the older release's do not."""
        told = []
        for path in self.new.files:
            if _NOTES.search(path) and path.count("/") <= 1:
                before = {line.strip() for line in self.old.text(path).splitlines()}
                told += [line for line in self.new.text(path).splitlines() if line.strip() not in before]
        return "\n".join(told).strip()

    @cached_property
    def upgrades(self) -> tuple[lists.Mention, ...]:
        added = "\n".join(sorted(self.new.requirements - self.old.requirements))
        return tuple(
            dict.fromkeys(
                [
                    *lists.mentions(self.notes, "release notes"),
                    *lists.mentions(added, "metadata"),
                    *lists.mentions(added_requirements(self.parts.patch), "requirements"),
                ]
            )
        )


def collect(index: Index, asked: Asked, funnel: Funnel) -> Iterator[Row]:
    """The candidates of some packages, newest release first."""
    for package in asked.packages:
        releases = [Release(index, source) for source in index.sources(package)]
        if asked.family is Family.DOC2REPO:
            yield from _single(releases, asked, funnel)
            continue
        checks = _filters(asked)
        for old, new in reversed(list(pairwise(releases))):
            if asked.limit is not None and funnel.stayed >= asked.limit:
                return
            pair = Pair(old, new)
            funnel.enter()
            reasons = funnel.ask(checks, pair, pair.who)
            if reasons is not None:
                funnel.stay()
                yield _row(pair, asked, reasons)


def _filters(asked: Asked) -> tuple[Filter[Pair], ...]:
    return (
        Filter("date", lambda pair: _in_time(pair.new, asked)),
        Filter("readable archives", lambda pair: pair.readable),
        Filter(
            "watched package with version",
            lambda pair: (
                YES if pair.upgrades else Answer(False, "no watched package together with a version")
            ),
        ),
        Filter("touches source", lambda pair: pair.parts.asked_for_source()),
        Filter("touches tests", lambda pair: pair.parts.asked_for_tests()),
        Filter(
            "changes Python",
            lambda pair: (
                YES if pair.parts.touches_python else Answer(False, "no Python outside the tests is changed")
            ),
        ),
    )


def _in_time(release: Release, asked: Asked) -> Answer:
    if release.source.uploaded is None and (asked.since or asked.until):
        return Answer(False, "the index does not say when it came out")
    if asked.since and release.day < asked.since:
        return Answer(False, f"before {asked.since}")
    return Answer(False, f"after {asked.until}") if asked.until and release.day > asked.until else YES


def _row(pair: Pair, asked: Asked, reasons: list[str]) -> Row:
    names, repo = _names(pair.new)
    upgrades = pair.upgrades
    packages = ", ".join(dict.fromkeys(f"{upgrade.package} {upgrade.version}" for upgrade in upgrades))
    title = f"Work with {packages}"
    statement = f"{title}\n\n{pair.notes}".strip()
    base = _kept(pair.old, repo, asked.repositories)
    found = Found(
        repo=repo,
        family=asked.family,
        pull=0,
        pulls=(),
        title=title,
        statement=statement,
        base_commit=base,
        merge_commit="",
        commits=(),
        parts=pair.parts,
        names=names,
        day=pair.new.day.isoformat(),
        dates={"old": pair.old.day.isoformat(), "new": pair.new.day.isoformat()},
        links=(),
        upgrades=upgrades,
        domain="",
        known_words=words_of(pair.old.text(path) for path in pair.parts.source_paths),
        source=_source([pair.old, pair.new]),
    )
    row = issue_row(found, [*reasons, "problem statement: the release notes, not read by a person yet"])
    for name in ("pr", "pulls", "merge_commit"):
        del row[name]
    return {**row, "instance_id": candidate_id(repo, f"v{pair.new.version}")}


def _single(releases: list[Release], asked: Asked, funnel: Funnel) -> Iterator[Row]:
    """The newest release of a package (until a day), as a whole."""
    funnel.enter()
    in_time = [release for release in releases if _in_time(release, asked).verdict]
    who = releases[0].source.package if releases else "?"
    if not in_time:
        funnel.note("date", who, Answer(False, "no source release of that time"))
        return
    release = in_time[-1]
    names, repo = _names(release)
    tests = [path for path in release.files if is_test(path) and path.endswith(".py")]
    checks = (
        Filter[None](
            "has tests", lambda _: YES if tests else Answer(False, "the source release has no tests")
        ),
        Filter[None](
            "one package",
            lambda _: (
                YES if len(names.modules) == 1 else Answer(False, f"{len(names.modules)} packages at its top")
            ),
        ),
    )
    if funnel.ask(checks, None, who) is None:
        return
    funnel.stay()
    yield {
        "instance_id": candidate_id(repo, f"v{release.version}"),
        "task": str(asked.family),
        "repo": repo,
        "base_commit": _kept(release, repo, asked.repositories),
        "workdir": "/workspace",
        "language": "python",
        "distributions": list(names.distributions),
        "aliases": list(names.aliases),
        "docs_hosts": list(names.docs_hosts),
        "modules": list(names.modules),
        "index_date": release.day.isoformat(),
        "title": f"{release.source.package} from its specification",
        "test_paths": tests,
        "review": review(["specification: made by `build`, to be read by a person"]),
        "source": _source([release]),
    }


def _source(releases: list[Release]) -> Row:
    facts = [{"version": release.version, "sha256": release.sha256} for release in releases]
    named = {"old": facts[0], "new": facts[1]} if len(facts) == 2 else {"new": facts[0]}
    return {"kind": "releases", "package": releases[0].source.package, **named}


def _names(release: Release) -> tuple[Names, str]:
    """What a release is called, and its ``owner/name`` where its metadata names a repository."""
    sizes = {**dict.fromkeys(release.files, 0), **({"PKG-INFO": 0} if "PKG-INFO" in release.whole else {})}
    read = {path: file.data.decode("utf-8", "replace") for path, file in release.whole.items()}
    package = release.source.package
    names = find_names(f"releases/{package}", sizes, read.get)
    tail = re.sub(r"[-_.]+", "-", package).lower()
    repo = next(
        (name for name in names.aliases if re.sub(r"[-_.]+", "-", name.partition("/")[2]).lower() == tail),
        names.aliases[0] if len(names.aliases) == 1 else f"releases/{package}",
    )
    others = tuple(name for name in names.aliases if name != repo)
    return Names(names.distributions or (package,), names.modules, others, names.docs_hosts), repo


def _kept(release: Release, repo: str, folder: Path) -> str:
    """The release's tree as the one commit of a branch of ``folder/owner+name.git``; gives the commit's id."""
    git_dir = folder / f"{repo.replace('/', '+')}.git"
    with temporary_folder() as scratch:
        commit = commits.make_repository(release.files, release.day, scratch / "tree")
        if not git_dir.is_dir():
            _git(
                "init",
                "--quiet",
                "--bare",
                "--template=",
                f"--initial-branch=v{release.version}",
                str(git_dir),
            )
        source = str(scratch / "tree" / ".git")
        _git(
            f"--git-dir={git_dir}", "-c", "protocol.file.allow=always", "fetch", "--quiet", "--no-tags", source,
            f"+refs/heads/{commits.BRANCH}:refs/heads/v{release.version}",
        )  # fmt: skip
    return commit


def _git(*arguments: str) -> None:
    import subprocess

    ended = subprocess.run(
        hostgit.command(*arguments), env=hostgit.environment(), capture_output=True, check=False
    )
    if ended.returncode:
        raise DataError(f"git could not keep a release's tree: {hostgit.words(ended.stderr)}")


def _differs(old: File | None, new: File | None) -> bool:
    return (old.data if old else None) != (new.data if new else None)


def _with(old: Files, new: Files, paths: tuple[str, ...]) -> Files:
    """``old`` with some paths as they are in ``new``; a file that both have keeps its mode."""
    files = {path: file for path, file in old.items() if path not in paths}
    for path in paths:
        if path in new:
            before, after = old.get(path), new[path]
            keeps = before is not None and "120000" not in (before.mode, after.mode)
            files[path] = File(after.data, before.mode if before is not None and keeps else after.mode)
    return files


def _newest(archive: Path) -> date:
    import tarfile
    import zipfile

    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            return max(date(*entry.date_time[:3]) for entry in zipped.infolist())
    with tarfile.open(archive) as tar:
        return datetime.fromtimestamp(max(member.mtime for member in tar), UTC).date()
