"""``beyondswe engine``: look at the container engine, see to one, and clean up after ourselves."""

from __future__ import annotations

import sys

import click

from beyondswe.cli.output import emit, json_option


@click.group()
def command() -> None:
    """Look at, set up and clean the container engine (Docker, or Podman through its socket)."""


@command.command()
@click.option("--yes", "-y", is_flag=True, help="Do what is needed (install, start) without asking.")
@click.option(
    "--engine",
    "wanted",
    type=click.Choice(["docker", "podman"]),
    help="Which engine; default: what is there, else Docker.",
)
@json_option
def setup(yes: bool, wanted: str | None, as_json: bool) -> int:
    """See to an engine: use the one that answers, else start or install one.

    Installing works as root on Debian and Ubuntu, never beside another engine's packages; what is going to
    be done is said before. Where systemd does not run the daemon is started directly, and whatever a killed
    daemon left behind (pid files, sockets, mounts) is cleaned up. Can be run again at any time.
    """
    from beyondswe.errors import EngineUnavailable
    from beyondswe.sandbox import setup as work
    from beyondswe.sandbox.engine import Engine

    def say(line: str) -> None:
        click.echo(line, err=True)

    engine, why = Engine.find(wanted)
    machine = work.look(why)
    actions = work.plan(machine, answers=engine is not None, wanted=wanted)
    if actions:
        words = "; ".join(work.announce(action, machine) for action in actions)
        if not yes and not (sys.stdin.isatty() and click.confirm(f"This will {words}. Go on?", err=True)):
            if engine is None:
                raise EngineUnavailable(
                    f"no container engine answers ({why}). With --yes this would {words}."
                )
            say(f"left undone without --yes: {words}")
            actions = []
        else:
            say(f"going to {words}")
            work.carry_out(actions, machine, say=say)
            engine, why = Engine.find(wanted)
            if engine is None:
                raise EngineUnavailable(f"all was done, and still no engine answers ({why})")
            machine = work.look()
    assert engine is not None
    version = str(engine.client.version().get("Version", ""))
    if as_json:
        emit(
            {
                "engine": engine.kind,
                "version": version,
                "host": engine.host,
                "done": [action.name.lower() for action in actions],
                "missing_tools": list(machine.missing_tools),
            }
        )
    else:
        say(f"{engine.kind.capitalize()} {version} answers at {engine.host}")
        if machine.missing_tools:
            say(
                f"missing, for building images: {', '.join(machine.missing_tools)} (as root, run this with --yes)"
            )
    return 0
