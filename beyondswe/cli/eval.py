"""`beyondswe eval`: run an agent on a dataset and score its patches."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from beyondswe.cli.datasets import dataset_options, image_provider, open_dataset
from beyondswe.cli.matrix import CHECK_ALONE, ESTIMATE, EvalCommand
from beyondswe.cli.models import gateway_options, gateway_settings, model_facts, refuse_without_model
from beyondswe.cli.output import emit, say
from beyondswe.cli.parameters import Number
from beyondswe.cli.running import carry_out, dataset_facts, run_options, say_skipped
from beyondswe.cli.searching import search_options, searching

if TYPE_CHECKING:
    from beyondswe.agents.protocol import Agent
    from beyondswe.instances.dataset import Dataset
    from beyondswe.sandbox.types import Network


@click.command("eval", cls=EvalCommand)
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
    "--prompt",
    metavar="P",
    help="default, searchswe (asks for looking things up), or a Jinja2 template file. Default: by --search.",
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
    type=Number(0.1),
    default=14_400,
    show_default=True,
    metavar="S",
    help="Seconds that the agent may take for an instance.",
)
@click.option("--model", metavar="M", help="Model that the agent asks, by the name that its API has for it.")
@gateway_options
@search_options
@click.option(
    "--network",
    type=click.Choice(["none", "model", "filtered", "open"]),
    help="What the agent's sandbox may reach: nothing, the model alone, the web without the target, or everything. "
    "Default: what the agent needs, model for a command that is given one, filtered with --search.",
)
@click.option(
    "--allow-host",
    "allow_hosts",
    multiple=True,
    metavar="H",
    help="A host (or host:port) that the sandbox may reach as well, with --network model or filtered; it is logged. "
    "Repeatable.",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="YAML file with a matrix of runs: agents, models, search on and off; its other keys are options of this "
    "command. Options given here hold for every run. The same file goes on with its runs.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Start nothing: say what would be done, and from earlier runs what it would take.",
)
@run_options
def command(
    agent: str | None,
    agent_cmd: str | None,
    prompt: str | None,
    attempts: int,
    timeout: float,
    model: str | None,
    model_url: str | None,
    max_turns: int,
    max_cost: float | None,
    max_tokens: int | None,
    prices: Path | None,
    rate: float | None,
    provider_tools: bool,
    search: bool | None,
    search_backend: str | None,
    page_reader: str | None,
    summary_model: str | None,
    web_cache: Path | None,
    model_options: tuple[str, ...],
    network: str | None,
    allow_hosts: tuple[str, ...],
    config: Path | None,
    dry_run: bool,
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
    from beyondswe.agents.command import CommandAgent
    from beyondswe.agents.loader import agent_from_command, load_agent
    from beyondswe.agents.prompts import Prompts
    from beyondswe.errors import UsageError
    from beyondswe.gateway.access import AccessSettings
    from beyondswe.gateway.egress import policy_for
    from beyondswe.runs.folder import new_run_id
    from beyondswe.runs.run import is_finished
    from beyondswe.runs.settings import Settings
    from beyondswe.sandbox.types import Limits

    if (agent is None) == (agent_cmd is None):
        raise UsageError("name the agent by --agent or give a command by --agent-cmd, one of the two")
    chosen = load_agent(agent) if agent is not None else agent_from_command(agent_cmd or "")
    run_id = run_id or new_run_id(chosen.name, dataset)
    made_ready = searching(
        chosen,
        search=search,
        prompt=prompt,
        search_backend=search_backend,
        page_reader=page_reader,
        summary_model=summary_model,
        web_cache=web_cache,
        model_options=model_options,
        has_model=model is not None,
        dataset=dataset,
        run_folder=runs_dir / run_id,
    )
    chosen, prompt = made_ready.agent, made_ready.prompt
    reach = _network(chosen, network, has_model=model is not None, search=made_ready.search)
    gateway, notes = None, list[str]()
    if model is None:
        refuse_without_model()
    else:
        gateway, notes = gateway_settings(
            model,
            model_url=model_url,
            max_turns=max_turns,
            max_cost=max_cost,
            max_tokens=max_tokens,
            prices=prices,
            rate=rate,
            provider_tools=provider_tools,
            request=made_ready.request,
        )
    check_alone = bool(click.get_current_context().meta.get(CHECK_ALONE))
    for note in () if check_alone else notes:
        say(note)
    opened = open_dataset(dataset, **selection)
    prompts = Prompts(prompt, reach)
    for instance in {instance.family: instance for instance in opened.instances}.values():
        prompts.render(instance)  # a template that cannot be filled is told before anything starts
    if isinstance(chosen, CommandAgent) and not dry_run:
        chosen.check()
    if gateway is not None and not dry_run and not is_finished(runs_dir, run_id):
        gateway.knock()
    if check_alone:
        return 0
    if dry_run:
        return _estimate(opened, chosen.name, model, attempts, workers, runs_dir, as_json)
    if isinstance(chosen, CommandAgent):
        chosen.prepare()
    asked = Limits(cpus=cpus, memory=memory, disk=disk, timeout=timeout, test_timeout=test_timeout)
    settings = Settings(
        dataset=dataset_facts(opened),
        agent={"name": chosen.name, "version": chosen.version, "digest": chosen.digest},
        limits=asked,
        limits_asked=asked,
        network=reach,
        model=model_facts(gateway) if gateway else None,
        prompt=prompt,
        prompt_sha256=prompts.sha256,
        attempts=attempts,
        strict=strict,
        notes=(*notes, *say_skipped(opened)),
        asked={**made_ready.asked, "--allow-host": list(allow_hosts)},
        more={**made_ready.facts, "allow_hosts": list(allow_hosts)},
    )
    return carry_out(
        settings=settings,
        instances=opened.instances,
        provide_image=lambda engine: image_provider(
            engine, dataset, python_dir=python_dir, max_disk=max_disk
        ),
        work=lambda made: made.of_agent(chosen, prompts.render),
        access=AccessSettings(
            network=reach,
            model=gateway,
            roles=getattr(chosen, "roles", frozenset()),
            policy=policy_for(reach, allow_hosts),
        ),
        run_id=run_id,
        runs_dir=runs_dir,
        workers=workers,
        fresh=fresh,
        as_json=as_json,
    )


def _estimate(
    opened: Dataset,
    agent: str,
    model: str | None,
    attempts: int,
    workers: int | None,
    runs_dir: Path,
    as_json: bool,
) -> int:
    import os

    from beyondswe.reports.estimate import estimate, lines
    from beyondswe.runs.settings import families_of

    say_skipped(opened)
    found = estimate(
        runs_dir,
        agent=agent,
        model=model,
        families=families_of(opened.instances),
        attempts=attempts,
        workers=workers or os.cpu_count() or 1,
    )
    click.get_current_context().meta[ESTIMATE] = found
    if as_json:
        emit(found)
    for line in lines(found):
        say(line)
    return 0


def _network(agent: Agent, asked: str | None, *, has_model: bool, search: bool) -> Network:
    """What the sandboxes may reach. `UsageError` where agent, model and network do not fit together."""
    from beyondswe.agents.command import CommandAgent
    from beyondswe.agents.oracle import OracleAgent
    from beyondswe.errors import UsageError
    from beyondswe.sandbox.types import Network

    network = Network(asked) if asked else agent.network
    if asked is None and search and network in (Network.NONE, Network.MODEL):
        network = Network.FILTERED
    elif asked is None and network is Network.NONE and has_model:
        network = Network.MODEL
    needs_model = agent.network in (Network.MODEL, Network.FILTERED)
    if agent.network is Network.OPEN and network is not Network.OPEN:
        raise UsageError(f"agent {agent.name} needs the network: give it --network open")
    if needs_model and not has_model:
        raise UsageError(f"agent {agent.name} needs a model: give it --model M (and --model-url U)")
    if has_model and isinstance(agent, OracleAgent):
        raise UsageError(f"--model has no effect: agent {agent.name} asks none")
    if network is Network.MODEL and not has_model:
        raise UsageError("--network model leads to a model only: give it --model M")
    if network is Network.NONE and has_model and isinstance(agent, CommandAgent):
        raise UsageError(
            f"with --network none agent {agent.name} cannot reach its model; use --network model"
        )
    return network
