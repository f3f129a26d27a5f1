"""Which candidates stay, and why the others fell out: filters with three answers, and the funnel that counts them.

A filter says yes, no (with the reason) or that it cannot know from here; the unknown waits for a reviewer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

T = TypeVar("T")

LARGEST_LIST = 200  # names kept for one filter in the document; the count is always whole


@dataclass(frozen=True)
class Answer:
    """``verdict``: True stays, False falls out, None is not known here; ``why`` for the last two."""

    verdict: bool | None
    why: str = ""


YES = Answer(True)


@dataclass(frozen=True)
class Filter(Generic[T]):
    """One named question to a candidate."""

    name: str
    ask: Callable[[T], Answer]


@dataclass
class Count:
    """What one filter did."""

    name: str
    came: int = 0
    fell: list[dict[str, str]] = field(default_factory=list)
    unknown: int = 0

    def to_row(self) -> dict[str, Any]:
        why: dict[str, int] = {}
        for entry in self.fell:
            why[entry["why"]] = why.get(entry["why"], 0) + 1
        return {
            "filter": self.name,
            "in": self.came,
            "fell_out": len(self.fell),
            "unknown": self.unknown,
            "reasons": dict(sorted(why.items(), key=lambda item: -item[1])),
            "fallen": self.fell[:LARGEST_LIST],
        }


class Funnel:
    """Counts how many came in and why each one fell out, filter by filter, in the order they were first asked."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._counts = {name: Count(name) for name in names}
        self.came = 0
        self.stayed = 0

    def enter(self) -> None:
        """One more candidate comes in."""
        self.came += 1

    def stay(self) -> None:
        """One candidate stays to the end."""
        self.stayed += 1

    def note(self, name: str, who: str, answer: Answer, *, counts: bool = True) -> None:
        """Write down a filter's answer on a candidate; ``counts`` is False where it may not throw it out."""
        count = self._counts.setdefault(name, Count(name))
        count.came += 1
        if answer.verdict is False and counts:
            count.fell.append({"id": who, "why": answer.why})
        elif answer.verdict is not True:
            count.unknown += 1

    def ask(
        self, filters: Iterable[Filter[T]], candidate: T, who: str, *, asked_for: bool = False
    ) -> list[str] | None:
        """The reasons to look closer at a candidate; None if it fell out.

        One that a person ``asked_for`` by its number falls out of no filter: what they say becomes a reason.
        """
        reasons = []
        for each in filters:
            answer = each.ask(candidate)
            self.note(each.name, who, answer, counts=not asked_for)
            if answer.verdict is False and not asked_for:
                return None
            if answer.verdict is not True:
                reasons.append(f"{each.name}: {answer.why}")
        return reasons

    def state(self) -> dict[str, Any]:
        """All that is counted, to be kept; `add` takes it in again."""
        return {
            "came": self.came,
            "stayed": self.stayed,
            "counts": [vars(count) for count in self._counts.values()],
        }

    def add(self, state: dict[str, Any]) -> None:
        """Count what another funnel counted."""
        self.came += state["came"]
        self.stayed += state["stayed"]
        for other in state["counts"]:
            count = self._counts.setdefault(other["name"], Count(other["name"]))
            count.came += other["came"]
            count.unknown += other["unknown"]
            count.fell += other["fell"]

    def to_row(self) -> dict[str, Any]:
        return {
            "in": self.came,
            "out": self.stayed,
            "fell_out": sum(len(count.fell) for count in self._counts.values()),
            "filters": [count.to_row() for count in self._counts.values() if count.came],
        }


def python_share(sizes: dict[str, int]) -> float:
    """The share of Python in the bytes of code of a tree, 0 to 1; 0 without code."""
    python = code = 0
    for path, size in sizes.items():
        suffix = path.rpartition(".")[2].lower() if "." in path.rpartition("/")[2] else ""
        if _vendored(path) or suffix not in _LANGUAGES:
            continue
        code += size
        python += size if suffix in ("py", "pyi", "pyx") else 0
    return python / code if code else 0.0


def _vendored(path: str) -> bool:
    parts = path.lower().split("/")[:-1]
    return any(
        part in ("vendor", "_vendor", "node_modules", "third_party", "site-packages", "dist")
        for part in parts
    )


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LANGUAGES = _set(
    "py pyi pyx c h cc cpp cxx hpp hh js jsx ts tsx mjs java kt scala go rs rb php swift m mm cs fs vb f "
    "f90 f95 for r jl lua pl pm hs ml erl ex clj dart sh ps1 sql cu sol v vhd "
)
