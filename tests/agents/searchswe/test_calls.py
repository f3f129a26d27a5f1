"""Calls out of what models write: native ones, XML, and what is mended or answered."""

from __future__ import annotations

import json
from typing import Any

import pytest

from beyondswe.agents.searchswe.calls import Call, native_calls, parse_arguments, text_calls
from beyondswe.agents.searchswe.schemas import offered

TOOLS = offered(search=True)


def _native(name: str, arguments: Any) -> Call:
    message = {
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}]
    }
    (call,) = native_calls(message, TOOLS)
    return call


def test_a_plain_call() -> None:
    assert _native("bash", '{"command": "ls"}') == Call("bash", {"command": "ls"}, "c1")


@pytest.mark.parametrize(
    "text",
    [
        '{"command": "ls",}',
        '```json\n{"command": "ls"}\n```',
        '{"command": "ls"',
        '{"command": "ls',
        "{'command': 'ls'}",
        '"{\\"command\\": \\"ls\\"}"',
        'Here: {"command": "ls"} and so on',
        '[{"command": "ls"}]',
    ],
)
def test_slips_whose_meaning_is_plain_are_mended(text: str) -> None:
    assert parse_arguments(text) == ({"command": "ls"}, "")


def test_raw_line_breaks_inside_a_string() -> None:
    assert parse_arguments('{"command": "a\nb\tc"}') == ({"command": "a\nb\tc"}, "")


@pytest.mark.parametrize("text", ["ls -l", "[1, 2]", "{{{", '"text"', "{" * 5000])
def test_what_is_no_object_is_answered(text: str) -> None:
    call = _native("bash", text)
    assert call.fault.startswith("the arguments of bash cannot be read") and call.name == "bash"


@pytest.mark.parametrize(
    ("name", "arguments", "wanted"),
    [
        ("execute_bash", {"cmd": "ls"}, Call("bash", {"command": "ls"}, "c1")),
        ("Bash", {"command": "ls", "timeout": "20"}, Call("bash", {"command": "ls", "timeout": 20.0}, "c1")),
        ("functions.bash", {"command": "ls"}, Call("bash", {"command": "ls"}, "c1")),
        ("search", {"query": "one"}, Call("search", {"query": ["one"]}, "c1")),
        (
            "search",
            {"queries": '["a", "b"]', "num": 3.0},
            Call("search", {"query": ["a", "b"], "num": 3}, "c1"),
        ),
        ("think", {"content": "hm"}, Call("think", {"thought": "hm"}, "c1")),
        ("finish", None, Call("finish", {}, "c1")),
        (
            "str_replace_editor",
            {"command": "view", "path": "/a", "view_range": "[1, 2]", "old_str": None},
            Call("str_replace_editor", {"command": "view", "path": "/a", "view_range": [1, 2]}, "c1"),
        ),
    ],
)
def test_names_and_types_of_other_scaffolds(name: str, arguments: Any, wanted: Call) -> None:
    assert _native(name, json.dumps(arguments) if arguments else "") == wanted


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("bash", {}, "needs the parameter 'command'"),
        ("bash", {"command": "ls", "colour": 1}, "no parameter 'colour'"),
        ("bash", {"command": "ls", "timeout": "soon"}, "expected a number"),
        ("str_replace_editor", {"command": "delete", "path": "/a"}, "expected one of view"),
        ("thinks", {"thought": "x"}, "did you mean think"),
        ("fly", {}, "there is no tool 'fly'; there are bash"),
    ],
)
def test_faults_say_what_would_be_right(name: str, arguments: Any, why: str) -> None:
    assert why in _native(name, json.dumps(arguments)).fault


def test_search_is_no_tool_of_the_baseline() -> None:
    message = {"tool_calls": [{"id": "c", "function": {"name": "search", "arguments": '{"query": ["x"]}'}}]}
    (call,) = native_calls(message, offered(search=False))
    assert "there is no tool 'search'" in call.fault


def test_calls_written_as_xml() -> None:
    text = (
        "I look first.\n<function=bash>\n<parameter=command>\n  cat <<'E'\n</parameter> & <parameters>\nE\n"
        "</parameter>\n<parameter=timeout>5</parameter>\n</function>"
    )
    (call,) = text_calls(text, TOOLS)
    assert call.name == "bash" and not call.fault
    assert call.arguments == {"command": "  cat <<'E'\n</parameter> & <parameters>\nE", "timeout": 5.0}


@pytest.mark.parametrize(
    "text",
    [
        "<function=bash><parameter=command>ls</parameter>",
        "<function=bash>\n<parameter=command>\nls\n",
        "<function=bash><parameter=command>ls</parameter></",
        '<function name="bash"><parameter name="command">ls</parameter></function>',
        '<function=bash>{"command": "ls"}</function>',
        '<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call>',
    ],
)
def test_xml_that_slips_is_mended(text: str) -> None:
    (call,) = text_calls(text, TOOLS)
    assert (call.name, call.arguments.get("command", "").rstrip("</").strip(), call.fault) == (
        "bash",
        "ls",
        "",
    )


def test_several_xml_calls_and_none() -> None:
    text = "<function=think><parameter=thought>a</parameter></function>\n<function=finish>\n</function>"
    assert [call.name for call in text_calls(text, TOOLS)] == ["think", "finish"]
    assert text_calls("I would use a <function> here.", TOOLS) == []
    (call,) = text_calls("<function=bash>ls -l</function>", TOOLS)
    assert "no <parameter=KEY>" in call.fault
