"""`beyondswe eval`: run an agent on a dataset and score its patches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from beyondswe.cli.datasets import dataset_options, image_provider, open_dataset
from beyondswe.cli.running import carry_out, dataset_facts, run_options, say_skipped


@click.command("eval")
@dataset_options
@click.option(
    "--agent", metavar="A", help="Name of an agent (`beyondswe agents list`), or a folder: ./my-agent."
)
@click.option(
    "--agent-cmd",
    metavar="CMD",
    help="Any command as the agent: run by `sh -c` in the work folder inside the sandbox, with the prompt on "
    "its standard input and in the file $BEYONDSWE_PROMPT_FILE. Exit code 0: it finished; else: agent error.",
)
@click.option(
    "--prompt", default="default", show_default=True, metavar="P", help="default, or a Jinja2 template file."
)
@click.option(
    "--attempts",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="K",
    help="Attempts an instance.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0.1),
    default=14_400,
    show_default=True,
    metavar="S",
    help="Seconds that the agent may take for an instance.",
)
@click.option(
    "--network",
    type=click.Choice(["none", "open"]),
    default="none",
    show_default=True,
    help="What the agent's sandbox may reach.",
)
@run_options
def command(
    agent: str | None,
    agent_cmd: str | None,
    prompt: str,
    attempts: int,
    timeout: float,
    network: str,
    cpus: float,
    memory: int,
    disk: int,
    test_timeout: float,
    strict: bool,
    python_dir: Path | None,
    max_disk: int | None,
    run_id: str | None,
    runs_dir: Path,
    workers: int | None,
    fresh: bool,
    as_json: bool,
    dataset: str,
    **selection: Any,
) -> int:
    """Run an agent on a dataset and score its patches."""
    from beyondswe.agents.loader import agent_from_command, load_agent
    from beyondswe.agents.prompts import Prompts
    from beyondswe.errors import UsageError
    from beyondswe.runs.settings import Settings
    from beyondswe.sandbox.types import Limits, Network

    if (agent is None) == (agent_cmd is None):
        raise UsageError("name the agent by --agent or give a command by --agent-cmd, one of the two")
    chosen = load_agent(agent) if agent is not None else agent_from_command(agent_cmd or "")
    if chosen.network is Network.OPEN and network != "open":
        raise UsageError(f"agent {chosen.name} needs the network: give it --network open")
    opened = open_dataset(dataset, **selection)
    prompts = Prompts(prompt, Network(network))
    for instance in {instance.family: instance for instance in opened.instances}.values():
        prompts.render(instance)  # a template that cannot be filled is told before anything starts
    asked = Limits(cpus=cpus, memory=memory, disk=disk, timeout=timeout, test_timeout=test_timeout)
    settings = Settings(
        dataset=dataset_facts(opened),
        agent={"name": chosen.name, "version": chosen.version, "digest": chosen.digest},
        limits=asked,
        limits_asked=asked,
        network=Network(network),
        prompt=prompt,
        prompt_sha256=prompts.sha256,
        attempts=attempts,
        strict=strict,
        notes=tuple(say_skipped(opened)),
    )
    return carry_out(
        settings=settings,
        instances=opened.instances,
        provide_image=lambda engine: image_provider(
            engine, dataset, python_dir=python_dir, max_disk=max_disk
        ),
        work=lambda made: made.of_agent(chosen, prompts.render),
        run_id=run_id,
        runs_dir=runs_dir,
        workers=workers,
        fresh=fresh,
        as_json=as_json,
    )
