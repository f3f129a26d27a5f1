"""The tools as they are offered to the model: names, what they do, parameters as JSON Schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from beyondswe.search.tools import QUERIES, RESULTS

BASH_TIMEOUT = 1_200.0  # seconds a command (the paper's runs)
OUTPUT_LIMIT = 32_000  # characters of an observation, head and tail


@dataclass(frozen=True)
class Schema:
    """One tool."""

    name: str
    description: str
    properties: dict[str, dict[str, Any]]
    required: tuple[str, ...] = ()

    def function(self) -> dict[str, Any]:
        """As chat completions want it."""
        parameters = {
            "type": "object",
            "properties": self.properties,
            "required": list(self.required),
            "additionalProperties": False,
        }
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": parameters},
        }


BASH = Schema(
    "bash",
    "Run a command in a persistent bash shell inside the work environment.\n"
    "- Working folder, variables, functions, aliases and shell options last from call to call.\n"
    "- Standard output and error come back together, with the exit code if it is not 0; long output is cut in "
    "its middle.\n"
    f"- A command may take {BASH_TIMEOUT:g} seconds unless `timeout` says less; what takes longer is ended, and "
    "the shell goes on as it was before it.\n"
    "- Nothing can be typed into a running command. Start servers and the like in the background "
    "(`server > server.log 2>&1 &`); they go on running.\n"
    "- Long scripts are better written to a file first.",
    {
        "command": {"type": "string", "description": "The command; several lines are fine."},
        "timeout": {
            "type": "number",
            "description": f"Seconds that it may take, at most {BASH_TIMEOUT:g}.",
        },
    },
    ("command",),
)

EDITOR = Schema(
    "str_replace_editor",
    "View, create and edit text files by absolute path.\n"
    "- `view`: a file with line numbers (`view_range` for a part), or a folder two levels deep.\n"
    "- `create`: a new file with `file_text`; it must not exist yet.\n"
    "- `str_replace`: replace `old_str`, which must stand in the file exactly once, spaces and line breaks "
    "included, by `new_str`.\n"
    "- `insert`: put `new_str` after line `insert_line` (0: at the top).\n"
    "- `undo_edit`: take back the last edit of the file.",
    {
        "command": {"type": "string", "enum": ["view", "create", "str_replace", "insert", "undo_edit"]},
        "path": {"type": "string", "description": "Absolute path of a file or (view) a folder."},
        "file_text": {"type": "string", "description": "`create`: content of the file."},
        "old_str": {"type": "string", "description": "`str_replace`: the text to replace."},
        "new_str": {
            "type": "string",
            "description": "`str_replace`: what stands there afterwards (default: nothing). `insert`: the new lines.",
        },
        "insert_line": {"type": "integer", "description": "`insert`: the line after which to insert."},
        "view_range": {
            "type": "array",
            "items": {"type": "integer"},
            "description": "`view`: first and last line, such as [40, 80]; [40, -1] is to the end.",
        },
    },
    ("command", "path"),
)

THINK = Schema(
    "think",
    "Write down a thought: hypotheses, a plan, what a test result means. It changes nothing and tells nothing new.",
    {"thought": {"type": "string", "description": "The thought."}},
    ("thought",),
)

SEARCH = Schema(
    "search",
    "Search the web: documentation, release notes, specifications, discussions, other projects' source. Results "
    "are numbered, with title, address, snippet and date. The repository that you work on is not in them. What is "
    "in the local code is found by bash instead.",
    {
        "query": {
            "type": "array",
            "items": {"type": "string"},
            "description": f"One query or several (at most {QUERIES}), each a string.",
        },
        "num": {"type": "integer", "description": f"Results a query, at most {RESULTS}; default 10."},
        "start": {"type": "integer", "description": "Leave out that many results (for further ones)."},
    },
    ("query",),
)

LINK_SUMMARY = Schema(
    "link_summary",
    "Read a web page or PDF and get what it says toward your goal, summed up by another model. Name all that you "
    "need from it (versions, signatures, exact behaviour, code): what your goal does not name may be left out.",
    {
        "url": {"type": "string", "description": "Address of the page."},
        "goal": {"type": "string", "description": "What you want to learn from it."},
    },
    ("url", "goal"),
)

FINISH = Schema(
    "finish",
    "End the work: the task is done and checked, or nothing more can be done.",
    {"message": {"type": "string", "description": "What was done, in a few sentences."}},
)


def offered(*, search: bool) -> tuple[Schema, ...]:
    """The tools of the agent; without search, those of the OpenHands-style baseline."""
    web = (SEARCH, LINK_SUMMARY) if search else ()
    return (BASH, EDITOR, THINK, *web, FINISH)


def describe(schemas: Sequence[Schema]) -> str:
    """The tools as text, for models that are not given them as functions."""
    lines = []
    for schema in schemas:
        lines += [f"## {schema.name}", "", schema.description, ""]
        for name, about in schema.properties.items():
            needed = "required" if name in schema.required else "optional"
            kind = about.get("type", "string")
            choice = f" One of: {', '.join(about['enum'])}." if "enum" in about else ""
            lines.append(f"- `{name}` ({kind}, {needed}): {about.get('description', '')}{choice}")
        lines.append("")
    return "\n".join(lines)
