"""The oracle: leaves the reference change in the sandbox, as an agent that knows the answer would.

It works from the host (images may lack git and patch): the reference is applied to the snapshot with git
objects of ours, and what it changes is put into the sandbox as files.
"""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

from beyondswe.agents.manifest import Manifest
from beyondswe.agents.protocol import AgentEnd, AgentStatus, PreparedAttempt
from beyondswe.errors import AgentError
from beyondswe.instances.model import Instance
from beyondswe.sandbox.trees import EXECUTABLE, SYMLINK, ApplyError, Trees
from beyondswe.sandbox.types import Sandbox, Snapshot

_DELETED_AT_ONCE = 200  # names on one command line


class OracleAgent:
    """Applies ``patch`` (issue families) or unpacks the reference repository (Doc2Repo)."""

    def __init__(self, manifest: Manifest, *, digest: str) -> None:
        self.name, self.version, self.digest, self.network = (
            manifest.name,
            manifest.version,
            digest,
            manifest.network,
        )

    def start(self, prepared: PreparedAttempt, sandbox: Sandbox) -> AgentEnd:
        instance, workdir = prepared.instance, prepared.environment.workdir
        if instance.is_doc2repo:
            sandbox.put(reference_archive(instance), workdir)
            return AgentEnd(AgentStatus.FINISHED, 0)
        archive, deleted = reference_change(instance, prepared.environment.snapshot)
        for start in range(0, len(deleted), _DELETED_AT_ONCE):
            names = deleted[start : start + _DELETED_AT_ONCE]
            result = sandbox.run(["rm", "-f", "--", *names], timeout=prepared.timeout, cwd=workdir)
            if result.exit_code != 0:
                why = result.stderr.decode("utf-8", "replace").strip()
                raise AgentError(
                    f"{instance.instance_id}: files that the reference deletes could not be removed: {why}"
                )
        sandbox.put(archive, workdir)
        return AgentEnd(AgentStatus.FINISHED, 0)


def reference_change(instance: Instance, snapshot: Snapshot) -> tuple[bytes, list[str]]:
    """What the reference change does to the snapshot: a tar of the changed files, and the deleted paths."""
    if not instance.patch:
        raise AgentError(
            f"{instance.instance_id} has no reference change (field patch): nothing for the oracle to do"
        )
    text = (
        instance.patch if instance.patch.endswith("\n") else instance.patch + "\n"
    )  # rows are often stripped
    deleted = []
    stream = io.BytesIO()
    with (
        Trees.above(snapshot.git_dir) as trees,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        try:
            tree = trees.apply(snapshot.tree, text.encode())
        except ApplyError as error:
            raise AgentError(
                f"{instance.instance_id}: the reference change does not apply to the snapshot: {error}"
            ) from error
        for change in trees.changed(snapshot.tree, tree):
            name = os.fsdecode(change.path)
            if change.new is None:
                deleted.append(name)
                continue
            data = trees.read(change.new.oid)
            entry = tarfile.TarInfo(name)
            entry.mode = 0o755 if change.new.mode == EXECUTABLE else 0o644
            if change.new.mode == SYMLINK:
                entry.type, entry.linkname = tarfile.SYMTYPE, os.fsdecode(data)
                archive.addfile(entry)
            else:
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
    return stream.getvalue(), deleted


def reference_archive(instance: Instance) -> bytes:
    """The tar with the reference repository, uncompressed (not every engine unpacks a compressed one)."""
    if not instance.reference_archive or instance.test_suite_dir is None:
        raise AgentError(
            f"{instance.instance_id} has no reference repository (field reference_archive): "
            "nothing for the oracle to do"
        )
    path = Path(instance.test_suite_dir) / instance.reference_archive
    if not path.is_file():
        raise AgentError(f"{instance.instance_id}: the reference repository {path} is not there")
    stream = io.BytesIO()
    try:
        with (
            tarfile.open(path) as source,
            tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for member in source:
                archive.addfile(member, source.extractfile(member) if member.isreg() else None)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise AgentError(f"{instance.instance_id}: {path} cannot be read as a tar: {error}") from error
    return stream.getvalue()
