"""DomainFix: a local fix that needs knowledge of a scientific or engineering field."""

from __future__ import annotations

from beyondswe.instances.families import issue

load = issue.load
