"""The loop against a model over a Unix socket: its turns, its slips, its ends."""

from __future__ import annotations

import json
import socketserver
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from beyondswe.agents.protocol import AgentStatus
from beyondswe.agents.searchswe.editor import Editor
from beyondswe.agents.searchswe.loop import Loop, LoopEnd
from beyondswe.agents.searchswe.model import Model
from beyondswe.agents.searchswe.schemas import offered
from beyondswe.agents.searchswe.settings import ModelSettings, model_settings, parse_options
from beyondswe.agents.searchswe.shell import Shell
from beyondswe.agents.searchswe.tools import Toolbox
from beyondswe.errors import UsageError
from beyondswe.gateway.types import ModelAccess
from beyondswe.sandbox.docker import DockerSandbox

Say = dict[str, Any] | tuple[int, dict[str, Any]]


class Chat:
    """A model that says what it is told to, in chat completions over a Unix socket."""

    def __init__(self, folder: Path) -> None:
        self.says: list[Say] = []
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.path = folder / "m.sock"
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked.append(body)
                outer.headers.append({name.lower(): value for name, value in self.headers.items()})
                said = outer.says.pop(0) if outer.says else finish()
                status, document = said if isinstance(said, tuple) else (200, said)
                data = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        class Server(socketserver.ThreadingUnixStreamServer):
            daemon_threads = True

            def get_request(self) -> Any:
                request, _ = super().get_request()
                return request, ("unix", 0)

        self._server = Server(str(self.path), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _whole(message: dict[str, Any], *, finish: str = "stop", prompt_tokens: int = 0) -> dict[str, Any]:
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": 1}
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return {"id": "x", "object": "chat.completion", "choices": [choice], "usage": usage}


def text(said: str | None, **more: Any) -> dict[str, Any]:
    return _whole({"content": said}, **more)


def call(name: str, arguments: Any, **more: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments)}
    return _whole(
        {"content": None, "tool_calls": [{"id": "c1", "type": "function", "function": function}]}, **more
    )


def finish() -> dict[str, Any]:
    return call("finish", {"message": "done"})


@pytest.fixture
def chat() -> Iterator[Chat]:
    with tempfile.TemporaryDirectory(prefix="chat") as folder:
        chat = Chat(Path(folder))
        yield chat
        chat.stop()


@pytest.fixture
def run(chat: Chat, sandbox: DockerSandbox) -> Callable[..., tuple[LoopEnd, Loop]]:
    def run(
        *says: Say,
        settings: ModelSettings | None = None,
        max_turns: int = 50,
        seconds: float = 120,
        advice: Callable[[str], str | None] = lambda _command: None,
    ) -> tuple[LoopEnd, Loop]:
        chat.says = list(says)
        settings = settings or ModelSettings()
        deadline = time.monotonic() + seconds
        access = ModelAccess("m", "http://127.0.0.1:1", "token", chat.path, max_turns)
        model = Model(access, name="m", role="agent", deadline=deadline, request=settings.request)
        toolbox = Toolbox(
            schemas=offered(search=False),
            shell=Shell(sandbox, "/opt"),
            editor=Editor(sandbox),
            web=None,
            advice=advice,
            deadline=deadline,
        )
        loop = Loop(
            model,
            toolbox,
            settings,
            completion_tokens=settings.completion_tokens(doc2repo=False),
            max_turns=max_turns,
            log=lambda _line: None,
        )
        return loop.run("You are an agent.", "the task"), loop

    return run


def _last(chat: Chat) -> str:
    """What the model was told last."""
    return str(chat.asked[-1]["messages"][-1]["content"])


def test_native_calls_to_the_end(chat: Chat, run: Callable[..., tuple[LoopEnd, Loop]]) -> None:
    end, loop = run(call("bash", {"command": "echo $((6 * 7))"}), finish())
    assert end == LoopEnd(AgentStatus.FINISHED, None, 2)
    first, second = chat.asked
    assert [tool["function"]["name"] for tool in first["tools"]] == [
        "bash",
        "str_replace_editor",
        "think",
        "finish",
    ]
    assert [message["role"] for message in second["messages"]] == ["system", "user", "assistant", "tool"]
    assert second["messages"][3] == {"role": "tool", "tool_call_id": "c1", "content": "42"}
    assert (
        chat.headers[0]["authorization"] == "Bearer token" and chat.headers[0]["x-beyondswe-role"] == "agent"
    )
    assert loop._toolbox.counts == {"bash": 1, "finish": 1}


def test_calls_written_as_xml(chat: Chat, run: Callable[..., tuple[LoopEnd, Loop]]) -> None:
    settings = model_settings({"tool_calls": "xml", "temperature": 0.2, "reasoning_effort": "high"})
    end, _ = run(
        text("Look.\n<function=bash>\n<parameter=command>\necho seen\n</parameter>\n</function>"),
        text("<function=finish>\n</function>"),
        settings=settings,
    )
    assert end.status is AgentStatus.FINISHED and end.turns == 2
    assert "tools" not in chat.asked[0]
    assert chat.asked[0]["temperature"] == 0.2 and chat.asked[0]["reasoning_effort"] == "high"
    assert [message["role"] for message in chat.asked[1]["messages"]] == [
        "system",
        "user",
        "assistant",
        "user",
    ]
    assert _last(chat) == "Observation of bash:\nseen"


def test_malformed_calls_are_mended_or_answered(chat: Chat, run: Callable[..., tuple[LoopEnd, Loop]]) -> None:
    end, loop = run(
        call("execute_bash", '{"command": "echo mended",}'),
        call("bash", "echo no JSON"),
        call("fly", {}),
        text("<function=bash><parameter=command>echo from text</parameter></function>"),
        finish(),
    )
    assert end.status is AgentStatus.FINISHED
    told = [asked["messages"][-1]["content"] for asked in chat.asked[1:]]
    assert told[0] == "mended"
    assert told[1].startswith("Error: the arguments of bash cannot be read")
    assert told[2].startswith("Error: there is no tool 'fly'")
    assert told[3] == "Observation of bash:\nfrom text"
    for message in chat.asked[-1]["messages"]:  # what is sent back is sound, whatever came
        for sent in message.get("tool_calls") or []:
            assert isinstance(json.loads(sent["function"]["arguments"]), dict)
    assert loop._toolbox.counts["bash"] == 3


def test_three_empty_turns_end_it(chat: Chat, run: Callable[..., tuple[LoopEnd, Loop]]) -> None:
    end, _ = run(text(""), text(None), text("  "), finish())
    assert end.status is AgentStatus.ERROR and "3 empty turns" in str(end.why) and end.turns == 3
    end, _ = run(text(""), text(""), call("think", {"thought": "hm"}), text(""), text(""), finish())
    assert end.status is AgentStatus.FINISHED
    assert all(message["content"] or message.get("tool_calls") for message in chat.asked[-1]["messages"])


def test_talk_without_a_call_is_reminded(chat: Chat, run: Callable[..., tuple[LoopEnd, Loop]]) -> None:
    end, _ = run(text("I think so."), text("A long on", finish="length"), finish())
    assert end.status is AgentStatus.FINISHED
    assert "called no tool" in chat.asked[1]["messages"][-1]["content"]
    assert "cut off" in chat.asked[2]["messages"][-1]["content"]
    end, _ = run(*[text("Done!")] * 20)
    assert (end.status, end.turns) == (AgentStatus.FINISHED, 10)


def test_turns_are_limited(run: Callable[..., tuple[LoopEnd, Loop]]) -> None:
    end, _ = run(*[call("think", {"thought": "hm"})] * 9, max_turns=4)
    assert (end.status, end.turns) == (AgentStatus.BUDGET_EXHAUSTED, 4)


def test_the_gateways_closing_words_are_the_end(run: Callable[..., tuple[LoopEnd, Loop]]) -> None:
    words = "The budget of this attempt is used up: 9 tokens of 8 (--max-tokens). No further model call."
    end, _ = run(call("think", {"thought": "hm"}), text(words))
    assert end.status is AgentStatus.BUDGET_EXHAUSTED and "--max-tokens" in str(end.why)


def test_a_model_that_fails_is_an_error(run: Callable[..., tuple[LoopEnd, Loop]]) -> None:
    end, _ = run((401, {"error": {"message": "bad key"}}))
    assert end.status is AgentStatus.ERROR and "401: bad key" in str(end.why)
    end, _ = run({"object": "nonsense"})
    assert end.status is AgentStatus.ERROR and "no chat completion" in str(end.why)


def test_a_blocked_command_is_not_run(
    chat: Chat, run: Callable[..., tuple[LoopEnd, Loop]], sandbox: DockerSandbox
) -> None:
    run(
        call("bash", {"command": "touch /tmp/ran; git fetch"}),
        finish(),
        advice=lambda command: "git-remote" if "git fetch" in command else None,
    )
    assert _last(chat).startswith("Error: this command is blocked (git-remote)")
    assert sandbox.run("ls /tmp/ran", timeout=20).exit_code != 0


def test_a_command_that_takes_too_long_is_told(chat: Chat, run: Callable[..., tuple[LoopEnd, Loop]]) -> None:
    end, _ = run(call("bash", {"command": "echo begun; sleep 100", "timeout": 5}), finish())
    assert end.status is AgentStatus.FINISHED
    assert _last(chat).startswith("begun\n") and "[The command was ended after 5 seconds" in _last(chat)


def test_the_attempts_own_limit_ends_it(run: Callable[..., tuple[LoopEnd, Loop]]) -> None:
    end, _ = run(call("bash", {"command": "sleep 100"}), seconds=2)
    assert end.status is AgentStatus.TIMEOUT


def test_old_observations_are_condensed_when_the_window_is_near_full(
    chat: Chat, run: Callable[..., tuple[LoopEnd, Loop]]
) -> None:
    looks = [call("bash", {"command": f"echo {n}; seq 1 2000"}) for n in range(14)]
    end, loop = run(
        *looks, finish(), settings=ModelSettings(context_window=30_000, max_completion_tokens=2_000)
    )
    assert end.status is AgentStatus.FINISHED and loop.condensed
    shown = chat.asked[-1]["messages"]
    assert shown[1]["content"] == "the task"
    assert shown[3]["content"].startswith("[Condensed:") and not shown[-1]["content"].startswith(
        "[Condensed:"
    )
    assert max(len(json.dumps(asked["messages"])) for asked in chat.asked) < 90_000
    assert chat.asked[-1]["max_completion_tokens"] == 2_000


def test_a_prompt_that_the_model_finds_too_long_is_condensed(
    chat: Chat, run: Callable[..., tuple[LoopEnd, Loop]]
) -> None:
    why = "This model's maximum context length is 8192 tokens."
    refusal = (400, {"error": {"message": why, "code": "context_length_exceeded"}})
    looks = [call("bash", {"command": f"echo {n}; seq 1 2000"}) for n in range(8)]
    end, _ = run(*looks, refusal, refusal, finish())
    assert end.status is AgentStatus.FINISHED
    sizes = [len(json.dumps(asked["messages"])) for asked in chat.asked]
    assert sizes[-1] < sizes[-2] < sizes[-3]
    end, _ = run(*[refusal] * 9)
    assert end.status is AgentStatus.ERROR and "does not fit" in str(end.why)


def test_long_observations_are_cut_with_a_note(chat: Chat, run: Callable[..., tuple[LoopEnd, Loop]]) -> None:
    run(call("bash", {"command": "seq 1 20000"}), finish())
    assert len(_last(chat)) < 33_000 and "characters were cut here" in _last(chat)
    assert _last(chat).startswith("1\n2\n") and _last(chat).endswith("20000")


def test_settings_come_from_words() -> None:
    options = parse_options(
        ("temperature=0.2", "tool_calls=xml", "seed=7", "stop=[a, b]", "context_window=64000")
    )
    settings = model_settings(options)
    assert settings.request == {"temperature": 0.2, "seed": 7, "stop": ["a", "b"]}
    assert (settings.tool_calls, settings.context_window) == ("xml", 64_000)
    assert (
        settings.completion_tokens(doc2repo=True) == 16_384
        and settings.completion_tokens(doc2repo=False) is None
    )
    for wrong in ("temperature", "context_window=ten", "tool_calls=sgml", "messages=[]"):
        with pytest.raises(UsageError, match=wrong.partition("=")[0]):
            model_settings(parse_options((wrong,)))
