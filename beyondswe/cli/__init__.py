"""The command line: one module a command, imported when it is called, so that ``--help`` stays fast."""

from __future__ import annotations

import sys

import click

COMMANDS: dict[str, tuple[str, str]] = {
    # name: (module, what it does; shown by --help without importing the module)
    "eval": ("beyondswe.cli.eval", "Run an agent on a dataset and score its patches."),
    "score": ("beyondswe.cli.score", "Score patches made elsewhere (SWE-bench prediction rows)."),
    "verify": (
        "beyondswe.cli.verify",
        "Find by running which tests fail before and pass after the reference change.",
    ),
    "dataset": ("beyondswe.cli.dataset", "List, show, count, check and prefetch datasets."),
    "report": ("beyondswe.cli.report", "Show the results of runs."),
    "runs": ("beyondswe.cli.runs", "List and remove runs."),
    "agents": ("beyondswe.cli.agents", "List the agents."),
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
    """Entry point: runs a command; known errors are shown without a traceback and end in their exit code."""
    from beyondswe.errors import BeyondSWEError

    try:
        code = cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(130)
    except BeyondSWEError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    sys.exit(code if isinstance(code, int) else 0)
