"""What an agent's runtime layer adds to the start of an attempt: sandboxes with it and without, in turn.

The promise is under a second.
"""

from __future__ import annotations

import argparse
import statistics
import time

from beyondswe.agents.command import CommandAgent
from beyondswe.agents.loader import load_agent
from beyondswe.sandbox.base_images import ensure_base_image
from beyondswe.sandbox.docker import start_sandbox
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.types import Limits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agent", default="openhands")
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    engine = Engine.connect()
    image = ensure_base_image(engine)
    agent = load_agent(given.agent)
    assert isinstance(agent, CommandAgent)
    agent.prepare()
    spent: dict[bool, list[float]] = {True: [], False: []}
    for number in range(2 * given.rounds):
        layered = number % 2 == 0
        began = time.monotonic()
        mounts = agent.mounts(engine, image) if layered else ()
        sandbox = start_sandbox(
            engine, image, workdir="/", limits=Limits(cpus=1, memory=1 << 30), mounts=mounts
        )
        spent[layered].append(time.monotonic() - began)
        sandbox.stop()
    bare, layered_start = statistics.median(spent[False]), statistics.median(spent[True])
    print(f"bare start     {bare:.3f} s (median of {given.rounds})")
    print(f"with the layer {layered_start:.3f} s")
    print(f"added          {layered_start - bare:+.3f} s")


if __name__ == "__main__":
    main()
