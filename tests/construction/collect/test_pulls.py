"""What messages of commits say about pull requests."""

from __future__ import annotations

import pytest

from beyondswe.construction.collect.pulls import is_revert, named, reverted, statement

MERGES = [
    ("Merge pull request #12 from ada/moon\n\nThe moon\n\nCounts.", (12,), "The moon", "Counts."),
    ("Merge pull request #12 from ada/moon", (12,), "Merge pull request #12 from ada/moon", ""),
    ("Merge pull request #12 in X/y from a to b\n\nTitle", (12,), "Title", ""),
    ("Merge pull request 'The moon' (#12) from ada/moon into main", (12,), "The moon", ""),
    ("Merged in moon (pull request #12)\n\nThe moon", (12,), "The moon", ""),
    (
        "Merge branch 'moon' into 'main'\n\nThe moon\n\nCloses #3\n\nSee merge request a/b!12",
        (12,),
        "The moon",
        "Closes #3",
    ),
    ("Auto merge of #12 - ada:moon, r=bob\n\nThe moon\n\nbody", (12,), "The moon", "body"),
    ("Merge #12 #13\n\n12: The moon r=bob a=ada", (12, 13), "The moon", ""),
    ("Merge #12: The moon", (12,), "The moon", ""),
    ("Merge branch 'pr/12'", (12,), "Merge branch 'pr/12'", ""),
    ("Merge remote-tracking branch 'origin/pr/12'", (12,), "Merge remote-tracking branch 'origin/pr/12'", ""),
    ("Merge branch 'moon' (#12)", (12,), "Merge branch 'moon'", ""),
]
SQUASHES = [
    ("The moon (#12)", (12,), "The moon"),
    ("The moon (#12)\r\n\r\nbody\r\n", (12,), "The moon"),
    ("Backport the moon (#12) (#15)", (15,), "Backport the moon"),
    ("BUG: the moon (GH-12)", (12,), "BUG: the moon"),
    ("The moon (PR #12)", (12,), "The moon"),
    ("The moon (#12) [skip ci]", (12,), "The moon"),
    ("Merged PR 12: The moon", (12,), "The moon"),
    ("The moon\n\nPR-URL: https://github.com/a/b/pull/12", (12,), "The moon"),
    ('Revert "The moon (#12)" (#15)', (15,), 'Revert "The moon (#12)"'),
]


@pytest.mark.parametrize(("message", "pulls", "title", "body"), MERGES)
def test_merges(message: str, pulls: tuple[int, ...], title: str, body: str) -> None:
    found = named(message, is_merge=True)
    assert found is not None
    assert (found.pulls, found.how, found.title, found.body) == (pulls, "merge", title, body)


@pytest.mark.parametrize(("message", "pulls", "title"), SQUASHES)
def test_squashes(message: str, pulls: tuple[int, ...], title: str) -> None:
    found = named(message, is_merge=False)
    assert found is not None
    assert (found.pulls, found.how, found.title) == (pulls, "squash", title)


@pytest.mark.parametrize("message", ["Fix #12", "see #3 and (#4) for more", "#12: moon"])
def test_bare_numbers_are_mentions(message: str) -> None:
    found = named(message, is_merge=False)
    assert found is not None and found.how == "mention"


@pytest.mark.parametrize("message", ["The moon", "Use &#123;", "Merge branch 'main' into moon", "a/b#3", ""])
def test_no_number_no_pull_request(message: str) -> None:
    assert named(message, is_merge="Merge" in message) is None


def test_reverts() -> None:
    assert reverted('Revert "The moon (#12)" (#15)') == ((12,), ())
    assert reverted('Merge pull request #15 from a/b\n\nRevert "The moon"\n\nReverts a/b#12') == ((12,), ())
    sha = "a" * 40
    assert reverted(f'Revert "The moon"\n\nThis reverts commit {sha}.') == ((), (sha,))
    assert not is_revert('Revert "Revert "The moon (#12)"" (#16)')
    assert reverted("Say what reverts do (#12)") == ((), ())


def test_statements_lose_trailers_and_their_own_number() -> None:
    body = "* wip (#12)\n\nAs in (#3).\n\nSigned-off-by: A <a@b>\nCo-authored-by: B <b@b>"
    assert statement("The moon (#12)", body, (12,)) == "The moon\n\n* wip\n\nAs in (#3)."
