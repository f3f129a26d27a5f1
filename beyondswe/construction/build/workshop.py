"""The container that an environment is tried out in: packages resolved and installed, tests run, with network.

What is done here is done again from the Dockerfile afterwards; nothing of this container goes into an image.
"""

from __future__ import annotations

import io
import re
import shlex
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from beyondswe.construction.build.diagnosis import is_of_the_network
from beyondswe.construction.build.plan import BUILD_TOOLS, LATER, TOOLS, Plan
from beyondswe.construction.build.pythons import build_tools_day
from beyondswe.construction.build.stopped import BuildStopped
from beyondswe.sandbox import host
from beyondswe.sandbox.docker import DockerSandbox, start_sandbox
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.types import ExecResult, Limits

if TYPE_CHECKING:
    from beyondswe.construction.build.types import Task

WORKDIR = "/workspace"
PYTHON = "/opt/venv/bin/python"

INSTALL_TIMEOUT = 1200.0
NETWORK_TRIES = 3
"""How often something is fetched before a network that does not answer counts."""
_OUTPUT = 1 << 20

CHECKOUT = (
    f"git init --quiet --template= --initial-branch=main {WORKDIR}",
    f"cd {WORKDIR}",
    "mkdir -p .git/info",
    r"printf '*.egg-info/\n__pycache__/\n.pytest_cache/\n.eggs/\n' > .git/info/exclude",
    "git -c core.logAllRefUpdates=false fetch --quiet --update-head-ok {bundle} "
    "'+refs/heads/*:refs/heads/*' '+refs/tags/*:refs/tags/*'",
    "git reset --quiet --hard",
    "rm -rf .git/logs .git/FETCH_HEAD .git/ORIG_HEAD",
)
"""Shell commands that unpack a bundle into the workdir."""


@dataclass(frozen=True)
class Done:
    """How a command ended. ``log`` is both of its outputs."""

    ok: bool
    log: str
    timed_out: bool = False


@dataclass(frozen=True)
class TestReport:
    """What pytest said at its end."""

    __test__ = False

    exit_code: int | None
    counts: Mapping[str, int]
    log: str
    timed_out: bool = False

    @property
    def passed(self) -> int:
        return self.counts.get("passed", 0)

    @property
    def bad(self) -> int:
        return self.counts.get("failed", 0) + self.counts.get("error", 0)

    @property
    def passed_tests(self) -> frozenset[str]:
        """Ids of the tests that passed."""
        return frozenset(re.findall(r"^PASSED (\S+)", self.log, re.MULTILINE))

    @property
    def clean(self) -> bool:
        return self.exit_code == 0 and self.passed > 0

    @property
    def rank(self) -> tuple[int, int, int]:
        """Greater is better: more that passed, then fewer errors, then fewer failures."""
        return (self.passed, -self.counts.get("error", 0), -self.counts.get("failed", 0))

    def __str__(self) -> str:
        if self.timed_out:
            return "the tests did not end in time"
        shown = ", ".join(f"{number} {what}" for what, number in self.counts.items() if number)
        return shown or f"no test ran (pytest ended with {self.exit_code})"


class Workshop:
    """A running container with a repository checked out. The caller closes it."""

    def __init__(self, sandbox: DockerSandbox, say: Callable[[str], None]) -> None:
        self.sandbox = sandbox
        self._say = say
        self._system: set[str] = set()

    @classmethod
    def open(
        cls,
        engine: Engine,
        image: str,
        *,
        bundle: bytes,
        uv: Path,
        limits: Limits,
        run_labels: Mapping[str, str],
        say: Callable[[str], None],
    ) -> Workshop:
        sandbox = start_sandbox(
            engine,
            image,
            workdir="/",
            limits=limits,
            network="open",
            env={**host.host_environment(), **index_variables(), **_PATIENCE},
            run_labels={**run_labels, "role": "workshop"},
        )
        shop = cls(sandbox, say)
        try:
            shop.put({"usr/local/bin/uv": (uv.read_bytes(), 0o755), "tmp/repository.bundle": (bundle, 0o644)})
            made = shop.run(" && ".join(CHECKOUT).format(bundle="/tmp/repository.bundle"), cwd="/")
            if not made.ok:
                raise RuntimeError(f"the repository was not unpacked: {made.log}")
        except BaseException:
            sandbox.stop()
            raise
        return shop

    def close(self) -> None:
        self.sandbox.stop()

    def put(self, files: Mapping[str, tuple[bytes, int]]) -> None:
        """Write files below the root: path without its first slash → content and mode."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name, (content, mode) in files.items():
                member = tarfile.TarInfo(name)
                member.size, member.mode = len(content), mode
                archive.addfile(member, io.BytesIO(content))
        self.sandbox.put(buffer.getvalue(), "/")

    def run(
        self,
        command: str,
        *,
        timeout: float = INSTALL_TIMEOUT,
        cwd: str = WORKDIR,
        env: Mapping[str, str] | None = None,
    ) -> Done:
        self._say(f"$ {command}")
        done = self.sandbox.run(["/bin/sh", "-c", command], timeout=timeout, cwd=cwd, env=env)
        log = _text(done)
        if log.strip():
            self._say(log.rstrip())
        return Done(done.exit_code == 0, log, done.timed_out)

    # packages

    def _fetching(self, command: str, *, cwd: str = WORKDIR) -> Done:
        """Run what fetches something, again where the network failed it."""
        done = self.run(command, cwd=cwd, env={"NO_COLOR": "1"})
        for _ in range(NETWORK_TRIES - 1):
            if done.ok or not is_of_the_network(done.log):
                break
            self._say("the network failed: once more")
            done = self.run(command, cwd=cwd, env={"NO_COLOR": "1"})
        return done

    def system(self, packages: Sequence[str]) -> Done:
        new = [name for name in packages if name not in self._system]
        if not new:
            return Done(True, "")
        names = " ".join(map(shlex.quote, new))
        install = f"DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends {names}"
        done = self._fetching(f"apt-get update -qq && {install}", cwd="/")
        if done.ok:
            self._system |= set(new)
        return done

    def versions_of(self, packages: Sequence[str]) -> dict[str, str]:
        """Installed versions of Debian packages."""
        if not packages:
            return {}
        names = " ".join(map(shlex.quote, packages))
        done = self.run(f"dpkg-query -W -f '${{Package}} ${{Version}}\\n' {names}", cwd="/")
        return dict(line.split(" ", 1) for line in done.log.splitlines() if line.count(" ") == 1)

    def resolve(self, plan: Plan, commit_day: date) -> tuple[Done, dict[str, str]]:
        """All packages of a plan with their versions (name → version), as of its day."""
        self.put({"tmp/requirements.in": ("\n".join([*plan.lines(), ""]).encode(), 0o644)})
        command = ["uv pip compile --quiet --no-header --no-annotate --color never"]
        command += [f"--python {PYTHON}", *self._dates(plan, commit_day), *self._build_limits(plan)]
        command += [f"--no-emit-package {name}" for name in TOOLS]
        done = self._fetching(" ".join([*command, "/tmp/requirements.in"]))
        return done, pins_of(done.log) if done.ok else {}

    def install(
        self, plan: Plan, pins: Mapping[str, str], commit_day: date, *, dates: str | None = None
    ) -> Done:
        """Exactly these versions; what an earlier try left behind goes. ``dates``: settings in place of the
        plan's.
        """
        self.put({"tmp/requirements.txt": (requirement_lines(pins).encode(), 0o644)})
        there = pins_of(
            self.run(f"uv pip list --quiet --format freeze --python {PYTHON} --exclude-editable").log
        )
        extra = sorted(set(there) - set(pins) - self.base)
        if extra:
            self.run(f"uv pip uninstall --quiet --python {PYTHON} {' '.join(extra)}")
        command = [f"uv pip install --quiet --python {PYTHON} --no-deps"]
        command += [*self._dates(plan, commit_day, dates), *self._build_limits(plan)]
        return self._fetching(" ".join([*command, "--requirements /tmp/requirements.txt"]))

    def build_pins(self, plan: Plan, requirements: Sequence[str], commit_day: date) -> dict[str, str]:
        """Versions of the tools that build the repository, apart from everything else; {} where there are none."""
        self.put({"tmp/build.in": ("\n".join([*requirements, ""]).encode(), 0o644)})
        day = build_tools_day(max(commit_day, plan.day))
        done = self.run(
            f"uv pip compile --quiet --no-header --no-annotate --python {PYTHON} --exclude-newer {day} "
            f"{' '.join(f'--no-emit-package {name}' for name in TOOLS)} /tmp/build.in"
        )
        return pins_of(done.log) if done.ok else {}

    @property
    def base(self) -> set[str]:
        """Names of what the base image had."""
        if not hasattr(self, "_base"):
            self._base = set(
                pins_of(self.run(f"uv pip list --quiet --format freeze --python {PYTHON}").log)
            ) | set(TOOLS)
        return self._base

    def _dates(self, plan: Plan, commit_day: date, given: str | None = None) -> list[str]:
        text = dates_file(plan, commit_day) if given is None else given
        self.put({"tmp/uv.toml": (text.encode(), 0o644)})
        return ["--config-file /tmp/uv.toml"]

    def _build_limits(self, plan: Plan) -> list[str]:
        if not plan.build_limits:
            return []
        self.put({"tmp/build.txt": ("\n".join([*plan.build_limits, ""]).encode(), 0o644)})
        return ["--build-constraints /tmp/build.txt"]

    def newest(self, pins: Mapping[str, str]) -> date | None:
        """The day on which the newest of these came out, as the index says."""
        self.put({"tmp/pinned.txt": (requirement_lines(pins).encode(), 0o644)})
        done = self.run(
            f"uv pip compile --quiet --no-deps --no-header --format pylock.toml --python {PYTHON} "
            "/tmp/pinned.txt"
        )
        days = re.findall(r"upload-time = \"?(\d{4}-\d\d-\d\d)", done.log) if done.ok else []
        first = {}
        for package in re.split(r"\[\[packages\]\]", done.log)[1:]:
            if times := re.findall(r"upload-time = \"?(\d{4}-\d\d-\d\d)", package):
                first[package[:60]] = min(times)
        return date.fromisoformat(max(first.values())) if first and days else None

    # tests

    def apply(self, patch: str, what: str) -> Done:
        self.put({"tmp/change.patch": (_ending(patch).encode(), 0o644)})
        done = self.run("git apply --whitespace=nowarn /tmp/change.patch")
        if not done.ok:
            done = self.run("git apply --whitespace=nowarn --3way /tmp/change.patch")
        return done if done.ok else Done(False, f"{what} does not apply: {done.log}")

    def restore(self) -> None:
        """The tree of the base commit again; what is ignored (installed metadata) stays."""
        self.run("git reset --quiet --hard && git clean --quiet --force -d")

    def test(self, files: Sequence[str], *, timeout: float) -> TestReport:
        names = " ".join(map(shlex.quote, files))
        command = f"python -m pytest -p no:cacheprovider --tb=short -rfEp --color=no {names}"
        self._say(f"$ {command}")
        done = self.sandbox.run(
            ["/bin/sh", "-c", command],
            timeout=timeout,
            cwd=WORKDIR,
            max_output=_OUTPUT,
            env={"COLUMNS": "160"},
        )
        log = _text(done)
        self._say(log[-20000:].rstrip())
        return TestReport(done.exit_code, counts_of(log), log, done.timed_out)


_PATIENCE = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "UV_HTTP_TIMEOUT": "180", "PIP_DEFAULT_TIMEOUT": "180"}


def index_variables() -> dict[str, str]:
    """Where packages come from, for uv and pip in a container; {} for their own default."""
    index = host.package_index()
    return {"UV_DEFAULT_INDEX": index, "PIP_INDEX_URL": index} if index else {}


def tested(shop: Workshop, task: Task, files: Sequence[str] | None = None, *, timeout: float) -> TestReport:
    """The tests (by default the hidden ones; none named: all) with the reference change and the hidden tests
    applied; afterwards the tree is the base commit's again.
    """
    instance = task.instance
    try:
        for patch, what in (
            (instance.patch, "the reference change"),
            (instance.f2p_patch, "the hidden tests"),
        ):
            if patch.strip() and not (done := shop.apply(patch, what)).ok:
                raise BuildStopped("tests", done.log)
        if instance.f2p_script:
            shop.put({"workspace/test_fail_to_pass.py": (instance.f2p_script.encode(), 0o644)})
        return shop.test(task.tests if files is None else files, timeout=timeout)
    finally:
        shop.restore()


def dates_file(plan: Plan, commit_day: date) -> str:
    """uv's settings that keep everything as of a plan's day. Build tools have a day of their own, and so has
    what came out later than it was asked for.
    """
    tools = max(build_tools_day(commit_day), plan.day)
    dates = dict.fromkeys(BUILD_TOOLS, tools) if tools > plan.day else {}
    dates |= dict.fromkeys(plan.later, plan.day + LATER)
    lines = [f'exclude-newer = "{plan.day.isoformat()}"']
    if dates:
        lines += [
            "",
            "[exclude-newer-package]",
            *(f'"{name}" = "{day}"' for name, day in sorted(dates.items())),
        ]
    return "\n".join(lines) + "\n"


def requirement_lines(pins: Mapping[str, str]) -> str:
    return "".join(f"{name}=={version}\n" for name, version in sorted(pins.items()))


def pins_of(listing: str) -> dict[str, str]:
    """name → version of lines ``name==version``."""
    found = {}
    for line in listing.splitlines():
        if match := re.match(r"([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?==([^\s;]+)", line.strip()):
            found[re.sub(r"[-_.]+", "-", match[1]).lower()] = match[2]
    return found


def counts_of(log: str) -> dict[str, int]:
    """How many passed, failed and so on, from the last line of pytest that counts them."""
    for line in reversed(log.splitlines()):
        if re.search(
            r"\b(passed|failed|errors?|skipped|no tests ran|xfailed|deselected)\b.* in [\d.:]+", line
        ):
            found: dict[str, int] = {}
            for number, what in re.findall(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed)", line):
                found[what.removesuffix("s") if what == "errors" else what] = int(number)
            return found
    return {}


def _text(done: ExecResult) -> str:
    return done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")


def _ending(patch: str) -> str:
    return patch if patch.endswith("\n") else f"{patch}\n"


def last_words(log: str) -> str:
    """The line of a log that says most about how it ended."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    telling = [
        line
        for line in lines
        if line.startswith(("E  ", "error:", "ERROR", "Error", "fatal", "×")) or "Error:" in line
    ]
    shown = telling[-1] if telling else lines[-1] if lines else "it gave no reason"
    return shown[:400]
