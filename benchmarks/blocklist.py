"""URL decisions a second on one core: the addresses of the tests, each made new a million times, no decision kept.

Processor time of this process, so that other work on the machine does not count; the promise is 30 s a million.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from beyondswe.blocklist import Target, decide_url

ROWS = Path(__file__).parents[1] / "tests" / "blocklist"


def questions() -> list[tuple[str, Target]]:
    """Addresses with their targets, both directions."""
    found = []
    for path in (ROWS / "url_given.jsonl", ROWS / "url_own.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            lists = {key: tuple(row.get(key, ())) for key in ("distributions", "aliases", "docs_hosts")}
            found.append((row["url"], Target(row["repo"], **lists)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=1_000_000)
    wanted = parser.parse_args().decisions
    rows = questions()
    done = blocked = 0
    spent = 0.0
    while done < wanted:
        # A new query each round: the same address is never asked twice.
        asked = [(f"{url}{'&' if '?' in url else '?'}n={done}", target) for url, target in rows]
        started = time.process_time()
        for url, target in asked:
            blocked += decide_url(url, target).blocked
        spent += time.process_time() - started
        done += len(asked)
    print(
        f"{done} decisions ({blocked / done:.0%} blocked) in {spent:.1f} s: {spent / done * 1e6:.1f} µs each,"
    )
    print(f"{spent / done * 1e6:.1f} s a million; promised 30 s")


if __name__ == "__main__":
    main()
