"""Builds an environment by a model with a shell in the container, as the paper does (arXiv:2603.03194, section 3).

The model installs step by step until the hidden tests run with the reference change. Its commands are distilled
(`distil`) into a Dockerfile, which is accepted only if the image built from it, from scratch and without
network, passes the tests that passed where the model worked.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from beyondswe.construction.build import pythons
from beyondswe.construction.build.chat import Call, Chat
from beyondswe.construction.build.distil import FINGERPRINT, Ran, distilled, dropped, with_partial
from beyondswe.construction.build.plan import Plan
from beyondswe.construction.build.recipe import Recipe, Step, build, digest_of, ensure_uv_image, uv_binary
from beyondswe.construction.build.stopped import BuildStopped
from beyondswe.construction.build.types import Found, Options, Task
from beyondswe.construction.build.workshop import (
    PYTHON,
    TestReport,
    Workshop,
    dates_file,
    last_words,
    pins_of,
    tested,
)
from beyondswe.errors import UsageError
from beyondswe.gateway.conversation import Tokens
from beyondswe.gateway.prices import Prices
from beyondswe.sandbox.base_images import ensure_base_image
from beyondswe.sandbox.build import BuildFailed
from beyondswe.sandbox.docker import start_sandbox

_SHOWN = 12_000
_COMMAND_TIMEOUT = 900.0
_CALL_TIMEOUT = 600.0

TOOLS: Sequence[dict[str, object]] = (
    {
        "type": "function",
        "function": {
            "name": "bash",
            "description": "Run a shell command (sh) in the repository's folder, as root, with network. Every "
            "command is a shell of its own: cd and export do not last.",
            "parameters": {
                "type": "object",
                "properties": {"command": {"type": "string", "description": "The command."}},
                "required": ["command"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "run_tests",
            "description": "Apply the reference change and the hidden tests, run these tests with pytest, take both "
            "back, and show the end of the output.",
            "parameters": {"type": "object", "properties": {}},
        },
    },
    {
        "type": "function",
        "function": {
            "name": "finish",
            "description": "The environment is ready. The tests are run once more and everything is built anew from "
            "your commands.",
            "parameters": {"type": "object", "properties": {}},
        },
    },
)

_TASK = """\
You set up an environment in which the tests of a Python repository run.
You are in a container with Debian, git, C tools, uv and Python {python} in /opt/venv (active). The repository
{repo} is checked out in /workspace at a commit of {day}; do not change its files, install what it needs.
Install packages with `uv pip install`; nothing newer than {as_of} is offered. Debian packages: apt-get. Install the
repository itself in editable mode without its dependencies last: `{editable}`.
The tests that must run with the reference change applied: {tests}. Call run_tests to see how they do.
Scoring happens without network and without further installation.
Your commands that worked and changed something become a Dockerfile, each on its own, so keep them free of what only
holds here. Call finish when the tests run.
"""


@dataclass
class _Spent:
    turns: int = 0
    cost: float = 0.0


@dataclass
class AgentBuilder:
    """A builder (see `builder.Search`) led by a model."""

    model: str
    url: str
    max_turns: int = 60
    max_cost: float | None = None
    prices: Prices = field(default_factory=Prices)

    def __post_init__(self) -> None:
        if self.max_cost is not None and not self.prices.knows(self.model):
            raise UsageError(
                f"--max-cost: nobody knows what {self.model} costs; leave it out, or limit --max-turns instead"
            )

    def __call__(self, options: Options, task: Task, _earlier: Recipe | None) -> Found:
        order = pythons.candidates(task.base, task.day, pythons.available(options.python_dir))
        if not order:
            raise BuildStopped("Python", f"no Python here is allowed by {task.base.requires_python}")
        python = order[0]
        base = ensure_base_image(options.engine, python, python_dir=options.python_dir, on_line=task.say)
        plan = Plan(python, pythons.as_of(task.day, python))
        shop = Workshop.open(
            options.engine,
            base,
            bundle=task.bundle,
            uv=uv_binary(),
            limits=options.limits,
            run_labels=options.run_labels,
            say=task.say,
        )
        try:
            session = _Session(self, options, task, shop, plan)
            report = session.run()
            pins = pins_of(
                shop.run(f"uv pip list --quiet --format freeze --python {PYTHON} --exclude-editable").log
            )
            newest = shop.newest(pins)
        finally:
            shop.close()
        task.say(f"of {len(session.history)} commands went: {dropped(session.history)}")
        notes = [f"Distilled from {len(session.history)} commands of {self.model}."]
        recipe = Recipe(
            instance_id=task.instance.instance_id,
            repo=task.instance.repo,
            commit=task.commit,
            builder="agent",
            python=python,
            base=base,
            base_digest=digest_of(options.engine, base),
            uv=ensure_uv_image(options.engine),
            day=plan.day,
            committed=task.day,
            dates=dates_file(plan, task.day),
            constraints=pins,
            notes=notes,
        )
        made = self._accepted(options, task, recipe, session.history, report)
        return Found(made, report, 1, newest, turns=session.spent.turns, cost_usd=session.spent.cost)

    def _accepted(
        self, options: Options, task: Task, recipe: Recipe, history: Sequence[Ran], report: TestReport
    ) -> Recipe:
        """The first distillation whose rebuild passes what passed before."""
        from dataclasses import replace

        said: list[str] = []
        for steps in _distillations(history):
            candidate = replace(recipe, install=steps)
            task.say(f"-- {len(steps)} commands, from scratch")
            try:
                image = build(options.engine, candidate, task.bundle, on_line=task.say)
            except BuildFailed as error:
                said.append(last_words(error.tail) if error.tail else error.reason)
                task.say(str(error))
                continue
            again = self._tested(options, task, image)
            task.say(f"rebuilt: {again}; where the model worked: {report}")
            if again.passed >= report.passed and again.passed_tests >= report.passed_tests:
                return candidate
            lost = sorted(report.passed_tests - again.passed_tests)
            said.append(f"{len(lost)} tests that passed where the model worked do not: {', '.join(lost[:3])}")
        raise BuildStopped(
            "rebuild", f"the commands, played from scratch, give no environment: {'; '.join(said)}"
        )

    def _tested(self, options: Options, task: Task, image: str) -> TestReport:
        sandbox = start_sandbox(
            options.engine,
            image,
            workdir="/workspace",
            limits=options.limits,
            network="none",
            run_labels={**options.run_labels, "role": "workshop"},
        )
        shop = Workshop(sandbox, task.say)
        try:
            return tested(shop, task, timeout=min(options.test_timeout, task.left()))
        finally:
            shop.close()


def _distillations(history: Sequence[Ran]) -> list[list[Step]]:
    first, second = distilled(history), with_partial(history)
    return [first] if first == second else [first, second]


class _Session:
    """The model at work in one container."""

    def __init__(
        self, builder: AgentBuilder, options: Options, task: Task, shop: Workshop, plan: Plan
    ) -> None:
        self.builder, self.options, self.task, self.shop, self.plan = builder, options, task, shop, plan
        self.history: list[Ran] = []
        self.spent = _Spent()
        self._print = ""

    def run(self) -> TestReport:
        """Until the model says that it is done and the tests run; `BuildStopped` at a limit."""
        builder, task = self.builder, self.task
        chat = Chat(builder.model, builder.url, TOOLS)
        chat.messages.append({"role": "system", "content": self._instructions()})
        chat.say(self._facts())
        self.shop.put({"tmp/uv.toml": (dates_file(self.plan, task.day).encode(), 0o644)})
        self._print = self._fingerprint()
        while self.spent.turns < builder.max_turns:
            turn = chat.ask(min(_CALL_TIMEOUT, task.left()))
            self.spent.turns += 1
            self._charge(turn.tokens)
            if turn.text.strip():
                task.say(f"model: {turn.text.strip()}")
            report: TestReport | None = None
            for call in turn.calls:
                text, found = self._call(call, turn.text)
                chat.answer(call, text)
                report = found or report
            if report is not None:
                return report
            if not turn.calls:
                chat.say("Go on with a tool; call finish when the tests run.")
            self._within_cost()
        raise BuildStopped("turns", f"the model did not get the tests to run in {builder.max_turns} turns")

    def _call(self, call: Call, why: str) -> tuple[str, TestReport | None]:
        """What the model is told, and the tests' report where it is done."""
        if call.name == "bash":
            command = call.arguments.get("command")
            if not isinstance(command, str) or not command.strip():
                return "bash needs a command", None
            return self._bash(command, why), None
        if call.name not in ("run_tests", "finish"):
            return f"there is no tool {call.name}", None
        report = tested(self.shop, self.task, timeout=min(self.options.test_timeout, self.task.left()))
        self._print = self._fingerprint()
        shown = f"{report}\n{_tail(report.log)}"
        if call.name == "finish":
            if report.passed:
                return "accepted", report
            shown = f"not ready: with the reference change no test passes. {shown}"
        return shown, None

    def _bash(self, command: str, why: str) -> str:
        timeout = min(_COMMAND_TIMEOUT, self.task.left())
        env: Mapping[str, str] = {"UV_CONFIG_FILE": "/tmp/uv.toml", "PYTHONDONTWRITEBYTECODE": "1"}
        begun = time.monotonic()
        done = self.shop.run(command, timeout=timeout, env=env)
        now = self._fingerprint()
        first = next((line.strip() for line in why.splitlines() if line.strip()), "")
        self.history.append(Ran(command, 0 if done.ok else 1, now != self._print, first))
        self._print = now
        how = "ended well" if done.ok else "took too long" if done.timed_out else "failed"
        return f"{_tail(done.log)}\n[{how} after {time.monotonic() - begun:.0f} s]"

    def _fingerprint(self) -> str:
        """What the files are now, apart from caches and the like."""
        done = self.shop.sandbox.run(["/bin/sh", "-c", FINGERPRINT], timeout=120)
        return done.stdout.decode(errors="replace")

    def _charge(self, tokens: Tokens) -> None:
        self.spent.cost += self.builder.prices.cost(self.builder.model, tokens) or 0.0

    def _within_cost(self) -> None:
        limit = self.builder.max_cost
        if limit is not None and self.spent.cost >= limit:
            raise BuildStopped("cost", f"the model has spent {self.spent.cost:.4f} of {limit:g} USD")

    def _instructions(self) -> str:
        from beyondswe.construction.build.rules import EDITABLE

        return _TASK.format(
            python=self.plan.python,
            repo=self.task.instance.repo,
            day=self.task.day,
            as_of=self.plan.day,
            tests=", ".join(self.task.tests) or "all of them",
            editable=EDITABLE,
        )

    def _facts(self) -> str:
        lines = ["What the repository says (requirement: where):"]
        lines += [f"- {need.requirement}: {need.source}" for need in self.task.after.needs[:80]]
        lines += ["How it says that tests are run:", *(f"- {line}" for line in self.task.base.commands[:12])]
        return "\n".join(lines)


def _tail(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN // 4]}\n[…]\n{text[-_SHOWN * 3 // 4 :]}"
