"""Prediction files: what can be used is, and every row that cannot be is named with its place."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from beyondswe.errors import DataError
from beyondswe.runs import predictions
from beyondswe.runs.predictions import Predictions

KNOWN = {"a", "b", "c", "d"}


def row(instance_id: str, patch: str | None = "p", **more: Any) -> dict[str, Any]:
    return {"instance_id": instance_id, "model_patch": patch, "model_name_or_path": "m", **more}


def read(tmp_path: Path, content: bytes | str, name: str = "p.jsonl") -> Predictions:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return Predictions(path, KNOWN, scratch=tmp_path)


def lines(*rows: object) -> str:
    return "".join(json.dumps(r) + "\n" for r in rows)


def test_patches_are_read_back_exactly(tmp_path: Path) -> None:
    patches = {"a": "x\r\ny", "b": "ü\u2028\x0b\n", "c": "", "d": None}
    found = read(tmp_path, lines(*(row(name, patch) for name, patch in patches.items())))
    assert {name: found.patch(name) for name in patches} == {**patches, "d": ""}
    assert found.models == {"m": 4}
    assert not found.unusable


@pytest.mark.parametrize(
    "document",
    [
        [row("a", "pa"), row("b", "pb")],
        {"a": row("a", "pa"), "b": row("b", "pb")},
        {"a": {"model_patch": "pa"}, "b": {"model_patch": "pb"}},
        {"a": "pa", "b": "pb"},
    ],
)
def test_json_lists_and_mappings_are_read_like_jsonl(tmp_path: Path, document: object) -> None:
    for text in (json.dumps(document), json.dumps(document, indent=1)):
        found = read(tmp_path, text, "p.json")
        assert (found.patch("a"), found.patch("b"), found.patch("c")) == ("pa", "pb", None)


def test_jsonl_under_another_name_and_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    for name in ("p.json", "p.txt", "p.jsonl"):
        found = read(tmp_path, b"\xef\xbb\xbf" + lines(row("a", "pa"), row("b")).encode(), name)
        assert (found.patch("a"), len(found)) == ("pa", 2)


def test_every_unusable_row_is_named_and_the_others_are_used(tmp_path: Path) -> None:
    content = b"".join(
        [
            json.dumps(row("a")).encode() + b"\n",
            b"{broken\n",
            b'{"instance_id": "b", "model_patch": "\xff"}\n',
            b'{"instance_id": "b", "model_patch": "\\ud800"}\n',
            b"[1, 2]\n",
            b"\n",
            json.dumps({"model_patch": "x"}).encode() + b"\n",
            json.dumps({"instance_id": "b"}).encode() + b"\n",
            json.dumps(row("b", 7)).encode() + b"\n",  # type: ignore[arg-type]
            json.dumps(row("unknown")).encode() + b"\n",
            json.dumps(row("a", "second")).encode() + b"\n",
            b"[" * 100_000 + b"\n",
            json.dumps(row("c")).encode(),  # no newline at the end
        ]
    )
    found = read(tmp_path, content)
    named = [str(fault) for fault in found.unusable]
    expected = [
        "line 2: not JSON",
        "line 3: not UTF-8",
        "line 4: model_patch of b holds half a surrogate pair",
        "line 5: not an object but list",
        "line 7: has no instance_id",
        "line 8: the row of b has no model_patch",
        "line 9: model_patch of b is not text but int",
        "line 10: instance 'unknown' is not among the selected ones",
        "line 11: a second prediction for a; the first one is used",
        "line 12: not a prediction (nested too deeply)",
    ]
    assert len(named) == len(expected)
    assert all(fault.startswith(f"p.jsonl, {words}") for fault, words in zip(named, expected, strict=True)), (
        named
    )
    assert (found.patch("a"), found.patch("b"), found.patch("c"), len(found)) == ("p", None, "p", 2)
    assert "half a surrogate pair" in found.missing_because("b")
    assert found.missing_because("d") == "no prediction was submitted for it"


def test_a_row_that_is_too_long_is_skipped_without_being_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predictions, "MAX_ROW", 1 << 20)
    path = tmp_path / "p.jsonl"
    with path.open("wb") as stream:
        stream.write(b'{"instance_id": "a", "model_patch": "')
        for _ in range(64):
            stream.write(b"x" * (1 << 20))
        stream.write(b'"}\n' + json.dumps(row("b", "pb")).encode() + b"\n")
    tracemalloc.start()
    found = Predictions(path, KNOWN, scratch=tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20
    assert [str(fault) for fault in found.unusable] == ["p.jsonl, line 1: longer than 1 MiB"]
    assert found.patch("b") == "pb"


def test_a_json_document_that_is_none_is_an_error(tmp_path: Path) -> None:
    for text in ("[{]", "{\n", "[" * 100_000):
        with pytest.raises(DataError, match="is no JSON"):
            read(tmp_path, text, "p.json")


def test_no_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        Predictions(tmp_path / "none.jsonl", KNOWN, scratch=tmp_path)
