"""Which data files the tests' sources name."""

from __future__ import annotations

import pytest

from beyondswe.scoring.named_data import named_data

FILES = [
    b"pkg/__init__.py",
    b"pkg/table.json",
    b"src/other/data.bin",
    b"answers/a.txt",
    b"answers/b.txt",
    b"golden/deep/x.out",
    b"limits.json",
    b"README.md",
    b"data/x.csv",
    b"tool.py",
]


def protected(text: bytes, changed: tuple[bytes, ...] = ()) -> list[str]:
    return sorted(path.decode() for path in named_data([text], FILES, changed)[0])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"open('limits.json')", ["limits.json"]),
        (b"open('../limits.json')", ["limits.json"]),
        (b"ROOT / 'answers' / 'a.txt'", ["answers/a.txt", "answers/b.txt"]),
        (b"os.listdir('./answers/')", ["answers/a.txt", "answers/b.txt"]),
        (b"glob('golden/deep/*')", []),  # a pattern names nothing that is told by its looks
        (b"x = 'golden/deep'", ["golden/deep/x.out"]),
        (b"x['data']", []),  # a short word may mean anything
        (b"x = 'data/x.csv'", ["data/x.csv"]),
        (b"import tool; x = 'tool.py'", []),
        (b"def test_x():\n    'limits.json'\n", []),  # a docstring
    ],
)
def test_files_are_named_by_texts(text: bytes, found: list[str]) -> None:
    assert protected(text) == found


def test_what_the_reference_changes_is_nobodys_and_what_others_claim_is_watched() -> None:
    text = b"x = 'limits.json', 'table.json', 'README.md', 'data.bin'"
    held, watched = named_data([text], FILES, [b"limits.json"])
    assert held == frozenset()
    assert watched == {b"pkg/table.json", b"README.md", b"src/other/data.bin"}
