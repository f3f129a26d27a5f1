"""`beyondswe audit`: who looked at the answer."""

from __future__ import annotations

from pathlib import Path

import click

from beyondswe.cli.output import console, emit, json_option, say
from beyondswe.cli.running import runs_dir_option


@click.command("audit")
@click.argument("run", metavar="RUN")
@click.option(
    "--dataset",
    metavar="D",
    help="The dataset of the run, where its run.json does not lead to it; for transcripts.",
)
@click.option(
    "--regrade",
    type=click.Path(path_type=Path),
    metavar="OUT",
    help="Write a run in which attempts with a confirmed look count as unresolved: a folder, or an id.",
)
@runs_dir_option
@json_option
def command(run: str, dataset: str | None, regrade: Path | None, runs_dir: Path, as_json: bool) -> int:
    """Find who looked at the answer: from trajectories and egress logs.

    RUN is an id or a folder; or a folder of transcripts made elsewhere (OpenHands, mini-swe-agent, Codex, Claude Code,
    ATIF and others), each named by its instance's id, with --dataset. Exit code 0 however many are found.
    """
    from beyondswe.cli.datasets import open_dataset
    from beyondswe.errors import UsageError
    from beyondswe.reports.audit.answers import answer_of
    from beyondswe.reports.audit.run import audit_run, audit_transcripts, to_document
    from beyondswe.reports.audit.run import regrade as write_regraded
    from beyondswe.runs.folder import find_run

    folder = None
    if Path(run).is_dir() and not (Path(run) / "run.json").is_file():
        if dataset is None:
            raise UsageError(f"{run} is no run; for a folder of transcripts name the dataset: --dataset D")
        if regrade:
            raise UsageError("--regrade needs a run: transcripts alone have no outcomes")
        name = dataset
    else:
        folder = find_run(run, runs_dir)
        name = dataset or str(folder.read_run()["dataset"]["name"])
    try:
        instances = open_dataset(name, require_tests=False, require_suites=False, skip_bad=True).instances
    except UsageError as error:
        error.add_note("The audit reads from it what each instance's answer is: name it with --dataset D.")
        raise
    answers = {instance.instance_id: answer_of(instance) for instance in instances}
    found = audit_run(folder, answers) if folder else audit_transcripts(Path(run), answers)
    document = to_document(found)
    if folder and regrade:
        out = regrade if len(regrade.parts) > 1 or regrade.is_absolute() else runs_dir / regrade
        document["regraded"] = {"run": str(out), "changed": write_regraded(folder, found, out)}
    if as_json:
        emit(document)
        return 0
    from rich.table import Table

    table = Table("instance", "tier", "confirmed", "step", "what", "evidence", box=None)
    for finding in found.findings:
        at = str(finding.step) if finding.step is not None else finding.source
        where = f"{finding.instance_id} ({finding.attempt})"
        from rich.markup import escape

        table.add_row(
            escape(where),
            finding.tier.value,
            "yes" if finding.confirmed else "no",
            escape(at),
            escape(finding.what),
            escape(finding.evidence),
        )
    if found.findings:
        console().print(table)
    seen = found.attempts - len(found.blind)
    say(
        f"{seen} of {found.attempts} attempts looked at; in {document['confirmed_attempts']} the answer was seen"
    )
    if found.blind:
        say(f"without trajectory and egress log, so not looked at: {', '.join(found.blind)}")
    if found.unknown:
        say(f"not in dataset {name}, so not looked at: {', '.join(found.unknown)}")
    if "regraded" in document:
        say(f"{document['regraded']['changed']} outcomes changed: {document['regraded']['run']}")
    return 0
