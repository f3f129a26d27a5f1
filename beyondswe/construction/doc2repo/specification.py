"""The specification of a package as one text: purpose, usage, interface. No implementation, no layout, no name.

Written from what the package says of itself; where a model is configured it rewrites the text part by part, and what
it gives is taken only if it still has every signature and does not name the target.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from beyondswe.construction.doc2repo.hiding import TARGET, Names, hidden_text
from beyondswe.construction.doc2repo.interface import Item
from beyondswe.construction.doc2repo.material import Masked

Rewrite = Callable[[str, str], str]
"""A model's answer to a task and a text."""

_TASK = """\
You write a specification from which a programmer, who sees nothing else, builds a Python package called {target}.
You get one part of it, taken from the package's signatures and docstrings. Rewrite it as clear, complete Markdown:
what each thing is for, what its parameters mean, what it returns, what it raises, how it behaves at the edges. Keep
every heading and every code block with a signature exactly as it is. Do not tell how it is implemented, do not speak
of files or folders, do not invent behaviour, do not name the package otherwise than {target}. Answer with the text
alone."""

_SKIPPED = re.compile(
    r"install|licen[sc]e|contribut|develop|change ?log|history|credit|author|acknowledg|badge|test|build|support|"
    r"status|release|thanks|sponsor|donat|community|citing|citation|documentation|links|table of contents|contents|"
    r"requirements|alternatives|roadmap|todo|bugs|issues|security|code of conduct|see also|projects using",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Specification:
    """The text, and what a reviewer should know of how it came to be."""

    text: str
    notes: tuple[str, ...] = ()


def write_specification(
    masked: Masked,
    interface: Sequence[Item],
    names: Names,
    *,
    target: str = TARGET,
    rewrite: Rewrite | None = None,
) -> Specification:
    """The specification of a masked package."""
    parts = [_head(masked, interface, target), *_interface(interface, target), *_commands(masked)]
    notes: list[str] = []
    if rewrite is not None:
        parts = [_rewritten(part, names, target, rewrite, notes) for part in parts]
    text = "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"
    return Specification(hidden_text(text, names, target), tuple(notes))


def _head(masked: Masked, interface: Sequence[Item], target: str) -> str:
    lines = [f"# {target}", ""]
    if masked.summary:
        lines += [masked.summary.rstrip(".") + ".", ""]
    prose, usage = _readme(masked.readme)
    if prose:
        lines += [prose, ""]
    about = next((item.text for item in interface if item.path == target), "")
    if about and about not in prose:
        lines += [_markdown(about), ""]
    where = f"It is installed and imported as `{target}`."
    if masked.requires_python:
        where += f" Python: `{masked.requires_python}`."
    lines += [where]
    if usage:
        lines += ["", "## Usage", "", usage]
    return "\n".join(lines)


def _readme(text: str) -> tuple[str, str]:
    """The introduction of a README, and its parts that show use; Markdown out of Markdown or reStructuredText."""
    sections = list(_sections(_plain(text)))
    intro = sections[0][1] if sections else ""
    usage = [
        f"### {title}\n\n{body}" if title else body
        for title, body in sections[1:]
        if body and not _SKIPPED.search(title) and not re.search(r"[├└]──", body)
    ]
    return intro.strip(), "\n\n".join(usage).strip()


def _plain(text: str) -> str:
    """A README as Markdown without pictures, badges, comments, directives and links that lead nowhere."""
    text = re.sub(r"<!--.*?-->", "", text.replace("\r\n", "\n"), flags=re.DOTALL)
    text = re.sub(r"\[?!\[[^\]]*\]\([^)]*\)(?:\]\([^)]*\))?", "", text)
    text = re.sub(
        r"^\.\. (?:image|figure|\|[^|]*\| image)::.*\n(?:[ \t]+.*\n)*", "", text, flags=re.MULTILINE
    )
    text = re.sub(
        r"^\.\. (?:code-block|code|sourcecode)::[ \t]*(\w*)[^\n]*\n(?:[ \t]+:\w+:.*\n)*\n?((?:[ \t]+.*\n|[ \t]*\n)+)",
        lambda match: f"```{match[1]}\n{_dedented(match[2])}\n```\n\n",
        text + "\n",
        flags=re.MULTILINE,
    )
    text = re.sub(
        r"::[ \t]*\n[ \t]*\n((?:[ \t]+\S.*\n|[ \t]*\n)+)",
        lambda match: f":\n\n```\n{_dedented(match[1])}\n```\n\n",
        text,
    )
    text = re.sub(r"^\.\. [^\n]*\n(?:[ \t]+.*\n)*", "", text, flags=re.MULTILINE)
    text = re.sub(r"^(?:\|[\w -]+\|\s*)+$", "", text, flags=re.MULTILINE)
    text = re.sub(r"`([^`<]+)\s*<[^>]+>`_+", r"\1", text)
    text = re.sub(r":\w+(?::\w+)?:`~?([^`<]+?)(?:\s*<[^>]+>)?`", r"`\1`", text)
    text = re.sub(r"(?<!`)``([^`]+)``(?!`)", r"`\1`", text)
    text = re.sub(r"(?<!!)\[([^\]]+)\]\(https?://[^)]*\)", r"\1", text)
    return re.sub(r"</?(?:p|div|h\d|img|a|br|center|b|i|em|strong)\b[^>]*>", "", text)


def _markdown(text: str) -> str:
    """A docstring's prose without the roles and double quotes of reStructuredText."""
    text = re.sub(r":\w+(?::\w+)?:`[~!]?([^`<]+?)(?:\s*<[^>]+>)?`", r"`\1`", text)
    return re.sub(r"(?<!`)``([^`\n]+)``(?!`)", r"`\1`", text)


def _dedented(text: str) -> str:
    import textwrap

    return textwrap.dedent(text).strip("\n")


def _sections(text: str) -> Iterator[tuple[str, str]]:
    """Title and body of each part; the first has no title or the project's own."""
    title, in_code = "", False
    body: list[str] = []
    lines = text.split("\n")
    place = 0
    while place < len(lines):
        line = lines[place]
        after = lines[place + 1] if place + 1 < len(lines) else ""
        in_code ^= line.lstrip().startswith("```")
        heading = re.match(r"#{1,6}\s+(.*?)\s*#*$", line) if not in_code else None
        underlined = (
            not in_code
            and line.strip()
            and re.fullmatch(r"([=\-~^\"'*+#`.])\1{2,}\s*", after)
            and len(after) >= len(line) - 3
        )
        if heading or underlined:
            if title or "".join(body).strip():
                yield title, "\n".join(body).strip()
                title = (heading[1] if heading else line).strip()
            body = []
            place += 2 if underlined else 1
            continue
        if not re.fullmatch(r"([=\-~^])\1{3,}\s*", line) or in_code:
            body.append(line)
        place += 1
    yield title, "\n".join(body).strip()


def _interface(interface: Sequence[Item], target: str) -> Iterator[str]:
    for module in interface:
        if not module.members and not (module.text and module.path != target):
            continue
        lines = [f"## `{module.path}`", ""]
        if module.text and module.path != target:
            lines += [_markdown(module.text), ""]
        for item in module.members:
            lines += [_item(item, 3), ""]
        yield "\n".join(lines)


def _item(item: Item, level: int) -> str:
    lines = [f"{'#' * min(level, 6)} `{item.path}`", "", "```python", item.signature, "```"]
    if item.text:
        lines += ["", _markdown(item.text)]
    if item.parameters:
        lines += ["", "Parameters:", ""]
        for one in item.parameters:
            kind = (
                f" ({one.annotation}{', default ' + one.default if one.default else ''})"
                if one.annotation
                else ""
            )
            lines.append(f"- `{one.name}`{kind}: {one.about}".rstrip(": "))
    for title, values in (("Returns", item.returns), ("Raises", item.raises)):
        if values:
            lines += ["", f"{title}:", "", *(f"- {value}" for value in values)]
    for example in item.examples:
        lines += ["", "```python" if ">>>" in example else "", example, "```" if ">>>" in example else ""]
    for member in item.members:
        lines += ["", _item(member, level + 1)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines))


def _commands(masked: Masked) -> Iterator[str]:
    if masked.entry_points:
        lines = ["## Entry points", ""]
        for group, entries in masked.entry_points.items():
            lines += [f"- `{group}`: `{name}` is `{value}`" for name, value in sorted(entries.items())]
        yield "\n".join(lines)


def _rewritten(part: str, names: Names, target: str, rewrite: Rewrite, notes: list[str]) -> str:
    """The model's text, if it keeps all headings and signatures and names nothing; else the part as it was."""
    title = part.strip().partition("\n")[0]
    answer = rewrite(_TASK.format(target=target), part).strip()
    answer = re.sub(r"^```(?:markdown)?\n(.*)\n```$", r"\1", answer, flags=re.DOTALL)
    needed = set(re.findall(r"^#{1,6} `.*`$", part, re.MULTILINE)) | set(
        re.findall(r"^```python\n(.*?)\n```$", part, re.MULTILINE | re.DOTALL)
    )
    missing = [text for text in needed if text not in answer]
    if missing or not answer:
        notes.append(
            f"{title}: kept as it was, the model's text lacks {(missing or ['everything'])[0][:80]!r}"
        )
        return part
    if found := names.pattern.search(answer.replace(target, "")):
        notes.append(f"{title}: kept as it was, the model's text names the target ({found[0]})")
        return part
    return answer
