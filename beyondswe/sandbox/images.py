"""Finished images: pulled when needed, checked for their platform, dropped when disk is short.

What was pulled by this tool is written down (by namespace and engine, with its last use), and nothing else
is ever dropped: not an image that was there before, not one built here, not one that a container uses. Names
below ``beyondswe/`` are made here and never asked of a registry, where anybody might have taken them.
"""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from beyondswe.errors import EngineError
from beyondswe.resources import cache_dir
from beyondswe.sandbox.engine import LABEL, Engine, namespace
from beyondswe.sandbox.locks import exclusive

LOCAL_PREFIX = "beyondswe/"
"""Names of images that are built here."""

_NOT_IN_REGISTRY = re.compile(
    r"manifest unknown|manifest for \S+ not found|repository does not exist|no matching manifest"
    r"|no image found in manifest list|invalid reference format"
)
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}


class PullFailed(EngineError):
    """A registry did not give an image: it does not answer, or (``permanent``) it does not have it."""

    def __init__(self, ref: str, reason: str, *, permanent: bool = False) -> None:
        self.ref, self.reason = ref, reason
        super().__init__(f"cannot pull {ref}: {reason}", permanent=permanent)


@dataclass(frozen=True)
class ImageInfo:
    """An image that is there."""

    id: str
    digest: str  # its digest in the registry; "" for one that was built here
    platform: str  # as linux/amd64
    size: int  # bytes on disk, layers that it shares with others included
    pulled: bool  # by this call


@dataclass(frozen=True)
class PrefetchResult:
    """What became of one image that was to be fetched ahead."""

    ref: str
    status: str  # present, pulled, failed, over_budget
    size: int = 0
    error: str = ""


def ensure_image(
    engine: Engine, ref: str, *, platform: str | None = None, max_disk: int | None = None
) -> ImageInfo:
    """The image that ``ref`` (a tag, or ``name@sha256:…``) names: the one that is there, else pulled.

    It must be of ``platform``, or of the engine's own. With ``max_disk`` (bytes), images that were pulled
    before and used least recently are dropped until all pulled ones fit. Raises `EngineError`: the machine's
    or the registry's fault, never the attempt's.
    """
    wanted = _normal(platform) if platform else engine_platform(engine)
    found = image_attrs(engine, ref)
    pulled = found is None
    if found is None:
        if ref.startswith(LOCAL_PREFIX):
            raise EngineError(
                f"there is no image {ref} on this machine, and names like this are in no registry. Images of "
                "demo and pypi are built when the dataset is named as such: --dataset demo, --dataset pypi. "
                "Any other has to be built where its dataset was made, and brought here (docker save, load).",
                permanent=True,
            )
        with exclusive(f"{engine.host} pull {ref}"):
            found = image_attrs(engine, ref)  # another process may have pulled it while we waited
            pulled = found is None
            if found is None:
                pull(engine, ref, platform=platform)
                found = image_attrs(engine, ref)
                if found is None:
                    raise EngineError(f"{ref} was pulled, but the engine at {engine.host} does not have it")
                if not _matches(_platform_of(found), wanted):
                    _remove(engine, ref)
                else:
                    _Ledger(engine).pulled(ref, str(found["Id"]), int(found["Size"]))
    if not _matches(_platform_of(found), wanted):
        raise EngineError(
            f"{ref} is made for {_platform_of(found)}, and {wanted} is needed: "
            "use a machine of that kind, or an image of this dataset for this one",
            permanent=True,
        )
    _Ledger(engine).used(str(found["Id"]))
    if max_disk is not None:
        keep_within(engine, max_disk, keep=[ref])
    digests = [str(digest) for digest in found.get("RepoDigests") or ()]
    return ImageInfo(
        id=str(found["Id"]),
        digest="" if ref.startswith(LOCAL_PREFIX) else _digest_for(ref, digests),
        platform=_platform_of(found),
        size=int(found["Size"]),
        pulled=pulled,
    )


def prefetch(
    engine: Engine,
    refs: Sequence[str],
    *,
    max_disk: int | None = None,
    on_progress: Callable[[PrefetchResult], None] | None = None,
) -> list[PrefetchResult]:
    """Pull images ahead of their use, one after another; what fails is reported and does not stop the others.

    With ``max_disk``, older pulled images make room; once those of this very call fill it, the rest is left
    (``over_budget``). How large an image is shows only once it is there: the budget is overdrawn by one
    while it comes.
    """
    results: list[PrefetchResult] = []
    full = False
    for ref in dict.fromkeys(refs):
        if full and image_attrs(engine, ref) is None:
            result = PrefetchResult(ref, "over_budget")
        else:
            try:
                info = ensure_image(engine, ref)
                result = PrefetchResult(ref, "pulled" if info.pulled else "present", info.size)
            except EngineError as error:
                result = PrefetchResult(ref, "failed", error=str(error))
            if result.status == "pulled" and max_disk is not None:
                mine = [done.ref for done in results if done.status in {"pulled", "present"}]
                keep_within(engine, max_disk, keep=[*mine, ref])
                if pulled_size(engine) > max_disk:
                    full = True
                    drop(engine, ref)
                    result = PrefetchResult(ref, "over_budget", result.size)
        results.append(result)
        if on_progress:
            on_progress(result)
    return results


def keep_within(engine: Engine, max_disk: int, *, keep: Sequence[str] = ()) -> list[str]:
    """Drop images that this tool pulled, least recently used first, until what is left fits ``max_disk``
    bytes.

    Images in ``keep`` and those that a container uses stay, even if they do not fit. Gives the names dropped.
    """
    ledger = _Ledger(engine)
    kept = {str(found["Id"]) for found in (image_attrs(engine, ref) for ref in keep) if found}
    dropped: list[str] = []
    rows = ledger.rows()
    total = sum(size for size in {row.image: row.size for row in rows}.values())
    busy: set[str] | None = None
    for row in rows:
        if total <= max_disk:
            break
        if row.image in kept:
            continue
        busy = _used_by_containers(engine) if busy is None else busy
        if drop(engine, row.ref, busy=busy):
            dropped.append(row.ref)
            total -= row.size
    return dropped


def drop(engine: Engine, ref: str, *, busy: set[str] | None = None) -> bool:
    """Remove one pulled image and what was prepared from it; False, and nothing done, where a container uses
    either.
    """
    found = image_attrs(engine, ref)
    ledger = _Ledger(engine)
    if found is None:
        ledger.forget(ref)
        return False
    busy = _used_by_containers(engine) if busy is None else busy
    prepared = _made_from(engine, found)
    if {str(found["Id"]), *prepared} & busy:
        return False
    for image in prepared:
        _remove(engine, image)
    _remove(engine, ref)
    ledger.forget(ref)
    return True


def pulled_images(engine: Engine) -> list[str]:
    """Names of the images that this tool pulled in this namespace and that are there, least recently used
    first.
    """
    return [row.ref for row in _Ledger(engine).rows()]


def pulled_size(engine: Engine) -> int:
    """How many bytes the images that this tool pulled take; layers that two share count twice."""
    return sum({row.image: row.size for row in _Ledger(engine).rows()}.values())


def pull(engine: Engine, ref: str, *, platform: str | None = None, silence: int = 300) -> None:
    """Pull an image; given up when nothing is heard for ``silence`` seconds. Raises `PullFailed`."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    try:
        for event in _pull_events(engine, ref, platform, silence):
            if "error" in event or "message" in event:
                reason = str(event.get("error") or event["message"])
                gone = event.get("status_code") == 404 or bool(_NOT_IN_REGISTRY.search(reason))
                raise PullFailed(ref, _plain(reason, platform), permanent=gone)
    except RequestException as error:
        raise PullFailed(ref, f"no word from the registry for {silence} s ({error})") from error
    except DockerException as error:
        raise PullFailed(ref, str(error)) from error


def _pull_events(engine: Engine, ref: str, platform: str | None, silence: int) -> Iterator[dict[str, Any]]:
    """What the engine says while it pulls. The library's own call waits for ever, so the request is made
    here.
    """
    from docker.auth import get_config_header, resolve_repository_name
    from docker.utils import parse_repository_tag

    api = engine.patient(silence)
    repository, tag = parse_repository_tag(ref)
    login = get_config_header(api, resolve_repository_name(repository)[0])
    with api.post(
        f"{api.base_url}/v{api.api_version}/images/create",
        params={
            "fromImage": repository,
            "tag": tag or "latest",
            **({"platform": platform} if platform else {}),
        },
        headers={"X-Registry-Auth": login} if login else {},
        stream=True,
        timeout=silence,
    ) as response:
        for line in response.iter_lines():
            if line:
                yield {"status_code": response.status_code, **json.loads(line)}


def engine_platform(engine: Engine) -> str:
    """The platform that the engine runs, as ``linux/amd64``."""
    machine = str(engine.info.get("Architecture", ""))
    return f"{engine.info.get('OSType', 'linux')}/{_ARCHITECTURES.get(machine, machine)}"


def _plain(reason: str, platform: str | None) -> str:
    if "no matching manifest" in reason or "no image found in manifest list" in reason:
        return f"the registry has it, but not for {platform or 'this machine'} ({reason.strip()})"
    return reason.strip()


def image_attrs(engine: Engine, ref: str) -> dict[str, Any] | None:
    """What the engine says of an image, None if it is not there."""
    from docker.errors import DockerException, ImageNotFound
    from requests.exceptions import RequestException

    try:
        return dict(engine.client.images.get(ref).attrs)
    except ImageNotFound:
        return None
    except (DockerException, RequestException) as error:
        raise EngineError(f"the engine at {engine.host} does not tell about {ref}: {error}") from error


def _remove(engine: Engine, ref: str) -> None:
    from docker.errors import DockerException, ImageNotFound
    from requests.exceptions import RequestException

    try:
        engine.client.images.remove(ref)
    except ImageNotFound:
        pass  # somebody was faster
    except (DockerException, RequestException) as error:
        raise EngineError(f"the engine at {engine.host} does not remove {ref}: {error}") from error


def _platform_of(found: dict[str, Any]) -> str:
    parts = [found.get("Os") or "linux", found.get("Architecture") or "unknown", found.get("Variant") or ""]
    return _normal("/".join(str(part) for part in parts if part))


def _normal(platform: str) -> str:
    system, _, machine = platform.partition("/")
    machine, _, variant = machine.partition("/")
    machine = _ARCHITECTURES.get(machine, machine)
    if (machine, variant) == ("arm64", "v8"):
        variant = ""  # there is no other
    return "/".join(part for part in (system, machine, variant) if part)


def _matches(there: str, wanted: str) -> bool:
    """Whether the one runs as the other: a variant counts only where both name one."""
    there_parts, wanted_parts = there.split("/"), wanted.split("/")
    return all(one == other for one, other in zip(there_parts, wanted_parts, strict=False))


def _digest_for(ref: str, digests: Sequence[str]) -> str:
    """The digest under which the registry knows it, that of the name asked for if it has several."""
    name = ref.partition("@")[0]
    name = name if ":" not in name.rpartition("/")[2] else name.rpartition(":")[0]
    chosen = [
        digest for digest in digests if digest.partition("@")[0].removeprefix("docker.io/library/") == name
    ]
    return (chosen or list(digests) or [""])[0].partition("@")[2]


def _used_by_containers(engine: Engine) -> set[str]:
    return {
        str(container.attrs["ImageID"]) for container in engine.client.containers.list(all=True, sparse=True)
    }


def _made_from(engine: Engine, found: dict[str, Any]) -> list[str]:
    """Images of ours that stand on this one: they hold its layers, so that without them nothing would be
    freed.
    """
    layers = found["RootFS"].get("Layers") or []
    ours = engine.api.images(filters={"label": f"{LABEL}={namespace()}"}, all=True, quiet=True)
    others = (image_attrs(engine, str(image)) for image in ours if image != found["Id"])
    return [
        str(image["Id"])
        for image in others
        if image and (image["RootFS"].get("Layers") or [])[: len(layers)] == layers
    ]


@dataclass(frozen=True)
class _Row:
    ref: str
    image: str
    size: int


class _Ledger:
    """What this tool pulled: one small database a namespace, rows by engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        # Podman makes up a new id at every start of its service
        self._key = engine.host if engine.is_podman else str(engine.info.get("ID") or engine.host)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        path = cache_dir("images") / f"{namespace().replace('/', '_')}.db"
        with closing(sqlite3.connect(path, timeout=60)) as connection, connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS pulled "
                "(engine TEXT, ref TEXT, image TEXT, size INTEGER, used REAL, PRIMARY KEY (engine, ref))"
            )
            yield connection

    def pulled(self, ref: str, image: str, size: int) -> None:
        with self._open() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO pulled VALUES (?, ?, ?, ?, ?)",
                (self._key, ref, image, size, time.time()),
            )

    def used(self, image: str) -> None:
        with self._open() as connection:
            connection.execute(
                "UPDATE pulled SET used = ? WHERE engine = ? AND image = ?", (time.time(), self._key, image)
            )

    def forget(self, ref: str) -> None:
        with self._open() as connection:
            connection.execute("DELETE FROM pulled WHERE engine = ? AND ref = ?", (self._key, ref))

    def rows(self) -> list[_Row]:
        """Least recently used first; what somebody else has removed is forgotten."""
        with self._open() as connection:
            found = connection.execute(
                "SELECT ref, image, size FROM pulled WHERE engine = ? ORDER BY used", (self._key,)
            ).fetchall()
        rows = [_Row(*row) for row in found]
        gone = [row for row in rows if not self._engine.has_image(row.image)]
        for row in gone:
            self.forget(row.ref)
        return [row for row in rows if row not in gone]
