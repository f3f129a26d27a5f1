"""Where a branch's history took pull requests in: from commits that name them to a base and what came after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from beyondswe.construction.collect.pulls import Named, is_revert, named, reverted
from beyondswe.construction.collect.repository import Commit, History


@dataclass(frozen=True)
class Landed:
    """One pull request as it came into the branch: the tree before it, and the last of its commits.

    ``how`` is merge, squash, rebase or mention; ``base`` is None where nothing was before it. ``reverted_by`` are
    commits that took it back.
    """

    pulls: tuple[int, ...]
    how: str
    title: str
    body: str
    base: Commit | None
    last: Commit
    commits: tuple[str, ...]
    on_main_line: bool
    reverts: bool = False
    reverted_by: tuple[str, ...] = ()

    @property
    def pull(self) -> int:
        return self.pulls[-1]


def landed(history: History, *, with_mentions: bool = False) -> list[Landed]:
    """All pull requests that commits of the branch name, newest first, each number once.

    The base is the commit that the branch had before: a merge's first parent (so conflicts that the merge resolved
    are part of the change), the parent of a squash, the parent of the first of several commits in a row that name
    the same pull request (a rebase merge). Pull requests whose own branch is there (``refs/pull/N/head``) are also
    found where they were rebased without being named. ``with_mentions`` takes bare ``#N`` too.
    """
    commits = {commit.oid: commit for commit in history.commits()}
    main = {oid: place for place, oid in enumerate(history.main_line())}
    found: dict[int, Landed] = {}
    names = {oid: named(each.message, is_merge=len(each.parents) > 1) for oid, each in commits.items()}
    seen: set[str] = set()
    for oid, name in names.items():
        if name is None or oid in seen or (name.how == "mention" and not with_mentions):
            continue
        each = _of(name, commits[oid], commits, names, oid in main)
        seen.update(each.commits if each.how == "rebase" else ())
        for pull in each.pulls:
            if pull not in found or _rank(each, main) < _rank(found[pull], main):
                found[pull] = each
    for each in _rebased(history, commits, main, found):
        found[each.pull] = each
    taken_back = {oid: reverted(each.message) for oid, each in commits.items() if is_revert(each.message)}
    unique = {each.last.oid + str(each.pulls): each for each in found.values()}
    ordered = sorted(unique.values(), key=lambda each: (-each.last.committed.timestamp(), each.pulls))
    return [
        replace(
            each,
            reverted_by=tuple(
                oid
                for oid, (pulls, oids) in taken_back.items()
                if oid not in each.commits
                and (each.pull in pulls or any(own.startswith(word) for own in each.commits for word in oids))
            ),
        )
        for each in ordered
    ]


def _of(
    name: Named,
    commit: Commit,
    commits: Mapping[str, Commit],
    names: Mapping[str, Named | None],
    on_main: bool,
) -> Landed:
    reverts = is_revert(commit.message) or is_revert(name.title)
    if name.how == "merge":
        before, after = _parents(commit, commits)
        oids = (commit.oid, *([after.oid] if after else []))
        return Landed(name.pulls, "merge", name.title, name.body, before, commit, oids, on_main, reverts)
    chain = [commit]  # oldest last: those right before it that name the same pull request
    while len(chain[-1].parents) == 1 and (earlier := commits.get(chain[-1].parents[0])):
        other = names[earlier.oid]
        if other is None or other.pulls != name.pulls or other.how != name.how:
            break
        chain.append(earlier)
    base = commits.get(chain[-1].parents[0]) if chain[-1].parents else None
    parts = [part for each in reversed(chain) if (part := names[each.oid])]
    body = "\n\n".join(filter(None, [*(part.title for part in parts[1:]), *(part.body for part in parts)]))
    oids = tuple(each.oid for each in chain)
    how = name.how if len(chain) == 1 else "rebase"
    return Landed(name.pulls, how, parts[0].title, body, base, commit, oids, on_main, reverts)


def _parents(merge: Commit, commits: Mapping[str, Commit]) -> tuple[Commit | None, Commit | None]:
    """What the branch had before a merge, and what was merged. A merge whose tree is its first parent's was made the
    wrong way round (the branch was merged into the pull request, and that became the branch).
    """
    parents = [commits.get(oid) for oid in merge.parents]
    first, second = parents[0], parents[1] if len(parents) > 1 else None
    if first is not None and second is not None and first.tree == merge.tree != second.tree:
        return second, first
    return first, second


def _rank(each: Landed, main: Mapping[str, int]) -> tuple[int, int, int]:
    """Which of several commits that name a pull request took it in (the least): on the main line, surely, first."""
    place = -main[each.last.oid] if each.last.oid in main else 0
    return (not each.on_main_line) + 2 * (each.how == "mention"), each.how != "merge", place


def _rebased(
    history: History, commits: Mapping[str, Commit], main: Mapping[str, int], found: Mapping[int, Landed]
) -> Iterator[Landed]:
    """Pull requests that no commit names, found on the main line by author, time and message of their commits."""
    refs = (
        history.git("for-each-ref", "--format=%(refname) %(objectname)", "refs/pull/").decode().splitlines()
    )
    heads = {
        int(parts[2]): oid
        for ref, _, oid in (line.partition(" ") for line in refs)
        if len(parts := ref.split("/")) == 4 and parts[2].isdigit() and parts[3] == "head"
    }
    by_words = {_words(commits[oid]): oid for oid in main if len(commits[oid].parents) == 1}
    for pull, head in heads.items():
        if pull in found or head in commits:
            continue
        own = list(history.commits_between(history.tip, head))
        landed_as = [by_words.get(_words(each)) for each in own]
        if not own or any(len(each.parents) != 1 for each in own) or None in landed_as:
            continue
        oids = [oid for oid in landed_as if oid is not None]
        places = [main[oid] for oid in oids]
        if places != list(range(places[0], places[0] + len(places))):
            continue  # not in a row
        first = commits[oids[-1]]
        title, _, body = own[-1].message.strip().partition("\n")
        others = [each.message.strip() for each in own[:-1]]
        yield Landed(
            (pull,), "rebase", title, "\n\n".join([body.strip(), *reversed(others)]).strip(),
            commits.get(first.parents[0]), commits[oids[0]], (*oids, *(each.oid for each in own)), True,
        )  # fmt: skip


def _words(commit: Commit) -> tuple[str, float, str]:
    return commit.author, commit.authored.timestamp(), commit.message.strip()


def single(every: Iterable[Landed], pull: int) -> Landed | None:
    """The one that took this pull request in."""
    return next((each for each in every if pull in each.pulls), None)
