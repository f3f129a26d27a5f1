"""Builds images from a Dockerfile and a context, behind the host's proxies, and keeps the whole log of each
build.

The classic builder's interface is used: Docker of every age and Podman's socket have it. Every stage gets
our labels right after its ``FROM``, so that layers of a build that failed or was killed can be told from
others' and pruned.
"""

from __future__ import annotations

import io
import json
import re
import stat
import tarfile
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from beyondswe.errors import DataError, EngineError
from beyondswe.resources import cache_dir
from beyondswe.sandbox import host
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.engine import labels as our_labels

OnLine = Callable[[str], None]

_DOCKERFILE = ".beyondswe.Dockerfile"
_FROM = re.compile(r"^[ \t]*FROM[ \t].*$", re.IGNORECASE | re.MULTILINE)
_STEP = re.compile(r"^step \d+/\d+ ?: ", re.IGNORECASE)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_SILENCE = 3600  # seconds that one step may say nothing: compilers are quiet


class BuildFailed(DataError):
    """A step of a Dockerfile failed: the recipe's fault, or the network's that it needs."""

    exit_code = 1

    def __init__(self, tag: str, step: str, reason: str, tail: str, log: Path) -> None:
        self.tag, self.step, self.reason, self.tail, self.log = tag, step, reason, tail, log
        super().__init__(
            f"building {tag} failed at {step or 'its start'!r}: {reason}\n{tail}\nThe whole log is in {log}"
        )


def build_image(
    engine: Engine,
    *,
    context: Path | Mapping[str, bytes],
    dockerfile: str,
    tag: str,
    network: str | None = None,
    buildargs: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    on_line: OnLine | None = None,
) -> str:
    """Build ``dockerfile`` (its text) with the files of ``context`` and give the image's id.

    ``context`` is a folder, or file names with their content; all of it is sent, nothing is ignored.
    ``network`` is ``"none"``, ``"host"`` or ``None`` (the engine's default). Raises `BuildFailed` when a
    step fails, with its last lines and where the whole log is, `EngineError` when the engine does.
    """
    from docker.errors import APIError, BuildError, DockerException
    from requests.exceptions import RequestException

    say = on_line or _silent
    if network is None and (unreachable := host.loopback_proxies()):
        say(f"the proxy {', '.join(unreachable)} is on the host's loopback: building in the host's network")
        network = "host"
    log_path = cache_dir("logs", "build") / f"{re.sub(r'[^A-Za-z0-9.-]+', '-', tag)}-{time.time_ns()}.log"
    tail: deque[str] = deque(maxlen=30)
    step = ""
    with tempfile.TemporaryFile() as archive, log_path.open("w", encoding="utf-8") as log:
        _pack(archive, context, _labelled(dockerfile, {**our_labels(role="built"), **(labels or {})}))
        archive.seek(0)
        try:
            events = engine.api.build(
                fileobj=archive,
                custom_context=True,
                dockerfile=_DOCKERFILE,
                tag=tag,
                # Podman has its own word for "none"; given Docker's, it builds in the host's network
                network_mode="NetworkDisabled" if network == "none" and engine.is_podman else network,
                buildargs={**(host.proxies() if network != "none" else {}), **(buildargs or {})},
                rm=True,
                forcerm=True,
                decode=True,
                timeout=_SILENCE,
            )
            for line in _lines(events):
                if _STEP.match(line):
                    step = _STEP.sub("", line)
                tail.append(line)
                log.write(line + "\n")
                say(line)
        except (BuildError, APIError) as error:
            reason = error.explanation if isinstance(error, APIError) else str(error)
            log.write(f"{reason}\n")
            log.flush()
            raise BuildFailed(tag, step, str(reason or error), "\n".join(tail), log_path) from error
        except (DockerException, RequestException) as error:
            raise EngineError(
                f"the engine at {engine.host} failed while building {tag} ({step}): {error}"
            ) from error
    try:
        image_id = str(engine.client.images.get(tag).id)
    except (DockerException, RequestException) as error:
        raise EngineError(
            f"{tag} was built but the engine at {engine.host} does not have it: {error}"
        ) from error
    log_path.unlink()  # only a failed build's log has a reader
    return image_id


def _lines(events: Iterator[dict[str, Any]]) -> Iterator[str]:
    """What a build says, line by line; `docker.errors.BuildError` when it says that it failed."""
    from docker.errors import BuildError

    rest = ""  # of a line that has not ended
    for event in events:
        if "error" in event:
            if rest.strip():
                yield rest.rstrip()
            raise BuildError(str(event["error"]).strip(), iter(()))
        *whole, rest = (rest + _COLOUR.sub("", str(event.get("stream", "")))).split("\n")
        for line in whole:
            if line.strip():
                yield line.rstrip()
    if rest.strip():
        yield rest.rstrip()


def _labelled(dockerfile: str, labels: Mapping[str, str]) -> str:
    pairs = " ".join(f"{key}={json.dumps(value)}".replace("$", "\\$") for key, value in labels.items())
    return _FROM.sub(lambda stage: f"{stage.group()}\nLABEL {pairs}", dockerfile)


def _pack(archive: IO[bytes], context: Path | Mapping[str, bytes], dockerfile: str) -> None:
    """Write the context as a tar archive: everything belongs to root; names in order, so that layers are
    cached.
    """
    ours = {_DOCKERFILE: dockerfile.encode(), ".dockerignore": f"{_DOCKERFILE}\n.dockerignore\n".encode()}
    names = {entry.name for entry in context.iterdir()} if isinstance(context, Path) else set(context)
    if clash := sorted(names & set(ours)):
        raise DataError(
            f"a build context must not have {', '.join(clash)} at its top: it would hide files from the build"
        )
    with tarfile.open(fileobj=archive, mode="w") as tar:
        if isinstance(context, Path):
            for path in sorted(context.rglob("*")):
                tar.add(path, str(path.relative_to(context)), recursive=False, filter=_as_root)
            files: dict[str, bytes] = ours
        else:
            files = {**context, **ours}
        for name in sorted(files):
            info = tarfile.TarInfo(name)
            info.size = len(files[name])
            info.mode = 0o644
            tar.addfile(info, io.BytesIO(files[name]))


def _as_root(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = "root"
    readable = stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH
    info.mode |= readable
    if info.isdir() or info.mode & stat.S_IXUSR:
        info.mode |= stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH
    return info


def _silent(_line: str) -> None:
    """Nobody listens."""
