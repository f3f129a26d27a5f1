"""Which pull requests a commit's message names, in the words of the forges and merge bots; pure functions."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

_NUMBER = r"(?:#|!|(?:gh|GH)-)(\d{1,7})"
_IN_BRACKETS = re.compile(rf"\(\s*(?:PR\s*|pull request\s*)?{_NUMBER}\s*\)")
_AT_END = re.compile(
    rf"(?P<title>.*?)\s*(?P<pulls>(?:\(\s*(?:PR\s*|pull request\s*)?{_NUMBER}\s*\)\s*)+)"
    r"(?:\[(?:skip ci|ci skip)\])?\.?$",
    re.IGNORECASE,
)
_REVERT = re.compile(
    r'^(?:Revert\s+["“](?P<what>.*)["”]|Revert(?:s|ed|ing)?\b.*|This reverts\b.*)', re.IGNORECASE
)
_REVERTED_PULL = re.compile(r"\bReverts?\s+(?:[\w.-]+/[\w.-]+)?#(\d+)", re.IGNORECASE)
_REVERTED_COMMIT = re.compile(r"This reverts (?:merge )?commit ([0-9a-f]{7,64})")
_TRAILER = re.compile(
    r"^(?:signed-off-by|co-authored-by|reviewed-by|acked-by|tested-by|approved-by|change-id|pr-url|"
    r"pull-request|cherry-picked-from|\(cherry picked from)\b.*$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Named:
    """What a message says: ``pulls`` in its order; ``how`` is merge, squash or mention (a guess)."""

    pulls: tuple[int, ...]
    how: str
    title: str
    body: str


def named(message: str, *, is_merge: bool) -> Named | None:
    """The pull requests that a commit's message names as its own; None if it names none.

    Merge commits: GitHub, Gitea, GitLab, Bitbucket, bors and homu, branches called ``pr/N``, else any number in
    the subject. Other commits: a number in brackets at the end of the subject (the last one; those before it are
    of backports and reverts), ``PR-URL`` and ``Merged PR``. A bare ``#N`` there is most often an issue: a mention.
    """
    lines = message.replace("\r\n", "\n").replace("\r", "\n").strip().split("\n")
    subject, rest = lines[0].strip(), "\n".join(lines[1:]).strip()
    for read in _merges if is_merge else ():
        if found := read(subject, rest):
            return found
    found = _squash(subject, rest)
    if found is not None and is_merge:
        return replace(found, how="merge")
    return found or _mention(subject, rest, "merge" if is_merge else "mention")


def statement(title: str, body: str, pulls: tuple[int, ...]) -> str:
    """Title and body as a problem statement, without trailers and the pull request's own number."""
    kept = [line.rstrip() for line in body.split("\n") if not _TRAILER.match(line.strip())]
    text = "\n\n".join(part for part in (title.strip(), "\n".join(kept).strip()) if part)
    for pull in pulls:
        text = re.sub(rf"[ \t]*\(\s*(?:#|!|gh-){pull}\s*\)", "", text, flags=re.IGNORECASE)
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def _github(subject: str, body: str) -> Named | None:
    match = re.match(rf"Merge (?:pull request|PR|pull) {_NUMBER}\b", subject, re.IGNORECASE)
    return _first_line_is_title(body, subject, (int(match[1]),)) if match else None


def _gitea(subject: str, body: str) -> Named | None:
    match = re.match(r"Merge (?:pull request|branch) '(.*)' \(#(\d+)\) from ", subject)
    return Named((int(match[2]),), "merge", match[1], body) if match else None


def _bitbucket(subject: str, body: str) -> Named | None:
    match = re.match(r"Merged in .* \(pull request #(\d+)\)", subject)
    return _first_line_is_title(body, subject, (int(match[1]),)) if match else None


def _gitlab(subject: str, body: str) -> Named | None:
    match = re.search(r"^See merge request (?:\S*)!(\d+)\s*$", body, re.MULTILINE)
    if match is None:
        return None
    return _first_line_is_title(body.replace(match[0], "").strip(), subject, (int(match[1]),))


def _bot(subject: str, body: str) -> Named | None:
    match = re.match(r"(?:Auto merge of|Merge|Rollup merge of)((?:\s+#\d+)+)(?:\s|:|$)", subject)
    if match is None:
        return None
    after = subject[match.end() :].strip(" -:")
    title, body = (after, body) if after and "r=" not in after else ("", body)
    pulls = tuple(int(number) for number in re.findall(r"#(\d+)", match[1]))
    if title:
        return Named(pulls, "merge", title, body)
    text = re.sub(r"^\d+:\s+", "", body)  # bors: "12: Title r=reviewer a=author"
    text = re.sub(r"^([^\n]*?)\s+r=\S+(?:\s+a=\S+)?[ \t]*$", r"\1", text, count=1, flags=re.MULTILINE)
    return _first_line_is_title(text, subject, pulls)


def _branch(subject: str, body: str) -> Named | None:
    match = re.match(
        r"Merge (?:remote-tracking )?branch '(?:[\w.-]+/)*(?:pr|pull)[/-]?(\d+)(?:/\w+)?'", subject
    )
    return _first_line_is_title(body, subject, (int(match[1]),)) if match else None


_merges: tuple[Callable[[str, str], Named | None], ...] = (
    _github,
    _gitea,
    _bitbucket,
    _gitlab,
    _bot,
    _branch,
)


def _squash(subject: str, body: str) -> Named | None:
    match = _AT_END.match(subject)
    if match:
        numbers = [int(number) for number in _IN_BRACKETS.findall(match["pulls"])]
        if numbers and match["title"]:
            return Named((numbers[-1],), "squash", match["title"], body)
    if match := re.match(r"Merged PR (\d+): (.*)", subject):
        return Named((int(match[1]),), "squash", match[2], body)
    if match := re.search(r"^PR-URL: \S*/pull/(\d+)\s*$", body, re.MULTILINE):
        return Named((int(match[1]),), "squash", subject, body)
    return None


def _mention(subject: str, body: str, how: str) -> Named | None:
    numbers = tuple(dict.fromkeys(int(number) for number in re.findall(rf"(?<![\w/&]){_NUMBER}\b", subject)))
    if not numbers:
        return None
    if how == "merge":
        return _first_line_is_title(body, subject, numbers)
    return Named(numbers, how, subject, body)


def _first_line_is_title(body: str, subject: str, pulls: tuple[int, ...]) -> Named:
    title, _, rest = body.strip().partition("\n")
    return Named(pulls, "merge", title.strip() or subject, rest.strip())


def reverted(message: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The pull requests and commits that a message says it takes back; both empty for anything but a revert."""
    if not is_revert(message):
        return (), ()
    pulls = [int(number) for number in _REVERTED_PULL.findall(message)]
    for quoted in re.findall(r'["“](.*)["”]', message):
        pulls += [int(number) for number in _IN_BRACKETS.findall(quoted)]
        pulls += [int(number) for number in re.findall(r"pull request #(\d+)", quoted)]
    return tuple(dict.fromkeys(pulls)), tuple(_REVERTED_COMMIT.findall(message))


def is_revert(message: str) -> bool:
    """Whether a change takes another one back; one that takes back a revert does not."""
    for line in message.strip().split("\n")[:3]:
        if match := _REVERT.match(line.strip()):
            return not re.match(r"(?:Revert|Reapply)\b", match["what"] or "", re.IGNORECASE)
    return False
