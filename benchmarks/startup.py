"""Time of ``beyondswe --help`` as a whole process, beside a bare interpreter and a Typer toy (if there)."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

from common import in_turn, table

TOY = """
import typer
app = typer.Typer()
for name in "abcdefgh":
    app.command(name)(lambda: None)
app()
"""


def process(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main() -> None:
    program = str(Path(sys.executable).with_name("beyondswe"))
    candidates = {
        "python -c pass": lambda: process(sys.executable, "-c", "pass"),
        "import click": lambda: process(sys.executable, "-c", "import click"),
        "beyondswe --help": lambda: process(program, "--help"),
    }
    if importlib.util.find_spec("typer"):
        candidates["Typer and Rich toy --help"] = lambda: process(sys.executable, "-c", TOY, "--help")
    table(in_turn(20, candidates), against="python -c pass")


if __name__ == "__main__":
    main()
