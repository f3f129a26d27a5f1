"""The review of candidates: by a model behind a real endpoint, and by people at the command line."""

from __future__ import annotations

import http.server
import json
import os
import pwd
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from beyondswe.construction.collect.candidates import read_candidates, review, write_rows
from beyondswe.construction.collect.reviewing import Review
from beyondswe.errors import DataError
from tests.construction.collect.histories import BASE, FIX, TEST, Done, Work, beyondswe, rows

GOOD = '{"relevant": true, "leaks": false, "reason": "a real fault"}'


@contextmanager
def model(*answers: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server of chat completions that gives these answers, the last one again and again."""
    asked: list[dict[str, Any]] = []
    left = list(answers)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/chat/completions"
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append({**body, "authorization": self.headers.get("Authorization")})
            answer = left.pop(0) if len(left) > 1 else left[0]
            status = int(answer) if answer.isdigit() else 200
            data = json.dumps({"choices": [{"message": {"content": answer}}]}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1", asked
        finally:
            server.shutdown()


def judged(
    tmp_path: Path, url: str, message: str = "The moon counts (#7)"
) -> tuple[Done, list[dict[str, Any]]]:
    work = Work(tmp_path / "tides")
    work.commit("First", BASE)
    work.commit(message, {**FIX, **TEST})
    done = beyondswe(
        "collect", "git", "--repo", "harbour/tides", "--repo-url", str(work.folder), "--family", "CrossRepo",
        "--out", "c.jsonl", "--model", "m1", "--model-url", url, "--json",
        cwd=tmp_path, env={"OPENAI_API_KEY": "key", "BEYONDSWE_CACHE": str(tmp_path / "cache")},
    )  # fmt: skip
    return done, rows(tmp_path / "c.jsonl") if done.code == 0 else []


@pytest.mark.parametrize(
    ("answer", "status", "verdict"),
    [
        (GOOD, "accepted", "accept"),
        (f"Sure!\n```json\n{GOOD}\n```", "accepted", "accept"),
        ('{"relevant": true, "leaks": true, "reason": "names the function"}', "rejected", "reject"),
        ('{"relevant": false, "leaks": false, "reason": "no problem"}', "rejected", "reject"),
        ("I cannot say", "needs_review", None),
        ('{"relevant": "yes", "leaks": 0}', "needs_review", None),
    ],
)
def test_a_models_verdict_is_kept_with_its_reason(
    tmp_path: Path, answer: str, status: str, verdict: str | None
) -> None:
    with model(answer) as (url, asked):
        done, (row,) = judged(tmp_path, url)
    assert (row["review"]["status"], row["review"]["judge"]["verdict"]) == (status, verdict)
    assert row["review"]["judge"]["model"] == "m1" and row["review"]["judge"]["reason"]
    assert done.json["statuses"] == {status: 1}
    assert asked[0]["authorization"] == "Bearer key" and asked[0]["model"] == "m1"
    assert "moon_day" in asked[0]["messages"][1]["content"]


def test_our_own_leak_check_outweighs_a_model_that_sees_none(tmp_path: Path) -> None:
    with model(GOOD) as (url, _):
        _, (row,) = judged(tmp_path, url, "Use `moon_day` (#7)")
    assert row["review"]["status"] == "needs_review"


def test_endpoints_that_fail_are_asked_again_then_named(tmp_path: Path) -> None:
    with model("500", GOOD) as (url, asked):
        _, (row,) = judged(tmp_path, url)
    assert row["review"]["status"] == "accepted" and len(asked) == 2


@pytest.mark.parametrize(("answer", "code"), [("401", 2), ("500", 3)])
def test_endpoints_that_refuse_are_an_error(tmp_path: Path, answer: str, code: int) -> None:
    with model(answer) as (url, _):
        done, _ = judged(tmp_path, url)
    assert done.code == code and url in done.err
    assert not (tmp_path / "c.jsonl").exists()


def candidate(name: str, **more: Any) -> dict[str, Any]:
    return {
        "instance_id": name, "task": "CrossRepo", "repo": "harbour/tides", "problem_statement": f"about {name}",
        "title": name, "pulls": [7], "patch": "the patch\n", "f2p_patch": "the tests\n", "links": ["https://a.org/x"],
        "leaks": [], "review": review(["to be read"]), **more,
    }  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "c.jsonl"
    write_rows(path, [candidate("one"), candidate("two"), candidate("three")])
    return path


def walk(file: Path, keys: str, *options: str, editor: str = "false", user: str = "ada") -> Done:
    environment = {
        **dict.fromkeys(("LOGNAME", "USER", "LNAME", "USERNAME"), user),
        "EDITOR": editor,
        "VISUAL": "",
        "BEYONDSWE_CACHE": str(file.parent / "cache"),
    }
    return beyondswe(
        "collect", "review", str(file), "--json", *options, cwd=file.parent, stdin=keys, env=environment
    )


def states(file: Path) -> list[str]:
    return [row["review"]["status"] for row in read_candidates(file)]


def test_a_person_accepts_rejects_and_skips(file: Path) -> None:
    done = walk(file, "p\nt\nx\na\nr\nnot a task\ns\n")
    assert done.code == 0, done.err
    assert states(file) == ["accepted", "rejected", "needs_review"]
    for words in (
        "about one",
        "https://a.org/x",
        "to be read",
        "the patch",
        "the tests",
        "press one of these",
    ):
        assert words in done.err
    assert (done.json["accepted"], done.json["rejected"], done.json["needs_review"]) == (1, 1, 1)
    assert done.json["waiting_for_you"] == ["three"]
    vote = read_candidates(file)[1]["review"]["votes"][0]
    assert (vote["reviewer"], vote["verdict"], vote["reason"]) == ("ada", "reject", "not a task")
    assert "three" in walk(file, "q\n").err and "about one" not in walk(file, "q\n").err


def test_a_reviewer_is_known_by_the_account_where_no_variable_names_one(file: Path) -> None:
    assert walk(file, "a\nq\n", user="").code == 0
    (vote,) = read_candidates(file)[0]["review"]["votes"]
    assert vote["reviewer"] == pwd.getpwuid(os.getuid()).pw_name


def test_what_a_terminal_would_obey_is_shown_escaped(file: Path) -> None:
    write_rows(file, [candidate("one", title="\x1b]0;owned\x07", problem_statement="a\tb\x1b[2J\nnext")])
    done = walk(file, "q\n")
    assert "\x1b[2J" not in done.err and "\x1b]0" not in done.err
    assert "\\x1b[2J" in done.err and "\nnext" in done.err


def test_leaving_in_the_middle_keeps_every_decision(file: Path) -> None:
    assert walk(file, "a\n").code == 0, "the input ends after the first"
    assert states(file) == ["accepted", "needs_review", "needs_review"]


def test_three_reviewers_must_all_accept(file: Path) -> None:
    for name, keys in (("ada", "a\na\na\n"), ("bob", "a\na\nr\nno\n"), ("ada", "a\n")):
        walk(file, keys, "--reviewers", "3", "--reviewer", name)
    assert states(file) == ["needs_review", "needs_review", "rejected"]
    walk(file, "a\n", "--reviewers", "3", "--reviewer", "cyd")
    assert states(file) == ["accepted", "needs_review", "rejected"]


def test_an_edited_statement_is_checked_and_must_be_accepted_again(file: Path, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf "better, see #7\\n" > "$1"\n')
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    walk(file, "a\nq\n", "--reviewers", "2", "--reviewer", "bob")
    done = walk(file, "e\na\nq\n", "--reviewers", "2", editor=str(editor))
    assert "leak (link): #7" in done.err
    row = read_candidates(file)[0]
    assert row["problem_statement"] == "better, see #7"
    assert row["review"]["status"] == "needs_review", "bob accepted another text"
    walk(file, "a\nq\n", "--reviewers", "2", "--reviewer", "bob")
    assert states(file)[0] == "accepted"


def test_an_editor_that_changes_nothing_changes_nothing(file: Path) -> None:
    assert "stays as it is" in walk(file, "e\nq\n", editor="true").err
    assert read_candidates(file)[0]["problem_statement"] == "about one"


def test_many_may_review_at_once(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEYONDSWE_CACHE", str(file.parent / "cache"))
    walks = [Review(file, f"person {number}", 8) for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda one: one.vote("two", "accept"), walks))
    assert states(file) == ["needs_review", "accepted", "needs_review"]
    with pytest.raises(DataError, match="changed by somebody else"):
        walks[0].vote("one", "accept", read="another text")


def test_files_that_hold_no_candidates_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    for text, words in {
        "{": "c.jsonl:1: not JSON",
        '{"instance_id": "a"}\n': "it is no candidate",
        json.dumps(candidate("a")) + "\n" + json.dumps(candidate("a")): "is there already, in line 1",
        "[]": "a row is an object",
    }.items():
        path.write_text(text)
        done = walk(path, "")
        assert done.code == 2 and words in done.err
    assert walk(tmp_path / "none.jsonl", "").code == 2
