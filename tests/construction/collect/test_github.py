"""`collect github` against a server that speaks the API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.construction.collect.forge import BASE, DIFF, Forge, serve
from tests.construction.collect.histories import BASE as TREE
from tests.construction.collect.histories import FIX, TEST, Done, Work, beyondswe, rows

LINK = "Because of scipy/scipy#12 and https://docs.python.org/3/library/math.html."


@pytest.fixture
def forge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Forge]:
    monkeypatch.setenv("BEYONDSWE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    with serve(Forge()) as forge:
        yield forge


def collect(forge: Forge, tmp_path: Path, *options: str, token: str = "", family: str = "CrossRepo") -> Done:
    return beyondswe(
        "collect", "github", "--api-url", forge.url, "--repo", "harbour/tides", "--family", family,
        "--out", "c.jsonl", "--json", *options, cwd=tmp_path, env={"GITHUB_TOKEN": token},
    )  # fmt: skip


def found(forge: Forge, tmp_path: Path, *options: str, **more: Any) -> dict[int, dict[str, Any]]:
    done = collect(forge, tmp_path, "--force", *options, **more)
    assert done.code == 0, done.err
    return {row["pr"]: row for row in rows(tmp_path / "c.jsonl")}


@pytest.mark.parametrize("token", ["", "secret"])
def test_rest_and_graphql_give_the_same_rows(forge: Forge, tmp_path: Path, token: str) -> None:
    forge.issues[5] = {
        "number": 5,
        "title": "The moon is late",
        "body": "By 50 minutes.\r\n<!-- template -->\n- [x] searched",
        "html_url": "https://github.com/harbour/tides/issues/5",
    }
    forge.add(7, body=f"Closes #5. {LINK}")
    forge.add(8, "Sun", "nothing outside", comments=("seen in https://github.com/numpy/numpy/issues/3 too",))
    forge.add(9, merged=False, body=LINK)
    forge.add(10, body="nothing, [CI](https://codecov.io/x) and https://github.com/harbour/tides/pull/3")
    found_rows = found(forge, tmp_path, token=token)
    assert set(found_rows) == {7, 8}
    row = found_rows[7]
    assert row["instance_id"] == "harbour_tides_pr7"
    assert row["base_commit"] == BASE
    assert row["problem_statement"] == "The moon is late\n\nBy 50 minutes."
    assert row["statement_from"] == "issue #5"
    assert row["links"] == [
        "https://docs.python.org/3/library/math.html",
        "https://github.com/scipy/scipy/issues/12",
    ]
    assert row["link_places"]["https://github.com/scipy/scipy/issues/12"] == "body"
    assert row["distributions"] == ["tide-tables"]
    assert row["patch"] + row["f2p_patch"] == DIFF
    assert row["index_date"] == "2024-01-02"
    assert found_rows[8]["link_places"] == {"https://github.com/numpy/numpy/issues/3": "comment"}
    assert any("/graphql" in path for path, _ in forge.asked) is bool(token)
    assert forge.tokens == ({f"Bearer {token}"} if token else {""})


def test_pages_are_followed_and_asked_again_only_if_they_changed(forge: Forge, tmp_path: Path) -> None:
    for number in range(1, 6):
        forge.add(number, body=LINK)
    first = found(forge, tmp_path)
    assert set(first) == {1, 2, 3, 4, 5}
    forge.asked.clear()
    assert found(forge, tmp_path) == first
    assert {status for _, status in forge.asked} == {304}


@pytest.mark.parametrize(
    "status, headers, body, words",
    [
        (403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "NOW+1"}, "{}", "hourly limit is used up"),
        (
            429,
            {"Retry-After": "1"},
            '{"message": "You have exceeded a secondary rate limit"}',
            "asks to slow down",
        ),
        (403, {"Retry-After": "0"}, '{"message": "abuse detection"}', "asks to slow down"),
        (502, {}, "bad gateway", "status 502; trying again"),
        (
            200,
            {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "NOW+1"},
            "[]",
            "the API's limit is used up",
        ),
    ],
)
def test_limits_and_failures_are_waited_out_with_a_message(
    forge: Forge, tmp_path: Path, status: int, headers: dict[str, str], body: str, words: str
) -> None:
    forge.add(7, body=LINK)
    forge.facts = {**forge.facts}
    forge.trouble = [(status, headers, body if status != 200 else json.dumps(forge.pulls[7]))]
    done = collect(forge, tmp_path, "--pr", "7")
    assert done.code == 0, done.err
    assert words in done.err and "waiting" in done.err
    assert [row["pr"] for row in rows(tmp_path / "c.jsonl")] == [7]


def test_graphql_says_its_limit_in_its_answer(forge: Forge, tmp_path: Path) -> None:
    forge.add(7, body=LINK)
    forge.trouble = [
        (200, {"Retry-After": "0"}, '{"errors": [{"type": "RATE_LIMITED", "message": "limit"}]}')
    ]
    assert set(found(forge, tmp_path, token="secret")) == {7}


@pytest.mark.parametrize(
    ("trouble", "code", "words"),
    [
        ((200, {"ETag": '"x"'}, "<html>sign in</html>"), 2, "not with JSON"),
        ((429, {"Retry-After": "90000"}, "{}"), 3, "for 25.0 hours more; run the command again"),
    ],
)
def test_a_page_and_a_pause_of_a_day_are_errors(
    forge: Forge, tmp_path: Path, trouble: tuple[int, dict[str, str], str], code: int, words: str
) -> None:
    forge.add(7, body=LINK)
    forge.trouble = [trouble]
    done = collect(forge, tmp_path, "--pr", "7")
    assert done.code == code and words in done.err and "Traceback" not in done.err
    again = collect(forge, tmp_path, "--pr", "7")
    assert again.code == 0, again.err


def test_what_was_killed_goes_on_where_it_was(forge: Forge, tmp_path: Path) -> None:
    for number in range(1, 6):
        forge.add(number, body=LINK)
    forge.die_after = 14
    dead = collect(forge, tmp_path)
    assert dead.code != 0 and "run the command again" in dead.err
    journal = (tmp_path / "c.jsonl.partial").read_text().splitlines()
    assert 1 < len(journal) < 6
    with (tmp_path / "c.jsonl.partial").open("a") as stream:
        stream.write('{"key": "harb')  # a kill in the middle of a line
    forge.die_after = None
    other = collect(forge, tmp_path, "--limit", "1")
    assert other.code == 2 and "other options" in other.err
    before = len(forge.asked)
    done = collect(forge, tmp_path)
    assert done.code == 0, done.err
    assert "going on" in done.err
    asked = [path for path, _ in forge.asked[before:]]
    kept = {json.loads(line)["key"].partition("#")[2] for line in journal[1:]}
    assert kept and not [path for path in asked if path.rpartition("/pulls/")[2] in kept]
    assert {row["pr"] for row in rows(tmp_path / "c.jsonl")} == {1, 2, 3, 4, 5}
    assert (done.json["funnel"]["in"], done.json["funnel"]["out"]) == (5, 5)
    assert not (tmp_path / "c.jsonl.partial").exists()


def test_every_filter_says_why(forge: Forge, tmp_path: Path) -> None:
    source, tests = (
        DIFF.split("diff --git a/tests")[0],
        "diff --git a/tests" + DIFF.split("diff --git a/tests")[1],
    )
    forge.add(1, body=LINK, diff=source)
    forge.add(2, body=LINK, diff=tests)
    forge.add(
        3,
        body=LINK,
        diff="diff --git a/m.png b/m.png\nindex 1..2 100644\nBinary files a/m.png and b/m.png differ\n",
    )
    forge.add(4, body="none")
    forge.add(5, body=LINK, diff=DIFF.replace("src/tides/__init__.py", "README.md"))
    done = collect(forge, tmp_path)
    assert done.code == 0, done.err
    why = {each["id"]: each["why"] for row in done.json["funnel"]["filters"] for each in row["fallen"]}
    assert why == {
        "harbour/tides#1": "no test is changed",
        "harbour/tides#2": "only tests are changed",
        "harbour/tides#3": "its difference has a binary file without its bytes (m.png); git has them: --repo-url",
        "harbour/tides#4": "no outside link in title, body, issues and comments",
        "harbour/tides#5": "no Python outside the tests is changed",
    }
    forge.languages = {"Rust": 900, "Python": 100}
    forge.add(6, body=LINK)
    done = collect(forge, tmp_path, "--force", "--since", "2024-01-01")
    assert {row["filter"]: row["fell_out"] for row in done.json["funnel"]["filters"]} == {
        "date": 0,
        "Python-dominant": 6,
    }
    assert list(found(forge, tmp_path, "--pr", "6")) == [6]


def test_migrations_and_fields(forge: Forge, tmp_path: Path) -> None:
    forge.add(1, "Support pydantic v2")
    forge.add(2, "Other")
    row = found(forge, tmp_path, family="DepMigrate")
    assert row[1]["upgrades"] == [{"package": "pydantic", "version": "2", "where": "title or body"}]
    assert 2 not in row
    assert found(forge, tmp_path, family="DomainFix") == {}
    assert set(found(forge, tmp_path, "--field", "seismology", family="DomainFix")) == {1, 2}


def test_the_difference_comes_from_git_where_it_is_at_hand(forge: Forge, tmp_path: Path) -> None:
    work = Work(tmp_path / "tides")
    base = work.commit("First", TREE)
    work.commit("The moon counts (#7)", {**FIX, **TEST, "src/tides/moon.bin": b"\0\1"})
    forge.add(7, body=LINK, diff="")
    row = found(forge, tmp_path, "--repo-url", str(work.folder))[7]
    assert (row["base_commit"], row["source"]["difference"]) == (base, "git")
    assert "moon_day" in row["patch"] and "GIT binary patch" in row["patch"]


@pytest.mark.parametrize(
    "facts, why",
    [
        ({}, ""),
        ({"stargazers_count": 20}, "20 stars or fewer"),
        ({"created_at": "2024-12-05T00:00:00Z"}, "created outside January to November 2024"),
        ({"pushed_at": "2025-08-31T00:00:00Z"}, "not active after August 2025"),
    ],
)
def test_whole_repositories_for_doc2repo(
    forge: Forge, tmp_path: Path, facts: dict[str, Any], why: str
) -> None:
    forge.facts.update(facts)
    done = collect(forge, tmp_path, family="Doc2Repo")
    assert done.code == 0, done.err
    if why:
        assert done.json["candidates"] == 0 and why in done.out
        return
    (row,) = rows(tmp_path / "c.jsonl")
    assert (row["stars"], row["contributors"], row["modules"]) == (21, 3, ["tides"])
    forge.contributors = 2
    assert collect(forge, tmp_path, "--force", family="Doc2Repo").json["candidates"] == 0


def test_servers_that_know_less_give_less(forge: Forge, tmp_path: Path) -> None:
    forge.add(7, body=LINK)
    forge.lacks = {"graphql", "languages", "compare", "/git/trees", "contents"}
    done = collect(forge, tmp_path, token="secret")
    assert done.code == 0, done.err
    assert "asking by REST alone" in done.err
    (row,) = rows(tmp_path / "c.jsonl")
    assert (row["base_commit"], row["distributions"]) == ("c" * 40, [])
    reasons = " ".join(row["review"]["reasons"])
    assert "does not say which languages" in reasons and "may not apply" in reasons


def test_what_the_api_refuses_is_said(forge: Forge, tmp_path: Path) -> None:
    forge.add(9, merged=False)
    assert "not merged" in collect(forge, tmp_path, "--pr", "9").err
    assert collect(forge, tmp_path, "--pr", "99", "--force").code == 2
    forge.trouble = [(401, {}, '{"message": "Bad credentials"}')]
    done = collect(forge, tmp_path, "--force", token="wrong")
    assert done.code == 2 and "GITHUB_TOKEN" in done.err
    assert "wrong" not in done.err + done.out
