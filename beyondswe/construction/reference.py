"""The reference change of an instance as one patch, also where it is a whole repository (Doc2Repo)."""

from __future__ import annotations

import os
import tarfile

from beyondswe.errors import DataError
from beyondswe.instances.model import Instance
from beyondswe.sandbox.trees import EXECUTABLE, FILE, SYMLINK, File, Trees
from beyondswe.sandbox.types import Environment


def reference_patch(instance: Instance, environment: Environment) -> str:
    """The patch that turns the environment's snapshot into the solution; `DataError` where there is none."""
    if not instance.is_doc2repo:
        if not instance.patch:
            raise DataError(f"{instance.instance_id}: no reference change (field patch) to verify with")
        return instance.patch
    snapshot = environment.snapshot
    with Trees.above(snapshot.git_dir) as trees:
        return trees.diff(snapshot.tree, trees.edit(snapshot.tree, _repository(instance)), renames=False)


def _repository(instance: Instance) -> dict[bytes, File]:
    if not instance.reference_archive or instance.test_suite_dir is None:
        raise DataError(
            f"{instance.instance_id}: no reference repository (field reference_archive) to verify with"
        )
    path = instance.test_suite_dir / instance.reference_archive
    files: dict[bytes, File] = {}
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                name = os.fsencode(member.name.removeprefix("./"))
                if member.issym():
                    files[name] = File(SYMLINK, os.fsencode(member.linkname))
                elif (stream := archive.extractfile(member)) is not None:
                    files[name] = File(EXECUTABLE if member.mode & 0o100 else FILE, stream.read())
    except (tarfile.TarError, OSError, EOFError) as error:
        raise DataError(f"{instance.instance_id}: {path} cannot be read as a tar: {error}") from error
    return files
