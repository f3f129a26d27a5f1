"""Building the leaderboard's site: seconds for a thousand submissions of 500 instances, and bytes of the first page.

    python benchmarks/leaderboard.py [--submissions 1000] [--instances 500] [--tests 20]

Promised: under 20 s and under 500 kB. The submissions are made by hand, of the benchmark's sizes by family, each with
its own outcomes; an outcome has ``--tests`` test ids.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import resource
import tempfile
import time
from pathlib import Path

from beyondswe.leaderboard.entries import read_board
from beyondswe.leaderboard.pack import to_yaml
from beyondswe.leaderboard.site import build
from beyondswe.leaderboard.submission import Submission, scores_of
from beyondswe.reports.report import report_of

SHARES = {"CrossRepo": 200, "DomainFix": 72, "DepMigrate": 178, "Doc2Repo": 50}


def make(site: Path, number: int, instances: int, tests: int) -> None:
    """One submission's two files that a build reads."""
    chance = random.Random(number)
    skill = chance.uniform(0.1, 0.7)
    folder = site / "submissions" / f"submission-{number:04}"
    folder.mkdir(parents=True)
    rows = []
    for family, share in SHARES.items():
        for n in range(round(share * instances / 500)):
            good = chance.random() < skill
            rate = 1.0 if good else round(chance.random(), 2)
            result = {
                f"tests/test_module_{t % 5}.py::test_case_number_{t}": "passed" if good else "failed"
                for t in range(tests)
            }
            rows.append(
                {
                    "instance_id": f"{family.lower()}_project_pr{n}",
                    "family": family,
                    "attempt": 1,
                    "status": "resolved" if good else "unresolved",
                    "agent_status": "finished",
                    "resolved": good,
                    "score": float(good),
                    "pass_rate": rate,
                    "f2p": result,
                    "p2p": {},
                    "tests": {},
                    "flags": [],
                    "patch_sha256": hashlib.sha256(f"{number} {n}".encode()).hexdigest(),
                    "usage": {
                        "input_tokens": chance.randrange(10**6),
                        "output_tokens": 9000,
                        "cost_usd": 0.5,
                        "turns": 40,
                        "tool_calls": {"bash": 30, "search": 4},
                    },
                    "timings": {"setup": 1.0, "agent": 300.0, "extract": 0.5, "score": 20.0},
                }
            )
    (folder / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    facts = {
        "agent": {"name": f"agent-{number % 37}", "version": "1.0"},
        "model": f"model-{number % 53}-instruct",
        "open_weights": number % 2 == 0,
        "date": "2026-06-01",
        "authors": ["Somebody"],
        "search": number % 3 == 0,
        "network": "model",
        "attempts": 1,
        "package_version": "0.1.0",
        "dataset": {"name": "AweAI-Team/BeyondSWE", "version": "1", "hash": "0" * 64},
    }
    report = report_of({**facts, "run_id": folder.name}, rows, folder, resample=False)
    scores = scores_of(report)
    scores["avg_interval"] = [max(0.0, scores["avg"] - 4), min(100.0, scores["avg"] + 4)]
    (folder / "submission.yaml").write_text(to_yaml(Submission.model_validate({**facts, "scores": scores})))


def _processor() -> float:
    """Seconds of processor time of this process and those that it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--submissions", type=int, default=1000)
    parser.add_argument("--instances", type=int, default=500)
    parser.add_argument("--tests", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder)
        for number in range(options.submissions):
            make(site, number, options.instances, options.tests)
        results = sum(path.stat().st_size for path in site.rglob("results.jsonl"))
        print(f"{options.submissions} submissions × {options.instances} instances, {results / 1e6:.0f} MB")
        begun, before = time.perf_counter(), _processor()
        board = read_board(site)
        read = time.perf_counter()
        assert not board.refused, dict(list(board.refused.items())[:3])
        build(board, site / "public")
        done = time.perf_counter()
        size = (site / "public" / "index.html").stat().st_size
        whole = sum(path.stat().st_size for path in (site / "public").rglob("*") if path.is_file())
        print(
            f"read {read - begun:.1f} s, write {done - read:.1f} s, whole {done - begun:.1f} s (promised: 20)"
        )
        print(
            f"processor time of all processes {_processor() - before:.1f} s: on a shared machine, what counts"
        )
        print(f"first page {size / 1000:.0f} kB (promised: 500); whole site {whole / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
