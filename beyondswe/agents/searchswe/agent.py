"""The SearchSWE agent: puts the parts together for one attempt, and says how it ended."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from beyondswe.agents.manifest import Manifest
from beyondswe.agents.protocol import AgentEnd, PreparedAttempt
from beyondswe.agents.searchswe.editor import Editor
from beyondswe.agents.searchswe.loop import Loop
from beyondswe.agents.searchswe.model import Model, ModelFailed, PromptTooLong
from beyondswe.agents.searchswe.schemas import describe, offered
from beyondswe.agents.searchswe.settings import Calls, ModelSettings
from beyondswe.agents.searchswe.shell import Shell
from beyondswe.agents.searchswe.tools import Toolbox
from beyondswe.blocklist import Policy, Target, decide_command, decide_text, decide_url
from beyondswe.errors import AgentError
from beyondswe.gateway.metering import AGENT
from beyondswe.instances.model import Instance
from beyondswe.resources import resource
from beyondswe.sandbox.types import Sandbox
from beyondswe.search.cache import WebCache
from beyondswe.search.log import WebLog
from beyondswe.search.options import Web
from beyondswe.search.readers import Check
from beyondswe.search.tools import WebTools
from beyondswe.search.types import WebFault

LOG_LIMIT = 1 << 20  # bytes kept of the conversation's log, head and tail
SUMMARY = "summary"
"""The role of the summarising model's calls."""
_SUMMARY_TOKENS = 8_192  # that a summary may take
_SYSTEM = ("harness", "prompts", "searchswe", "system.md.j2")


@dataclass(frozen=True)
class SearchOptions:
    """How the agent works in a run; what decides the outcomes is in `facts`."""

    web: Web | None = None  # None: without the two web tools
    cache: Path | None = None  # folder of what was found on the web
    summary_model: str = ""  # default: the model itself
    settings: ModelSettings = field(default_factory=ModelSettings)

    def facts(self) -> dict[str, Any]:
        """For ``run.json``."""
        settings = self.settings.model_dump(mode="json")
        if self.web is None:
            return {"model_settings": settings}
        return {
            "model_settings": settings,
            "search_backend": self.web.backend.name,
            "page_reader": self.web.reader.name,
            "summary_model": self.summary_model or None,
        }


class SearchSWEAgent:
    """The loop agent; `with_options` before it is started."""

    roles = frozenset({SUMMARY})  # beside the agent's own: whose calls are counted apart, and are no turns

    def __init__(self, manifest: Manifest, *, digest: str, options: SearchOptions | None = None) -> None:
        self.name, self.version, self.network = manifest.name, manifest.version, manifest.network
        self._manifest, self._folder_digest = manifest, digest
        self._options = options or SearchOptions()
        parts = (digest, resource(*_SYSTEM).read_text(encoding="utf-8"))
        self.digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def with_options(self, options: SearchOptions) -> SearchSWEAgent:
        return SearchSWEAgent(self._manifest, digest=self._folder_digest, options=options)

    def start(self, prepared: PreparedAttempt, sandbox: Sandbox) -> AgentEnd:
        access = prepared.model
        if access is None:
            raise AgentError(f"agent {self.name} needs a model: give it --model M")
        deadline = time.monotonic() + prepared.timeout
        settings, log = self._options.settings, _Log(LOG_LIMIT)
        web_log = WebLog()
        with ExitStack() as held:

            def model(name: str, role: str, request: Mapping[str, Any]) -> Model:
                made = Model(access, name=name, role=role, deadline=deadline, request=request)
                return held.enter_context(closing(made))

            web = None
            if self._options.web is not None:
                check, check_text = checks_for(prepared.instance)
                web = WebTools(
                    self._options.web.backend,
                    self._options.web.reader,
                    check=check,
                    check_text=check_text,
                    cache=WebCache(self._cache()),
                    log=web_log,
                    ask=_summariser(model(self._options.summary_model or access.name, SUMMARY, {})),
                )
            schemas = offered(search=web is not None)
            toolbox = Toolbox(
                schemas=schemas,
                shell=Shell(sandbox, prepared.environment.workdir, env=prepared.env),
                editor=Editor(sandbox),
                web=web,
                advice=advice_for(prepared.instance, search=web is not None),
                deadline=deadline,
            )
            loop = Loop(
                model(access.name, AGENT, settings.request),
                toolbox,
                settings,
                completion_tokens=settings.completion_tokens(doc2repo=prepared.instance.is_doc2repo),
                max_turns=access.max_turns,
                log=log.line,
            )
            system = _system(
                search=web is not None,
                workdir=prepared.environment.workdir,
                tools=describe(schemas) if settings.tool_calls is Calls.XML else "",
            )
            end = loop.run(system, prepared.prompt)
        return AgentEnd(
            end.status,
            None,
            end.why,
            log.data(),
            tool_calls=dict(toolbox.counts),
            egress=tuple(web_log.rows()),
        )

    def _cache(self) -> Path:
        if self._options.cache is None:
            raise AgentError(f"agent {self.name}: no folder was given for what is found on the web")
        return self._options.cache


def checks_for(instance: Instance) -> tuple[Check, Check]:
    """The rule that blocks an address for this instance, and the one that blocks a text; by the one blocklist."""
    target, policy = _target(instance), _policy(instance)

    def check(url: str) -> str | None:
        decision = decide_url(url, target, policy)
        return decision.rule if decision.blocked else None

    def check_text(text: str) -> str | None:
        decision = decide_text(text, target, policy)
        return decision.rule if decision.blocked else None

    return check, check_text


def advice_for(instance: Instance, *, search: bool) -> Callable[[str], str | None]:
    """Why a command should not be run. Advice: what holds is the cut history and the proxy."""
    target, policy = _target(instance), _policy(instance)

    def advice(command: str) -> str | None:
        decision = decide_command(command, target, policy, search=search)
        return f"{decision.rule}: {decision.detail}" if decision.blocked else None

    return advice


def _target(instance: Instance) -> Target:
    return Target(
        instance.repo,
        distributions=instance.distributions,
        aliases=instance.aliases,
        docs_hosts=instance.docs_hosts,
    )


_ADDRESS = re.compile(r"https?://[^\s<>\"'`\\)\]}]+")


def _policy(instance: Instance) -> Policy:
    """Pages that the problem statement itself names may be read."""
    named = (match.rstrip(".,;:!?*_") for match in _ADDRESS.findall(instance.problem_statement))
    return Policy(prompt_addresses=tuple(dict.fromkeys(named)))


def _summariser(model: Model) -> Callable[[str, str], str]:
    def ask(system: str, user: str) -> str:
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        try:
            text = model.ask(messages, completion_tokens=_SUMMARY_TOKENS).text.strip()
        except (ModelFailed, PromptTooLong) as failure:
            raise WebFault(f"the summarising model: {failure}") from None
        if not text:
            raise WebFault("the summarising model gave an empty answer")
        return text

    return ask


def _system(*, search: bool, workdir: str, tools: str) -> str:
    import jinja2

    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    template = environment.from_string(resource(*_SYSTEM).read_text(encoding="utf-8"))
    return template.render(search=search, workdir=workdir, tools=tools)


class _Log:
    """The conversation for people, head and tail within a cap."""

    def __init__(self, limit: int) -> None:
        self._half = limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def line(self, text: str) -> None:
        data = text.encode("utf-8", "replace") + b"\n"
        if len(self._head) < self._half:
            room = self._half - len(self._head)
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if (over := len(self._tail) - self._half) > 0:
            del self._tail[:over]
            self._dropped += over

    def data(self) -> bytes:
        middle = b"\n[... %d bytes ...]\n" % self._dropped if self._dropped else b""
        return bytes(self._head) + middle + bytes(self._tail)
