"""DepMigrate: a repository that must follow an upgraded dependency; the environment has it already."""

from __future__ import annotations

from beyondswe.instances.families import issue

load = issue.load
