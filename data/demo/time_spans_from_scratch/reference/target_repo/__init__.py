"""Lengths and spans of time."""

from target_repo.lengths import LengthError, format_length, parse_length, round_length
from target_repo.sets import SpanSet
from target_repo.spans import Span, SpanError
from target_repo.weekly import WeeklyHours, parse_weekly

__all__ = [
    "LengthError",
    "Span",
    "SpanError",
    "SpanSet",
    "WeeklyHours",
    "format_length",
    "parse_length",
    "parse_weekly",
    "round_length",
]
__version__ = "1.0.0"
