"""Reads agents' own transcripts into one form, for the trajectory and for audits of runs made elsewhere.

A reader takes files as an agent left them: it passes over what it does not know, and never fails on them, since
whoever sat in the sandbox may have written them.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from beyondswe.agents.transcripts.base import Files
from beyondswe.agents.transcripts.model import End, EndKind, Result, Step, Transcript

__all__ = ["FORMATS", "End", "EndKind", "Result", "Step", "Transcript", "detect", "read_transcript"]

FORMATS = (
    "aider",
    "claude",
    "codex",
    "gemini",
    "mini",
    "opencode",
    "openhands",
    "plain",
    "qwen",
    "swe-agent",
)
"""Each is a module here of that name (with underscores), with ``read(files)`` and ``known(files)``."""


_NO_TRANSCRIPT = (AttributeError, LookupError, TypeError, ValueError, ArithmeticError, RecursionError)


def read_transcript(form: str, files: Files) -> Transcript | None:
    """The transcript in files of this form; None where there is none in them."""
    if not files:
        return None
    read: Callable[[Files], Transcript] = _module(form).read
    try:
        return read(files)
    except _NO_TRANSCRIPT:
        # Not what an agent of this form writes: somebody else wrote it, or it was cut short in a way of its own.
        return None


def detect(files: Files) -> str | None:
    """The form of a transcript, by its content; None where no reader knows it."""
    for form in FORMATS:
        try:
            if _module(form).known(files):
                return form
        except _NO_TRANSCRIPT:
            continue
    return None


def _module(form: str):  # type: ignore[no-untyped-def]
    return import_module(f"{__name__}.{form.replace('-', '_')}")
