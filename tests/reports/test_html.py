"""`report --html` and `--figures`: one file that opens from disk, with every attempt; figures from any set of runs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from beyondswe.instances.model import Family, Instance
from beyondswe.reports.audit.events import read_events
from beyondswe.reports.figures import data
from beyondswe.reports.html.attempts import attempts
from beyondswe.reports.matrix import make_matrix
from beyondswe.reports.published import published_reports
from beyondswe.runs.folder import RunFolder
from tests.browser import Watched, axe_source, axe_violations, open_browser
from tests.reports.folders import run_folder

HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


def report(*words: str) -> str:
    command = [sys.executable, "-m", "beyondswe.cli", "report", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


def a_run(root: Path, run_id: str, scores: dict[str, float], **run: Any) -> Path:
    """A run with files of its attempts."""
    folder = run_folder(root, run_id, scores, **run)
    rows = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    for row in rows:
        calls = {"bash": 3, "search": 2} if run.get("search") else {"bash": 4}
        usage = {
            "input_tokens": 9000,
            "output_tokens": 800,
            "cost_usd": 0.25,
            "turns": 7,
            "tool_calls": calls,
        }
        tests = {"t.py::test_a": "passed", f"t.py::{HOSTILE}": "failed"}
        row |= {
            "usage": usage,
            "flags": ["touched_tests"],
            "f2p": tests,
            "timings": {"agent": 12.5},
            "error": HOSTILE,
        }
        attempt = folder / "attempts" / row["instance_id"] / "1"
        (attempt / "logs").mkdir(parents=True)
        (attempt / "patch.diff").write_text(f"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old {HOSTILE}\n+new\n")
        (attempt / "logs" / "tests.log").write_text("E   assert 1 == 2\n")
        steps = [{"step_id": 1, "source": "user", "message": f"Fix it. {HOSTILE}"}]
        for n in range(2, 30):
            call = {
                "tool_call_id": f"c{n}",
                "function_name": "bash",
                "arguments": {"command": f"cat file_{n}.py"},
            }
            result = {"source_call_id": f"c{n}", "content": f"content of {n} {HOSTILE}"}
            steps.append(
                {
                    "step_id": n,
                    "source": "agent",
                    "message": "",
                    "tool_calls": [call],
                    "observation": {"results": [result]},
                }
            )
        (attempt / "trajectory.json").write_text(json.dumps({"schema_version": "ATIF-v1.8", "steps": steps}))
        egress = {
            "time": "t",
            "method": "GET",
            "url": "https://example.org/",
            "decision": "allow",
            "rule": None,
            "status": 200,
            "size": 5,
        }
        (attempt / "egress.jsonl").write_text(json.dumps(egress) + "\n")
    (folder / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("html")
    common = {"model": HOSTILE, "dataset": {"name": "made"}}
    off = a_run(root, "off", {"C1": 1.0, "C2": 0.0, "F1": 0.0, "D1": 0.5}, search=False, **common)
    on = a_run(root, "on", {"C1": 1.0, "C2": 1.0, "F1": 0.0, "D1": 0.4}, search=True, **common)
    report(str(off), str(on), "--html", str(root / "r.html"), "--figures", str(root / "figures"))
    return root / "r.html"


def test_the_page_holds_everything_and_asks_for_nothing(page: Path) -> None:
    text = page.read_text()
    assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", text) and "@import" not in text
    assert text.count("</script>") == 3  # two runs and the script: nobody's text ends one
    assert "<img" not in text
    assert "+50.0" in text and "(0) / 0" in text
    runs = re.findall(r'<script type="application/json" class="run">(.*?)</script>', text, re.DOTALL)
    attempts = json.loads(runs[1])
    assert len(attempts) == 4 and attempts[0]["requests"][0]["status"] == 200
    assert attempts[0]["steps"][0]["text"] == f"Fix it. {HOSTILE}"


def test_figures_are_svg_with_text_for_light_and_dark(page: Path) -> None:
    files = sorted(path.stem for path in (page.parent / "figures").iterdir())
    assert files == ["avg-cost", "avg-tokens", "search-gain", "search-outcomes", "tool-calls"]
    for path in (page.parent / "figures").iterdir():
        text = path.read_text()
        ET.fromstring(text)
        assert "prefers-color-scheme: dark" in text and "<text" in text and "http://www.w3.org" in text
        assert HOSTILE not in text


def test_only_the_two_files_of_a_run_give_a_page_that_says_what_is_missing(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, "r", {"C1": 1.0})
    said = report(str(folder), "--html", str(tmp_path / "r.html"))
    assert "has no files of this attempt" in (tmp_path / "r.html").read_text()
    assert "dataset made cannot be read here" in said


ODD: dict[str, dict[str, Any]] = {
    "texts": {"observation": "x", "tool_calls": "abc", "metrics": "x"},
    "numbers": {"observation": {"results": 5}, "tool_calls": 5, "message": 5},
    "nothing": {"observation": {"results": [None, 5]}, "tool_calls": [None], "metrics": None},
    "lists": {
        "tool_calls": [{"tool_call_id": [1], "function_name": None, "arguments": 5}],
        "observation": {"results": [{"source_call_id": [1], "content": {"a": 1}}]},
    },
}


@pytest.mark.parametrize("shape", [*ODD, "deep"])
def test_a_trajectory_that_is_none_spoils_neither_page_nor_audit(tmp_path: Path, shape: str) -> None:
    steps = [{"step_id": 1, "source": "agent", "message": "m", **ODD.get(shape, {})}]
    text = json.dumps({"schema_version": "ATIF-v1.8", "steps": steps}) if shape in ODD else "[" * 100_000
    folder = run_folder(tmp_path, "run", {"C1": 1.0})
    attempt = folder / "attempts" / "C1" / "1"
    attempt.mkdir(parents=True)
    (attempt / "trajectory.json").write_text(text)
    (attempt / "egress.jsonl").write_text("[" * 100_000 + "\n5\n")
    shown = next(attempts(RunFolder(folder)))
    assert len(shown["steps"]) == (shape in ODD)
    json.dumps(shown, allow_nan=False)
    read_events({"trajectory.json": text.encode()})


def test_files_of_strangers_neither_spoil_the_page_nor_lead_elsewhere(tmp_path: Path) -> None:
    folder = a_run(tmp_path, "r", {"C1": 1.0})
    attempt = folder / "attempts" / "C1" / "1"
    (tmp_path / "secret").write_text("of the host")
    (attempt / "patch.diff").unlink()
    (attempt / "patch.diff").symlink_to(tmp_path / "secret")
    steps = (
        '[{"step_id": NaN, "source": "agent", "message": "m", "metrics": {"completion_tokens": Infinity}}]'
    )
    (attempt / "trajectory.json").write_text(f'{{"schema_version": "ATIF-v1.8", "steps": {steps}}}')
    report(str(folder), "--html", str(tmp_path / "r.html"))
    text = (tmp_path / "r.html").read_text()
    assert "of the host" not in text
    found = re.search(r'<script type="application/json" class="run">(.*?)</script>', text, re.DOTALL)
    assert found and "NaN" not in found[1] and "Infinity" not in found[1]


def test_numbers_of_the_figures() -> None:
    shares = data.outcomes_of_search(make_matrix(published_reports()))
    assert shares["DomainFix"] == data.Shares(3, 0, 0) and shares["Doc2Repo"] == data.Shares(2, 0, 1)
    assert shares["all"].n == 12 and shares["all"].regressed == 2
    points = [
        data.Point(str(i), x, y)
        for i, (x, y) in enumerate([(1, 10), (2, 8), (2, 12), (3, 12), (4, 20), (0.5, 1)])
    ]
    assert [(p.x, p.y) for p in data.frontier(points)] == [(0.5, 1), (1, 10), (2, 12), (4, 20)]
    assert data.lowess(points[:4]) == [] and len(data.lowess(points)) == 6


def test_sizes_of_doc2repo() -> None:
    def of(lines: int) -> Instance:
        patch = "--- /dev/null\n+++ b/a.py\n" + "+x\n" * lines + "--- /dev/null\n+++ b/a.txt\n+no\n"
        return Instance(instance_id=str(lines), family=Family.DOC2REPO, image="i", patch=patch)

    found = data.doc2repo_sizes(
        [of(10), of(1500), of(1501), of(5000), Instance(instance_id="n", family=Family.DOC2REPO, image="i")]
    )
    assert found == {"≤ 1500": 2, "1500–4000": 1, "≥ 4000": 1, "unknown": 1}


@pytest.mark.slow
def test_the_page_in_a_browser(page: Path, tmp_path: Path) -> None:
    axe = axe_source(tmp_path)
    with open_browser() as browser:
        for scheme, width in (("light", 1280), ("dark", 390)):
            watched = Watched(browser, color_scheme=scheme, viewport={"width": width, "height": 800})
            watched.page.goto(page.as_uri())
            assert axe_violations(watched.page, axe) == []
            assert watched.page.evaluate("document.documentElement.scrollWidth") <= width
            watched.page.fill("#search", "C2")  # also in Doc2Repo
            watched.page.select_option("#family", "CrossRepo")
            assert watched.page.locator("table.attempts tbody tr:visible").count() == 2
            watched.page.select_option("#status", "resolved")
            assert watched.page.locator("#count").inner_text() == "1 of 8"
            watched.page.locator("table.attempts tbody tr:visible a").focus()
            watched.page.keyboard.press("Enter")
            dialog = watched.page.locator("dialog[open]")
            assert dialog.locator("h2").inner_text() == "C2 (1)"
            assert dialog.locator(".added").inner_text() == "+new"
            dialog.locator("input[type=search]").fill("file_17")
            assert dialog.locator(".step:visible").count() == 1
            assert "content of 17" in dialog.locator(".step:visible").inner_text()
            assert axe_violations(watched.page, axe) == []
            dialog.get_by_role("button", name="Close").press("Enter")
            assert dialog.count() == 0
            assert watched.page.title() != "owned" and watched.errors == []
            assert all(url.startswith(("file:", "data:")) for url in watched.requests)
