"""The command line: one module a command, imported when it is called, so that ``--help`` stays fast."""

from __future__ import annotations

import errno
import sys
from typing import NoReturn

import click

COMMANDS: dict[str, tuple[str, str]] = {
    # name: (module, what it does; shown by --help without importing the module)
    "eval": ("beyondswe.cli.eval", "Run an agent on a dataset and score its patches."),
    "score": ("beyondswe.cli.score", "Score patches made elsewhere (SWE-bench prediction rows)."),
    "collect": (
        "beyondswe.cli.collect",
        "Find candidates in git histories, on forges and package indexes; review them.",
    ),
    "build": ("beyondswe.cli.build", "Build environments for candidates: a Dockerfile and an image each."),
    "verify": (
        "beyondswe.cli.verify",
        "Find by running which tests fail before and pass after the reference change.",
    ),
    "dataset": ("beyondswe.cli.dataset", "List, show, count, check and prefetch datasets."),
    "report": ("beyondswe.cli.report", "Show the results of runs."),
    "compare": ("beyondswe.cli.compare", "Compare two runs instance by instance."),
    "gate": ("beyondswe.cli.gate", "Hold a candidate run against a baseline; for CI."),
    "audit": ("beyondswe.cli.audit", "Find who looked at the answer."),
    "leaderboard": (
        "beyondswe.cli.leaderboard",
        "Pack, check and rescore submissions; build the leaderboard's site.",
    ),
    "export": ("beyondswe.cli.export", "Write datasets and trajectories in the formats of others."),
    "import": ("beyondswe.cli.imports", "Read instances out of the formats of others."),
    "runs": ("beyondswe.cli.runs", "List, merge and remove runs."),
    "blocklist": (
        "beyondswe.cli.blocklist",
        "Decide whether addresses and commands are of a target repository.",
    ),
    "gateway": ("beyondswe.cli.gateway", "Run the model gateway alone: metered, recorded endpoints."),
    "agents": ("beyondswe.cli.agents", "List the agents, build their layers, check that they run."),
    "engine": ("beyondswe.cli.engine", "Look at, set up and clean the container engine."),
}


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        from importlib import import_module

        command: click.Command = import_module(COMMANDS[name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="beyondswe", prog_name="beyondswe")
def cli() -> None:
    """Evaluate coding agents on software work beyond one repository and one local bug."""


def main() -> None:
    """Entry point: runs a command; known errors are shown without a traceback and end in their exit code.

    With ``--json`` an error is a document on standard output too.
    """
    from beyondswe.cli import output
    from beyondswe.errors import BeyondSWEError

    output.begin()
    try:
        code = cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        _end("UsageError", error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        _end("Interrupted", "interrupted", 130)
    except BeyondSWEError as error:
        message = " ".join([str(error), *getattr(error, "__notes__", ())])
        click.echo(f"error: {message}", err=True)
        _end(_kind(error), message, error.exit_code)
    except OSError as error:
        if error.filename is None or error.errno not in _DISK:
            raise
        message = f"{error.filename}: {error.strerror}"
        click.echo(f"error: {message}", err=True)
        _end("EngineError", message, 1)
    sys.exit(code if isinstance(code, int) else 0)


_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)


def _end(kind: str, message: str, exit_code: int) -> NoReturn:
    if "--json" in sys.argv[1:]:
        from beyondswe.cli.output import emit_error

        emit_error(kind, message, exit_code)
    sys.exit(exit_code)


def _kind(error: Exception) -> str:
    """Which of the kinds in `beyondswe.errors` an error is of."""
    from beyondswe import errors

    return next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == errors.__name__)
