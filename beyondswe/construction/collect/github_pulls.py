"""Merged pull requests as GitHub tells of them: text, comments, linked issues, commits; by GraphQL or by REST."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from beyondswe.construction.collect.github_api import GitHub, NotThere
from beyondswe.construction.collect.links import issue_numbers
from beyondswe.errors import DataError

_FIELDS = """
number title body url mergedAt createdAt baseRefName baseRefOid headRefOid author { login }
mergeCommit { oid }
comments(first: 50) { nodes { body author { login } } }
closingIssuesReferences(first: 10) { nodes { number title body url repository { nameWithOwner } } }
"""
_MANY = (
    "query($owner: String!, $name: String!, $after: String) { repository(owner: $owner, name: $name) {"
    " pullRequests(states: MERGED, first: 25, after: $after, orderBy: {field: CREATED_AT, direction: DESC}) {"
    f" pageInfo {{ hasNextPage endCursor }} nodes {{ {_FIELDS} }} }} }} }}"
)
_ONE = (
    "query($owner: String!, $name: String!, $number: Int!) { repository(owner: $owner, name: $name) {"
    f" pullRequest(number: $number) {{ {_FIELDS} merged }} }} }}"
)


@dataclass(frozen=True)
class Issue:
    """An issue that a pull request closes."""

    number: int
    title: str
    body: str
    url: str
    repo: str


@dataclass(frozen=True)
class PullRequest:
    """A merged pull request. ``base`` and ``head`` are the ends of its branch, ``merge_commit`` what it became."""

    number: int
    title: str
    body: str
    url: str
    author: str
    created: str
    merged: str
    branch: str
    base: str
    head: str
    merge_commit: str
    comments: tuple[str, ...]
    issues: tuple[Issue, ...]


def pull_requests(api: GitHub, repo: str) -> Iterator[PullRequest]:
    """The merged pull requests of a repository, newest first. GraphQL wants a token; without one REST is asked."""
    if api.token and api.has_graphql:
        yield from _pages(api, repo)
        return
    for item in api.pages(f"repos/{repo}/pulls?state=closed&sort=created&direction=desc&per_page=100"):
        if item.get("merged_at"):
            yield _by_rest(api, repo, item)


def _pages(api: GitHub, repo: str) -> Iterator[PullRequest]:
    owner, _, name = repo.partition("/")
    after = None
    while True:
        data = api.graphql(_MANY, {"owner": owner, "name": name, "after": after})
        found = (data.get("repository") or {}).get("pullRequests")
        if found is None:
            raise NotThere(f"{api.api_url}: there is no repository {repo}")
        yield from (_by_graphql(node) for node in found["nodes"])
        if not found["pageInfo"]["hasNextPage"]:
            return
        after = found["pageInfo"]["endCursor"]


def pull_request(api: GitHub, repo: str, number: int) -> PullRequest:
    """One pull request; `DataError` if it was not merged."""
    owner, _, name = repo.partition("/")
    if api.token and api.has_graphql:
        data = api.graphql(_ONE, {"owner": owner, "name": name, "number": number})
        node = (data.get("repository") or {}).get("pullRequest")
        if node is None:
            raise NotThere(f"{api.api_url}: {repo} has no pull request #{number}")
        if node.get("merged"):
            return _by_graphql(node)
    else:
        item = api.get(f"repos/{repo}/pulls/{number}").json
        if item.get("merged_at"):
            return _by_rest(api, repo, item)
    raise DataError(f"--pr {number}: this pull request of {repo} was not merged")


def plain(text: str) -> str:
    """A text of GitHub's without what its forms leave in it: comments, empty headings and boxes to tick."""
    text = re.sub(r"<!--.*?-->", "", text.replace("\r\n", "\n"), flags=re.DOTALL)
    text = re.sub(r"^\s*[-*] \[[ xX]\].*\n?", "", text, flags=re.MULTILINE)
    text = re.sub(r"^#+ [^\n]*\n\s*(?=^#+ |\Z)", "", text, flags=re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def _by_graphql(node: dict[str, Any]) -> PullRequest:
    return PullRequest(
        number=node["number"],
        title=node["title"],
        body=node.get("body") or "",
        url=node["url"],
        author=(node.get("author") or {}).get("login", ""),
        created=node.get("createdAt") or "",
        merged=node["mergedAt"],
        branch=node["baseRefName"],
        base=node["baseRefOid"],
        head=node["headRefOid"],
        merge_commit=(node.get("mergeCommit") or {}).get("oid", ""),
        comments=tuple(
            comment["body"] for comment in node["comments"]["nodes"] if _is_person(comment.get("author"))
        ),
        issues=tuple(
            Issue(
                each["number"],
                each["title"],
                each.get("body") or "",
                each["url"],
                each["repository"]["nameWithOwner"],
            )
            for each in node["closingIssuesReferences"]["nodes"]
        ),
    )


def _by_rest(api: GitHub, repo: str, item: dict[str, Any]) -> PullRequest:
    body = item.get("body") or ""
    comments = api.pages(f"repos/{repo}/issues/{item['number']}/comments?per_page=100")
    return PullRequest(
        number=item["number"],
        title=item["title"],
        body=body,
        url=item["html_url"],
        author=(item.get("user") or {}).get("login", ""),
        created=item.get("created_at") or "",
        merged=item["merged_at"],
        branch=item["base"]["ref"],
        base=item["base"]["sha"],
        head=item["head"]["sha"],
        merge_commit=item.get("merge_commit_sha") or "",
        comments=tuple(each.get("body") or "" for each in comments if _is_person(each.get("user"))),
        issues=tuple(_issues(api, repo, f"{item['title']}\n{body}")),
    )


def _issues(api: GitHub, repo: str, text: str) -> Iterator[Issue]:
    for number in issue_numbers(text, repo):
        try:
            found = api.get(f"repos/{repo}/issues/{number}").json
        except NotThere:
            continue  # deleted, or a number that never was
        if "pull_request" not in found:
            yield Issue(number, found["title"], found.get("body") or "", found["html_url"], repo)


def _is_person(author: dict[str, Any] | None) -> bool:
    login = (author or {}).get("login", "")
    return not login.endswith("[bot]") and login not in (
        "codecov",
        "dependabot",
        "coveralls",
        "pre-commit-ci",
        "codecov-io",
    )
