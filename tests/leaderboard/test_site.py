"""`leaderboard build` and `serve`: a static site that asks for nothing elsewhere, and the numbers as JSON and CSV."""

from __future__ import annotations

import csv
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import pytest

from beyondswe.leaderboard.entries import read_board
from beyondswe.leaderboard.records import note_rescored
from tests.browser import Watched, axe_source, axe_violations, open_browser
from tests.leaderboard.board import call, change_rows, change_yaml, demo, demo_run

HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">$x^$"
IDS = sorted(instance.instance_id for instance in demo().instances)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built board: half of the demo solved with search, all without, none by somebody with an odd name."""
    root = tmp_path_factory.mktemp("board")
    half = {name: n < 2 for n, name in enumerate(IDS)}
    for name, solved, words, facts in (
        ("half", half, ["--open-weights", "--link", "https://example.org/"], {"search": True, "model": "A"}),
        ("all", True, ["--closed-weights"], {"model": "B", "finished": "2026-06-01T11:00:00+00:00"}),
        ("odd", False, ["--author", HOSTILE], {"model": HOSTILE, "attempts": 2}),
    ):
        run = demo_run(root / "runs", name, solved, **facts)
        assert call("pack", run, "--site", root / "site", *words)[0] == 0
    code, said = call("build", "--site", root / "site")
    assert code == 0 and said["submissions"] == 3 and said["published"] == 8 and said["refused"] == {}
    return root / "site"


class _Links(HTMLParser):
    """Addresses on a page, and ids in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))
        if tag in ("script", "img", "iframe", "link", "source") and (
            at := given.get("src") or given.get("href")
        ):
            self.loaded.append(str(at))


def test_pages_lead_to_pages_that_are_there_and_load_nothing_from_elsewhere(site: Path) -> None:
    public = site / "public"
    pages = sorted(public.rglob("*.html"))
    assert {"index.html", "figures.html", "matrix.html", "submit.html", "half.html"} <= {
        p.name for p in pages
    }
    outside = set()
    for page in pages:
        found = _Links(page.read_text())
        for link in found.links + found.loaded:
            if link.startswith(("http:", "https:")):
                outside.add(link)
            elif not link.startswith(("#", "data:")):
                assert (page.parent / link).is_file(), (page, link)
        assert not any(link.startswith(("http", "//")) for link in found.loaded)
    assert outside == {"https://example.org/"}
    assert (
        "@import" not in (public / "site.css").read_text() and "url(" not in (public / "site.css").read_text()
    )


def test_texts_are_escaped_on_every_page(site: Path) -> None:
    for page in (site / "public").rglob("*.html"):
        assert "<img" not in page.read_text() and "<script>" not in page.read_text(), page


def test_published_rows_come_first_marked_and_without_interval(site: Path) -> None:
    rows = json.loads((site / "public" / "leaderboard.json").read_text())
    published = rows[:8]
    assert all(row["reported"] and row["verification"] == "as reported, not rescored" for row in published)
    assert all(row["scores"]["avg_interval"] is None for row in published)
    assert published[0]["scores"]["avg"] == pytest.approx(56.65, abs=0.005)
    assert [row["name"] for row in rows[8:]] == ["all", "half", "odd"]
    assert rows[8]["verification"] == "as submitted" and rows[9]["open_weights"] is True
    family = rows[9]["scores"]["families"]["CrossRepo"]
    assert family["interval"][0] < family["rate"] or family["interval"][1] > family["rate"]
    text = (site / "public" / "index.html").read_text()
    assert text.count("as reported, not rescored") == 8 and 'href="s/half.html"' in text


def test_the_numbers_as_csv(site: Path) -> None:
    rows = list(csv.DictReader((site / "public" / "leaderboard.csv").open()))
    assert len(rows) == 11 and rows[8]["name"] == "all" and float(rows[8]["AVG"]) == 100
    assert rows[0]["AVG_low"] == "" and rows[10]["model"] == HOSTILE
    solved = list(csv.DictReader((site / "public" / "matrix.csv").open()))
    assert sorted(row["instance_id"] for row in solved) == IDS
    assert {row["instance_id"]: row["half"] for row in solved} == {
        name: "1" if n < 2 else "0" for n, name in enumerate(IDS)
    }


def test_who_solves_what(site: Path) -> None:
    (only,) = json.loads((site / "public" / "matrix.json").read_text())
    assert [name for name, _ in only["submissions"]] == ["all", "half", "odd"]
    half = dict(zip([name for name, _ in only["instances"]], only["cells"][1], strict=True))
    assert half == {name: "+" if n < 2 else "0" for n, name in enumerate(IDS)}
    assert only["cells"][0] == "++++" and only["cells"][2] == "0000"


def test_a_formula_in_a_name_is_text_in_the_csv(tmp_path: Path) -> None:
    call("pack", demo_run(tmp_path, "sheet", model="=1+1"), "--site", tmp_path / "site")
    call("build", "--site", tmp_path / "site", "--out", tmp_path / "out")
    rows = list(csv.DictReader((tmp_path / "out" / "leaderboard.csv").open()))
    assert rows[8]["model"] == "'=1+1"


def test_what_does_not_hold_together_is_left_out_and_named(tmp_path: Path) -> None:
    board = tmp_path / "site"
    for name in ("good", "claims", "rows", "Twin", "twin"):
        call("pack", demo_run(tmp_path, name), "--site", board)
    change_yaml(
        board / "submissions" / "claims",
        scores={"avg": 1.0, "families": {"CrossRepo": {"n": 1, "rate": 1.0}}},
    )
    change_rows(
        board / "submissions" / "rows" / "results.jsonl", lambda rows: rows[0].update(usage={"turns": "x"})
    )
    (board / "submissions" / "link").symlink_to(tmp_path)
    code, said = call("build", "--site", board)
    assert code == 1 and sorted(said["refused"]) == ["Twin", "claims", "link", "rows", "twin"]
    assert "scores.avg is 1.0" in said["refused"]["claims"][0]
    assert [path.name for path in (board / "public" / "s").iterdir()] == ["good.html"]


def test_marks_follow_the_content(tmp_path: Path) -> None:
    """Checked is shown once it was; a later change takes the mark away; a record of disagreement keeps it out."""
    board = tmp_path / "site"
    call("pack", demo_run(tmp_path, "one"), "--site", board)

    def mark() -> str:
        return read_board(board).entries[-1].mark

    assert mark() == "as submitted"
    assert call("check", "--site", board)[0] == 0 and mark() == "checked"
    change_yaml(board / "submissions" / "one", authors=["Another"])
    assert mark() == "as submitted"
    note_rescored(board, "one", 2, 4, 7, [])
    assert mark() == "rescored 2 of 4"
    note_rescored(board, "one", 2, 4, 7, ["x (1)"])
    code, said = call("build", "--site", board)
    assert code == 1 and "x (1)" in said["refused"]["one"][0]


def test_only_a_built_site_is_replaced(tmp_path: Path) -> None:
    call("pack", demo_run(tmp_path, "one"), "--site", tmp_path / "site")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("dear")
    code, said = call("build", "--site", tmp_path / "site", "--out", tmp_path / "mine")
    assert code == 2 and "--out" in said and (tmp_path / "mine" / "thesis.txt").read_text() == "dear"
    for _ in range(2):
        assert call("build", "--site", tmp_path / "site", "--out", tmp_path / "new")[0] == 0


@contextmanager
def served(site: Path) -> Iterator[str]:
    """The address of a running `leaderboard serve`."""
    command = [sys.executable, "-m", "beyondswe.cli", "leaderboard", "serve", "--site", str(site)]
    with subprocess.Popen(
        [*command, "--port", "0", "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            lines = ""
            while not lines.endswith("}\n") or not lines.startswith("{"):
                lines += process.stdout.readline() or pytest.fail(f"serve ended: {lines}")
                if lines.count("{") == lines.count("}"):
                    break
            yield json.loads(lines)["url"]
        finally:
            process.send_signal(signal.SIGINT)
            try:
                code = process.wait(30)
            finally:
                process.kill()
            assert code == 0


def test_serve_shows_the_site_to_this_machine(site: Path) -> None:
    with served(site) as url:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", url)
        assert "BeyondSWE leaderboard" in httpx.get(url).text
        assert httpx.get(url + "../submissions/half/submission.yaml").status_code == 404


@pytest.mark.slow
def test_the_site_in_a_browser(site: Path, tmp_path: Path) -> None:
    axe = axe_source(tmp_path)
    with served(site) as url, open_browser() as browser:
        for scheme, width in (("light", 1280), ("dark", 390)):
            watched = Watched(browser, color_scheme=scheme, viewport={"width": width, "height": 800})
            for name in ("index", "s/half", "s/odd", "figures", "matrix", "submit"):
                watched.page.goto(f"{url}{name}.html")
                assert axe_violations(watched.page, axe) == [], name
                assert watched.page.evaluate("document.documentElement.scrollWidth") <= width, name
            _table(watched.page, url)
            _matrix(watched.page, url)
            assert watched.errors == [] and watched.page.title() != "owned"
            assert all(one.startswith((url, "data:")) for one in watched.requests)
        opened = Watched(browser)
        opened.page.goto((site / "public" / "index.html").as_uri())  # from the disk, without a server
        assert opened.page.locator(".count").inner_text() == "11 of 11" and opened.errors == []


def _first(page: Any) -> str:
    return str(page.locator("#board tbody tr:visible th").first.inner_text())


def _table(page: Any, url: str) -> None:
    """Sorting by keyboard, every filter, and the way to a submission's page."""
    from playwright.sync_api import expect

    page.goto(url)
    count, rows = page.locator(".count"), page.locator("#board tbody tr:visible")
    assert count.inner_text() == "11 of 11" and _first(page).startswith("codex, GPT-5.4")
    head = page.get_by_role("button", name="AVG")
    head.focus()
    page.keyboard.press("Enter")
    assert _first(page) == "someone, B"
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("AVG")
    page.keyboard.press("Enter")
    assert _first(page).startswith("someone, <") or _first(page).startswith("someone, </")
    page.get_by_role("button", name="date").click()
    assert _first(page).startswith("someone,")  # rows without a date stay below, either way
    page.get_by_role("button", name="date").click()
    assert _first(page) == "someone, B"
    page.get_by_label("Find").fill("SOMEONE")
    assert count.inner_text() == "3 of 11"
    page.get_by_label("Search").select_option("yes")
    assert rows.count() == 1 and _first(page) == "someone, A"
    page.get_by_role("button", name="Clear").click()
    expect(count).to_have_text("11 of 11")
    page.locator("select[name=weights]").select_option("closed")
    page.get_by_label("From").fill("2026-05-15")
    assert rows.count() == 1 and _first(page) == "someone, B"
    page.get_by_role("button", name="Clear").click()
    expect(count).to_have_text("11 of 11")
    page.get_by_label("Family").select_option("DepMigrate")
    assert page.locator("#board thead th:visible", has_text="CrossRepo").count() == 0
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("DepMigrate")
    page.get_by_label("Dataset").select_option(index=2)
    assert rows.count() == 3
    page.get_by_role("link", name="someone, A").press("Enter")
    expect(page.locator("h1")).to_have_text("someone, A")
    assert page.locator("#outcomes tbody tr").count() == 4
    page.get_by_label("Find").fill("unresolved")
    assert page.locator("#outcomes tbody tr:visible").count() == 2


def _matrix(page: Any, url: str) -> None:
    page.goto(f"{url}matrix.html")
    assert page.locator("#matrix tbody tr").count() == 4
    assert page.locator("#matrix td.y").count() == 6
    page.get_by_label("Submissions").fill("someone, A")
    assert page.locator("#matrix thead th.c").count() == 1
    button = page.locator("#matrix tbody tr", has_text=IDS[0]).get_by_role("button")
    button.focus()
    page.keyboard.press("Enter")
    assert page.locator("#solvers-title").inner_text() == f"{IDS[0]}: solved by 2 of 3"
    assert page.locator("#solvers li").all_inner_texts() == ["someone, B", "someone, A"]
    page.get_by_role("button", name="Close").press("Enter")
    assert page.locator("dialog[open]").count() == 0
