"""The gate's error rates by simulation: false alarms of an unchanged agent, and how often a drop is seen.

    python benchmarks/gate.py [--repeat 300] [--seed 1]

An agent solves each instance with a chance of its own, drawn from a U-shaped distribution (most instances are nearly
always or nearly never solved); two runs of it differ in some 22 of 100 instances. A worse agent loses a share
of what it would have solved. Sizes are the benchmark's, and a stratified tenth of it.
"""

from __future__ import annotations

import argparse
import random
import statistics

from beyondswe.instances.model import Family
from beyondswe.reports.gate import judge
from beyondswe.reports.paired import Judged, RunScores

FULL = {Family.CROSSREPO: 200, Family.DOMAINFIX: 72, Family.DEPMIGRATE: 178, Family.DOC2REPO: 50}
TENTH = {Family.CROSSREPO: 20, Family.DOMAINFIX: 8, Family.DEPMIGRATE: 18, Family.DOC2REPO: 5}
Agent = dict[str, tuple[Family, float]]


def agent(chance: random.Random, sizes: dict[Family, int]) -> Agent:
    return {
        f"{family.value}{i}": (family, chance.betavariate(0.35, 0.42))
        for family, n in sizes.items()
        for i in range(n)
    }


def run(chance: random.Random, who: Agent, lost: float) -> RunScores:
    instances = {}
    for name, (family, skill) in who.items():
        score = float(chance.random() < skill)
        if family is Family.DOC2REPO:
            score = min(1.0, max(0.0, chance.gauss(skill, 0.12)))
        instances[name] = Judged(family, [0.0 if chance.random() < lost else score])
    return RunScores({"run_id": "simulated", "dataset": {"name": "simulated"}}, instances)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    print("instances  lost  mean drop  red     smallest drop said")
    for sizes in (FULL, TENTH):
        for lost in (0.0, 0.1, 0.15, 0.22, 0.4):
            gates = []
            for _ in range(options.repeat):
                who = agent(chance, sizes)
                gates.append(judge(run(chance, who, 0.0), run(chance, who, lost)))
            red = sum(not gate.green for gate in gates) / len(gates)
            drop = statistics.mean(gate.drop for gate in gates)
            said = statistics.mean(gate.smallest_drop or 100 for gate in gates)
            print(
                f"{sum(sizes.values()):9}  {lost:4.2f}  {drop:9.2f}  {100 * red:5.1f} %  {said:5.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
