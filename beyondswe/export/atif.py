"""Trajectories in ATIF: ours are that already; transcripts of other harnesses are converted."""

from __future__ import annotations

from pathlib import Path

from beyondswe.agents.transcripts import Transcript, detect, read_transcript
from beyondswe.errors import UsageError
from beyondswe.gateway.atif import AgentInfo, Builder, Metrics, Trajectory
from beyondswe.reports.report import read_results
from beyondswe.runs.folder import RunFolder, folder_name, write_atomic


def export_run(folder: RunFolder, out: Path) -> tuple[int, list[str]]:
    """Write ``<instance>.<attempt>.json`` for every attempt with a trajectory: how many, and those without."""
    written, without = 0, []
    for row in read_results(folder.results):
        name, attempt = row["instance_id"], int(row.get("attempt", 1))
        source = folder.attempt(name, attempt) / "trajectory.json"
        if source.is_file():
            write_atomic(out / f"{folder_name(name)}.{attempt}.json", source.read_bytes())
            written += 1
        else:
            without.append(f"{name} ({attempt})")
    if not written:
        raise UsageError(
            f"{folder.path} has no trajectory: its agent asked no model, or attempts/ is missing"
        )
    return written, without


def export_transcript(path: Path, out: Path) -> None:
    """Convert a transcript (a file, or the folder of files that a harness left) into one ATIF file."""
    files = (
        {p.relative_to(path).as_posix(): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}
        if path.is_dir()
        else {path.name: path.read_bytes()}
    )
    form = detect(files)
    transcript = read_transcript(form, files) if form else None
    if transcript is None or not transcript.steps:
        raise UsageError(f"{path}: no agent's transcript that is known here")
    write_atomic(out / f"{path.stem}.json", to_atif(transcript, path.stem).encode())


def to_atif(transcript: Transcript, session: str) -> Trajectory:
    """A transcript as a trajectory; what its agent did not write down is left out."""
    builder = Builder()
    for step in transcript.steps:
        tokens = step.tokens
        calls = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in step.calls]
        metrics = Metrics(
            prompt_tokens=tokens.input if tokens else None,
            completion_tokens=tokens.output if tokens else None,
            cached_tokens=tokens.cached if tokens else None,
            cost_usd=step.cost_usd,
        )
        builder.reply(step.text, reasoning=step.reasoning, calls=calls, metrics=metrics)
        for result in step.results:
            if not builder.result(result.call_id, result.text):
                builder.say("user", result.text)
    return Trajectory(
        session_id=session, agent=AgentInfo(name=transcript.format, version="unknown"), steps=builder.steps
    )
