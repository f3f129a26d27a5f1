"""Tool calls out of what a model says: native or written as XML, repaired where their meaning is plain.

What cannot be understood becomes a call with a ``fault``, which is answered by a message; nothing that a
model writes ends an attempt by an exception.
"""

from __future__ import annotations

import ast
import difflib
import json
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from beyondswe.agents.searchswe.schemas import Schema

_ALIASES = {
    "execute_bash": "bash",
    "shell": "bash",
    "terminal": "bash",
    "str_replace_based_edit_tool": "str_replace_editor",
    "file_editor": "str_replace_editor",
    "editor": "str_replace_editor",
    "web_search": "search",
    "browser": "link_summary",
    "submit": "finish",
}
"""Names that models trained on other scaffolds fall back to."""
_PARAMETER_ALIASES = {
    ("bash", "cmd"): "command",
    ("bash", "script"): "command",
    ("think", "content"): "thought",
    ("search", "queries"): "query",
    ("search", "q"): "query",
    ("link_summary", "link"): "url",
    ("str_replace_editor", "insert_text"): "new_str",
    ("str_replace_editor", "content"): "file_text",
}


@dataclass(frozen=True)
class Call:
    """One call, ready to be carried out unless it has a ``fault``."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""
    fault: str = ""


def native_calls(message: Mapping[str, Any], schemas: Sequence[Schema]) -> list[Call]:
    """The function calls of an assistant's message (``tool_calls``, or the older ``function_call``)."""
    rows = list(message.get("tool_calls") or [])
    if not rows and isinstance(message.get("function_call"), Mapping):
        rows = [{"function": message["function_call"]}]
    found = []
    for row in rows:
        function = row.get("function") if isinstance(row, Mapping) else None
        if not isinstance(function, Mapping):
            continue
        identity = str(row.get("id") or f"call_{uuid.uuid4().hex[:16]}")
        name = str(function.get("name") or "").strip()
        arguments, fault = parse_arguments(function.get("arguments"))
        found.append(_checked(Call(name, arguments, identity, fault), schemas))
    return found


_FUNCTION = re.compile(
    r"<function(?:=|\s+name=[\"']?)([^>\"'\s]+)[\"']?\s*>(.*?)(?:</function>|(?=<function[=\s])|\Z)", re.S
)
_PARAMETER = re.compile(
    r"<parameter(?:=|\s+name=[\"']?)([^>\"'\s]+)[\"']?\s*>(.*?)"
    r"(?:</parameter>\s*(?=<parameter[=\s]|</?function|\Z)|(?=<parameter[=\s])|\Z)",
    re.S,
)
_TAGGED_JSON = re.compile(r"<tool_call>\s*(\{.*?\})\s*(?:</tool_call>|\Z)", re.S)


def text_calls(text: str, schemas: Sequence[Schema]) -> list[Call]:
    """Calls written into the text: ``<function=NAME><parameter=KEY>VALUE</parameter></function>``, or JSON
    between ``<tool_call>`` tags. A missing end of the last one is made up for.
    """
    found = []
    text = re.sub(r"<(?:/[a-z]*)?\Z", "", text.rstrip())  # a closing tag that was not written to its end
    for match in _FUNCTION.finditer(text):
        name, body = match[1], match[2]
        arguments: dict[str, Any] = {}
        for parameter in _PARAMETER.finditer(body):
            arguments[parameter[1]] = _trimmed(parameter[2])
        fault = ""
        if not arguments and (inner := body.strip()):
            parsed, fault = parse_arguments(inner)
            arguments = dict(parsed)
            if fault:
                fault = "there is text but no <parameter=KEY>VALUE</parameter> inside the function"
        found.append(_checked(Call(name, arguments, f"call_{uuid.uuid4().hex[:16]}", fault), schemas))
    if found:
        return found
    for match in _TAGGED_JSON.finditer(text):
        document, fault = parse_arguments(match[1])
        name = str(document.get("name") or "")
        inner_arguments, inner_fault = parse_arguments(document.get("arguments") or {})
        call = Call(name, inner_arguments, f"call_{uuid.uuid4().hex[:16]}", fault or inner_fault)
        found.append(_checked(call, schemas))
    return found


def _trimmed(value: str) -> str:
    """A value without the line break after its opening and before its closing tag; its indentation stays."""
    return re.sub(r"\A\r?\n|\r?\n\Z", "", value)


def parse_arguments(value: Any) -> tuple[dict[str, Any], str]:
    """Arguments as an object, mended where the meaning is plain; and what is wrong where it is not."""
    if isinstance(value, Mapping):
        return dict(value), ""
    text = str(value or "").strip()
    if not text:
        return {}, ""
    why = "they are no JSON object"
    for candidate in _readings(text):
        try:
            document = json.loads(candidate, strict=False)
        except ValueError as error:
            if why == "they are no JSON object":
                why = f"they are no JSON: {error}"
            continue
        if isinstance(document, str):  # JSON in a JSON string
            return parse_arguments(document) if document.strip() != text else ({}, why)
        if isinstance(document, dict):
            return document, ""
        if isinstance(document, list) and len(document) == 1 and isinstance(document[0], dict):
            return document[0], ""
    try:
        literal = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        literal = None
    if isinstance(literal, dict):
        return {str(key): entry for key, entry in literal.items()}, ""
    return {}, why


def _readings(text: str) -> Iterable[str]:
    """What was probably meant, most literal first."""
    yield text
    if fenced := re.match(r"```(?:json)?\s*(.*?)\s*```\s*$", text, re.S):
        text = fenced[1]
        yield text
    if (begin := text.find("{")) > 0:
        text = text[begin:]
        yield text
    yield re.sub(r",\s*([}\]])", r"\1", text)
    yield _closed(text)
    if (end := text.rfind("}")) > 0:
        yield text[: end + 1]


def _closed(text: str) -> str:
    """The text with the strings, lists and objects that it leaves open closed."""
    open_ones: list[str] = []
    in_string = escaped = False
    for character in text:
        if in_string:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                in_string = False
        elif character == '"':
            in_string = True
        elif character in "{[":
            open_ones.append("}" if character == "{" else "]")
        elif character in "}]" and open_ones:
            open_ones.pop()
    if escaped:
        text = text[:-1]
    return text + ('"' if in_string else "") + "".join(reversed(open_ones))


def _checked(call: Call, schemas: Sequence[Schema]) -> Call:
    """The call by the tool's own names, its values of the right types; or with what is wrong with it."""
    known = {schema.name: schema for schema in schemas}
    name = call.name if call.name in known else call.name.lower().rpartition(".")[2]
    name = name if name in known else _ALIASES.get(name, name)
    schema = known.get(name)
    if schema is None:
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
        hint = f"; did you mean {near[0]}?" if near else ""
        fault = f"there is no tool {call.name!r}; there are {', '.join(known)}{hint}"
        return Call(call.name or "unknown", call.arguments, call.id, fault)
    if call.fault:
        return Call(name, {}, call.id, f"the arguments of {name} cannot be read: {call.fault}")
    arguments: dict[str, Any] = {}
    for key, value in call.arguments.items():
        key = key if key in schema.properties else _PARAMETER_ALIASES.get((name, key), key)
        if key not in schema.properties:
            if key == "security_risk":  # other scaffolds ask for it
                continue
            fault = f"{name} has no parameter {key!r}; it has {', '.join(schema.properties)}"
            return Call(name, arguments, call.id, fault)
        if value is None and key not in schema.required:
            continue
        value, wrong = _typed(value, schema.properties[key])
        if wrong:
            return Call(name, arguments, call.id, f"parameter {key!r} of {name}: {wrong}")
        arguments[key] = value
    if missing := [key for key in schema.required if key not in arguments]:
        return Call(name, arguments, call.id, f"{name} needs the parameter {', '.join(map(repr, missing))}")
    return Call(name, arguments, call.id)


def _typed(value: Any, about: Mapping[str, Any]) -> tuple[Any, str]:
    """The value as its schema wants it, and what is wrong if it cannot be had."""
    kind = about.get("type", "string")
    if kind == "string":
        if isinstance(value, dict | list):
            value = json.dumps(value, ensure_ascii=False)
        value = str(value)
        if "enum" in about and value not in about["enum"]:
            return value, f"expected one of {', '.join(about['enum'])}, found {value!r}"
        return value, ""
    if kind in ("integer", "number"):
        if isinstance(value, bool):
            return value, f"expected a number, found {value!r}"
        try:
            number = float(value)
            return (int(number) if kind == "integer" else number), ""
        except (TypeError, ValueError, OverflowError):
            return value, f"expected a number, found {value!r}"
    if kind == "array":
        if isinstance(value, str):
            try:
                parsed = json.loads(value)
            except ValueError:
                parsed = None
            value = parsed if isinstance(parsed, list) else [value]
        if not isinstance(value, list):
            value = [value]
        entries = [_typed(entry, about.get("items", {})) for entry in value]
        wrong = next((why for _, why in entries if why), "")
        return [entry for entry, _ in entries], wrong
    return value, ""
