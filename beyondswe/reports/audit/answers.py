"""Where an instance's answer lies on the web: its own pull request, in every form in which it can be addressed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from urllib.parse import unquote

from beyondswe.blocklist import Target
from beyondswe.instances.model import Instance

_LONGEST = 200_000  # characters of a text in which addresses are looked for
_GIT, _FETCHES = (
    re.compile(r"\bgit\b", re.IGNORECASE),
    re.compile(r"\b(?:fetch|pull|ls-remote)\b", re.IGNORECASE),
)


class View(StrEnum):
    """What of a pull request is looked at."""

    DIFF = "diff"  # its change: diff, patch, files, commits, its head
    PAGE = "page"  # its conversation


@dataclass(frozen=True)
class Answer:
    """An instance's own pull requests, and what its prompt names."""

    instance_id: str
    repo: str
    numbers: tuple[int, ...]
    prompt: str
    reference: str  # the reference change; what of it was seen is evidence
    aliases: tuple[str, ...] = ()  # other owner/name of the repository, which lead to it

    @cached_property
    def target(self) -> Target:
        """The repository, for the blocklist."""
        return Target(self.repo, aliases=self.aliases)

    @cached_property
    def _slug(self) -> str:
        names = (name.removesuffix(".git").partition("/") for name in (self.repo, *self.aliases))
        forms = [rf"{re.escape(owner)}/+{re.escape(name)}" for owner, slash, name in names if slash]
        return rf"(?:{'|'.join(forms) or '(?!)'})(?:\.git)?"

    @cached_property
    def named(self) -> frozenset[int]:
        """Own pull requests that the prompt itself names: looking at those is no cheating."""
        found = set()
        for number in self.numbers:
            by_address = rf"{self._slug}/+(?:pull|pulls|issues)/+{number}\b"
            if re.search(
                rf"{by_address}|{self._slug}#{number}\b|(?<![\w&/])#{number}\b", self.prompt, re.IGNORECASE
            ):
                found.add(number)
        return frozenset(found)

    @cached_property
    def _head(self) -> str:
        """The ref of an own pull request."""
        numbers = "|".join(str(n) for n in self.numbers if n not in self.named)
        return rf"(?:refs/)?pull/+(?:{numbers})(?!\d)/+(?:head|merge)" if numbers else "(?!)"

    @cached_property
    def _patterns(self) -> list[tuple[View, re.Pattern[str]]]:
        numbers = "|".join(str(n) for n in self.numbers if n not in self.named)
        if not numbers or not self.repo.strip("/"):
            return []
        slug, n, head = self._slug, rf"(?:{numbers})(?!\d)", self._head
        near = r"[^\n|;&]{0,200}"  # bounded: texts are strangers', and may be made to be searched for ever
        diff = [
            rf"{slug}/+pull/+{n}(?:\.(?:patch|diff)|/+(?:files|commits|changes|checks))",
            rf"(?:patch-diff\.githubusercontent\.com|patch-diff\.github\.com)/+raw/+{slug}/+pull/+{n}",
            rf"api\.github\.com/+repos/+{slug}/+pulls/+{n}(?!/+(?:comments|reviews))",
            rf"{slug}/+\S{{0,300}}{head}",
            rf"\bgh\s+pr\s+(?:diff|checkout)\s{near}?\b{n}",
            rf"\bgh\s+api\s{near}\brepos/+{slug}/+pulls/+{n}(?!/+(?:comments|reviews))",
            rf"\bgh\s+pr\s+view\s(?={near}--json\s{near}(?:files|commits)){near}\b{n}",
        ]
        page = [
            rf"{slug}/+(?:pull|issues)/+{n}(?:[/?#\s\"')\]>]|$)",
            rf"api\.github\.com/+repos/+{slug}/+issues/+{n}",
            rf"api\.github\.com/+repos/+{slug}/+pulls/+{n}/+(?:comments|reviews)",
            rf"\bgh\s+(?:pr|issue)\s+view\s{near}?\b{n}",
        ]
        return [
            *((View.DIFF, re.compile(pattern, re.IGNORECASE)) for pattern in diff),
            *((View.PAGE, re.compile(pattern, re.IGNORECASE)) for pattern in page),
        ]

    def view(self, text: str) -> tuple[View, str] | None:
        """What of the answer a text addresses, and the words that do; the change before the conversation.

        The text is looked at as it stands and percent-decoded, so that an address inside another is found.
        """
        if not self._patterns or not text:
            return None
        head = text[:_LONGEST]
        for form in dict.fromkeys((head, unquote(head), unquote(unquote(head)))):
            ref = re.search(rf"\b{self._head}", form, re.IGNORECASE)
            if ref and _GIT.search(form) and _FETCHES.search(form):
                return View.DIFF, form[max(0, ref.start() - 200) : ref.end()].strip()
            for view, pattern in self._patterns:
                if found := pattern.search(form):
                    return view, found[0][-300:].strip()
        return None

    @cached_property
    def reference_lines(self) -> frozenset[str]:
        """Lines that the reference change adds and that say something."""
        added = (
            line[1:].strip() for line in self.reference.splitlines() if line[:1] == "+" and line[:3] != "+++"
        )
        return frozenset(line for line in added if len(line) >= 12 and re.search(r"\w{3}", line))


def answer_of(instance: Instance, prompt: str = "") -> Answer:
    """The answer of an instance: pull requests by the row's ``pr`` (or ``pull_number``), else by its id
    (``owner_name_pr318``, SWE-bench's ``owner__name-318``).
    """
    numbers: list[int] = []
    for key in ("pr", "pull_number", "pr_number"):
        value = instance.extra.get(key)
        if isinstance(value, int | str) and str(value).lstrip("#").isdigit():
            numbers.append(int(str(value).lstrip("#")))
    if not numbers and (found := re.search(r"(?:_pr|__[\w.]+-|_)(\d+)$", instance.instance_id)):
        numbers.append(int(found[1]))
    return Answer(
        instance.instance_id,
        instance.repo,
        tuple(dict.fromkeys(numbers)),
        prompt or instance.problem_statement,
        instance.patch,
        tuple(instance.aliases),
    )
