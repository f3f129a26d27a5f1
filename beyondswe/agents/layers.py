"""Runtime layers: an agent's own Python or Node with its packages, built once and mounted read-only.

A layer is named by the digest of everything that makes it, built beside its place and moved there whole, so a
build that is killed leaves nothing that could be taken for one; what was downloaded is kept for the next try.
In every sandbox it lies at the same path, `MOUNT`/<agent>: images with users of their own can read it there
wherever the cache is, and the paths inside its programs stay true. It is on no search path: an agent is
started by the full name of its program.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import shutil
import tarfile
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beyondswe.agents.manifest import Manifest, RuntimeKind, folder_digest
from beyondswe.agents.pythons import need_python
from beyondswe.agents.runtimes import install_runtime, tools_lock
from beyondswe.errors import UsageError
from beyondswe.resources import cache_dir
from beyondswe.sandbox import job
from beyondswe.sandbox.docker import Mount
from beyondswe.sandbox.engine import container_labels
from beyondswe.sandbox.locks import exclusive
from beyondswe.sandbox.removal import remove
from beyondswe.sandbox.wire import EngineRefused, call

if TYPE_CHECKING:
    from beyondswe.sandbox.engine import Engine

MOUNT = "/opt/beyondswe/layers"
_FORM = "1"  # of a layer; another number makes all of them anew


@dataclass(frozen=True)
class Layer:
    """A runtime layer that is there."""

    name: str
    version: str
    digest: str
    path: Path
    runtime: str  # in words: Python 3.12.1 from …, Node, programs of its own
    bytes: int

    @property
    def mount(self) -> str:
        return layer_mount(self.name)


def layer_mount(name: str) -> str:
    """Where an agent's layer lies in a sandbox."""
    return f"{MOUNT}/{name}"


def needed_source(manifest: Manifest) -> Path | None:
    """The agent's source tree, which its user names by a variable; None where it needs none. `UsageError` where
    it is not named or not there.
    """
    source = manifest.runtime.source if manifest.runtime else None
    if source is None:
        return None
    named = os.environ.get(source.variable)
    if not named:
        raise UsageError(
            f"agent {manifest.name} is on no package registry: get its source tree and name it with "
            f"{source.variable}=FOLDER"
        )
    folder = Path(named).resolve()
    if not (folder / source.holds).exists():
        raise UsageError(f"{source.variable}={named}: there is no {source.holds} in it")
    return folder


def check_opt_in(manifest: Manifest) -> None:
    """`UsageError` where an agent's licence asks for its user's word and that was not given."""
    if manifest.opt_in and os.environ.get(manifest.opt_in) != "1":
        raise UsageError(
            f"agent {manifest.name} is not free software ({manifest.licence}): it is fetched from its maker's package "
            f"and used here alone, never passed on. Say that you may use it with {manifest.opt_in}=1"
        )


def find_layer(manifest: Manifest, folder: Path) -> Layer | None:
    """The layer of this recipe if it has been built."""
    if manifest.runtime is None:
        return None
    try:
        return _read(_place(manifest, folder, needed_source(manifest)))
    except UsageError:
        return None  # its source tree is not there


def ensure_layer(manifest: Manifest, folder: Path, python_dir: Path | None = None) -> tuple[Layer, bool]:
    """The layer of this recipe, built if it is not there; and whether it was built now.

    It is one layer whatever Python of this machine it was made from: which one, it says. Raises `UsageError` for
    what the user has to give first, `EngineError` for what this machine lacks.
    """
    runtime = manifest.runtime
    if runtime is None:
        raise UsageError(f"agent {manifest.name} has no runtime of its own: there is nothing to build")
    check_opt_in(manifest)
    source = needed_source(manifest)
    place = _place(manifest, folder, source)
    if found := _read(place):
        return found, False
    if platform.system() != "Linux":
        raise UsageError(
            f"layers are made on Linux: build that of {manifest.name} there, and bring its cache folder"
        )
    python = need_python(runtime.python, python_dir) if runtime.kind is RuntimeKind.PYTHON else None
    with exclusive(str(place)):
        if found := _read(place):
            return found, False
        partial = place.with_name(f"partial-{place.name}")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        try:
            install_runtime(runtime, folder, partial, layer_mount(manifest.name), python, source)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        words = "programs of its own"
        if python:
            words = f"Python {python.version} from {python.origin}"
        elif runtime.node:
            words = "Node"
        digest = place.name.rpartition("-")[2]
        layer = Layer(manifest.name, manifest.version, digest, place, words, _size(partial))
        facts = {**asdict(layer), "built": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        text = json.dumps(facts, indent=2, default=str) + "\n"
        (partial / "layer.json").write_text(text, encoding="utf-8")
        partial.rename(place)
    return layer, True


def layer_mounts(engine: Engine, layer: Layer, image: str) -> tuple[Mount, ...]:
    """What a sandbox of ``image`` needs to see the layer: its folder, or a volume where the engine is elsewhere."""
    if engine.host.startswith("unix://"):
        return (Mount(str(layer.path), layer.mount),)
    return (Mount(_volume(engine, layer, image), layer.mount),)


def _place(manifest: Manifest, folder: Path, source: Path | None) -> Path:
    runtime = manifest.runtime
    assert runtime is not None
    locks = [folder / runtime.lock] + ([folder / "package.json"] if runtime.kind is RuntimeKind.NPM else [])
    parts: list[Any] = [
        _FORM,
        manifest.name,
        runtime.model_dump(mode="json"),
        [hashlib.sha256(path.read_bytes()).hexdigest() for path in (*locks, tools_lock())],
        folder_digest(source, links=True) if source else None,
        platform.machine(),
    ]
    digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
    return cache_dir("layers") / f"{manifest.name}-{digest}"


def _read(place: Path) -> Layer | None:
    try:
        facts = json.loads((place / "layer.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return Layer(facts["name"], facts["version"], facts["digest"], place, facts["runtime"], facts["bytes"])


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())


def _volume(engine: Engine, layer: Layer, image: str) -> str:
    """The volume on the engine's side that holds the layer, filled if it is not there or was cut short."""
    name = f"beyondswe-layer-{layer.name}-{layer.digest}"
    with exclusive(f"{engine.host} {name}"):
        if not _filled(engine, name):
            _fill(engine, layer, image, name)
    return name


def _filled(engine: Engine, name: str) -> bool:
    """Whether a whole volume is there: one that is marked by a second, empty volume made after it was filled."""
    try:
        call(engine, "GET", f"/volumes/{name}-whole", what=f"look at volume {name}")
        call(engine, "GET", f"/volumes/{name}", what=f"look at volume {name}")
    except EngineRefused as error:
        if error.status == 404:
            return False
        raise
    return True


def _fill(engine: Engine, layer: Layer, image: str, name: str) -> None:
    marks = container_labels(role="layer", agent=layer.name)
    marks.pop("io.beyondswe.owner", None)  # it outlives the process that made it
    for_volume = {"Name": name, "Labels": marks}
    call(engine, "POST", "/volumes/create", what=f"make volume {name}", json=for_volume)
    container = job.container_name("layer")
    config = {
        "Image": image,
        "Entrypoint": ["/bin/true"],
        "Cmd": [],
        "Labels": container_labels(role="layer"),
        "HostConfig": {
            "NetworkMode": "none",
            "Mounts": [{"Type": "volume", "Source": name, "Target": "/layer"}],
        },
    }
    try:
        made = job.create(engine, container, config)
        job.put_archive(engine, made, _packed(layer.path), "/layer")
    finally:
        remove(engine, container)
    call(
        engine,
        "POST",
        "/volumes/create",
        what=f"mark volume {name}",
        json={**for_volume, "Name": f"{name}-whole"},
    )


def _packed(folder: Path) -> Iterator[bytes]:
    """A tar of a folder's content in pieces, kept in a file meanwhile: layers are too large for memory."""
    with tempfile.TemporaryFile(prefix="beyondswe-layer-") as file:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
            archive.add(folder, arcname=".")
        file.seek(0)
        while piece := file.read(io.DEFAULT_BUFFER_SIZE * 16):
            yield piece
