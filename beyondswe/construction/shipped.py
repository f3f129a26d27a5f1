"""Makes the datasets that come with the product: rows, suites and reference archives, out of their recipes.

No engine is needed: an image is named by what it will be built from (`environments`). Everything comes out
the same everywhere, byte for byte: archives are stored, not compressed, with the recipe's day as their time.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from pathlib import Path

from beyondswe.construction import commits
from beyondswe.construction.environments import image_tag
from beyondswe.construction.materials import material
from beyondswe.construction.recipes import Files, Material, Recipe, load_recipes
from beyondswe.errors import DataError
from beyondswe.instances import Instance, write_instances
from beyondswe.resources import cache_dir, resource
from beyondswe.sandbox.locks import exclusive


def materialize(name: str, only: Sequence[str] | None = None) -> Path:
    """The folder of a shipped dataset, made if it is not there: instances.jsonl, suites, reference archives.

    ``only`` are globs over ids: the others are not made (nor downloaded). The folder is complete or not
    there, and belongs to exactly these recipes and this code.
    """
    recipes = load_recipes(name, only)
    folder = cache_dir("datasets", name) / _key(name, recipes)
    if not folder.is_dir():
        with exclusive(str(folder)):
            if not folder.is_dir():
                _make(name, recipes, folder)
    return folder


def make_instance(recipe: Recipe, made: Material, folder: Path) -> Instance:
    """The instance of a recipe; a suite and a reference archive are written into ``folder``."""
    found = recipe.found_tests()
    instance = Instance(
        instance_id=recipe.instance_id,
        family=recipe.family,
        repo=recipe.repo,
        image=image_tag(recipe, made),
        distributions=recipe.distributions,
        aliases=recipe.aliases,
        docs_hosts=recipe.docs_hosts,
        index_date=recipe.index_date.isoformat(),
        fail_to_pass=found.fail_to_pass if found else (),
        pass_to_pass=found.pass_to_pass if found else (),
        test_suite_num=found.expected if found else 0,
        verification=found.verification if found else None,
        extra={"title": recipe.title},
    )
    if recipe.is_doc2repo:
        suite, archive = f"{recipe.instance_id}.suite.zip", f"{recipe.instance_id}.reference.tar"
        (folder / suite).write_bytes(zipped(made.suite, recipe.index_date))
        (folder / archive).write_bytes(tarred(made.reference, recipe.index_date))
        files = {"test_suite": suite, "reference_archive": archive, "test_suite_dir": folder}
        return instance.model_copy(update={"specification": recipe.statement, **files})
    patch = commits.difference(made.base, made.reference)
    if not patch:
        raise DataError(f"{recipe.folder}: the reference change changes nothing")
    return instance.model_copy(
        update={
            "problem_statement": recipe.statement,
            "base_commit": commits.commit_id(made.base, recipe.index_date),
            "patch": patch,
            "f2p_patch": commits.difference(made.base, made.hidden_tests),
        }
    )


def zipped(files: Files, day: date) -> bytes:
    """A zip of a tree. Stored: what a compressor makes of the same bytes is not the same everywhere."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, file in sorted(files.items()):
            entry = zipfile.ZipInfo(name, (day.year, day.month, day.day, 0, 0, 0))
            entry.create_system = 3  # Unix, whatever this machine is: the mode below counts
            kind = stat.S_IFLNK if file.mode == "120000" else stat.S_IFREG
            entry.external_attr = (kind | int(file.mode, 8) & 0o777) << 16
            archive.writestr(entry, file.data)
    return buffer.getvalue()


def tarred(files: Files, day: date) -> bytes:
    """A tar of a tree, all of it root's."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, file in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.mtime = int(datetime.combine(day, time(), UTC).timestamp())
            entry.mode = 0o755 if file.mode == "100755" else 0o644
            if file.mode == "120000":
                entry.type, entry.linkname = tarfile.SYMTYPE, os.fsdecode(file.data)
                archive.addfile(entry)
            else:
                entry.size = len(file.data)
                archive.addfile(entry, io.BytesIO(file.data))
    return buffer.getvalue()


def _make(name: str, recipes: Sequence[Recipe], folder: Path) -> None:
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        instances = [make_instance(recipe, material(recipe), unfinished) for recipe in recipes]
        write_instances(unfinished / "instances.jsonl", instances)
        shutil.copyfile(resource("data", name, "dataset.yaml"), unfinished / "dataset.yaml")
        unfinished.chmod(0o755)
        unfinished.rename(folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def _key(name: str, recipes: Sequence[Recipe]) -> str:
    """What the folder depends on: the recipes with their files, and the code that makes rows of them."""
    total = hashlib.sha256()
    here = Path(__file__).parent
    for code in sorted([*here.glob("*.py"), *(here.parent / "instances").rglob("*.py")]):
        total.update(code.read_bytes())
    for part in ("dockerfiles", f"data/{name}/dataset.yaml"):
        path = resource(*part.split("/"))
        total.update(
            commits.digest(commits.read_files(path)).encode() if path.is_dir() else path.read_bytes()
        )
    for recipe in recipes:
        total.update(f"{recipe.instance_id} {commits.digest(commits.read_files(recipe.folder))}\n".encode())
    return total.hexdigest()[:16]
