"""What was found on the web, kept for a run: asked again (also when the run is gone on with), it is the same.

Answers are kept as they came, before the blocklist: instances of one run have different targets, and each
filters for itself. Faults are not kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


class WebCache:
    """One JSON file a question in a folder; may be used from many threads, and by several processes."""

    def __init__(self, folder: Path) -> None:
        """The folder is made when the first answer is kept."""
        self.folder = folder
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._guard = threading.Lock()

    def get(self, question: list[Any], ask: Callable[[], Any]) -> tuple[Any, bool]:
        """The answer (what JSON can hold), and whether it was there already; nobody asks twice at a time."""
        key = hashlib.sha256(json.dumps(question, ensure_ascii=False).encode()).hexdigest()
        path = self.folder / f"{question[0]}-{key[:32]}.json"
        with self._guard:
            lock = self._locks[key]
        with lock:
            try:
                return json.loads(path.read_text(encoding="utf-8"))["answer"], True
            except (FileNotFoundError, ValueError, KeyError):
                answer = ask()
            document = {
                "question": question,
                "time": datetime.now(UTC).isoformat(timespec="seconds"),
                "answer": answer,
            }
            self.folder.mkdir(parents=True, exist_ok=True)
            temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
            temporary.write_text(json.dumps(document, ensure_ascii=False, indent=1), encoding="utf-8")
            temporary.replace(path)
            return answer, False
