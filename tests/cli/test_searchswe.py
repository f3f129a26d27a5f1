"""SearchSWE from the command line: a demo instance solved by what a page says, on a small web on loopback."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from beyondswe.agents.loader import load_agent
from beyondswe.cli.eval import _network
from beyondswe.resources import resource
from tests.cli.conftest import GOOD, Cli

DEMO = resource("data", "demo", "quaywatch_compact_frames")
NOTES = "https://gaugewire.example/notes/compact-frames.html"
PULL = "https://github.com/harlesund/quaywatch/pull/12"
MIRROR = "https://r.jina.ai/https://github.com/harlesund/quaywatch/pull/12.diff"
SECRET = "the-fix-as-it-was-merged"


class Loopback:
    """A search engine, a page reader and a model in one server; all that was asked of them stands in ``asked``."""

    def __init__(self, model: Callable[[dict[str, Any], str], dict[str, Any]]) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def _send(self, document: Any, status: int = 200) -> None:
                data = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_GET(self) -> None:
                outer.asked.append(("search", {"path": self.path}))
                rows = [
                    {
                        "title": "Read compact frames #12",
                        "link": PULL,
                        "snippet": SECRET,
                        "date": "3 Jun 2024",
                    },
                    {"title": "gaugewire: compact frames", "link": NOTES, "snippet": "Payload, clock, check"},
                    {"title": "The same, through a reader", "link": MIRROR, "snippet": SECRET},
                ]
                self._send({"organic_results": rows})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.path.endswith("/chat/completions"):
                    reads = body["messages"][0]["content"].startswith("You read web pages")
                    kind = "summary" if reads else "model"
                    outer.asked.append((kind, body))
                    message = {"role": "assistant", "content": "", **model(body, kind)}
                    choice = {"index": 0, "message": message, "finish_reason": "stop"}
                    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
                    self._send(
                        {
                            "object": "chat.completion",
                            "model": body["model"],
                            "choices": [choice],
                            "usage": usage,
                        }
                    )
                    return
                outer.asked.append(("read", body))
                page = (DEMO / "web" / body["url"].removeprefix("https://")).read_text()
                self._send(
                    {"code": 200, "data": {"title": "Compact frames", "url": body["url"], "content": page}}
                )

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [body for asked, body in self.asked if asked == kind]

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def loopback() -> Iterator[Callable[..., Loopback]]:
    servers: list[Loopback] = []

    def start(model: Callable[[dict[str, Any], str], dict[str, Any]]) -> Loopback:
        servers.append(Loopback(model))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


def call(name: str, arguments: dict[str, Any], number: int = 0) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"content": None, "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}]}


def solver(body: dict[str, Any], kind: str) -> dict[str, Any]:
    """Knows how to write a CRC, but neither polynomial nor rounding nor clock: these it has to read."""
    text = str(body["messages"][-1]["content"])
    if kind == "summary":
        facts = re.findall(r"<code>(0x2F)</code>|(-?\d+ seconds after)|(32 metres)|(40320 ticks)", text)
        return {"content": "The notes say: " + ", ".join("".join(fact) for fact in facts)}
    observations = [message for message in body["messages"] if message["role"] == "tool"]
    match len(observations):
        case 0:
            return call("search", {"query": ["gaugewire compact frame notes", "quaywatch compact frames"]})
        case 1:
            return call("link_summary", {"url": PULL, "goal": "the fix"})
        case 2:
            address = re.search(r"https://gaugewire\.example\S+", observations[0]["content"])
            return call(
                "link_summary", {"url": address[0] if address else "", "goal": "CRC, clock and origin"}
            )
        case 3:
            found = {
                "@POLYNOMIAL@": re.search(r"0x2F", observations[2]["content"]),
                "@FAST@": re.search(r"\d+(?= seconds after)", observations[2]["content"]),
                "@ORIGIN@": re.search(r"\d+(?= metres)", observations[2]["content"]),
            }
            change = (DEMO / "reference.patch").read_text()
            change = change.replace("0x2F if", "@POLYNOMIAL@ if").replace("seconds=120", "seconds=@FAST@")
            change = change.replace("-3200", "-@ORIGIN@00")
            for blank, fact in found.items():
                assert blank in change
                change = change.replace(blank, fact[0] if fact else "0")
            return call("bash", {"command": f"git apply <<'EOF'\n{change}\nEOF\ngit fetch"})
        case 4:
            assert "is blocked" in str(observations[3]["content"])  # git fetch; nothing of it was run
            blocked = json.loads(body["messages"][-2]["tool_calls"][0]["function"]["arguments"])["command"]
            return call("bash", {"command": blocked.removesuffix("\ngit fetch")})
        case _:
            return call("finish", {"message": "done"})


def _environment(server: Loopback) -> dict[str, str]:
    return {
        "SERPAPI_API_KEY": "sk-serpapi-planted-0123456789",
        "SERPAPI_URL": server.url,
        "JINA_URL": server.url,
        "BEYONDSWE_MODEL_KEY": "sk-model-planted-0123456789",
    }


@pytest.mark.engine
def test_a_demo_instance_is_solved_by_reading_a_page(cli: Cli, loopback: Callable[..., Loopback]) -> None:
    server = loopback(solver)
    words = ["--dataset", "demo", "--instance", "quaywatch*", "--agent", "searchswe", "--model", "m"]
    words += ["--model-url", f"{server.url}/v1", "--summary-model", "reader", "--network", "model"]
    words += ["--model-option", "temperature=0.3"]
    done = cli("eval", "--json", *words, "--run-id", "s", env=_environment(server))
    assert done.code == 0, done.err
    (row,) = cli.outcomes("s")
    folder = cli.attempt("s", "quaywatch_compact_frames")
    assert row["status"] == "resolved", (folder / "logs" / "agent.log").read_text()
    assert row["usage"]["tool_calls"] == {"bash": 2, "finish": 1, "link_summary": 2, "search": 1}
    roles = row["usage"]["roles"]
    assert (roles["agent"]["calls"], roles["summary"]["calls"], row["usage"]["turns"]) == (6, 1, 6)
    assert row["usage"]["input_tokens"] == 700

    for body in server.of("model"):  # the target's pull request never reaches the agent
        said = json.dumps([message for message in body["messages"] if message["role"] in ("tool", "user")])
        assert SECRET not in said and "pull/12.diff" not in said
        assert body["temperature"] == 0.3
    results = next(m["content"] for m in server.of("model")[1]["messages"] if m["role"] == "tool")
    assert results.count("[2 results of the repository that you work on were removed.]") == 2
    assert [body["url"] for body in server.of("read")] == [NOTES]
    (summary,) = server.of("summary")
    assert summary["model"] == "reader" and "temperature" not in summary

    log = [json.loads(line) for line in (folder / "egress.jsonl").read_text().splitlines()]
    blocked = [entry for entry in log if entry["decision"] == "blocked"]
    assert [(entry["url"], entry["tool"]) for entry in blocked] == [(PULL, "link_summary")] and blocked[0][
        "rule"
    ]
    searched = [entry for entry in log if entry["method"] == "SEARCH"]
    assert [gone["url"] for gone in searched[0]["removed"]] == [PULL, MIRROR]
    assert {"time", "method", "url", "decision", "rule", "status", "size"} <= set(log[0])

    run = json.loads((cli.runs / "s" / "run.json").read_text())
    assert (run["search"], run["prompt"], run["search_backend"]) == (True, "searchswe", "serpapi")
    assert run["model_settings"]["request"] == {"temperature": 0.3} and run["summary_model"] == "reader"
    kept = b"".join(path.read_bytes() for path in (cli.runs / "s").rglob("*") if path.is_file())
    assert b"planted" not in kept

    server.asked.clear()
    words += ["--web-cache", str(cli.runs / "s" / "web"), "--run-id", "again"]
    assert cli("eval", "--json", *words, env=_environment(server)).code == 0
    assert not server.of("search") and not server.of("read") and not server.of("summary")
    assert cli.outcomes("again")[0]["status"] == "resolved"


def baseline(body: dict[str, Any], _kind: str) -> dict[str, Any]:
    """Writes its calls as XML; the first of them is not to be had."""
    turns = [message for message in body["messages"] if message["role"] == "assistant"]
    match len(turns):
        case 0:
            return {"content": "<function=search>\n<parameter=query>add</parameter>\n</function>"}
        case 1:
            return {"content": f"<function=bash>\n<parameter=command>\n{GOOD}\n</parameter>\n</function>"}
        case _:
            return {"content": "<function=finish>"}


@pytest.mark.engine
def test_the_matrix_runs_each_cell_once(
    cli: Cli, dataset: Callable[..., str], loopback: Callable[..., Loopback]
) -> None:
    server = loopback(baseline)
    config = {
        "dataset": dataset("one"),
        "agents": ["searchswe"],
        "models": [
            {"name": "plain-model", "options": {"tool_calls": "xml", "top_p": 0.9}},
            {"name": "other", "options": {"tool_calls": "xml"}},
        ],
        "search": False,
        "model-url": f"{server.url}/v1",
        "workers": 2,
    }
    (cli.folder / "matrix.yaml").write_text(yaml.safe_dump(config))
    done = cli("eval", "--config", "matrix.yaml", "--json", env=_environment(server))
    assert done.code == 0, done.err
    names = ["matrix-searchswe-plain_model-plain", "matrix-searchswe-other-plain"]
    assert [report["run_id"] for report in done.json["runs"]] == names
    assert all(report["avg"] == 100 for report in done.json["runs"])
    for name in names:
        assert name in done.err
        (row,) = cli.outcomes(name)
        assert (
            row["usage"]["tool_calls"] == {"bash": 1, "finish": 1, "search": 1} and row["usage"]["turns"] == 3
        )
    run = json.loads((cli.runs / names[0] / "run.json").read_text())
    assert (run["search"], run["prompt"], run["network"]) == (False, "default", "model")
    assert run["model_settings"]["request"] == {"top_p": 0.9}
    first, second = server.of("model")[:2]
    assert "tools" not in first and "link_summary" not in json.dumps(first)
    assert "there is no tool 'search'" in second["messages"][-1]["content"]
    server.asked.clear()
    again = cli("eval", "--config", "matrix.yaml", "--json", env=_environment(server))
    assert again.code == 0 and not server.asked  # nothing finished is done twice
    assert [report["usage"] for report in again.json["runs"]] == [
        report["usage"] for report in done.json["runs"]
    ]


@pytest.mark.parametrize(
    ("agent", "asked", "search", "model", "network"),
    [
        ("searchswe", None, True, True, "filtered"),
        ("searchswe", None, False, True, "model"),
        ("searchswe", "model", True, True, "model"),
        ("nop", None, True, False, "filtered"),
        ("nop", None, False, False, "none"),
        ("oracle", None, False, False, "none"),
        ("codex", None, True, True, "filtered"),
        ("codex", None, False, True, "model"),
        ("codex", "open", True, True, "open"),
    ],
)
def test_search_opens_the_filtered_web_for_any_agent(
    agent: str, asked: str | None, search: bool, model: bool, network: str
) -> None:
    assert _network(load_agent(agent), asked, has_model=model, search=search) == network


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--agent", "searchswe", "--search-backend", "serpapi"], "environment variable SERPAPI_API_KEY"),
        (["--agent", "searchswe", "--dataset", "pypi"], "search needs an engine"),
        (["--agent", "searchswe"], "needs a model"),
        (["--agent", "searchswe", "--no-search"], "needs a model"),
        (["--agent", "searchswe", "--search-backend", "bing"], "there are serpapi"),
        (["--agent", "searchswe", "--no-search", "--search-backend", "local"], "no effect with --no-search"),
        (["--agent", "searchswe", "--search-backend", "local", "--page-reader", "plain"], "no effect"),
        (["--agent", "nop", "--search-backend", "local"], "it is for the agent searchswe"),
        (["--agent", "searchswe", "--no-search", "--model-option", "tool_calls=sgml"], "tool_calls"),
        (
            ["--agent", "nop", "--model", "m", "--model-option", "tool_calls=xml"],
            "it is for the agent searchswe",
        ),
        (["--agent", "nop", "--model-option", "temperature=1"], "no effect without --model"),
    ],
)
def test_wrong_use_is_said_before_anything_starts(cli: Cli, words: list[str], why: str) -> None:
    done = cli("eval", "--json", "--dataset", "demo", *words, env={"SERPAPI_API_KEY": ""})
    assert done.code == 2 and why in done.json["error"]["message"]
    assert not cli.runs.exists()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("agents: [nop\n", "is no YAML"),
        ("agents: " + "[" * 3000, "is no YAML"),
        ("- nop\n", "expected names and values"),
        ("dataset: demo\n", "agents is missing"),
        ("dataset: demo\nagents: [nop]\nworker: 2\n", "did you mean workers"),
        ("dataset: demo\nagents: [nop, nop]\n", "two runs would be called m-nop"),
        ("dataset: demo\nagents: [nop]\nsearch: maybe\n", "expected true, false"),
        ("dataset: demo\nagents: [{command: x}]\n", "a mapping with `name`"),
    ],
)
def test_faults_of_a_matrix_are_named(cli: Cli, text: str, why: str) -> None:
    (cli.folder / "m.yaml").write_text(text)
    done = cli("eval", "--json", "--config", "m.yaml")
    assert done.code == 2 and why in done.json["error"]["message"], done.err


@pytest.mark.parametrize(
    ("agents", "more", "why"),
    [
        ("[oracle, orcale]", "", "did you mean oracle?"),
        ("[oracle, searchswe]", "", "agent searchswe needs a model"),
        ("[oracle, {name: nop, network: model}]", "", "give it --model"),
        ("[oracle, {name: nop, prompt: none.j2}]", "", "none.j2"),
        ("[oracle, {name: searchswe, model: m, search-backend: bing}]", "", "bing"),
        ("[oracle, {name: searchswe, model: m, options: {tool_calls: sgml}}]", "", "tool_calls"),
        ("[oracle, {name: nop, cpus: many}]", "", "many"),
    ],
)
@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_every_cell_is_checked_before_the_first_begins(
    cli: Cli, agents: str, more: str, why: str, dry: list[str]
) -> None:
    (cli.folder / "m.yaml").write_text(f"dataset: demo\nagents: {agents}\n{more}")
    done = cli("eval", "--json", "--config", "m.yaml", *dry)
    message = done.json["error"]["message"]
    assert done.code == 2 and why in message and "in the run m-" in message, done.err
    assert "1 of 2" not in done.err and not cli.runs.exists()


def test_the_models_of_every_cell_are_asked_for_before_the_first_begins(cli: Cli) -> None:
    (cli.folder / "m.yaml").write_text(
        "dataset: demo\nagents: [nop]\nmodels: [null, {name: a, model-url: 'http://127.0.0.1:9'}]\n"
    )
    done = cli("eval", "--json", "--config", "m.yaml")
    message = done.json["error"]["message"]
    assert done.code == 2 and "no connection to 127.0.0.1:9" in message and "in the run m-nop-a" in message
    assert "1 of 2" not in done.err and not cli.runs.exists()


@pytest.mark.engine
def test_the_finished_cells_are_shown_where_a_later_one_fails(cli: Cli, dataset: Callable[..., str]) -> None:
    (cli.folder / "m.yaml").write_text(f"dataset: {dataset('one')}\nagents: [oracle, nop]\n")
    (cli.runs / "m-nop").mkdir(parents=True)
    (cli.runs / "m-nop" / "own.txt").write_text("of somebody's")
    done = cli("eval", "--json", "--config", "m.yaml")
    assert done.code == 2 and "(in the run m-nop of the matrix)" in done.json["error"]["message"]
    assert "options of search" not in done.err
    assert "m-oracle" in done.err.partition("2 of 2")[2] and "100.00" in done.err.partition("2 of 2")[2]


def test_cells_that_go_without_options_of_search_are_said(cli: Cli) -> None:
    (cli.folder / "m.yaml").write_text("dataset: demo\nagents: [nop]\nsearch-backend: local\n")
    done = cli("eval", "--config", "m.yaml", "--dry-run")
    assert done.code == 0 and "options of search go to the cells of searchswe" in done.err


def test_a_matrix_of_dry_runs_starts_nothing(cli: Cli) -> None:
    (cli.folder / "m.yaml").write_text("dataset: demo\nagents: [nop, oracle]\n")
    done = cli("eval", "--json", "--config", "m.yaml", "--dry-run")
    assert done.code == 0, done.err
    assert [cell["run_id"] for cell in done.json["estimates"]] == ["m-nop", "m-oracle"]
    assert done.json["estimates"][0]["attempts"] == 4 and not (cli.folder / "runs").exists()


def test_the_example_of_the_docs_is_read(cli: Cli) -> None:
    from beyondswe.cli.eval import command
    from beyondswe.cli.matrix import make_cells

    text = (Path(__file__).parents[2] / "docs" / "searchswe.md").read_text()
    example = next(block for block in re.findall(r"```yaml\n(.*?)```", text, re.S) if "agents:" in block)
    path = cli.folder / "paper.yaml"
    path.write_text(example)
    cells = make_cells(path, command, None)
    assert len(cells) == 8 and all(cell.run_id.startswith("paper-") for cell in cells)
    for cell in cells:
        command.make_context("eval", list(cell.words))
