"""Masks what looks like a key in texts that are kept, so that a run's folder can be shown to others.

Two kinds: shapes that well-known services give their keys, and the very values of this host's own secrets. Not found:
a secret in another form (encoded, cut in two), and keys of services that have no shape.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from beyondswe.scoring.types import Scored

MASK = "[masked]"

_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
_LEAST = 8  # characters of a value that is no ordinary word
_URL_LOGIN = r"(?<=://)[^\s/@:'\"]{1,200}:[^\s/@'\"]{1,200}(?=@)"
_SHAPES = (
    r"\bsk-[A-Za-z0-9_-]{16,}",
    r"\b(?:ghp|gho|ghu|ghs|ghr|glpat|npm|pypi)[_-][A-Za-z0-9_-]{16,}",
    r"\bgithub_pat_[A-Za-z0-9_]{16,}",
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    r"\bxox[a-z]-[A-Za-z0-9-]{10,}",
    r"\bAIza[A-Za-z0-9_-]{30,}",
    r"\bhf_[A-Za-z0-9]{16,}",
    r"(?<=\bBearer )[A-Za-z0-9._~+/-]{8,}=*",
    _URL_LOGIN,
    # a key that was cut off, and one inside JSON, where line ends are written out
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?:[A-Za-z0-9+/=:, \r\n-]|\\[nr]){0,20000}",
)


class Mask:
    """Masks texts for one host. ``environment`` is the host's own: values of secrets are taken from it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        values = {value for name, value in environment.items() if _NAME.search(name) and len(value) >= _LEAST}
        longest_first = sorted(values, key=len, reverse=True)
        self._literals = [re.escape(value) for value in longest_first]
        self._text = re.compile("|".join([*self._literals, *_SHAPES]))
        self._data = re.compile(self._text.pattern.encode("utf-8", "surrogateescape"))

    def text(self, text: str) -> str:
        return self._text.sub(MASK, text)

    def data(self, data: bytes) -> bytes:
        return self._data.sub(MASK.encode(), data)

    def scored(self, scored: Scored) -> Scored:
        """A verdict whose texts are masked; what was decided stays."""
        return replace(
            scored,
            error=scored.error and self.text(scored.error),
            log=self.text(scored.log),
            records=tuple(map(self.text, scored.records)),
        )

    def holds_secret(self, text: str) -> bool:
        """Whether one of the host's own secrets is in it, word for word."""
        return bool(self._literals) and re.search("|".join(self._literals), text) is not None
