"""Goes through candidates: builds each one's environment, keeps what it was made from, writes rows as they are done.

Rows of one repository are built one after the other, oldest first, so that a later one can take over the
packages of an earlier one where its tests run with them; repositories are built side by side.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from beyondswe.construction.build import identity
from beyondswe.construction.build.acceptance import Accepted, accept
from beyondswe.construction.build.candidates import UNBUILT, is_rejected, make_task
from beyondswe.construction.build.recipe import DOCKERFILE, Recipe, Step, build, rebuild
from beyondswe.construction.build.repositories import History
from beyondswe.construction.build.stopped import BuildStopped
from beyondswe.construction.build.types import Found, Options, Task
from beyondswe.construction.build.whole import build_whole
from beyondswe.construction.build.workshop import last_words
from beyondswe.construction.doc2repo.specification import Rewrite
from beyondswe.errors import BeyondSWEError, EngineUnavailable
from beyondswe.instances import write_instances
from beyondswe.instances.model import Instance
from beyondswe.sandbox.build import BuildFailed
from beyondswe.sandbox.scratch import temporary_folder

ENVIRONMENT, LOG = "environment.json", "build.log"

Search = Callable[[Options, Task, Recipe | None], Found]
"""A builder: finds an environment; gets the recipe of an earlier instance of the repository, where there is
one.
"""


@dataclass(frozen=True)
class Result:
    """What became of one row."""

    instance: Instance
    status: str  # built, kept (of an earlier run), skipped (its review rejected it), failed
    step: str = ""
    reason: str = ""
    log: Path | None = None
    seconds: float = 0.0
    tries: int = 0
    python: str = ""
    tests: str = ""  # in words
    shares: bool = False  # packages of an earlier instance
    turns: int = 0
    cost_usd: float = 0.0

    @property
    def has_image(self) -> bool:
        return self.status in ("built", "kept")

    def to_row(self, folder: Path) -> dict[str, Any]:
        """For ``--json``."""
        dockerfile = folder / self.instance.instance_id / DOCKERFILE
        return {
            "instance_id": self.instance.instance_id,
            "family": str(self.instance.family),
            "repo": self.instance.repo,
            "status": self.status,
            "image": self.instance.image if self.has_image else None,
            "dockerfile": str(dockerfile) if dockerfile.is_file() else None,
            "python": self.python or None,
            "step": self.step or None,
            "reason": self.reason or None,
            "log": str(self.log) if self.log else None,
            "tests": self.tests or None,
            "shares_packages": self.shares,
            "tries": self.tries,
            "turns": self.turns,
            "cost_usd": round(self.cost_usd, 6),
            "seconds": round(self.seconds, 1),
        }


class Builder:
    """Builds rows into ``out`` and ``<out>.environments`` beside it."""

    def __init__(
        self,
        options: Options,
        search: Search,
        out: Path,
        *,
        workers: int,
        fresh: bool,
        name: str = "rules",
        rewrite: Rewrite | None = None,
    ) -> None:
        self.options, self.search, self.out = options, search, out
        self.rewrite = rewrite  # Doc2Repo: the model that words specifications
        self.workers, self.fresh, self.name = workers, fresh, name
        self.folder = environments_folder(out)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._written: dict[str, Instance] = {}

    def run(
        self, instances: Sequence[Instance], before: Sequence[Instance], remove_containers: Callable[[], None]
    ) -> Iterator[Result]:
        """Each row as it is done. ``before``: what ``out`` holds already."""
        self._written = {instance.instance_id: instance for instance in before}
        self.folder.mkdir(parents=True, exist_ok=True)
        groups: dict[str, list[Instance]] = {}
        for instance in instances:
            groups.setdefault(instance.repo, []).append(instance)
        results: list[Result] = []
        arrived = threading.Condition()

        def follow(group: Sequence[Instance]) -> None:
            for result in self._group(group):
                with arrived:
                    results.append(result)
                    arrived.notify()

        pool = ThreadPoolExecutor(self.workers, thread_name_prefix="build")
        running: set[Future[None]] = {pool.submit(follow, group) for group in groups.values()}
        try:
            while running or results:
                with arrived:
                    if not results:
                        arrived.wait(0.2)
                    ready, results[:] = list(results), []
                yield from ready
                done, running = wait(running, timeout=0, return_when=FIRST_COMPLETED)
                for future in done:
                    future.result()
        except BaseException:
            self._stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            deadline = time.monotonic() + 15
            while running and time.monotonic() < deadline:
                remove_containers()
                running = wait(running, timeout=0.5).not_done
            raise
        pool.shutdown()

    def _group(self, group: Sequence[Instance]) -> Iterator[Result]:
        earlier: list[Recipe] = []
        for instance in self._by_day(group):
            if self._stop.is_set():
                return
            begun = time.monotonic()
            try:
                result, recipe = self._row(instance, earlier)
            except EngineUnavailable:
                raise
            result = replace(result, seconds=time.monotonic() - begun)
            if recipe is not None:
                earlier.append(recipe)
            if result.has_image:
                self._write(result.instance)
            yield result

    def _by_day(self, group: Sequence[Instance]) -> list[Instance]:
        """Oldest base commit first, where the history tells; else as they came."""

        def age(instance: Instance) -> float:
            try:
                history = History.of(self.options.repo_url, instance.repo, instance.base_commit)
                return history.seconds(instance.base_commit)
            except BeyondSWEError:
                return float("inf")  # told when its turn comes

        return sorted(group, key=age) if len(group) > 1 else list(group)

    def _row(self, instance: Instance, earlier: Sequence[Recipe]) -> tuple[Result, Recipe | None]:
        place = self.folder / instance.instance_id
        if is_rejected(instance):
            return Result(instance, "skipped", reason="its review rejected it"), None
        try:
            if kept := self._kept(instance, place):
                return kept, read_recipe(place)
        except BuildFailed as error:
            return self._failed(
                instance, "rebuild", f"{error.step}: {error.reason}\n{error.tail}", place
            ), None
        if place.is_dir():
            for path in place.iterdir():
                path.unlink()
        place.mkdir(parents=True, exist_ok=True)
        with (place / LOG).open("w", encoding="utf-8") as log, temporary_folder() as scratch:

            def say(line: str) -> None:
                log.write(line.rstrip("\n") + "\n")
                log.flush()

            try:
                return self._build(instance, place, scratch, say, earlier)
            except BuildFailed as error:
                say(str(error))
                return self._failed(instance, "rebuild", _why(error), place), None
            except BuildStopped as error:
                say(str(error))
                return self._failed(instance, error.step, error.reason, place), None
            except EngineUnavailable:
                raise
            except BeyondSWEError as error:
                say(str(error))
                return self._failed(instance, "history", str(error), place), None

    def _build(
        self,
        instance: Instance,
        place: Path,
        scratch: Path,
        say: Callable[[str], None],
        earlier: Sequence[Recipe],
    ) -> tuple[Result, Recipe]:
        options = self.options
        task = make_task(options, instance, scratch, say)
        usable = [one for one in earlier if one.committed <= task.day and one.pins and not one.empty]
        before = usable[-1] if usable else None
        found = self.search(options, task, before)

        def write(recipe: Recipe) -> None:
            for name, data in recipe.context(task.bundle).items():
                (place / name).write_bytes(data)

        if instance.is_doc2repo:
            whole = build_whole(options, task, found.recipe, self.out.parent, write, self.rewrite)
            accepted, image = whole.accepted, whole.instance.image
            found, task = replace(found, recipe=whole.recipe), replace(task, instance=whole.instance)
        else:
            write(found.recipe)
            say("-- the Dockerfile, from scratch")
            image = build(options.engine, found.recipe, task.bundle, on_line=say)
            accepted = accept(options, task, image)
        say(str(accepted))
        shares = before is not None and dict(before.pins) == dict(found.recipe.pins)
        built = self._completed(task, found, image, place)
        write_recipe(place, found, accepted)
        result = Result(
            built,
            "built",
            log=place / LOG,
            tries=found.tries,
            python=found.recipe.python,
            tests=str(accepted),
            shares=shares,
            turns=found.turns,
            cost_usd=found.cost_usd,
        )
        return result, found.recipe

    def _completed(self, task: Task, found: Found, image: str, place: Path) -> Instance:
        """The row with what was found."""
        instance, recipe = task.instance, found.recipe
        names = identity.names_of(instance.repo, task.tree, task.base)
        newest = max(filter(None, [found.newest, task.day]))
        environment = {
            "builder": self.name,
            "python": recipe.python,
            "packages_as_of": recipe.day.isoformat(),
            "base_image": recipe.base_digest,
            "dockerfile": str((place / DOCKERFILE).relative_to(self.out.parent)),
        }
        return instance.model_copy(
            update={
                "image": image,
                "base_commit": "" if instance.is_doc2repo else task.commit,
                "distributions": instance.distributions or names.distributions,
                "aliases": instance.aliases or names.aliases,
                "docs_hosts": instance.docs_hosts or names.docs_hosts,
                "index_date": instance.index_date or newest.isoformat(),
                "extra": {"modules": list(names.modules), **instance.extra, "environment": environment},
            }
        )

    def _kept(self, instance: Instance, place: Path) -> Result | None:
        """What an earlier run built, its image built again from its Dockerfile where the engine has lost it."""
        known = self._written.get(instance.instance_id)
        if self.fresh or known is None or known.image == UNBUILT or not (place / DOCKERFILE).is_file():
            return None
        of = str(known.extra.get("reference_commit") or known.base_commit)
        if of[:7] != instance.base_commit[:7]:
            return None
        if not self.options.engine.has_image(known.image):
            tag = rebuild(self.options.engine, place, instance.instance_id)
            known = known.model_copy(update={"image": tag})
        recipe = read_recipe(place)
        return Result(known, "kept", log=place / LOG, python=recipe.python if recipe else "")

    def _failed(self, instance: Instance, step: str, reason: str, place: Path) -> Result:
        log = place / LOG
        return Result(instance, "failed", step, reason, log if log.is_file() else None)

    def _write(self, instance: Instance) -> None:
        with self._lock:
            self._written[instance.instance_id] = instance
            write_instances(self.out, self._written.values())


def _why(error: BuildFailed) -> str:
    step = " ".join(error.step.split())
    shown = step if len(step) <= 120 else f"{step[:117]}..."
    return f"{shown}: {last_words(error.tail) if error.tail else error.reason}"


def environments_folder(out: Path) -> Path:
    """Where the Dockerfiles of a file of rows are kept."""
    return out.with_name(f"{out.stem}.environments")


def write_recipe(place: Path, found: Found, accepted: Accepted) -> None:
    record = {
        **asdict(found.recipe),
        "day": found.recipe.day.isoformat(),
        "committed": found.recipe.committed.isoformat(),
        "tries": found.tries,
        "tests": asdict(accepted),
    }
    (place / ENVIRONMENT).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def read_recipe(place: Path) -> Recipe | None:
    """The recipe that an earlier run wrote down; None where there is none that can be read."""
    try:
        record: Mapping[str, Any] = json.loads((place / ENVIRONMENT).read_text(encoding="utf-8"))
        known = {name: record[name] for name in Recipe.__dataclass_fields__ if name in record}
        known |= {name: date.fromisoformat(record[name]) for name in ("day", "committed")}
        known["install"] = tuple(Step(**step) for step in record["install"])
        return Recipe(**known)
    except (OSError, ValueError, KeyError, TypeError):
        return None
