"""`collect git` on histories that the tests make, through the command line."""

from __future__ import annotations

import http.server
import shutil
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from beyondswe.construction.commits import applied, read_files
from tests.construction.collect.histories import BASE, FIX, TEST, Done, Work, beyondswe, rows


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Work:
    monkeypatch.setenv("BEYONDSWE_CACHE", str(tmp_path / "cache"))
    made = Work(tmp_path / "repos" / "harbour" / "tides")
    made.commit("First", BASE)
    return made


def collect(work: Work, *options: str, url: str = "", family: str = "CrossRepo") -> Done:
    top = work.folder.parent.parent
    return beyondswe(
        "collect", "git", "--repo", "harbour/tides", "--repo-url", url or f"file://{top}/{{owner}}/{{name}}",
        "--family", family, "--out", "c.jsonl", "--force", "--json", *options, cwd=top,
    )  # fmt: skip


def found(work: Work, *options: str, **more: Any) -> dict[int, dict[str, Any]]:
    done = collect(work, *options, **more)
    assert done.code == 0, done.err
    return {row["pr"]: row for row in rows(work.folder.parent.parent / "c.jsonl")}


def pull_request(work: Work, branch: str, files: dict[str, Any] | None = None) -> str:
    """A branch with one commit for source and one for tests; gives the commit that it left from."""
    base = work.git("rev-parse", "HEAD")
    work.git("checkout", "-q", "-b", branch)
    work.commit("wip", files or FIX)
    work.commit("tests", TEST)
    work.git("checkout", "-q", "main")
    return base


def test_a_merge_commit_becomes_a_candidate(work: Work) -> None:
    pull_request(work, "moon")
    before = work.commit("Meanwhile", {"docs/news.txt": "news\n"})
    merge = work.merge(
        "moon", "Merge pull request #7 from ada/moon\n\nThe moon counts\n\nSee scipy/scipy#12."
    )
    done = collect(work)
    assert done.code == 0, done.err
    (row,) = rows(work.folder.parent.parent / "c.jsonl")
    assert row["instance_id"] == "harbour_tides_pr7"
    assert (row["task"], row["repo"], row["base_commit"]) == ("CrossRepo", "harbour/tides", before)
    assert (row["pr"], row["merge_commit"], row["title"]) == (7, merge, "The moon counts")
    assert row["problem_statement"] == "The moon counts\n\nSee scipy/scipy#12."
    assert row["links"] == ["https://github.com/scipy/scipy/issues/12"]
    assert row["index_date"] == "2023-03-01"
    assert row["distributions"] == ["Tide-Tables"]
    assert row["docs_hosts"] == ["tide-tables.readthedocs.io"]
    assert row["modules"] == ["tides"]
    assert row["review"]["status"] == "needs_review"
    assert "image" not in row
    assert done.json["instances"] == ["harbour_tides_pr7"]
    assert (done.json["funnel"]["in"], done.json["funnel"]["out"]) == (1, 1)


def test_both_patches_apply_to_the_base_and_give_what_was_merged(work: Work) -> None:
    files = {
        "src/tides/__init__.py": None,
        "src/tides/core.py": FIX["src/tides/__init__.py"].replace("\n", "\r\n"),
        "src/tides/moon.bin": bytes(range(256)),
        "src/tides/été.py": "x = 'é'\n",
        "tests/data/wave.bin": b"\0\1",
    }
    base = pull_request(work, "moon", files)
    work.merge("moon", "Merge pull request #7 from ada/moon")
    row = found(work)[7]
    after = read_files(work.folder)
    work.git("checkout", "-q", base)
    tree = read_files(work.folder)
    assert applied(applied(tree, row["patch"].encode(), "patch"), row["f2p_patch"].encode(), "tests") == after
    assert "tests/" not in row["patch"] and "src/" not in row["f2p_patch"]
    assert "binary: a patch brings binary files" in row["review"]["reasons"]


def test_squash_and_rebase_merges_are_told_from_issues_that_are_named(work: Work) -> None:
    base = work.git("rev-parse", "HEAD")
    work.commit("The moon counts (#7)\n\nCo-authored-by: Bob <b@example.org>", {**FIX, **TEST})
    assert found(work)[7]["base_commit"] == base
    assert found(work)[7]["problem_statement"] == "The moon counts"
    last = work.commit(
        "Fixes #3", {"src/tides/__init__.py": "def period():\n    return 1\n", "tests/test_x.py": ""}
    )
    work.commit("Sun: code (#9)", {"src/tides/sun.py": "day = 24\n"})
    work.commit("Sun: tests (#9)", {"tests/test_sun.py": "def test_sun():\n    import tides.sun\n"})
    both = found(work)
    assert set(both) == {7, 9}
    assert both[9]["base_commit"] == last
    assert both[9]["source"]["how"] == "rebase"
    assert "src/tides/sun.py" in both[9]["patch"] and "tests/test_sun.py" in both[9]["f2p_patch"]
    assert found(work, "--pr", "3")[3]["source"]["how"] == "mention"


def test_a_rebased_pull_request_that_no_commit_names_is_found_by_its_own_branch(work: Work) -> None:
    pull_request(work, "moon")
    head = work.git("rev-parse", "moon")
    work.git("update-ref", "refs/pull/12/head", head)
    base = work.commit("Meanwhile", {"docs/news.txt": "news\n"})
    work.git("rebase", "-q", "main", "moon")
    work.git("checkout", "-q", "main")
    work.git("merge", "-q", "--ff-only", "moon")
    row = found(work)[12]
    assert (row["base_commit"], row["source"]["how"]) == (base, "rebase")


def test_reverts_and_what_they_take_back_fall_out_unless_asked_for(work: Work) -> None:
    work.commit("The moon counts (#7)", {**FIX, **TEST})
    work.commit('Revert "The moon counts (#7)" (#8)', {**BASE, "tests/test_moon.py": None})
    done = collect(work)
    fallen = {each["id"]: each["why"] for row in done.json["funnel"]["filters"] for each in row["fallen"]}
    assert fallen == {"#8": "it takes another change back", "#7": "it was taken back later"}
    assert list(found(work, "--pr", "7")) == [7]
    assert any("taken back" in reason for reason in found(work, "--pr", "7")[7]["review"]["reasons"])


def test_every_candidate_that_falls_out_is_counted_with_its_reason(work: Work) -> None:
    work.commit("Only tests (#1)", {"tests/test_a.py": ""})
    work.commit("No tests (#2)", {"src/tides/a.py": "a = 1\n"})
    work.commit("Only test data (#3)", {"src/tides/b.py": "b = 1\n", "tests/data.txt": "x"})
    work.commit("Documents (#4)", {"README.md": "x", "tests/test_b.py": ""})
    work.commit("Good (#5)", {"src/tides/c.py": "c = 1\n", "tests/test_c.py": "c = 1\n"})
    work.git("checkout", "-q", "-b", "rollup")
    work.commit("two", {"src/tides/d.py": "d = 1\n", "tests/test_d.py": "d = 1\n"})
    work.git("checkout", "-q", "main")
    work.merge("rollup", "Merge #20 #21\n\n20: One r=ada a=bob")
    done = collect(work)
    funnel = done.json["funnel"]
    why = {each["id"]: each["why"] for row in funnel["filters"] for each in row["fallen"]}
    assert why == {
        "#1": "only tests are changed",
        "#2": "no test is changed",
        "#3": "only test data is changed",
        "#4": "no Python outside the tests is changed",
        "#20+21": "several pull requests came in with one commit",
    }
    assert (funnel["in"], funnel["out"], funnel["fell_out"]) == (6, 1, 5)
    assert done.json["instances"] == ["harbour_tides_pr5"]
    assert "touches tests" in done.err and "6 came in, 1 stay" in done.err
    assert found(work, "--strict") == {}, "no outside link: what git cannot know falls out"


def test_families_have_their_filters(work: Work) -> None:
    work.commit("Support Django 4.2 (#1)", {**FIX, **TEST})
    new = BASE["pyproject.toml"] + '[project.optional-dependencies]\nx = ["numpy>=2.0"]\n'
    work.commit("Upgrade (#2)", {"pyproject.toml": new, "src/tides/e.py": "", "tests/test_e.py": "e = 1\n"})
    work.commit("Other (#3)", {"src/tides/f.py": "f = 1\n", "tests/test_f.py": "f = 1\n"})
    migrations = found(work, family="DepMigrate")
    assert migrations[1]["upgrades"] == [{"package": "django", "version": "4.2", "where": "title or body"}]
    assert migrations[2]["upgrades"] == [{"package": "numpy", "version": "2.0", "where": "requirements"}]
    assert any("no watched package" in reason for reason in migrations[3]["review"]["reasons"])
    assert set(found(work, "--strict", family="depmigrate")) == {1, 2}
    assert found(work, family="DomainFix") == {}
    assert found(work, "--field", "seismology", family="DomainFix")[1]["field"] == "seismology"
    assert found(work, "--pr", "1", family="DomainFix")[1]["review"]["reasons"][0].startswith(
        "repository of a field"
    )
    assert collect(work, "--field", "alchemy", family="DomainFix").code == 2
    assert collect(work, "--field", "seismology").code == 2


def test_what_the_statement_gives_away_is_told(work: Work) -> None:
    message = "Moon (#7)\n\nAdds `moon_day` so that\n    return moon_day() / 2\nworks. See #7."
    work.commit(message, {**FIX, **TEST})
    row = found(work)[7]
    assert {leak["kind"] for leak in row["leaks"]} == {"name", "line", "link"}
    assert any(reason.startswith("leak (line)") for reason in row["review"]["reasons"])


def test_submodules_are_left_out_of_the_patches(work: Work, tmp_path: Path) -> None:
    other = work.git("rev-parse", "HEAD")
    work.git("update-index", "--add", "--cacheinfo", f"160000,{other},vendor/waves")
    work.git("commit", "-q", "-m", "Only a submodule (#6)")
    work.git("checkout", "-q", "--", ".")
    done = collect(work)
    assert "only submodules are changed" in done.out
    for name, text in {**FIX, **TEST}.items():
        (work.folder / name).write_text(text)
    work.git("add", "src", "tests")
    work.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},vendor/waves")
    work.git("commit", "-q", "-m", "Both (#7)")
    row = found(work)[7]
    assert "vendor" not in row["patch"] + row["f2p_patch"]
    assert any("vendor/waves" in reason for reason in row["review"]["reasons"])


def test_merges_made_the_wrong_way_round_and_into_other_branches(work: Work) -> None:
    work.git("checkout", "-q", "-b", "develop")
    before = work.commit("Meanwhile", {"docs/news.txt": "news\n"})
    work.git("checkout", "-q", "-b", "moon")
    work.commit("moon", {**FIX, **TEST})
    work.git("checkout", "-q", "develop")
    work.merge("moon", "Merge pull request #7 from ada/moon")
    work.git("checkout", "-q", "main")
    work.merge("develop", "Release 1.1")
    assert found(work)[7]["base_commit"] == before
    assert found(work, "--branch", "develop")[7]["base_commit"] == before
    assert "there are: develop, main, moon" in collect(work, "--branch", "no").err


def test_bare_mirrors_work_trees_and_repositories_over_http(work: Work, tmp_path: Path) -> None:
    work.commit("The moon counts (#7)", {**FIX, **TEST})
    mirror = tmp_path / "mirrors" / "harbour+tides.git"
    work.git("clone", "-q", "--mirror", str(work.folder), str(mirror))
    expected = found(work)[7]["patch"]
    assert found(work, url=f"file://{tmp_path}/mirrors/{{owner}}+{{name}}")[7]["patch"] == expected
    assert found(work, url=str(tmp_path / "repos" / "{repo}"))[7]["patch"] == expected
    work.git("worktree", "add", "-q", str(tmp_path / "linked"))
    assert found(work, url=str(tmp_path / "linked"))[7]["patch"] == expected

    work.git("--git-dir", str(mirror), "update-server-info")
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path / "mirrors"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            url = f"http://127.0.0.1:{server.server_port}/{{owner}}+{{name}}.git"
            assert found(work, url=url)[7]["patch"] == expected
            work.commit("Sun (#8)", {"src/tides/sun.py": "day = 24\n", "tests/test_sun.py": "day = 24\n"})
            work.git("push", "-q", str(mirror), "main")
            work.git("--git-dir", str(mirror), "update-server-info")
            assert set(found(work, url=url)) == {7, 8}, "the copy is brought up to date"
        finally:
            server.shutdown()


@pytest.mark.parametrize("branch", ["master", "odd"])
def test_default_branches_have_any_name(tmp_path: Path, branch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEYONDSWE_CACHE", str(tmp_path / "cache"))
    work = Work(tmp_path / "repos" / "harbour" / "tides", branch)
    work.commit("First", BASE)
    work.commit("The moon counts (#7)", {**FIX, **TEST})
    (work.folder / ".git" / "HEAD").write_text("ref: refs/heads/gone\n")
    assert found(work)[7]["source"]["branch"] == branch


def test_repositories_that_cannot_be_read_are_told_apart(work: Work, tmp_path: Path) -> None:
    work.commit("The moon counts (#7)", {**FIX, **TEST})
    top = work.folder.parent.parent
    work.git("clone", "-q", "--depth", "1", f"file://{work.folder}", str(tmp_path / "shallow"))
    Work(tmp_path / "empty")
    for url, words in {
        str(tmp_path / "shallow"): "shallow clone",
        str(tmp_path / "empty"): "is empty",
        str(tmp_path / "nothing"): "there is no git repository",
        "ssh://host/{repo}": "folder, file, http or https",
        "https://host/{project}.git": "there is no {project}",
    }.items():
        done = collect(work, url=url)
        assert (done.code, words in done.err) == (2, True), done.err
        assert done.json["error"]["exit_code"] == 2
    done = collect(work, "--pr", "99")
    assert done.code == 2 and "names this pull request" in done.err
    assert not (top / "c.jsonl").exists()
    assert collect(work, family="Nothing").code == 2


def test_an_output_that_is_there_is_not_written_over(work: Work) -> None:
    work.commit("The moon counts (#7)", {**FIX, **TEST})
    top = work.folder.parent.parent
    (top / "kept.jsonl").write_text("mine\n")
    arguments = ("--repo", "harbour/tides", "--repo-url", str(work.folder), "--family", "CrossRepo")
    done = beyondswe("collect", "git", *arguments, "--out", "kept.jsonl", cwd=top)
    assert done.code == 2 and "--force" in done.err
    assert (top / "kept.jsonl").read_text() == "mine\n"


def test_dates_limits_and_first_commits(work: Work) -> None:
    shutil.rmtree(work.folder)
    work = Work(work.folder)
    work.commit("Everything (#1)", {**BASE, **FIX, **TEST})
    work.commit("A (#2)", {"src/tides/a.py": "a = 1\n", "tests/test_a.py": "a = 1\n"})
    work.hours += 48
    work.commit("B (#3)", {"src/tides/b.py": "b = 1\n", "tests/test_b.py": "b = 1\n"})
    assert set(found(work)) == {2, 3}
    assert set(found(work, "--since", "2023-03-02")) == {3}
    assert set(found(work, "--until", "2023-03-01")) == {2}
    assert set(found(work, "--limit", "1")) == {3}


def test_a_whole_repository_for_doc2repo(work: Work) -> None:
    for author in ("Ada", "Bob", "Cyd", "helper[bot]"):
        tip = work.commit(f"by {author}", {f"docs/{author}.txt": "x"}, author=author)
    done = collect(work, family="Doc2Repo")
    assert done.code == 0, done.err
    (row,) = rows(work.folder.parent.parent / "c.jsonl")
    assert row["base_commit"] == tip
    assert row["contributors"] == 3
    assert row["test_paths"] == ["tests/test_period.py"]
    assert "age: not active after August 2023" in row["review"]["reasons"]
    assert "stars: git does not know the stars" in row["review"]["reasons"]
    assert collect(work, "--strict", family="Doc2Repo").json["candidates"] == 0
