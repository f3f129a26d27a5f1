"""Decides a piece of text (a title, a snippet, a summary): whether it shows the target's repository."""

from __future__ import annotations

import re

from beyondswe.blocklist.address import NotAnAddress, flatten, parse
from beyondswe.blocklist.names import names_of
from beyondswe.blocklist.types import ALLOWED, DEFAULT, Decision, Policy, Target
from beyondswe.blocklist.urls import decide_address

_ADDRESS = re.compile(
    # bounded: a long row of letters is not to be gone through anew from each of them
    r"(?:[a-z][a-z0-9+.-]{0,30}://|www\.)[^\s\"'<>)\]}]+|(?:[a-z0-9-]{1,63}\.){1,20}[a-z]{2,18}/[^\s\"'<>)\]}]+"
)
_BENCHMARK = re.compile(r"beyond[-_ ]?swe(?![a-z])|awe-?ai-?team/", re.ASCII)


def decide_text(text: str, target: Target, policy: Policy = DEFAULT) -> Decision:
    """Decide whether a text may be shown: blocked is one that names the repository as owner/name, or its addresses.

    The name of the project alone is no reason. Addresses count by the rules on the target and on the benchmark only:
    a text that mentions a shortener or a loopback address shows nothing.
    """
    names = names_of(target)
    folded = flatten(text)
    found = _BENCHMARK.search(folded)
    if found:
        return Decision(True, "benchmark", found[0])
    if not names.hint.search(folded):
        return ALLOWED
    slug = names.slug.search(folded)
    if slug and not _permitted(folded, policy):
        return Decision(True, "target-repository", slug[0])
    for found in _ADDRESS.finditer(folded):
        try:
            decision = decide_address(parse(found[0].rstrip(".,;:!?")), names, policy)
        except NotAnAddress:
            continue
        if decision.blocked and decision.rule.startswith(("target", "benchmark")):
            return decision
    return ALLOWED


def _permitted(folded: str, policy: Policy) -> bool:
    """Whether the text names the target only by pages that the prompt names too."""
    return any(
        re.sub(r"^https?://", "", one.lower()).rstrip("/") in folded for one in policy.prompt_addresses
    )
