"""`beyondswe agents`: what agents there are, their runtime layers, and whether they run here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from beyondswe.cli.output import console, emit, json_option, say
from beyondswe.cli.parameters import Number

if TYPE_CHECKING:
    from beyondswe.agents.manifest import Manifest


@click.group("agents")
def command() -> None:
    """List the agents, build their runtime layers, check that they run."""


@command.command("list")
@json_option
def list_command(as_json: bool) -> None:
    """List the agents that come with the product: what each speaks to its model, what it needs, and whether its
    runtime layer is there (else the first `eval` or `agents build` makes it). Others: --agent ./FOLDER, or
    --agent-cmd 'CMD'.
    """
    from beyondswe.agents.loader import shipped_agents

    rows = [_row(manifest) for manifest in shipped_agents()]
    if as_json:
        emit(rows)
        return
    from rich.table import Column, Table

    heads = ("agent", "version", "layer", "protocol", "network", "what it is, what it needs")
    table = Table(*(Column(head, overflow="fold") for head in heads))  # a name that is cut is no name
    for row in rows:
        words = ("built" if row["installed"] else "not built") if row["runtime"] else "needs none"
        needs = f" Needs {', '.join(row['needs'])}." if row["needs"] else ""
        about = f"{row['description']}{needs}"
        table.add_row(row["name"], row["version"], words, row["protocol"] or "", row["network"], about)
    console().print(table)


@command.command("build")
@click.argument("name", metavar="NAME")
@click.option(
    "--python-dir",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Folder of Python interpreters (pyenv's layout: DIR/3.12.1/bin/python3.12) to make the layer from. Default: "
    "pyenv's own, uv's, or this machine's.",
)
@json_option
def build_command(name: str, python_dir: Path | None, as_json: bool) -> None:
    """Build the runtime layer of an agent (a name, or a folder ./PATH): its own Python or Node with its packages,
    pinned by its lock. Done once; a layer that is there is left as it is.
    """
    import time
    from dataclasses import asdict

    from beyondswe.agents.layers import ensure_layer
    from beyondswe.agents.loader import agent_folder
    from beyondswe.agents.manifest import read_manifest

    folder = agent_folder(name)
    began = time.monotonic()
    layer, built = ensure_layer(read_manifest(folder), folder, python_dir)
    seconds = round(time.monotonic() - began, 1)
    if as_json:
        emit(
            {
                **asdict(layer),
                "path": str(layer.path),
                "mount": layer.mount,
                "built": built,
                "seconds": seconds,
            }
        )
    how = f"built in {seconds:g} s" if built else "there already"
    say(
        f"{layer.name} {layer.version}: {how}; {layer.runtime}, {layer.bytes / 2**20:.0f} MiB in {layer.path}"
    )


@command.command("check")
@click.argument("name", metavar="NAME")
@click.option(
    "--image", metavar="IMAGE", help="Image to run it in; it must hold Python 3. Default: the base image."
)
@click.option(
    "--timeout",
    type=Number(1),
    default=600,
    show_default=True,
    metavar="S",
    help="Seconds that the agent may take.",
)
@json_option
def check_command(name: str, image: str | None, timeout: float, as_json: bool) -> int:
    """Run an agent for real (a name, or a folder ./PATH) in a sandbox, against a scripted model that corrects one
    line through it. Exit code 1 if it fails.
    """
    from beyondswe.agents.check import as_document, check_agent
    from beyondswe.agents.command import CommandAgent
    from beyondswe.agents.loader import load_agent
    from beyondswe.errors import UsageError
    from beyondswe.sandbox.base_images import ensure_base_image
    from beyondswe.sandbox.engine import Engine

    agent = load_agent(name)
    if not isinstance(agent, CommandAgent):
        raise UsageError(f"agent {agent.name} works from the host: there is no program of its own to check")
    engine = Engine.connect()
    checked = check_agent(engine, agent, image or ensure_base_image(engine, on_line=say), timeout=timeout)
    if as_json:
        emit(as_document(checked))
    for problem in checked.problems:
        say(f"{checked.name}: {problem}")
    if checked.log:
        say(checked.log)
    times = ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in checked.seconds.items())
    say(
        f"{checked.name} {checked.version}: {'ok' if checked.ok else 'FAILED'}; {checked.calls} model calls, {times}"
    )
    return 0 if checked.ok else 1


def _row(manifest: Manifest) -> dict[str, Any]:
    """What ``agents list`` says of one."""
    import os

    from beyondswe.agents.layers import find_layer
    from beyondswe.agents.loader import agent_folder

    layer = find_layer(manifest, agent_folder(manifest.name))
    needs = list(manifest.needs)
    runtime = manifest.runtime
    if runtime and runtime.source and not os.environ.get(runtime.source.variable):
        needs.append(f"{runtime.source.variable}=FOLDER with its source tree")
    if manifest.opt_in and os.environ.get(manifest.opt_in) != "1":
        needs.append(f"{manifest.opt_in}=1 as your word that you may use it")
    return {
        "name": manifest.name,
        "version": manifest.version,
        "description": manifest.description,
        "protocol": manifest.protocol.value if manifest.protocol else None,
        "network": manifest.network.value,
        "needs": needs,
        "licence": manifest.licence,
        "runtime": runtime.kind.value if runtime else None,
        "installed": runtime is None or layer is not None,
        "layer": str(layer.path) if layer else None,
    }
