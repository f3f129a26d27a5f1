"""Taking 20 changed files out of a tree of 1 GiB: against 20 out of a small tree, and against copying the tree.

    python benchmarks/extraction.py [--rounds 7] [--mebibytes 1024]

The trees are random files of 50 KiB, committed, in images that are built once and kept. The agent edits one file
in each of 20 folders, adds none. What is measured is `extract_patch` on the frozen sandbox, as an attempt does it.
"""

from __future__ import annotations

import argparse
import time

from common import in_turn, table

from beyondswe.sandbox.base_images import ensure_base_image
from beyondswe.sandbox.build import build_image
from beyondswe.sandbox.docker import DockerSandbox, start_sandbox
from beyondswe.sandbox.engine import Engine, labels
from beyondswe.sandbox.environment import prepare
from beyondswe.sandbox.types import Environment, Limits
from beyondswe.scoring.extract import extract_patch

FOLDERS, FILE = 20, 50 << 10
DOCKERFILE = """
FROM {base}
WORKDIR /workspace
RUN python -c "import os; [(os.makedirs(f'd{{n % {folders}}}', exist_ok=True), \
open(f'd{{n % {folders}}}/f{{n}}.txt', 'wb').write(os.urandom({size} // 2).hex().encode())) for n in range({count})]" \
 && git init -q && git add -A && git -c user.name=b -c user.email=b@example.org commit -q -m base
"""
EDIT = "for folder in d*; do echo changed >> $(ls -d $folder/* | head -n 1); done"


def tree(engine: Engine, base: str, count: int) -> tuple[Environment, DockerSandbox]:
    """A frozen sandbox in which 20 files of ``count`` were changed."""
    tag = f"beyondswe/bench-extraction:{count}"
    if not engine.has_image(tag):
        dockerfile = DOCKERFILE.format(base=base, folders=FOLDERS, size=FILE, count=count)
        build_image(
            engine, context={}, dockerfile=dockerfile, tag=tag, network="none", labels=labels(role="bench")
        )
    begun = time.perf_counter()
    environment = prepare(engine, tag, workdir="/workspace", base_commit="HEAD")
    print(f"{count} files: environment ready in {time.perf_counter() - begun:.1f} s")
    sandbox = start_sandbox(
        engine, environment.image, workdir="/workspace", limits=Limits(cpus=1, memory=1 << 30)
    )
    assert sandbox.run(EDIT, timeout=60).exit_code == 0
    sandbox.freeze()
    return environment, sandbox


def copied(sandbox: DockerSandbox) -> None:
    with sandbox.get("/workspace") as pieces:
        for _ in pieces:
            pass


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--mebibytes", type=int, default=1024)
    arguments = parser.parse_args()
    engine = Engine.connect()
    base = ensure_base_image(engine)
    small_environment, small = tree(engine, base, 10 * FOLDERS)
    try:
        large_environment, large = tree(engine, base, (arguments.mebibytes << 20) // FILE)
    except BaseException:
        small.stop()
        raise

    def taken(sandbox: DockerSandbox, environment: Environment) -> None:
        patch = extract_patch(sandbox, environment)
        assert patch.text.count("diff --git") == FOLDERS, patch.text[:1000]

    try:
        seconds = in_turn(
            arguments.rounds,
            {
                "20 of a small tree": lambda: taken(small, small_environment),
                "20 of the large tree": lambda: taken(large, large_environment),
            },
        )
        table(seconds, against="20 of a small tree")
        begun = time.perf_counter()
        copied(large)
        print(f"copying the large tree out: {time.perf_counter() - begun:.1f} s")
    finally:
        small.stop()
        large.stop()


if __name__ == "__main__":
    main()
