"""Removes what is ours from the engine, and nothing else: containers, networks, volumes and images of one
namespace, and the snapshots that were taken of its prepared images.

Ours is what carries the namespace's label; for containers, networks and volumes also an owner, because
containers that somebody starts by hand from an image of ours inherit its labels. What a living process owns
stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from beyondswe.errors import EngineError
from beyondswe.sandbox import snapshot
from beyondswe.sandbox.engine import LABEL, Engine, namespace, owner_alive
from beyondswe.sandbox.images import LOCAL_PREFIX, drop, image_attrs, pulled_images

_OWNER = "io.beyondswe.owner"


@dataclass(frozen=True)
class Found:
    """One thing that can be removed."""

    kind: str  # container, network, volume, image, pulled image, snapshot
    id: str
    name: str
    size: int = 0  # bytes on disk; for an image with what it shares with others


@dataclass(frozen=True)
class Survey:
    """What there is of ours: to be removed, and kept with the reason."""

    remove: tuple[Found, ...]
    keep: tuple[tuple[Found, str], ...]


@dataclass(frozen=True)
class Pruned:
    """What was removed, and what would not go."""

    removed: tuple[Found, ...]
    failed: tuple[tuple[Found, str], ...]
    freed: int  # bytes, as the engine counts the layers before and after


def survey(engine: Engine, *, everything: bool = False) -> Survey:
    """What `prune` would remove; ``everything``: also what live runs own, and finished images that were
    pulled.

    While a run lives, images stay too: it starts its next containers from them.
    """
    label: _Filter = {"label": f"{LABEL}={namespace()}"}
    remove: list[Found] = []
    keep: list[tuple[Found, str]] = []
    for found, owner in (*_containers(engine, label), *_networks(engine, label), *_volumes(engine, label)):
        if everything or not owner_alive(owner):
            remove.append(found)
        else:
            keep.append((found, f"process {owner} lives"))
    alive = bool(keep)
    going = {found.id for found in remove}
    busy = {
        str(container.attrs["ImageID"])
        for container in engine.client.containers.list(all=True, sparse=True)
        if container.id not in going
    }
    candidates = _images(engine, label, pulled=everything)
    reasons = {
        found.id: "a run lives" if alive else "a container uses it"
        for found in candidates
        if alive or found.id in busy
    }
    going = {found.id for found in candidates} - reasons.keys()
    staying = [str(row["Id"]) for row in engine.api.images() if row["Id"] not in going]
    beneath = _ancestors(engine, staying)
    for found in candidates:
        if found.id in beneath:
            reasons.setdefault(found.id, "an image that stays is built on it")
    remove += [found for found in candidates if found.id not in reasons]
    keep += [(found, reasons[found.id]) for found in candidates if found.id in reasons]
    if not alive:
        remove += _snapshots(engine, {found.id for found in remove})
    return Survey(tuple(remove), tuple(keep))


def _snapshots(engine: Engine, going: set[str]) -> Iterator[Found]:
    """Snapshots whose prepared image is gone, or is going."""
    staying = {_long(image) for image in engine.api.images(quiet=True, all=True)} - {*map(_long, going)}
    for key in snapshot.taken():
        if _long(key) not in staying:
            yield Found("snapshot", key, f"of prepared image {key[:12]}")


def _ancestors(engine: Engine, images: Iterable[str]) -> set[str]:
    """Ids of all images that these were built on: the engine will not remove them."""
    seen: set[str] = set()
    for image in images:
        parent = _parent(engine, image)
        while parent and _long(parent) not in seen:
            seen.add(_long(parent))
            parent = _parent(engine, parent)
    return seen


def _parent(engine: Engine, image: str) -> str:
    """Id of the image beneath, "" for the lowest and for one that is not there: removed by somebody since it
    was listed, or loaded from an archive without what it was built on.
    """
    attrs = image_attrs(engine, image) or {}
    return str(attrs.get("Parent") or "")


def _long(image: str) -> str:
    return f"sha256:{image.removeprefix('sha256:')}"


_Filter = dict[str, Any]


def _containers(engine: Engine, label: _Filter) -> Iterator[tuple[Found, str]]:
    for container in engine.client.containers.list(all=True, filters=label, ignore_removed=True):
        if owner := container.labels.get(_OWNER):
            yield Found("container", str(container.id), str(container.name)), owner


def _networks(engine: Engine, label: _Filter) -> Iterator[tuple[Found, str]]:
    for network in engine.client.networks.list(filters=label):
        if owner := (network.attrs.get("Labels") or {}).get(_OWNER):
            yield Found("network", str(network.id), str(network.name)), owner


def _volumes(engine: Engine, label: _Filter) -> Iterator[tuple[Found, str]]:
    for volume in engine.client.volumes.list(filters=label):
        if owner := (volume.attrs.get("Labels") or {}).get(_OWNER):
            yield Found("volume", str(volume.id), str(volume.name)), owner


def _images(engine: Engine, label: _Filter, *, pulled: bool) -> list[Found]:
    """Images with our label and no name but ours (what somebody built on ours inherits it), newest first."""
    found = []
    for row in engine.api.images(filters=label):  # one call: others build and remove images meanwhile
        tags = [tag for tag in row.get("RepoTags") or () if tag != "<none>:<none>"]
        if all(f"/{LOCAL_PREFIX}" in f"/{tag}" for tag in tags):
            name = ", ".join(tags) or "<untagged>"
            found.append(Found("image", str(row["Id"]), name, int(row["Size"])))
    for ref in pulled_images(engine) if pulled else ():
        if attrs := image_attrs(engine, ref):
            found.append(Found("pulled image", str(attrs["Id"]), ref, int(attrs["Size"])))
    return found


def prune(engine: Engine, planned: Survey) -> Pruned:
    """Remove what the survey found, containers first; what will not go is reported and does not stop the
    rest.
    """
    from docker.errors import APIError, NotFound
    from requests.exceptions import RequestException

    before = _layers_size(engine)
    removed: list[Found] = []
    failed: list[tuple[Found, str]] = []
    order = ["container", "network", "volume", "image", "pulled image", "snapshot"]
    # the sort is stable: images stay newest first, so that a child goes before its parent
    for found in sorted(planned.remove, key=lambda found: order.index(found.kind)):
        try:
            _remove(engine, found)
        except (NotFound, FileNotFoundError):
            continue  # gone with another one, or somebody was faster
        except APIError as error:
            failed.append((found, str(error.explanation or error)))
            continue
        except (EngineError, RequestException) as error:
            failed.append((found, str(error)))
            continue
        removed.append(found)
    return Pruned(tuple(removed), tuple(failed), max(0, before - _layers_size(engine)))


def _remove(engine: Engine, found: Found) -> None:
    if found.kind == "container":
        engine.client.containers.get(found.id).remove(force=True, v=True)
    elif found.kind == "network":
        engine.client.networks.get(found.id).remove()
    elif found.kind == "volume":
        engine.client.volumes.get(found.id).remove()
    elif found.kind == "snapshot":
        snapshot.remove(found.id)
    elif found.kind == "pulled image":
        if not drop(engine, found.name):
            raise EngineError("a container uses it, or what was prepared from it")
    else:
        # by id with force all its tags go; a container that uses it, even a stopped one, was surveyed before
        engine.client.images.remove(found.id, force=True)


def _layers_size(engine: Engine) -> int:
    return int(engine.client.df().get("LayersSize") or 0)
