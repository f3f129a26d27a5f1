"""`beyondswe import`: instances out of the formats of others."""

from __future__ import annotations

import json
from pathlib import Path

import click

from beyondswe.cli.output import emit, json_option, say, write_file


@click.group("import")
def command() -> None:
    """Read instances out of the formats of others."""


@command.command("swebench")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE")
@click.option(
    "--out",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Rows to write.",
)
@json_option
def swebench(file: Path, out: Path, as_json: bool) -> None:
    """SWE-bench rows (JSONL or JSON). Rows that `export swebench` wrote come back as they were; of others no family is
    known: evaluate them with --as-family.
    """
    from beyondswe.export.swebench import import_swebench

    rows = import_swebench(file)
    write_file(out, "".join(json.dumps(row) + "\n" for row in rows))
    if as_json:
        emit({"out": str(out), "instances": len(rows)})
    say(f"{len(rows)} rows: {out}; `beyondswe dataset check {out}` says what is wrong with them")


@command.command("harbor")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR")
@click.option(
    "--out",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Rows to write; suites and reference archives are put beside it.",
)
@click.option("--as-family", metavar="FAMILY", help="Family of tasks that name none.")
@json_option
def harbor(folder: Path, out: Path, as_family: str | None, as_json: bool) -> None:
    """Harbor tasks: one, or a folder of them. Tasks that `export harbor` wrote come back as they were; of others, such
    as the released Harbor form of BeyondSWE, what their files say, and what is missing is named.
    """
    import shutil

    from beyondswe.errors import UsageError
    from beyondswe.export.harbor.reading import read_tasks
    from beyondswe.instances.families import named_family

    found = read_tasks(folder, as_family=named_family(as_family, "--as-family") if as_family else None)
    for name, source in found.files.items():
        target = out.parent / name
        if target.exists() and target.read_bytes() != source.read_bytes():
            raise UsageError(f"{target} is there already and is another file; name another --out")
    write_file(out, "".join(json.dumps(row) + "\n" for row in found.rows))
    for name, source in found.files.items():
        if not (out.parent / name).exists():
            shutil.copyfile(source, out.parent / name)
    to_build = {image: str(place) for image, place in found.to_build.items()}
    if as_json:
        emit(
            {
                "out": str(out),
                "instances": len(found.rows),
                "files": sorted(found.files),
                "incomplete": found.incomplete,
                "to_build": to_build,
            }
        )
    say(f"{len(found.rows)} rows: {out}; `beyondswe dataset check {out}` says what is wrong with them")
    for name, fields in found.incomplete.items():
        say(f"{name}: its files do not say {', '.join(fields)}")
    for image, place in to_build.items():
        say(f"to be built: docker build -t {image} {place}")
