"""Candidates out of a git history: pull requests that its commits name, or (Doc2Repo) the repository itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from functools import cached_property

from beyondswe.construction.collect import filters, lists
from beyondswe.construction.collect.candidates import Row
from beyondswe.construction.collect.changes import Landed, landed
from beyondswe.construction.collect.filters import YES, Answer, Filter, Funnel
from beyondswe.construction.collect.links import outside
from beyondswe.construction.collect.names import Names, find_names
from beyondswe.construction.collect.pulls import statement
from beyondswe.construction.collect.repository import History, git_directory
from beyondswe.construction.collect.rows import Found, issue_row
from beyondswe.construction.collect.split import Split, TooMuch, split
from beyondswe.construction.collect.text import added_requirements, words_of
from beyondswe.errors import UsageError
from beyondswe.instances.model import Family
from beyondswe.sandbox.hostgit import GitError

LEAST_PYTHON = 0.5  # share of Python in the code of a Python-dominant repository


@dataclass(frozen=True)
class Asked:
    """What is wanted of a history. ``pull``: that one alone. ``domain``: the field of a DomainFix repository that is
    on no list. ``strict``: what a filter cannot know from git falls out as well.
    """

    repo: str
    repo_url: str
    family: Family
    pull: int | None = None
    branch: str = ""
    since: date | None = None
    until: date | None = None
    limit: int | None = None
    domain: str = ""
    strict: bool = False


@dataclass
class Candidate:
    """One pull request while filters look at it."""

    history: History
    asked: Asked
    landed: Landed
    url: str

    @property
    def who(self) -> str:
        return f"#{'+'.join(map(str, self.landed.pulls))}"

    @cached_property
    def parts(self) -> Split | str:
        """The two patches, or why there are none."""
        assert self.landed.base is not None  # the first filter saw to it
        try:
            return split(self.history.git_dir, self.landed.base.tree, self.landed.last.tree)
        except TooMuch as error:
            return str(error)
        except GitError as error:
            return f"git cannot read its difference: {str(error)[:200]}"

    @property
    def split(self) -> Split:
        assert isinstance(self.parts, Split)  # a filter saw to it
        return self.parts

    @cached_property
    def names(self) -> Names:
        base = self.landed.base
        assert base is not None
        return find_names(
            self.asked.repo, self.history.files(base.tree), lambda path: self.history.read(base.oid, path)
        )

    @property
    def text(self) -> str:
        return f"{self.landed.title}\n\n{self.landed.body}"

    @cached_property
    def links(self) -> tuple[str, ...]:
        return outside(self.text, self.asked.repo, self.names.aliases, self.names.docs_hosts)

    @cached_property
    def upgrades(self) -> tuple[lists.Mention, ...]:
        """Watched packages with versions: in title and body, or in requirements that the change adds."""
        told = lists.mentions(self.text, "title or body")
        return told or lists.mentions(added_requirements(self.split.patch), "requirements")


def collect(asked: Asked, funnel: Funnel, on_step: Callable[[str], None] = lambda _: None) -> Iterator[Row]:
    """The candidates of a history, newest first; ``funnel`` counts. `UsageError` if the pull request that was asked
    for is in no commit.
    """
    git_dir, url = git_directory(asked.repo_url, asked.repo, on_step)
    history = History(git_dir, asked.repo, asked.branch)
    if asked.family is Family.DOC2REPO:
        from beyondswe.construction.collect.whole import whole_repository

        yield from whole_repository(history, asked, url, funnel)
        return
    every = landed(history, with_mentions=asked.pull is not None)
    if asked.pull is not None:
        every = [each for each in every if asked.pull in each.pulls]
        if not every:
            raise UsageError(
                f"--pr {asked.pull}: no commit on {asked.repo}'s branch {history.branch or 'HEAD'} names this"
                " pull request (it may have been rebased without its number, or merged into another branch: --branch)"
            )
    checks = _filters(history, asked)
    for each in every:
        if asked.limit is not None and funnel.stayed >= asked.limit:
            break
        funnel.enter()
        candidate = Candidate(history, asked, each, url)
        reasons = judged(candidate, checks, funnel)
        if reasons is not None:
            funnel.stay()
            yield to_row(candidate, reasons)


def judged(candidate: Candidate, checks: _Checks, funnel: Funnel) -> list[str] | None:
    """Ask all filters: those that no row can be made without, then those that a person may overrule."""
    reasons = funnel.ask(checks.needed, candidate, candidate.who)
    if reasons is None:
        return None
    more = funnel.ask(checks.wanted, candidate, candidate.who, asked_for=candidate.asked.pull is not None)
    return None if more is None else [*reasons, *more]


@dataclass(frozen=True)
class _Checks:
    needed: tuple[Filter[Candidate], ...]
    wanted: tuple[Filter[Candidate], ...]


def _filters(history: History, asked: Asked) -> _Checks:
    """The paper's filters on pull requests, as far as git can answer them."""
    share = filters.python_share(history.files(history.tip))

    def dominant(_: Candidate) -> Answer:
        if share >= LEAST_PYTHON:
            return YES
        return Answer(False, f"{share:.0%} of the repository's code is Python, less than {LEAST_PYTHON:.0%}")

    def asked_strictly(answer: Answer) -> Answer:
        return Answer(False, answer.why) if answer.verdict is None and asked.strict else answer

    def outside_links(candidate: Candidate) -> Answer:
        if candidate.links:
            return YES
        return asked_strictly(Answer(None, "no outside link in what git knows of the pull request"))

    def watched(candidate: Candidate) -> Answer:
        if candidate.upgrades:
            return YES
        return asked_strictly(Answer(None, "git tells of no watched package together with a version"))

    def vetted(_: Candidate) -> Answer:
        if asked.domain or lists.field_of(asked.repo):
            return YES
        return Answer(False, "the repository is on no field's list; name its field with --field")

    family: dict[Family, Filter[Candidate]] = {
        Family.CROSSREPO: Filter("outside links", outside_links),
        Family.DEPMIGRATE: Filter("watched package with version", watched),
        Family.DOMAINFIX: Filter("repository of a field", vetted),
    }
    return _Checks(
        needed=(
            Filter(
                "has a base",
                lambda each: YES if each.landed.base else Answer(False, "no commit lies before it"),
            ),
            Filter(
                "readable difference",
                lambda each: YES if isinstance(each.parts, Split) else Answer(False, each.parts),
            ),
            Filter("touches source", lambda each: each.split.asked_for_source()),
            Filter("touches tests", lambda each: each.split.asked_for_tests()),
        ),
        wanted=(
            Filter("merged for good", _merged_for_good),
            Filter("one pull request", _one_pull),
            Filter("date", _in_time),
            Filter("Python-dominant", dominant),
            Filter("changes Python", _changes_python),
            family[asked.family],
        ),
    )


def _changes_python(candidate: Candidate) -> Answer:
    return YES if candidate.split.touches_python else Answer(False, "no Python outside the tests is changed")


def _merged_for_good(candidate: Candidate) -> Answer:
    if candidate.landed.reverts:
        return Answer(False, "it takes another change back")
    if candidate.landed.reverted_by:
        return Answer(False, "it was taken back later")
    return YES


def _one_pull(candidate: Candidate) -> Answer:
    if candidate.landed.how == "mention":
        return Answer(None, "the number may be an issue's; no commit says that it is a pull request")
    pulls = candidate.landed.pulls
    return YES if len(pulls) == 1 else Answer(False, "several pull requests came in with one commit")


def _in_time(candidate: Candidate) -> Answer:
    when, asked = candidate.landed.last.committed.date(), candidate.asked
    if asked.since and when < asked.since:
        return Answer(False, f"before {asked.since}")
    if asked.until and when > asked.until:
        return Answer(False, f"after {asked.until}")
    return YES


def to_row(candidate: Candidate, reasons: list[str]) -> Row:
    """The row of a candidate that stays."""
    asked, each, parts = candidate.asked, candidate.landed, candidate.split
    assert each.base is not None
    found = Found(
        repo=asked.repo,
        family=asked.family,
        pull=asked.pull or each.pull,
        pulls=each.pulls,
        title=each.title,
        statement=statement(each.title, each.body, each.pulls),
        base_commit=each.base.oid,
        merge_commit=each.last.oid,
        commits=each.commits,
        parts=parts,
        names=candidate.names,
        day=each.last.committed.date().isoformat(),
        dates={
            "authored": each.last.authored.isoformat(),
            "committed": each.last.committed.isoformat(),
            "base": each.base.committed.isoformat(),
        },
        links=candidate.links,
        upgrades=candidate.upgrades if asked.family is Family.DEPMIGRATE else (),
        domain=asked.domain,
        source={"kind": "git", "url": candidate.url, "branch": candidate.history.branch, "how": each.how},
        known_words=words(candidate.history, each.base.tree, parts),
    )
    why = "problem statement: made of the commit's message, git does not know the pull request's text"
    return issue_row(found, [*reasons, why])


def words(history: History, tree: str, parts: Split) -> set[str]:
    """The words of the files that a change touches as they were before, tests and documents included."""
    there = history.files(tree)
    small = [path for path in (*parts.source_paths, *parts.test_paths) if there.get(path, 1 << 30) < 1 << 20]
    return words_of(text for path in small if (text := history.read(tree, path)) is not None)
