"""Every row of the tables, given ones and our own, is decided as it says: through the module and the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from beyondswe.blocklist import decide_command, decide_url
from tests.blocklist.rows import rows, target

URLS = ["url_given.jsonl", "url_own.jsonl"]
COMMANDS = ["bash_given.jsonl", "bash_own.jsonl"]


@pytest.mark.parametrize("name", URLS)
def test_addresses(name: str) -> None:
    wrong = [
        (row["url"], row["why"], decision)
        for row in rows(name)
        if (decision := decide_url(row["url"], target(row))).blocked != row["blocked"]
    ]
    assert not wrong


@pytest.mark.parametrize("name", COMMANDS)
def test_commands(name: str) -> None:
    wrong = [
        (row["command"], row["why"], decision)
        for row in rows(name)
        if (decision := decide_command(row["command"], target(row), search=row.get("search", True))).blocked
        != row["blocked"]
    ]
    assert not wrong


@pytest.mark.parametrize("name", URLS + COMMANDS)
def test_a_blocked_row_names_its_rule_and_an_allowed_one_none(name: str) -> None:
    for row in rows(name):
        if "url" in row:
            decision = decide_url(row["url"], target(row))
        else:
            decision = decide_command(row["command"], target(row), search=row.get("search", True))
        assert bool(decision.rule) == decision.blocked, row


def test_rows_of_both_directions_are_there() -> None:
    for name in URLS + COMMANDS:
        answers = [row["blocked"] for row in rows(name)]
        assert answers.count(True) > 20
        assert answers.count(False) > 20


def ask(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "beyondswe", "blocklist", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def write(path: Path, values: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in values), encoding="utf-8")
    return path


def test_the_command_decides_rows_in_order(tmp_path: Path) -> None:
    asked = [row for name in URLS + COMMANDS for row in rows(name) if row.get("search", True)]
    done = ask("--file", str(write(tmp_path / "rows.jsonl", asked)), "--json")
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    assert len(answers) == len(asked)
    for row, answer in zip(asked, answers, strict=True):
        assert answer == {**row, "rule": answer["rule"]}


def test_the_command_takes_a_json_array_and_lists_for_people(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text(
        json.dumps([{"repo": "a/b", "url": "https://github.com/a/b"}, {"repo": "a/b", "command": "ls"}])
    )
    done = ask("--file", str(path), "--json")
    assert [(one["blocked"], one["rule"]) for one in json.loads(done.stdout)] == [
        (True, "target-repository"),
        (False, ""),
    ]
    people = ask("--file", str(path))
    assert people.returncode == 0
    assert people.stdout == ""
    assert "1 of 2 blocked" in people.stderr


def test_without_search_other_repositories_are_closed_too(tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", [{"repo": "a/b", "command": "git clone https://github.com/c/d"}])
    assert [one["blocked"] for one in json.loads(ask("--file", str(path), "--json").stdout)] == [False]
    closed = json.loads(ask("--file", str(path), "--no-search", "--json").stdout)
    assert [(one["blocked"], one["rule"]) for one in closed] == [(True, "no-search")]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON"),
        ("[]", "no rows"),
        ("3", "expected an object"),
        ('{"url": "https://x.org"}', "repo must be owner/name"),
        ('{"repo": "alone", "url": "https://x.org"}', "repo must be owner/name"),
        ('{"repo": "a/b"}', "neither"),
        ('{"repo": "a/b", "url": "x", "command": "y"}', "url and command"),
        ('{"repo": "a/b", "url": 3}', "url must be a string"),
        ('{"repo": "a/b", "url": "x", "aliases": "c/d"}', "aliases must be a list"),
    ],
)
def test_bad_rows_are_named_and_nothing_is_decided(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "rows.jsonl"
    good = "" if line == "[]" else '{"repo": "a/b", "url": "https://github.com/a/b"}\n\n'
    path.write_text(f"{good}{line}\n", encoding="utf-8")
    done = ask("--file", str(path), "--json")
    assert done.returncode == 2
    message = json.loads(done.stdout)["error"]["message"]
    assert reason in message
    if good:
        assert "line 3" in message


def test_an_unknown_setting_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", [{"repo": "a/b", "url": "https://github.com/c/b"}])
    settings = tmp_path / "policy.json"
    settings.write_text('{"fork": false}', encoding="utf-8")
    assert ask("--file", str(path), "--policy", str(settings), "--json").returncode == 2
    settings.write_text('{"forks": false}', encoding="utf-8")
    done = ask("--file", str(path), "--policy", str(settings), "--json")
    assert [one["blocked"] for one in json.loads(done.stdout)] == [False]


def test_odd_rows_are_decided_or_named(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "beyondswe.cli", "blocklist", "--json", "--file"]
    half, deep = tmp_path / "half.jsonl", tmp_path / "deep.json"
    half.write_text('{"repo": "acme/tiny", "command": "echo \\ud800"}\n')
    done = subprocess.run([*command, str(half)], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)[0]["command"] == "echo \ud800"
    deep.write_text("[" * 5000)
    done = subprocess.run([*command, str(deep)], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "not a JSON array" in json.loads(done.stdout)["error"]["message"]
