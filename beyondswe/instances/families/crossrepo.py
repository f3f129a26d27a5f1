"""CrossRepo: a local fix that needs knowledge of other repositories."""

from __future__ import annotations

from beyondswe.instances.families import issue

load = issue.load
