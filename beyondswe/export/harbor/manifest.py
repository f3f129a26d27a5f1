"""The text of a Harbor task and of a dataset: configuration, Dockerfiles, compose files, registry, digests."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from beyondswe.export.harbor.verifier import HOME, ROOMS
from beyondswe.instances.model import Instance
from beyondswe.resources import resource
from beyondswe.sandbox.types import Environment, Limits

ROW = Path("tests", "instance.json")
"""Where a task has the row of its instance; what `reading` knows our tasks by."""

_DOOR = "/run/beyondswe-door"  # a room's own folder, which the verifier sees below ROOMS
_BUILD = 900.0  # seconds that the patched project's build may take (see scoring)
_DIGESTED = ("task.toml", "instruction.md", "README.md", "environment", "tests", "solution")
_QUICK = {"init": True, "stop_grace_period": "1s"}
"""Without an init, the program that keeps a container alive lets Docker wait 10 s for its end."""
_WELL = {"healthcheck": {"test": ["CMD", "true"], "interval": "1s", "retries": 1}}
"""In place of an image's own health check: it was turned off when the image was prepared, and Compose needs one."""


def is_name(text: str) -> bool:
    """Whether Harbor takes it for the name of an organisation."""
    return bool(re.fullmatch(r"[A-Za-z0-9][\w.-]*", text, flags=re.ASCII)) and ".." not in text


def is_prefix(text: str) -> bool:
    """Whether tags of images may begin with it."""
    return bool(re.fullmatch(r"([a-z0-9]+([._-][a-z0-9]+)*(:[0-9]+)?/)+", text))


def task_name(organisation: str, instance_id: str) -> str:
    """Harbor's name of a task; characters that it does not allow become ``_``."""
    name = re.sub(r"\.{2,}", "_", re.sub(r"[^\w.-]", "_", instance_id, flags=re.ASCII))
    return f"{organisation}/{name if re.match('[A-Za-z0-9]', name) else f'i{name}'}"


def rooms_needed(instance: Instance) -> int:
    """Containers that one scoring may ask for: tests, build, and controls, asked twice at most."""
    record = instance.verification or {}
    builds = instance.is_doc2repo or record.get("reinstall", "none") != "none"
    return 1 + builds + 2 * bool(record.get("controls", {}).get("functions"))


def task_toml(instance: Instance, environment: Environment, name: str, version: str, limits: Limits) -> str:
    """The configuration: separate verifier, the work folder as the artifact."""
    memory = limits.memory >> 20
    scoring = 2 * limits.test_timeout + _BUILD + 2 * 4 * limits.test_timeout
    return _toml(
        {
            "schema_version": "1.4",
            "artifacts": [environment.workdir],
            "task": {
                "name": name,
                "version": version,
                "description": f"{instance.family.value} of BeyondSWE's form",
                "keywords": ["swe", instance.language, instance.family.value.lower()],
            },
            "metadata": {
                "category": instance.family.value,
                "repo": instance.repo,
                "base_commit": instance.base_commit,
                "image_digest": environment.image_digest,
            },
            "agent": {"timeout_sec": limits.timeout},
            "verifier": {"timeout_sec": scoring, "environment_mode": "separate", "user": "root"},
            "verifier.environment": {"build_timeout_sec": 1800.0},
            "environment": {
                "build_timeout_sec": 600.0,
                "memory_mb": memory,
                "network_mode": "public",
                "workdir": environment.workdir,
            },
        }
    )


def dataset_toml(name: str, version: str, description: str, digests: Mapping[str, str]) -> str:
    """The manifest: every task with the digest of its files."""
    head = _toml({"dataset": {"name": name, "version": version, "description": description}})
    tasks = (f"\n[[tasks]]\n{_lines({'name': task, 'digest': digest})}" for task, digest in digests.items())
    return f'schema_version = "1.0"\n\n{head}{"".join(tasks)}'


def registry_json(name: str, version: str, description: str, folders: Sequence[str]) -> str:
    """The registry, with paths relative to the dataset's folder.

    Its name is one word: Harbor asks its hub for what has two.
    """
    tasks = [{"name": folder, "path": folder} for folder in folders]
    entry = {
        "name": name,
        "version": version,
        "description": description,
        "tasks": tasks,
        "metrics": [{"type": "mean"}],
    }
    return json.dumps([entry], indent=2) + "\n"


def digest_of(task: Path) -> str:
    """Harbor's digest of a task's folder: of every file's path and content."""
    files = [task / name for name in _DIGESTED if (task / name).is_file()]
    files += [path for name in _DIGESTED for path in (task / name).rglob("*") if path.is_file()]
    outer = hashlib.sha256()
    for path in sorted(files, key=lambda path: path.relative_to(task).as_posix()):
        inner = hashlib.sha256(path.read_bytes()).hexdigest()
        outer.update(f"{path.relative_to(task).as_posix()}\0{inner}\n".encode())
    return f"sha256:{outer.hexdigest()}"


def environment_dockerfile(image: str) -> str:
    return f"FROM {image}\n"


def environment_compose(*, checks_health: bool) -> str:
    """What is other than Harbor's defaults; ``checks_health``: the image has a health check, though turned off."""
    return _yaml({"services": {"main": {**_QUICK, **(_WELL if checks_health else {})}}})


def verifier_dockerfile(image: str, scorer: str) -> str:
    """The verifier's own container: the environment without its work folder, with the scorer and the hidden tests."""
    prepare = json.dumps([f"{HOME}/bin/python3", "-I", "-m", "beyondswe.export.harbor.verifier", "prepare"])
    return (
        f"FROM {scorer} AS scorer\n"
        f"FROM {image}\n"
        "USER root\n"
        "WORKDIR /\n"
        f"COPY --from=scorer {HOME} {HOME}\n"
        "COPY . /tests/\n"
        f"RUN {prepare}\n"
    )


def verifier_compose(
    image: str, rooms: int, *, network: str, limits: Limits, local: bool, checks_health: bool
) -> str:
    """The verifier's container and the rooms in which tested code runs: under the limits of a scoring sandbox."""
    # python and python3 as scoring looks for them; what stands behind is told by `harness/harbor/door.py`
    start = (
        'for p in python python3; do if command -v "$p" >/dev/null; then '
        'exec "$p" -I -S -B -c "$0" "$1"; fi; done; echo "no python on PATH=$PATH" >&2; exit 127'
    )
    door = resource("harness", "harbor", "door.py").read_text("utf-8")
    room: dict[str, Any] = {
        "image": image,
        "entrypoint": ["/bin/sh", "-c", start.replace("$", "$$"), door.replace("$", "$$"), f"{_DOOR}/door"],
        "command": [],
        "user": "0:0",
        "working_dir": "/",
        "stop_grace_period": "1s",
        "security_opt": ["no-new-privileges:true"],
        "mem_limit": limits.memory,
        "memswap_limit": limits.memory,
        "shm_size": min(1 << 30, limits.memory // 2),
        "pids_limit": limits.pids,
        "ulimits": {"core": 0},
    }
    if checks_health:
        room |= _WELL
    if local:
        room["pull_policy"] = "never"  # anybody may have taken the name in a registry
    if network != "open":
        room["network_mode"] = "none"
    names = [f"room{number}" for number in range(1, rooms + 1)]
    main = {
        **_QUICK,
        **(_WELL if checks_health else {}),
        "network_mode": "none",
        "volumes": [f"{name}:{ROOMS}/{name}" for name in names],
    }
    services = {name: {**room, "volumes": [f"{name}:{_DOOR}"]} for name in names}
    return _yaml({"services": {"main": main, **services}, "volumes": {name: {} for name in names}})


def _yaml(value: Any) -> str:
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=110))


class _Dumper(yaml.SafeDumper):
    """YAML without references, which nobody likes to read, and with texts of many lines as they are."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def _toml(tables: Mapping[str, Any]) -> str:
    plain = {key: value for key, value in tables.items() if not isinstance(value, dict)}
    rest = (f"[{key}]\n{_lines(value)}" for key, value in tables.items() if isinstance(value, dict))
    return "\n".join(filter(None, [_lines(plain), *rest]))


def _lines(values: Mapping[str, Any]) -> str:
    return "".join(f"{key} = {_value(value)}\n" for key, value in values.items())


def _value(value: Any) -> str:
    """A TOML value; JSON's strings are TOML's but for the one character that JSON need not escape."""
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
