"""Candidates out of GitHub: merged pull requests with their issues, comments and links, or whole repositories."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from functools import cached_property, partial
from typing import Any
from urllib.parse import quote

from beyondswe.construction.collect import lists, whole
from beyondswe.construction.collect.candidates import Row, candidate_id, review
from beyondswe.construction.collect.changes import Landed, landed
from beyondswe.construction.collect.filters import YES, Answer, Filter, Funnel
from beyondswe.construction.collect.github_api import GitHub, NotThere, TooLargeForApi
from beyondswe.construction.collect.github_pulls import PullRequest, plain, pull_request, pull_requests
from beyondswe.construction.collect.journal import Journal
from beyondswe.construction.collect.links import outside
from beyondswe.construction.collect.names import Names, find_names
from beyondswe.construction.collect.repository import History
from beyondswe.construction.collect.rows import Found, issue_row
from beyondswe.construction.collect.split import Split, TooMuch, is_test, part, split
from beyondswe.construction.collect.text import added_requirements, words_of
from beyondswe.instances.model import Family

_DIFF = "application/vnd.github.diff"
_RAW = "application/vnd.github.raw+json"


@dataclass(frozen=True)
class Asked:
    """What is wanted. ``pull``: that one alone, whatever filters say."""

    repos: tuple[str, ...]
    family: Family
    api_url: str
    pull: int | None = None
    since: date | None = None
    until: date | None = None
    limit: int | None = None
    domain: str = ""
    repo_url: str = ""

    def to_row(self) -> dict[str, Any]:
        return {name: str(value) for name, value in vars(self).items() if value not in (None, "")}


@dataclass
class Repository:
    """What the API says of one repository, asked once. ``history`` is its git, where it is at hand."""

    api: GitHub
    name: str
    history: History | None = None

    @cached_property
    def facts(self) -> dict[str, Any]:
        found: dict[str, Any] = self.api.get(f"repos/{self.name}").json
        return found

    @cached_property
    def python(self) -> float | None:
        """The share of Python in its code, 0 to 1; None where the API does not say."""
        try:
            sizes: dict[str, int] = self.api.get(f"repos/{self.name}/languages").json
        except NotThere:
            return None
        code = {
            name: size
            for name, size in sizes.items()
            if name not in ("HTML", "CSS", "Jupyter Notebook", "TeX")
        }
        return code.get("Python", 0) / (sum(code.values()) or 1)

    @cached_property
    def contributors(self) -> int:
        answer = self.api.get(f"repos/{self.name}/contributors?per_page=1&anon=1")
        return answer.last_page if answer.next_page else len(answer.json)

    @cached_property
    def landed(self) -> dict[int, Landed]:
        """Pull requests that commits of its git name; empty where no git is at hand."""
        return {pull: each for each in landed(self.history) for pull in each.pulls} if self.history else {}

    def paths(self, commit: str) -> dict[str, int]:
        try:
            tree = self.api.get(f"repos/{self.name}/git/trees/{commit}?recursive=1").json
        except NotThere:
            return {}  # no names are found then
        return {each["path"]: each.get("size", 0) for each in tree["tree"] if each["type"] == "blob"}

    def read(self, commit: str, path: str) -> str | None:
        try:
            return self.api.get(f"repos/{self.name}/contents/{quote(path)}?ref={commit}", accept=_RAW).text
        except NotThere:
            return None

    def names(self, commit: str) -> Names:
        return find_names(self.name, self.paths(commit), lambda path: self.read(commit, path))


@dataclass
class Candidate:
    """One merged pull request while filters look at it."""

    repository: Repository
    asked: Asked
    pull: PullRequest

    @property
    def who(self) -> str:
        return f"{self.repository.name}#{self.pull.number}"

    @cached_property
    def landed(self) -> Landed | None:
        each = self.repository.landed.get(self.pull.number)
        return each if each and each.base and len(each.pulls) == 1 else None

    @cached_property
    def base(self) -> str:
        """What was there before: in git where a commit names the pull request, else where its own branch left."""
        if self.landed and self.landed.base:
            return self.landed.base.oid
        return self.branched_off or self.pull.base

    @cached_property
    def branched_off(self) -> str:
        """Where the pull request's branch left; empty where the API cannot compare any more."""
        ends = f"{self.pull.base}...{self.pull.head}"
        try:
            found = self.repository.api.get(f"repos/{self.repository.name}/compare/{ends}").json
        except NotThere:
            return ""
        return str(found["merge_base_commit"]["sha"])

    @cached_property
    def parts(self) -> Split | str:
        """The two patches, or why there are none."""
        try:
            if self.landed and self.landed.base and self.repository.history:
                return split(self.repository.history.git_dir, self.landed.base.tree, self.landed.last.tree)
            answer = self.repository.api.get(
                f"repos/{self.repository.name}/pulls/{self.pull.number}", accept=_DIFF
            )
            return part(answer.text)
        except TooLargeForApi:
            return "the API gives no difference of this size; git has it: --repo-url"
        except (TooMuch, NotThere) as error:
            return str(error)

    @property
    def split(self) -> Split:
        assert isinstance(self.parts, Split)  # a filter saw to it
        return self.parts

    @cached_property
    def names(self) -> Names:
        return self.repository.names(self.base)

    @cached_property
    def links(self) -> dict[str, str]:
        """Outside link → where it stands: title, body, an issue or a comment."""
        pull = self.pull
        places = [("title", pull.title), ("body", pull.body)]
        places += [(f"issue #{issue.number}", f"{issue.title}\n{issue.body}") for issue in pull.issues]
        places += [("comment", comment) for comment in pull.comments]
        found: dict[str, str] = {}
        for where, text in places:
            for link in outside(plain(text), self.repository.name):
                found.setdefault(link, where)
        return found

    @cached_property
    def upgrades(self) -> tuple[lists.Mention, ...]:
        texts = [("title or body", f"{self.pull.title}\n{plain(self.pull.body)}")]
        texts += [
            (f"issue #{issue.number}", f"{issue.title}\n{plain(issue.body)}") for issue in self.pull.issues
        ]
        told = tuple(mention for where, text in texts for mention in lists.mentions(text, where))
        if told or not isinstance(self.parts, Split):
            return told
        return lists.mentions(added_requirements(self.parts.patch), "requirements")

    def statement(self) -> tuple[str, str]:
        """The problem statement and what it is made of: the issues that are closed, else the pull request's text."""
        own = [issue for issue in self.pull.issues if plain(issue.body) or issue.title]
        if own:
            texts = [f"{issue.title}\n\n{plain(issue.body)}".strip() for issue in own]
            return "\n\n".join(texts), ", ".join(f"issue #{issue.number}" for issue in own)
        return f"{self.pull.title}\n\n{plain(self.pull.body)}".strip(), "pull request"


def collect(
    api: GitHub,
    asked: Asked,
    funnel: Funnel,
    journal: Journal,
    *,
    history: Callable[[str], History | None] = lambda _: None,
    judge: Callable[[Row], Row] = lambda row: row,
) -> Iterator[Row]:
    """The candidates of GitHub repositories, judged; what the journal has already is not asked again."""
    for name in asked.repos:
        repository = Repository(api, name, history(name))
        if asked.family is Family.DOC2REPO:
            yield from _once(journal, funnel, name, partial(_whole, repository, asked), judge)
            continue
        if asked.pull is not None:
            pulls: Iterator[PullRequest] = iter([pull_request(api, name, asked.pull)])
        else:
            pulls = pull_requests(api, name)
        checks = _filters(asked)
        for pull in pulls:
            if asked.limit is not None and funnel.stayed >= asked.limit:
                return
            candidate = Candidate(repository, asked, pull)
            yield from _once(journal, funnel, candidate.who, partial(_pull, candidate, checks), judge)


def _once(
    journal: Journal,
    funnel: Funnel,
    key: str,
    make: Callable[[Funnel], Row | None],
    judge: Callable[[Row], Row],
) -> Iterator[Row]:
    """What the journal has of one candidate, else what is made of it, kept in the journal before it is given."""
    entry = journal.done.get(key)
    if entry is None:
        own = Funnel()
        row = make(own)
        journal.add(key, judge(row) if row else None, own.state())
        entry = journal.done[key]
    funnel.add(entry["counts"])
    if entry["row"] is not None:
        yield entry["row"]


def _pull(candidate: Candidate, checks: tuple[Filter[Candidate], ...], funnel: Funnel) -> Row | None:
    funnel.enter()
    by_hand = candidate.asked.pull is not None
    needed = [each for each in checks if each.name in _NEEDED]
    wanted = [each for each in checks if each.name not in _NEEDED]
    first = funnel.ask(
        wanted, candidate, candidate.who, asked_for=by_hand
    )  # texts are at hand, differences are not
    second = None if first is None else funnel.ask(needed, candidate, candidate.who)
    third = None if second is None else funnel.ask(_AFTER, candidate, candidate.who, asked_for=by_hand)
    if first is None or second is None or third is None:
        return None
    funnel.stay()
    return _row(candidate, [*first, *third])


_NEEDED = ("readable difference", "touches source", "touches tests")


def _filters(asked: Asked) -> tuple[Filter[Candidate], ...]:
    def dominant(each: Candidate) -> Answer:
        return _python(each.repository)

    def in_time(each: Candidate) -> Answer:
        when = _day(each.pull.merged)
        if asked.since and when < asked.since:
            return Answer(False, f"before {asked.since}")
        return Answer(False, f"after {asked.until}") if asked.until and when > asked.until else YES

    def of_family(each: Candidate) -> Answer:
        if asked.family is Family.CROSSREPO:
            return YES if each.links else Answer(False, "no outside link in title, body, issues and comments")
        if asked.family is Family.DEPMIGRATE:
            return YES if each.upgrades else Answer(False, "no watched package together with a version")
        if asked.domain or lists.field_of(each.repository.name):
            return YES
        return Answer(False, "the repository is on no field's list; name its field with --field")

    name = {
        Family.CROSSREPO: "outside links",
        Family.DEPMIGRATE: "watched package with version",
        Family.DOMAINFIX: "repository of a field",
    }[asked.family]
    return (
        Filter("date", in_time),
        Filter("Python-dominant", dominant),
        Filter(name, of_family),
        Filter(
            "readable difference",
            lambda each: YES if isinstance(each.parts, Split) else Answer(False, each.parts),
        ),
        Filter("touches source", lambda each: each.split.asked_for_source()),
        Filter("touches tests", lambda each: each.split.asked_for_tests()),
    )


_AFTER: tuple[Filter[Candidate], ...] = (
    Filter(
        "changes Python",
        lambda each: (
            YES if each.split.touches_python else Answer(False, "no Python outside the tests is changed")
        ),
    ),
)


def _row(candidate: Candidate, reasons: list[str]) -> Row:
    pull, asked, repo = candidate.pull, candidate.asked, candidate.repository
    text, made_of = candidate.statement()
    own = outside("\n".join(candidate.links), repo.name, candidate.names.aliases, candidate.names.docs_hosts)
    found = Found(
        repo=repo.name,
        family=asked.family,
        pull=pull.number,
        pulls=(pull.number,),
        title=pull.title,
        statement=text,
        base_commit=candidate.base,
        merge_commit=pull.merge_commit,
        commits=tuple(filter(None, (pull.merge_commit, pull.head))),
        parts=candidate.split,
        names=candidate.names,
        day=_day(pull.merged).isoformat(),
        dates={"created": pull.created, "merged": pull.merged},
        links=own,
        upgrades=candidate.upgrades if asked.family is Family.DEPMIGRATE else (),
        domain=asked.domain,
        known_words=words_of(
            was
            for path in candidate.split.source_paths
            if (was := repo.read(candidate.base, path)) is not None
        ),
        source={
            "kind": "github",
            "url": pull.url,
            "api": asked.api_url,
            "branch": pull.branch,
            "difference": "git" if candidate.landed else "api",
        },
        more={
            "statement_from": made_of,
            "issues": [asdict(issue) for issue in pull.issues],
            "link_places": {link: candidate.links[link] for link in own if link in candidate.links},
        },
    )
    if not candidate.landed and not candidate.branched_off:
        reasons = [*reasons, "base: the API cannot tell where its branch left; the difference may not apply"]
    return issue_row(found, [*reasons, f"problem statement: the text of {made_of}, not read by a person yet"])


def _whole(repository: Repository, asked: Asked, funnel: Funnel) -> Row | None:
    """A repository as it is now, for Doc2Repo."""
    facts = repository.facts
    funnel.enter()
    created, pushed = _day(facts["created_at"]), _day(facts["pushed_at"])
    year = asked.since.year if asked.since else None
    tip = repository.api.get(f"repos/{repository.name}/commits/{facts['default_branch']}").json
    sizes = repository.paths(tip["sha"])
    names = repository.names(tip["sha"])
    tests = [path for path in sizes if is_test(path) and path.endswith(".py")]
    checks = (
        Filter[Any]("Python-dominant", lambda _: _python(repository)),
        Filter[Any]("has tests", lambda _: YES if tests else Answer(False, "no test file")),
        Filter[Any](
            "one package",
            lambda _: (
                YES if len(names.modules) == 1 else Answer(False, f"{len(names.modules)} packages at its top")
            ),
        ),
        Filter[Any]("age", lambda _: whole.age(created, pushed, year)),
        Filter[Any]("stars", lambda _: whole.stars(facts["stargazers_count"])),
        Filter[Any]("contributors", lambda _: whole.contributors(repository.contributors)),
    )
    if funnel.ask(checks, None, repository.name) is None:
        return None
    funnel.stay()
    when = tip["commit"]["committer"]["date"]
    return {
        "instance_id": candidate_id(repository.name, f"at_{tip['sha'][:8]}"),
        "task": str(asked.family),
        "repo": repository.name,
        "base_commit": tip["sha"],
        "workdir": "/workspace",
        "language": "python",
        "distributions": list(names.distributions),
        "aliases": list(names.aliases),
        "docs_hosts": list(names.docs_hosts),
        "modules": list(names.modules),
        "index_date": _day(when).isoformat(),
        "title": f"{repository.name} from its specification",
        "dates": {"created": facts["created_at"], "committed": when},
        "contributors": repository.contributors,
        "stars": facts["stargazers_count"],
        "test_paths": tests,
        "review": review(["specification: made by `build`, to be read by a person"]),
        "source": {
            "kind": "github",
            "url": facts["html_url"],
            "api": asked.api_url,
            "branch": facts["default_branch"],
        },
    }


def _python(repository: Repository) -> Answer:
    share = repository.python
    if share is None:
        return Answer(None, "the API does not say which languages it has")
    return (
        YES
        if share >= whole.LEAST_PYTHON
        else Answer(False, f"{share:.0%} of the repository's code is Python")
    )


def _day(when: str) -> date:
    return datetime.fromisoformat(when).astimezone(UTC).date()
