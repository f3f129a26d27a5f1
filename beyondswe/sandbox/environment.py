"""Makes an instance's environment ready, once: history cut, commands of the instance run, tree snapshotted,
one image.

The prepared image is the image of the instance and one layer on top; agents' and scoring sandboxes alike
start from it, so no attempt pays for the set-up again. It is tagged by all that it is made of, and tagged
last: a tag without its snapshot, or a set-up that was cut short, is made anew.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import posixpath
import tarfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from beyondswe.errors import DataError, EngineError
from beyondswe.sandbox import history, leftovers, snapshot
from beyondswe.sandbox.docker import DockerSandbox, start_sandbox
from beyondswe.sandbox.engine import labels, namespace
from beyondswe.sandbox.limits import capped
from beyondswe.sandbox.locks import exclusive
from beyondswe.sandbox.tarstream import members
from beyondswe.sandbox.types import Environment, Limits
from beyondswe.sandbox.wire import EngineRefused, call

if TYPE_CHECKING:
    from beyondswe.sandbox.engine import Engine

VERSION = 4
"""Part of the key of prepared images: raised when what is done to them changes."""

REPOSITORY = "beyondswe/prepared"
_NOTES = "io.beyondswe.notes"
_FLAGS = "io.beyondswe.flags"
_COMMAND_TIMEOUT = 1800.0
_SHOWN_OUTPUT = 4000


def prepare(
    engine: Engine,
    instance_image: str,
    *,
    workdir: str,
    base_commit: str,
    pre_commands: Sequence[str] = (),
    extra_files: Mapping[str, bytes] | None = None,
    names: Sequence[str] = (),
    run_labels: Mapping[str, str] | None = None,
) -> Environment:
    """The environment of an instance, made now or found ready.

    ``extra_files`` are written into the workdir (path relative to it → content) before ``pre_commands`` run
    there, each in a shell of its own, without network. ``names`` are those of the project's distributions:
    what is left of them in the image is removed or becomes a flag (`leftovers`). Processes and threads that
    ask for the same one wait for one another. `DataError`: the base commit is not there, a command failed, or
    the image hides the workdir under a volume.
    """
    source = _inspect(engine, instance_image)
    if source is None:
        raise EngineError(f"image {instance_image} is not there; pull or build it first")
    extra = dict(extra_files or {})
    key = _key(source["Id"], workdir, base_commit, pre_commands, extra, names)
    with exclusive(f"prepared {key}"):
        tag = f"{REPOSITORY}:{key}"
        ready = _load(engine, tag, instance_image, source, workdir)
        if ready is None:
            _check_volumes(source, instance_image, workdir)
            _make(engine, tag, source, workdir, base_commit, pre_commands, extra, names, run_labels or {})
            ready = _load(engine, tag, instance_image, source, workdir)
        if ready is None:
            raise EngineError(
                f"prepared image {tag} was made but is not there; something else removes images"
            )
        return ready


def _key(
    image: str,
    workdir: str,
    base_commit: str,
    commands: Sequence[str],
    extra: Mapping[str, bytes],
    names: Sequence[str],
) -> str:
    files = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(extra.items())}
    parts = [VERSION, namespace(), _plain_id(image), workdir, base_commit, list(commands), files, list(names)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _load(
    engine: Engine, tag: str, instance_image: str, source: Mapping[str, Any], workdir: str
) -> Environment | None:
    """A prepared image and its snapshot, where both are there."""
    found = _inspect(engine, tag)
    if found is None:
        return None
    taken = snapshot.load(_plain_id(found["Id"]))
    if taken is None:
        return None
    config = found.get("Config") or {}
    digests = source.get("RepoDigests") or []
    return Environment(
        image=str(found["Id"]),
        source_image=instance_image,
        image_digest=str(digests[0] if digests else source["Id"]),
        workdir=workdir,
        user=str(config.get("User") or ""),
        snapshot=taken,
        notes=tuple(_unpack((config.get("Labels") or {}).get(_NOTES) or "")),
        flags=tuple(_unpack((config.get("Labels") or {}).get(_FLAGS) or "")),
    )


def _make(
    engine: Engine,
    tag: str,
    source: Mapping[str, Any],
    workdir: str,
    base_commit: str,
    pre_commands: Sequence[str],
    extra: Mapping[str, bytes],
    names: Sequence[str],
    run_labels: Mapping[str, str],
) -> None:
    limits, _ = capped(Limits(), engine)
    sandbox = start_sandbox(
        engine,
        str(source["Id"]),
        workdir=workdir,
        limits=limits,
        run_labels={**run_labels, "role": "prepare"},
        checks_health=bool((source.get("Config") or {}).get("Healthcheck")),
    )
    try:
        cut = history.cut(sandbox, base_commit=base_commit)
        notes = list(cut.notes)
        _write(sandbox, workdir, extra)
        for command in pre_commands:
            _run(sandbox, command)
        if pre_commands:
            cut = history.cut(sandbox, base_commit=None)  # they may have left commits, logs and the like
            notes += [note for note in cut.notes if note not in notes]
        tracked: Sequence[bytes] | None = cut.tracked
        if cut.root is None:
            made = history.commit_all(sandbox)
            notes += made.notes
            tracked = None
        history.check(sandbox)
        cleared = leftovers.clear(sandbox, history=cut, names=names)
        notes += cleared.notes
        sandbox.freeze()
        image_labels = {**labels(role="prepared"), _NOTES: _pack(notes), _FLAGS: _pack(cleared.flags)}
        image = _commit(engine, sandbox, source, image_labels, run_labels)
        stale: str | None = image
        try:
            with sandbox.get(workdir) as archive:
                prefix = os.fsencode(posixpath.basename(workdir))
                snapshot.take(_plain_id(image), archive, prefix=prefix, tracked=tracked)
            before = _inspect(engine, tag)
            _tag(engine, image, tag)
            stale = str(before["Id"]) if before else None
        finally:
            if stale is not None:
                _remove_image(engine, stale)
    finally:
        sandbox.stop()


def _write(sandbox: DockerSandbox, workdir: str, files: Mapping[str, bytes]) -> None:
    """Write files into the workdir; they belong to whom it belongs."""
    if not files:
        return
    with sandbox.get(workdir) as pieces:
        owner = next(members(pieces))
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode, member.uid, member.gid = len(content), 0o644, owner.uid, owner.gid
            archive.addfile(member, io.BytesIO(content))
    sandbox.put(buffer.getvalue(), workdir)


def _run(sandbox: DockerSandbox, command: str) -> None:
    shell = 'if command -v bash > /dev/null 2>&1; then exec bash -c "$0"; else exec sh -c "$0"; fi'
    done = sandbox.run(["/bin/sh", "-c", shell, command], timeout=_COMMAND_TIMEOUT)
    if done.exit_code == 0:
        return
    output = (done.stdout + done.stderr).decode(errors="replace").strip()[-_SHOWN_OUTPUT:]
    how = (
        f"took more than {_COMMAND_TIMEOUT:g} s"
        if done.timed_out
        else f"ended with exit code {done.exit_code}"
    )
    message = (
        f"the instance's command `{command}` {how} (there is no network, and later history is cut): {output}"
    )
    raise EngineError(message) if done.timed_out else DataError(message)


def _commit(
    engine: Engine,
    sandbox: DockerSandbox,
    source: Mapping[str, Any],
    image_labels: Mapping[str, str],
    run_labels: Mapping[str, str],
) -> str:
    """An image of the stopped sandbox, with the configuration of the image that it came from; its id.

    Entry point and command are cleared: sandboxes name their own. Labels of the container, which the engine
    would copy, are emptied: they say whose container it was.
    """
    config = dict(source.get("Config") or {})
    cleared = {f"io.beyondswe.{key}": "" for key in ("owner", *run_labels)}
    kept = ("Env", "User", "ExposedPorts", "Volumes", "StopSignal", "Shell")
    own_labels = {**(config.get("Labels") or {}), **cleared, **image_labels}
    body: dict[str, Any] = {key: config[key] for key in kept if config.get(key)}
    body |= {"WorkingDir": config.get("WorkingDir") or "/", "Labels": own_labels, "Entrypoint": [], "Cmd": []}
    params: dict[str, Any] = {"container": sandbox.id, "pause": "0", "comment": "beyondswe prepared"}
    if engine.is_podman:  # reads no body
        params["changes"] = [
            "ENTRYPOINT []",
            "CMD []",
            f"WORKDIR {body['WorkingDir']}",
            *(f"LABEL {json.dumps(key)}={json.dumps(value)}" for key, value in own_labels.items()),
        ]
    answer = call(
        engine, "POST", "/commit", what="commit the prepared image", params=params, json=body, timeout=1800
    )
    return str(answer.json()["Id"])


def _tag(engine: Engine, image: str, tag: str) -> None:
    repository, _, version = tag.partition(":")
    params = {"repo": repository, "tag": version}
    call(engine, "POST", f"/images/{image}/tag", what=f"tag {tag}", params=params)


def _remove_image(engine: Engine, image: str) -> None:
    """Remove an image that nothing will start from; one that is gone, or in use by somebody, is no error.

    Not its parents: an instance's image that has no tag would go along with it.
    """
    try:
        call(
            engine,
            "DELETE",
            f"/images/{image}",
            what=f"remove image {image}",
            params={"noprune": "1"},
            timeout=600,
        )
    except EngineRefused as error:
        if error.status not in (404, 409) and _inspect(engine, image) is not None:
            raise


def _pack(notes: Sequence[str]) -> str:
    """Notes as the text of a label, which engines unquote in ways of their own."""
    return base64.b64encode(json.dumps(notes).encode()).decode()


def _unpack(text: str) -> list[str]:
    return [str(note) for note in json.loads(base64.b64decode(text) or b"[]")]


def _check_volumes(source: Mapping[str, Any], instance_image: str, workdir: str) -> None:
    for volume in (source.get("Config") or {}).get("Volumes") or {}:
        if workdir == volume or workdir.startswith(volume.rstrip("/") + "/"):
            raise DataError(
                f"image {instance_image} declares the volume {volume}, and the workdir {workdir} lies in it: "
                "what is done there does not become part of an image. Build the image without that VOLUME."
            )


def _inspect(engine: Engine, image: str) -> dict[str, Any] | None:
    try:
        answer = call(engine, "GET", f"/images/{image}/json", what=f"look at image {image}")
    except EngineRefused as error:
        if error.status == 404:
            return None
        raise
    return dict(answer.json())


def _plain_id(image: str) -> str:
    """An image's id without its prefix, which Podman leaves out."""
    return image.removeprefix("sha256:")
