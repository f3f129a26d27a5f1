"""`beyondswe collect review`: walk a person through candidates in the terminal."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from beyondswe.cli.output import console, emit, json_option, say

if TYPE_CHECKING:
    from beyondswe.construction.collect.reviewing import Review

_KEYS = "[a]ccept  [r]eject  [e]dit the statement  [p]atch  [t]ests  [s]kip  [q]uit"


def _login() -> str:
    """The name that whoever runs this is logged in with; empty where the machine knows none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name; the kind of error depends on Python's version
        return ""


@click.command("review")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--reviewers", type=click.IntRange(1), default=1, show_default=True, metavar="N",
    help="How many different people must accept; one who rejects is enough to reject.",
)  # fmt: skip
@click.option(
    "--reviewer", default=_login, metavar="NAME",
    help="Who reviews; default: the name you are logged in with.",
)  # fmt: skip
@json_option
def review(file: Path, reviewers: int, reviewer: str, as_json: bool) -> int:
    """Review the candidates in FILE one after the other: read, accept, reject, or edit the statement.

    Every decision is in FILE at once, so leaving or being killed loses nothing, and several people may review at the
    same time. An edited statement must be accepted again by everybody. The editor is $EDITOR.
    """
    from beyondswe.construction.collect.reviewing import Review, counts

    walk = Review(file, reviewer, reviewers)
    waiting = [row["instance_id"] for row in walk.waiting()]
    for number, instance_id in enumerate(waiting, 1):
        row = next(row for row in walk.rows if row["instance_id"] == instance_id)
        if not _one(walk, row, f"{number} of {len(waiting)}"):
            break
    states = counts(walk.rows, reviewers)
    if as_json:
        emit(
            {
                "file": str(file),
                "reviewer": walk.reviewer,
                "reviewers": reviewers,
                **states,
                "waiting_for_you": [row["instance_id"] for row in walk.waiting()],
                "instances": {row["instance_id"]: row["review"] for row in walk.rows},
            }
        )
    say(
        f"{states['accepted']} accepted, {states['rejected']} rejected, {states['needs_review']} to review; {file}"
    )
    return 0


def _one(walk: Review, row: dict[str, Any], place: str) -> bool:
    """Ask until one row is decided or skipped; False where the person leaves."""
    from beyondswe.construction.collect.reviewing import statement
    from beyondswe.errors import DataError, UsageError

    shown = False
    while True:
        if not shown:
            _show(row, place)
            shown = True
        try:
            key = (
                click.prompt(_KEYS, prompt_suffix=" > ", err=True, default="", show_default=False)
                .strip()
                .lower()[:1]
            )
        except click.Abort:  # end of input, or Ctrl-C
            say("")
            return False
        try:
            if key == "a":
                walk.vote(row["instance_id"], "accept", read=statement(row))
                return True
            if key == "r":
                reason = click.prompt("why", err=True)
                walk.vote(row["instance_id"], "reject", reason, read=statement(row))
                return True
            if key == "e":
                text = _edited(statement(row))
                if text is None or text.strip() == statement(row).strip():
                    say("the statement stays as it is")
                else:
                    row, shown = walk.edit(row["instance_id"], text), False
            elif key in ("p", "t"):
                _page(row.get("patch" if key == "p" else "f2p_patch") or "nothing")
            elif key == "s":
                return True
            elif key == "q":
                return False
            else:
                say("press one of these letters and Enter")
        except (DataError, UsageError) as error:
            say(f"not kept: {error}")
            row, shown = next(each for each in walk.rows if each["instance_id"] == row["instance_id"]), False


def _edited(text: str) -> str | None:
    return click.edit(text, extension=".md", require_save=True)


def _shown(text: str) -> str:
    """A text of somebody else's without what a terminal would obey."""
    from beyondswe.instances.problems import printable

    return "\n".join(printable(line) for line in text.expandtabs(4).split("\n"))


def _page(text: str) -> None:
    text = _shown(text)
    if console().is_terminal:
        with console().pager():
            console().print(text, markup=False, highlight=False)
    else:
        say(text)


def _show(row: dict[str, Any], place: str) -> None:
    from beyondswe.construction.collect.reviewing import statement, valid_votes

    def tell(text: str) -> None:
        say(_shown(text))

    tell(f"\n── {row['instance_id']} ({row.get('task')}, {place}) " + "─" * 20)
    tell(f"{row.get('repo')}: {row.get('title', '')}")
    tell(statement(row))
    tell("──")
    for link in row.get("links", ()):
        tell(f"outside link: {link}")
    for leak in row.get("leaks", ()):
        tell(f"leak ({leak['kind']}): {leak['found']}: {leak['why']}")
    for reason in row["review"].get("reasons", ()):
        if not reason.startswith("leak ("):
            tell(f"to look at: {reason}")
    judge = row["review"].get("judge")
    if judge:
        tell(f"model {judge['model']}: {judge['verdict'] or 'no verdict'}: {judge['reason']}")
    for vote in valid_votes(row):
        tell(f"{vote['reviewer']}: {vote['verdict']} {vote['reason']}".rstrip())
