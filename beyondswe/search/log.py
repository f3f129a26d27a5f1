"""Requests of the web tools, in the shape of the egress proxy's log: one row a request of an attempt."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import Any


class WebLog:
    """Collects rows ``time, method, url, decision, rule, status, size`` (and ``tool``, ``query``,
    ``removed``, ``cached`` where they apply).
    """

    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def add(
        self,
        method: str,
        url: str,
        *,
        tool: str,
        rule: str | None = None,
        status: int | None = None,
        size: int = 0,
        **more: Any,
    ) -> None:
        """A request that was made, or with ``rule`` one that was refused."""
        row = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "method": method,
            "url": url,
            "decision": "blocked" if rule else "allowed",
            "rule": rule or "",
            "status": status,
            "size": size,
            "tool": tool,
            **more,
        }
        with self._lock:
            self._rows.append(row)

    def rows(self) -> list[dict[str, Any]]:
        with self._lock:
            return list(self._rows)
