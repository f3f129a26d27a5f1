"""``beyondswe engine``: look at the container engine, see to one, and clean up after ourselves."""

from __future__ import annotations

import dataclasses
import sys

import click

from beyondswe.cli.output import console, emit, json_option


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
            say(f"missing, to build images: {', '.join(machine.missing_tools)} (as root: --yes)")
    return 0


@command.command()
@json_option
def doctor(as_json: bool) -> int:
    """Say what is there and what is missing, each with its remedy.

    Exit code 0: all is well; 1: something is missing that prevents work; 3: no engine answers.
    """
    from beyondswe.sandbox import doctor as work
    from beyondswe.sandbox.engine import Engine

    engine, why = Engine.find()
    checks = work.examine(engine, why)
    code = work.exit_code(checks)
    if as_json:
        emit(
            {
                "ok": code == 0,
                "checks": [
                    {"name": check.name, "state": check.state, "found": check.found, "remedy": check.remedy}
                    for check in checks
                ],
            }
        )
        return code
    from rich.markup import escape
    from rich.table import Table

    marks = {
        work.State.OK: "[green]ok[/]",
        work.State.WARN: "[yellow]warn[/]",
        work.State.MISSING: "[red]missing[/]",
    }
    table = Table(box=None, show_header=False, pad_edge=False)
    for check in checks:
        remedy = f"\n[bold]→ {escape(check.remedy)}[/]" if check.remedy else ""
        mark = f"[red]{check.word}[/]" if check.word else marks[check.state]
        table.add_row(mark, check.name, escape(check.found) + remedy)
    console().print(table)
    return code


@command.command()
@click.option("--yes", "-y", is_flag=True, help="Remove without asking.")
@click.option(
    "--all", "everything", is_flag=True, help="Also what live runs own, and finished images that were pulled."
)
@json_option
def prune(yes: bool, everything: bool, as_json: bool) -> int:
    """Remove our containers, networks, volumes and images, and nothing else.

    Only those of this namespace (BEYONDSWE_NAMESPACE); what a running `beyondswe` owns stays without --all.
    Base images and environments are built again when next needed.
    """
    from beyondswe.sandbox import prune as work
    from beyondswe.sandbox.engine import Engine, namespace

    engine = Engine.connect()
    planned = work.survey(engine, everything=everything)
    if not as_json:
        for found, reason in planned.keep:
            click.echo(f"keeping {found.kind} {found.name}: {reason}", err=True)
        for found in planned.remove:
            size = f" ({found.size / 2**20:.0f} MiB with shared layers)" if found.size else ""
            click.echo(f"{found.kind} {found.name}{size}", err=True)
    go = bool(planned.remove) and (
        yes
        or (
            sys.stdin.isatty()
            and not as_json
            and click.confirm(f"Remove these {len(planned.remove)}?", err=True)
        )
    )
    done = work.prune(engine, planned) if go else work.Pruned((), (), 0)
    if as_json:
        emit(
            {
                "namespace": namespace(),
                "found": [dataclasses.asdict(found) for found in planned.remove],
                "kept": [{**dataclasses.asdict(found), "reason": reason} for found, reason in planned.keep],
                "removed": [dataclasses.asdict(found) for found in done.removed],
                "failed": [{**dataclasses.asdict(found), "reason": reason} for found, reason in done.failed],
                "freed": done.freed,
            }
        )
    else:
        for found, reason in done.failed:
            click.echo(f"could not remove {found.kind} {found.name}: {reason}", err=True)
        if not planned.remove:
            click.echo(f"nothing to remove in namespace {namespace()}", err=True)
        elif go:
            click.echo(
                f"removed {len(done.removed)}, freed {done.freed / 2**20:.0f} MiB of layers (images share layers: "
                "what several list counts once, and what an image that stays needs is not freed)",
                err=True,
            )
        else:
            click.echo("nothing removed (--yes removes them)", err=True)
    return 1 if done.failed else 0
