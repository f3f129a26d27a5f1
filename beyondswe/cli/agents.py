"""`beyondswe agents`: what agents there are."""

from __future__ import annotations

import click

from beyondswe.cli.output import console, emit, json_option


@click.group("agents")
def command() -> None:
    """List the agents."""


@command.command("list")
@json_option
def list_command(as_json: bool) -> None:
    """List the agents that come with the product. Others: --agent ./FOLDER, or --agent-cmd 'CMD'."""
    from beyondswe.agents.loader import shipped_agents

    manifests = shipped_agents()
    if as_json:
        fields = {"name", "version", "description", "network"}
        emit([manifest.model_dump(mode="json", include=fields) for manifest in manifests])
        return
    from rich.table import Table

    table = Table("agent", "version", "network", "what it does")
    for manifest in manifests:
        table.add_row(manifest.name, manifest.version, manifest.network.value, manifest.description)
    console().print(table)
