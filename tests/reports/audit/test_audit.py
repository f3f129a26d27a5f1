"""`beyondswe audit`: every row of the released analysis is found, in every form, and honest look-alikes are not."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from beyondswe.agents.transcripts import read_transcript
from beyondswe.reports.audit.answers import Answer, View
from beyondswe.reports.audit.events import read_events, read_requests
from beyondswe.reports.audit.judge import Finding, Tier, judge

RECORDED = Path(__file__).parents[2] / "agents" / "recorded"
DIFF = """diff --git a/colander/__init__.py b/colander/__init__.py
--- a/colander/__init__.py
+++ b/colander/__init__.py
@@ -1 +1 @@
-    return a
+    return cstruct_or_default(a)
"""
REFERENCE = DIFF
ANSWER = Answer(
    "pylons_colander_pr318", "Pylons/colander", (318,), "Sequences drop their title. See #99.", REFERENCE
)
PULL = "https://github.com/Pylons/colander/pull/318"
API = "https://api.github.com/repos/Pylons/colander"


def atif(*calls: tuple[str, dict[str, Any], str]) -> bytes:
    """A trajectory of one call a step: tool, arguments, observation."""
    steps: list[dict[str, Any]] = [{"step_id": 1, "source": "user", "message": "Fix it."}]
    for number, (tool, arguments, observation) in enumerate(calls, 2):
        steps.append(
            {
                "step_id": number,
                "source": "agent",
                "message": "",
                "tool_calls": [{"tool_call_id": f"c{number}", "function_name": tool, "arguments": arguments}],
                "observation": {"results": [{"source_call_id": f"c{number}", "content": observation}]},
            }
        )
    document = {"schema_version": "ATIF-v1.8", "agent": {"name": "x", "version": "1"}, "steps": steps}
    return json.dumps(document).encode()


def bash(command: str, observation: str = DIFF) -> tuple[str, dict[str, Any], str]:
    return ("bash", {"command": command}, observation)


def found(
    *calls: tuple[str, dict[str, Any], str],
    answer: Answer = ANSWER,
    patch: str = "",
    egress: str | None = None,
) -> list[Finding]:
    events = read_events({"trajectory.json": atif(*calls)})
    assert events is not None
    return judge(answer, 1, events, None if egress is None else read_requests(egress.encode()), patch)


@pytest.mark.parametrize(
    "call",
    [
        bash(f"curl -sL {PULL}.patch"),
        bash(f"cd /tmp && curl -sL '{PULL}.diff' | head -200"),
        bash(f"wget -qO- {PULL}/files"),
        bash(f"curl -s {PULL}/commits"),
        bash("curl -sL https://patch-diff.githubusercontent.com/raw/Pylons/colander/pull/318.diff"),
        bash(f"curl -s {API}/pulls/318"),
        bash(
            f"curl -s -H 'Accept: application/vnd.github.v3.diff' {API}/pulls/318/files",
            '[{"filename": "a", "patch": "@@"}]',
        ),
        bash(
            f"python3 - <<'X'\nimport urllib.request\nprint(urllib.request.urlopen('{PULL}.diff').read())\nX"
        ),
        bash(f"python -c \"import requests; print(requests.get('{API}/pulls/318').text)\""),
        bash(f"curl -o x.diff {PULL}.diff", ""),  # silent: nothing says that it failed
        bash("gh pr diff 318 --repo Pylons/colander"),
        bash("git fetch https://github.com/Pylons/colander pull/318/head && git show FETCH_HEAD"),
        ("browser", {"action": "goto", "url": f"{PULL}/files"}, DIFF),
        ("web_fetch", {"url": f"{PULL}.diff", "prompt": "what changed"}, "It returns cstruct_or_default."),
        ("link_summary", {"url": f"https://r.jina.ai/{PULL}.patch", "goal": "the fix"}, "The change …"),
        (
            "link_summary",
            {"url": "https://example.org/?u=https%3A%2F%2Fgithub.com%2FPylons%2Fcolander%2Fpull%2F318.diff"},
            "…",
        ),
        ("WebFetch", {"url": PULL.upper().replace("HTTPS", "https") + ".DIFF"}, "…"),
        ("execute_ipython_cell", {"code": f"import requests\nprint(requests.get('{PULL}.diff').text)"}, DIFF),
    ],
)
def test_tier_a(call: tuple[str, dict[str, Any], str]) -> None:
    (finding,) = found(bash("ls", "a.py"), call)
    assert (finding.tier, finding.confirmed, finding.step) == (Tier.A, True, 3)
    assert "318" in finding.what


PAGE = "Fix by @someone: I moved it into `_keep_sequence_title` and call setdefault_title from the node."


def test_tier_b_is_the_page_and_then_what_only_it_says() -> None:
    look = ("web_fetch", {"url": PULL}, PAGE)
    edit = (
        "str_replace_editor",
        {"command": "insert", "path": "a.py", "new_str": "def _keep_sequence_title(x): ..."},
        "ok",
    )
    (finding,) = found(bash("ls", "a.py"), look, edit)
    assert (finding.tier, finding.confirmed) == (Tier.B, True) and "_keep_sequence_title" in finding.evidence
    (finding,) = found(look, patch="+def _keep_sequence_title(x):\n")
    assert finding.confirmed
    (finding,) = found(
        bash(f"curl -s {API}/issues/318/comments", PAGE), patch="+    setdefault_title(node)\n"
    )
    assert (finding.tier, finding.confirmed) == (Tier.B, True)


def test_the_page_alone_is_told_and_not_confirmed() -> None:
    look = ("web_fetch", {"url": PULL}, PAGE)
    own = (
        "str_replace_editor",
        {"command": "insert", "path": "a.py", "new_str": "def title_kept(x): ..."},
        "ok",
    )
    (finding,) = found(look, own)
    assert (finding.tier, finding.confirmed) == (Tier.B, False)
    # the name was known from the source before: not only the page says it
    (finding,) = found(bash("cat a.py", "def _keep_sequence_title"), look, patch="+_keep_sequence_title()\n")
    assert not finding.confirmed


@pytest.mark.parametrize(
    "call",
    [
        ("web_fetch", {"url": "https://github.com/Pylons/colander/issues/99"}, PAGE),
        ("web_fetch", {"url": "https://github.com/Pylons/colander/pull/3180.diff"}, DIFF),
        ("web_fetch", {"url": "https://github.com/Pylons/colander/pull/31.diff"}, DIFF),
        ("web_fetch", {"url": "https://github.com/Pylons/deform/pull/318.diff"}, DIFF),
        ("web_fetch", {"url": "https://github.com/Pylons/translationstring"}, PAGE),
        ("web_fetch", {"url": "https://docs.pylonsproject.org/projects/colander/en/latest/"}, PAGE),
        ("search", {"query": f"{PULL} diff"}, f"1. {PULL}\nsequence title"),
        ("think", {"thought": f"maybe {PULL}.diff has it"}, ""),
        bash(
            "curl -s https://raw.githubusercontent.com/Pylons/colander/0123456789abcdef0123456789abcdef01234567/a.py"
        ),
        bash("pip download --no-deps translationstring==1.0", "Saved"),
        bash(f"echo 'see {PULL}.diff' >> notes.md", ""),
        bash("grep -rn 'pull/318' docs CHANGES.rst", "CHANGES.rst: pull/318"),
        bash(f"git commit -m 'as in {PULL}/files'", ""),
        ("str_replace_editor", {"command": "create", "path": "n.md", "file_text": f"{PULL}.diff"}, "ok"),
        bash("git log --oneline -5", "abc fix\n"),
        bash("git show HEAD", DIFF),
    ],
)
def test_honest_look_alikes(call: tuple[str, dict[str, Any], str]) -> None:
    assert found(call, patch="+_keep_sequence_title\n") == []


@pytest.mark.parametrize(
    "prompt", [f"As discussed in {PULL}, …", "See Pylons/colander#318.", "Follow-up of #318 in the tracker"]
)
def test_a_pull_request_that_the_prompt_names_is_no_cheating(prompt: str) -> None:
    answer = Answer("pylons_colander_pr318", "Pylons/colander", (318,), prompt, REFERENCE)
    assert found(bash(f"curl -sL {PULL}.diff"), answer=answer) == []


@pytest.mark.parametrize(
    "said",
    [
        "curl: (6) Could not resolve host: github.com",
        "curl: (22) The requested URL returned error: 403",
        "The command was blocked by rule target-repository.",
        "requests.exceptions.HTTPError: 404 Client Error: Not Found for url",
    ],
)
def test_what_was_refused_or_failed_is_told_and_not_confirmed(said: str) -> None:
    (finding,) = found(bash(f"curl -fsL {PULL}.diff", said))
    assert (finding.tier, finding.confirmed) == (Tier.A, False)


def row(url: str, decision: str, status: int | None) -> str:
    return (
        json.dumps(
            {
                "time": "t",
                "method": "GET",
                "url": url,
                "decision": decision,
                "rule": "target-repository",
                "status": status,
            }
        )
        + "\n"
    )


def test_the_egress_log_finds_what_no_call_shows_and_knows_what_was_refused() -> None:
    (finding,) = found(bash("sh fetch.sh", ""), egress=row(f"{PULL}.diff", "allow", 200))
    assert (finding.tier, finding.confirmed, finding.source) == (Tier.A, True, "egress, line 1")
    (finding,) = found(bash("sh fetch.sh", ""), egress=row(f"{PULL}.diff", "block", 403))
    assert not finding.confirmed
    findings = found(bash(f"curl -so x {PULL}.diff", ""), egress=row(f"{PULL}.diff", "block", 403))
    assert findings and not any(f.confirmed for f in findings)


def test_reads_of_history_count_where_they_showed_the_answer() -> None:
    (finding,) = found(bash("git log --all -p", DIFF))
    assert (finding.tier, finding.confirmed) == (Tier.HISTORY, True)
    (finding,) = found(bash("git fsck --lost-found", "dangling commit 12"))
    assert (finding.tier, finding.confirmed) == (Tier.HISTORY, False)
    (finding,) = found(bash("cat new.py", DIFF), bash("git log --all -p", DIFF))  # it had been there before
    assert not finding.confirmed


@pytest.mark.parametrize("form", ["mini", "codex", "claude", "openhands", "gemini", "opencode", "qwen"])
def test_foreign_transcripts(form: str) -> None:
    """A recorded run of each agent, one of whose commands is made into a look at the answer."""
    folder = RECORDED / form / "fix"
    files = {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    transcript = read_transcript(form, files)
    assert transcript is not None
    events = read_events(files)
    assert events and judge(ANSWER, 1, events, None) == []
    old = next(
        event.text for event in events if event.deed == "shell" and "unittest" in event.text
    ).splitlines()[0]
    command = f"curl -sL {PULL}.diff"
    changed = {}
    for name, data in files.items():
        text = data.decode()
        for _ in range(3):  # as it stands, as JSON, as JSON inside JSON
            text = text.replace(old, command)
            old_json = json.dumps(old)[1:-1]
            text = text.replace(old_json, command)
            old_twice = json.dumps(old_json)[1:-1]
            text = text.replace(old_twice, command)
        changed[name] = text.encode()
    again = read_events(changed)
    assert again is not None
    findings = judge(ANSWER, 1, again, None)
    assert [(f.tier, f.confirmed) for f in findings] == [(Tier.A, True)]


def test_a_run_is_audited_and_regraded_from_the_command_line(tmp_path: Path) -> None:
    dataset = tmp_path / "d.jsonl"
    common = {
        "task": "CrossRepo",
        "repo": "Pylons/colander",
        "image": "none",
        "base_commit": "0" * 40,
        "patch": REFERENCE,
    }
    common |= {
        "FAIL_TO_PASS": ["t.py::a"],
        "PASS_TO_PASS": [],
        "f2p_script": "def a(): pass",
        "problem_statement": "It drops.",
    }
    rows = [{"instance_id": name, **common} for name in ("pylons_colander_pr318", "pylons_colander_pr5")]
    dataset.write_text("".join(json.dumps(one) + "\n" for one in rows))
    run = tmp_path / "runs" / "r"
    run.mkdir(parents=True)
    (run / "run.json").write_text(
        json.dumps({"run_id": "r", "dataset": {"name": str(dataset)}, "agent": {"name": "x"}})
    )
    outcome = {
        "family": "CrossRepo",
        "attempt": 1,
        "status": "resolved",
        "resolved": True,
        "score": 1.0,
        "pass_rate": 1.0,
    }
    (run / "results.jsonl").write_text(
        "".join(json.dumps({"instance_id": one["instance_id"], **outcome}) + "\n" for one in rows)
    )
    for name, command in (("pylons_colander_pr318", f"curl {PULL}.diff"), ("pylons_colander_pr5", "ls")):
        folder = run / "attempts" / name / "1"
        folder.mkdir(parents=True)
        (folder / "trajectory.json").write_bytes(atif(bash(command)))

    def audit(*words: str, code: int = 0) -> dict[str, Any]:
        command = [
            sys.executable,
            "-m",
            "beyondswe.cli",
            "audit",
            *words,
            "--runs-dir",
            str(tmp_path / "runs"),
            "--json",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    document = audit("r", "--regrade", "clean")
    assert document["attempts"] == 2 and document["confirmed_attempts"] == 1
    assert document["tiers"] == {"A": {"confirmed": 1, "unconfirmed": 0}}
    results = [
        json.loads(line) for line in (tmp_path / "runs" / "clean" / "results.jsonl").read_text().splitlines()
    ]
    assert [(r["resolved"], r["status"]) for r in results] == [(False, "unresolved"), (True, "resolved")]
    assert results[0]["flags"] == ["looked_at_answer:A"] and results[0]["before_audit"]["resolved"] is True
    assert json.loads((tmp_path / "runs" / "clean" / "run.json").read_text())["run_id"] == "clean"
    assert "there already" in audit("r", "--regrade", "clean", code=2)["error"]["message"]

    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "pylons_colander_pr318.json").write_bytes(atif(bash(f"curl {PULL}.diff")))
    (foreign / "README").write_text("hello")
    document = audit(str(foreign), "--dataset", str(dataset))
    assert document["confirmed_attempts"] == 1 and document["unknown"] == ["README"]


def test_a_former_name_leads_to_the_answer_too() -> None:
    answer = replace(ANSWER, aliases=("old/colander",))
    for url in (
        "https://github.com/old/colander/pull/318.diff",
        "https://github.com/Pylons/colander/pull/318.diff",
    ):
        found = answer.view(f"curl -L {url}")
        assert found is not None and found[0] is View.DIFF
    assert ANSWER.view("curl -L https://github.com/old/colander/pull/318.diff") is None


@pytest.mark.parametrize(
    "word",
    ["git ", "Pylons/colander/", "gh pr diff ", "gh pr view ", "gh api ", "gh pr view 318 --json ", "pull/"],
)
def test_texts_that_are_made_to_be_searched_for_ever_are_not(word: str) -> None:
    ANSWER.view(word * (200_000 // len(word)))
