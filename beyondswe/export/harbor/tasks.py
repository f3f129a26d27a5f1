"""Writes instances as Harbor tasks: the prepared environment as their image, the instance beside the verifier."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from beyondswe.agents.oracle import reference_archive, reference_change
from beyondswe.agents.prompts import DEFAULT, Prompts
from beyondswe.errors import AgentError, DataError, UsageError
from beyondswe.export.harbor import manifest
from beyondswe.export.harbor.carrier import ensure_scorer
from beyondswe.export.harbor.manifest import ROW
from beyondswe.export.harbor.verifier import Task
from beyondswe.instances.dataset import Dataset
from beyondswe.instances.model import Instance
from beyondswe.instances.writing import to_row
from beyondswe.resources import resource
from beyondswe.runs.attempt import Environments, ImageProvider
from beyondswe.runs.folder import folder_name, write_atomic
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.images import LOCAL_PREFIX
from beyondswe.sandbox.trees import Trees
from beyondswe.sandbox.types import Environment, Limits, Network


@dataclass(frozen=True)
class Exported:
    """What was written, and which images it takes to run it."""

    tasks: dict[str, str]  # folder -> digest
    images: tuple[str, ...]
    without_solution: tuple[str, ...]  # instances that the oracle cannot solve: they bring no reference


@dataclass(frozen=True)
class _Image:
    """An environment's image under the name that tasks use."""

    tag: str
    checks_health: bool  # it has a health check, though turned off


@dataclass(frozen=True)
class _Setting:
    """What all tasks of an export share."""

    scorer: str  # tag of the scorer's image
    limits: Limits
    local: bool  # the images are in no registry


def export_harbor(
    engine: Engine,
    dataset: Dataset,
    out: Path,
    provide_image: ImageProvider,
    *,
    organisation: str,
    prefix: str = LOCAL_PREFIX,
    limits: Limits | None = None,
    on_task: Callable[[str], None] = lambda name: None,
) -> Exported:
    """Write a folder a task, ``dataset.toml`` and ``registry.json``. Images are tagged below ``prefix``.

    `UsageError` for a folder in the way that holds no task of ours, `DataError` for two ids that Harbor cannot tell
    apart; what `prepare` raises.
    """
    limits = limits or Limits()
    names = {
        instance.instance_id: manifest.task_name(organisation, instance.instance_id)
        for instance in dataset.instances
    }
    if len(set(names.values())) < len(names):
        raise DataError("two instance ids differ only in characters that Harbor's names cannot have")
    for instance in dataset.instances:
        there = out / folder_name(instance.instance_id)
        if there.exists() and not (there / ROW).is_file():
            raise UsageError(f"{there} is there already and is no exported task; name another --out")
    scorer = ensure_scorer(engine, prefix)
    setting = _Setting(scorer, limits, local=prefix == LOCAL_PREFIX)
    prompts = Prompts(DEFAULT, Network.OPEN)
    environments = Environments(engine, provide_image, {"role": "export"})
    digests: dict[str, str] = {}
    images = [scorer]
    unsolved = []
    for instance in dataset.instances:
        environment = environments.get(instance)
        image = _tag(engine, environment, prefix)
        folder = folder_name(instance.instance_id)
        partial = out / f".{folder}.partial"
        instruction = prompts.render(instance)
        shutil.rmtree(partial, ignore_errors=True)
        _write_tests(partial / "tests", instance, environment, image, setting, instruction)
        _write(partial / "environment" / "Dockerfile", manifest.environment_dockerfile(image.tag))
        _write(
            partial / "environment" / "docker-compose.yaml",
            manifest.environment_compose(checks_health=image.checks_health),
        )
        _write(partial / "instruction.md", instruction)
        version = instance.content_hash[:12]
        name = names[instance.instance_id]
        _write(partial / "task.toml", manifest.task_toml(instance, environment, name, version, limits))
        if not _write_solution(partial / "solution", instance, environment):
            unsolved.append(instance.instance_id)
        shutil.rmtree(out / folder, ignore_errors=True)
        partial.rename(out / folder)
        digests[folder] = manifest.digest_of(out / folder)
        images.append(image.tag)
        on_task(folder)
    title = manifest.task_name(organisation, Path(dataset.name).stem or "dataset")
    about = f"{len(digests)} instances, dataset hash {dataset.hash[:12]}"
    by_name = {names[i.instance_id]: digests[folder_name(i.instance_id)] for i in dataset.instances}
    listed = manifest.dataset_toml(title, dataset.version, about, by_name)
    write_atomic(out / "dataset.toml", listed.encode())
    registry = manifest.registry_json(title.partition("/")[2], dataset.version, about, list(digests))
    write_atomic(out / "registry.json", registry.encode())
    return Exported(digests, tuple(dict.fromkeys(images)), tuple(unsolved))


def _tag(engine: Engine, environment: Environment, prefix: str) -> _Image:
    """Give the prepared image a name that stays, and says nothing of the instance."""
    tag = environment.image.removeprefix("sha256:")[:24]
    image = engine.client.images.get(environment.image)
    image.tag(f"{prefix}harbor-environment", tag)
    checks_health = bool(image.attrs["Config"].get("Healthcheck"))
    return _Image(f"{prefix}harbor-environment:{tag}", checks_health)


def _write_tests(
    folder: Path,
    instance: Instance,
    environment: Environment,
    image: _Image,
    setting: _Setting,
    instruction: str,
) -> None:
    snapshot = environment.snapshot
    task = Task(
        workdir=environment.workdir,
        user=environment.user,
        tree=snapshot.tree,
        base_tree=snapshot.base_tree,
        base_commit=instance.base_commit,
        instruction_sha256=hashlib.sha256(instruction.encode("utf-8", "surrogateescape")).hexdigest(),
        flags=environment.flags,
        test_timeout=setting.limits.test_timeout,
    )
    with Trees.above(snapshot.git_dir) as trees:
        tracked = b"".join(path + b"\0" for path in trees.entries(snapshot.base_tree))
    compose = manifest.verifier_compose(
        image.tag,
        manifest.rooms_needed(instance),
        network=instance.score_network,
        limits=setting.limits,
        local=setting.local,
        checks_health=image.checks_health,
    )
    _write(folder / "Dockerfile", manifest.verifier_dockerfile(image.tag, setting.scorer))
    _write(folder / "docker-compose.yaml", compose)
    _write(folder / "task.json", task.model_dump_json(indent=1) + "\n")
    _write(folder / ROW.name, json.dumps(to_row(instance), indent=1) + "\n")
    (folder / "tracked").write_bytes(tracked)
    _script(folder / "test.sh")
    if instance.test_suite:
        source = instance.test_suite_dir / instance.test_suite if instance.test_suite_dir else None
        if source is None or not source.is_file():
            raise UsageError(
                f"{instance.instance_id}: its suite {instance.test_suite} is not there; name its folder with "
                "--test-suite-dir"
            )
        shutil.copyfile(source, folder / instance.test_suite)


def _write_solution(folder: Path, instance: Instance, environment: Environment) -> bool:
    """The reference as files, and as a patch for readers; False where the instance brings none."""
    deleted: list[str] = []
    try:
        if instance.is_doc2repo:
            archive = reference_archive(instance)
        else:
            archive, deleted = reference_change(instance, environment.snapshot)
    except AgentError:
        if instance.patch:
            raise
        return False
    _script(folder / "solve.sh")
    (folder / "change.tar").write_bytes(archive)
    (folder / "deleted").write_bytes(
        "".join(f"{name}\0" for name in deleted).encode("utf-8", "surrogateescape")
    )
    _write(folder / "workdir", environment.workdir + "\n")
    if instance.patch:
        _write(folder / "patch.diff", instance.patch)
    if instance.reference_archive and instance.test_suite_dir:
        shutil.copyfile(
            instance.test_suite_dir / instance.reference_archive, folder / instance.reference_archive
        )
    return True


def _script(path: Path) -> None:
    _write(path, resource("harness", "harbor", path.name).read_text("utf-8"))
    path.chmod(0o755)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", errors="surrogateescape", newline="")
