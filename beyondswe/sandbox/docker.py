"""The sandbox that an agent works in: a container that idles, commands run in it, files go in and out as tar.

Process 1 is a shell that sleeps and reaps, not an init with a child: what an agent does to all processes
that it can reach (``kill -9 -1``) ends its own commands and leaves the sandbox standing. Time limits are
kept inside, by ending every process of the command; where that cannot be done (no process can be started
any more, say) the container is restarted, which ends everything in it and keeps the files.
"""

from __future__ import annotations

import base64
import io
import json
import os
import posixpath
import tarfile
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from beyondswe.errors import EngineError
from beyondswe.sandbox import job, layer
from beyondswe.sandbox.engine import container_labels
from beyondswe.sandbox.limits import host_config
from beyondswe.sandbox.removal import remove
from beyondswe.sandbox.tarstream import Kind, members
from beyondswe.sandbox.types import Change, ChangeKind, ExecResult, Limits
from beyondswe.sandbox.wire import EngineRefused, EngineSilent, Output, call, chunks

if TYPE_CHECKING:
    from beyondswe.sandbox.engine import Engine

_IDLE = "while :; do sleep 3600 || tail -f /dev/null || read -r _ || exit 1; done"
"""Needs no particular program: ``read`` waits on the open standard input where sleep and tail are missing."""

_MARK = "BEYONDSWE_EXEC"
"""Variable by which the processes of one command are told from those of others."""

_END_PROCESSES = r"""
mark=$1
for round in 1 2 3 4 5 6 7 8 9 10; do
    victims=" "
    for file in $(grep -ls "BEYONDSWE_EXEC=$mark" /proc/[0-9]*/environ 2>/dev/null); do
        pid=${file#/proc/}
        victims="$victims${pid%/environ} "
    done
    grown=yes
    while [ $grown = yes ]; do
        grown=no
        for file in /proc/[0-9]*/stat; do
            { read -r line < "$file"; } 2>/dev/null || continue
            pid=${file#/proc/} pid=${pid%/stat}
            set -- ${line##*) }  # state, parent, process group, session
            [ "$1" != Z ] || continue
            case $victims in *" $pid "*) continue ;; esac
            case $victims in *" $2 "* | *" $4 "*) victims="$victims$pid " grown=yes ;; esac
        done
    done
    [ "$victims" != " " ] || exit 0
    kill -KILL $victims 2>/dev/null
done
exit 1
"""
"""Ends the processes that carry a command's mark, their descendants and their sessions, until there are
none.
"""

_STOPPING = 20.0
"""Seconds that ending a command's processes may take before the container is restarted."""


_LAYER_LIMIT = 2 << 30  # bytes of a layer that are read to learn its names


class SandboxDied(EngineError):
    """The container ended, or is gone, while a command ran; `DockerSandbox.end_state` says how.

    ``output`` is what the command had printed.
    """

    output = b""


@dataclass(frozen=True)
class Mount:
    """A folder that a sandbox sees read-only: a path on the engine's host, or the name of a volume."""

    source: str
    target: str


@dataclass(frozen=True)
class EndState:
    """Whether a sandbox still runs and, if not, how it ended; as the engine says."""

    running: bool
    exit_code: int | None = None
    oom_killed: bool = False
    vanished: bool = False


def start_sandbox(
    engine: Engine,
    image: str,
    *,
    workdir: str,
    limits: Limits,
    network: str = "none",
    env: Mapping[str, str] | None = None,
    run_labels: Mapping[str, str] | None = None,
    mounts: Sequence[Mount] = (),
    user: str | None = None,
    checks_health: bool = True,
) -> DockerSandbox:
    """A running sandbox of ``image``. The caller stops it; `EngineError` if it cannot be had (nothing is
    left then). ``network`` is none, open, or ``container:ID`` to share that container's.
    ``checks_health``: the image may have a health check, to be turned off; else nothing is said about it, since an
    image that is made of the sandbox would say it too, and Compose does not start one that says "none".
    """
    name = job.container_name("sandbox")
    config: dict[str, Any] = {
        "Image": image,
        "Entrypoint": ["/bin/sh", "-c", _IDLE],
        "Cmd": [],
        "OpenStdin": True,
        **({"Healthcheck": {"Test": ["NONE"]}} if checks_health else {}),
        "WorkingDir": workdir,
        "Env": job.environment(network, env or {}),
        "Labels": container_labels(**{"role": "sandbox", **(run_labels or {})}),
        "HostConfig": {
            **host_config(engine, limits, network=_engine_network(network), privileges=True),
            "LogConfig": {"Type": "none"},
            "Mounts": [
                {
                    "Type": "bind" if mount.source.startswith("/") else "volume",
                    "Source": mount.source,
                    "Target": mount.target,
                    "ReadOnly": True,
                }
                for mount in mounts
            ],
        },
        **({"User": user} if user is not None else {}),
    }
    try:
        container = job.create(engine, name, config)
        job.start(engine, container)
    except BaseException:
        remove(engine, name)
        raise
    return DockerSandbox(engine, container, workdir=workdir, image=image)


def _engine_network(network: str) -> str:
    return network if network.startswith("container:") else job.engine_network(network)


class DockerSandbox:
    """A running container; implements `beyondswe.sandbox.types.Sandbox`."""

    def __init__(self, engine: Engine, container: str, *, workdir: str, image: str) -> None:
        self.id = container
        self.workdir = workdir
        self.image = image
        self._engine = engine

    def run(
        self,
        command: Sequence[str] | str,
        *,
        timeout: float,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        cwd: str | None = None,
        stdin: bytes | None = None,
        max_output: int = 1 << 20,
    ) -> ExecResult:
        """Run a command to its end (a string: by ``sh -c``) in the workdir, or in ``cwd``.

        After ``timeout`` seconds every process of it is ended, those in other sessions and process groups
        included. Standard output and error are kept up to ``max_output`` bytes each, head and tail.
        `SandboxDied` if the container is not there, or ends meanwhile.
        """
        argv = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
        mark = uuid.uuid4().hex
        input_file = None
        if stdin is not None:
            input_file = self._put_input(mark, stdin)
            argv = ["/bin/sh", "-c", 'exec < "$0" && exec "$@"', input_file, *argv]
        exec_id = self._create_exec(argv, env={**(env or {}), _MARK: mark}, user=user, cwd=cwd)
        output = Output(max_output)
        watch = _Watch(timeout, lambda: self._end_command(mark, exec_id))
        try:
            self._drain(exec_id, output, watch)
        finally:
            watch.close()
        try:
            exit_code = None if watch.fired else self._exit_code(exec_id)
        except SandboxDied as error:
            error.output = output.stdout.value() + output.stderr.value()
            raise
        if input_file is not None:
            self._helper(["rm", "-f", input_file])
        return ExecResult(
            exit_code=exit_code,
            stdout=output.stdout.value(),
            stderr=output.stderr.value(),
            timed_out=watch.fired,
            truncated=output.truncated,
        )

    def put(self, archive: bytes | IO[bytes], path: str = "/") -> None:
        """Unpack a tar archive below ``path``, a folder that exists."""
        data = archive if isinstance(archive, bytes) else iter(lambda: archive.read(1 << 20), b"")
        job.put_archive(self._engine, self.id, data, path)

    @contextmanager
    def get(self, path: str) -> Iterator[Iterator[bytes]]:
        """A tar stream of ``path``, in pieces; a link is given as a link. `FileNotFoundError`: there is none.

        Engines do not give out a path whose last part is not UTF-8 (they do give its folder): `ValueError`.
        """
        if not _is_utf8(posixpath.basename(path)):
            raise ValueError(f"{path!r} does not end in UTF-8: read the folder that it is in")
        with _get(self._engine, self.id, path) as pieces:
            yield pieces

    def changed_paths(self) -> list[Change]:
        """What differs from the image, sorted by path; below the work folder all of it.

        On this host it is read from the container's own layer (`layer`); else the engine is asked. Its list
        goes by size and modification time, both of which an agent can set: a file that was changed without
        changing either is not in it. So there too the layer is read, through the engine, and what lies in it
        counts as modified. Where the storage driver has no such layer, the workdir is given as `UNLISTED`.
        """
        container = self._inspect()
        volumes = [
            str(mount["Destination"])
            for mount in container.get("Mounts") or []
            if mount.get("Type") == "volume" and mount.get("RW", True)
        ]
        upper = layer.upper_folder(container)
        if not volumes and layer.readable(self._engine, upper):
            return layer.layer_changes(upper, self.workdir)
        what = f"list what changed in container {self.id}"
        touched: list[bytes] = []
        opaque = volumes
        try:
            answer = call(self._engine, "GET", f"/containers/{self.id}/changes", what=what, timeout=1800)
            listed = answer.json() or []
        except EngineRefused:
            if not self._engine.is_podman:
                raise
            # Podman cannot list a file that was replaced by a folder
            return changes([], touched=[], opaque=[*volumes, self.workdir])
        try:
            if upper:
                touched = list(self._layer_paths(upper))
            else:
                opaque.append(self.workdir)
        except _TooLarge:
            opaque.append(self.workdir)
        return changes(listed, touched=touched, opaque=opaque)

    def freeze(self) -> None:
        """End every process; files stay readable by `get` and `changed_paths`, nothing can run any more."""
        job.kill(self._engine, self.id)
        if not job.wait_stopped(self._engine, self.id, 60):
            raise EngineError(
                f"container {self.id} does not stop although it was killed; look at the engine's host"
            )

    def stop(self) -> None:
        """Remove the container with whatever still runs in it; one that is gone is no error."""
        remove(self._engine, self.id)

    def end_state(self) -> EndState:
        """Whether it runs, and how it ended if not. Of memory kills inside it, engines do not always tell."""
        state = job.inspect_state(self._engine, self.id)
        if state is None:
            return EndState(running=False, vanished=True)
        if state.get("Running"):
            return EndState(running=True)
        oom_killed = job.ran_out_of_memory(self._engine, self.id, state, killed=True)
        return EndState(running=False, exit_code=int(state["ExitCode"]), oom_killed=oom_killed)

    def _inspect(self) -> dict[str, Any]:
        what = f"look at container {self.id}"
        return dict(call(self._engine, "GET", f"/containers/{self.id}/json", what=what).json())

    def _create_exec(
        self, argv: Sequence[str], *, env: Mapping[str, str], user: str | None, cwd: str | None
    ) -> str:
        config = {
            "Cmd": list(argv),
            "AttachStdout": True,
            "AttachStderr": True,
            "Env": [f"{key}={value}" for key, value in env.items()],
            "WorkingDir": cwd or self.workdir,
            **({"User": user} if user is not None else {}),
        }
        what = f"run {argv[0]} in container {self.id}"
        try:
            answer = call(self._engine, "POST", f"/containers/{self.id}/exec", what=what, json=config)
        except EngineRefused as error:
            self._say_if_it_died(error)
            raise
        return str(answer.json()["Id"])

    def _drain(self, exec_id: str, output: Output, watch: _Watch) -> None:
        """Read a command's output to its end, which a time limit brings about by ending its processes."""
        what = f"run a command in container {self.id}"
        try:
            with call(
                self._engine,
                "POST",
                f"/exec/{exec_id}/start",
                what=what,
                json={"Detach": False, "Tty": False},
                timeout=watch.timeout + 4 * _STOPPING,
                stream=True,
            ) as answer:
                output.drain(chunks(answer, what))
        except EngineRefused as error:
            self._say_if_it_died(error)
            raise
        except EngineSilent:
            if not watch.fired:
                raise
            # The container was restarted to end the command, and its stream broke with it.

    def _exit_code(self, exec_id: str) -> int:
        try:
            code = self._exec_end(exec_id, patience=10)
        except EngineRefused as error:
            self._say_if_it_died(error)
            raise
        if not (end := self.end_state()).running:
            raise SandboxDied(f"the sandbox ended while a command ran in it ({_describe(end)})")
        if code is None:
            raise EngineError(f"the engine does not say how a command in container {self.id} ended")
        return code

    def _exec_end(self, exec_id: str, *, patience: float) -> int | None:
        """Exit code of a command; None if it still runs after ``patience`` seconds.

        Asked for some time, since a stream can end a moment before the engine has written down the exit.
        """
        what = f"look at a command in container {self.id}"
        deadline = time.monotonic() + patience
        pause = 0.005
        while True:
            state = call(self._engine, "GET", f"/exec/{exec_id}/json", what=what).json()
            if not state.get("Running") and state.get("ExitCode") is not None:
                return int(state["ExitCode"])
            if time.monotonic() > deadline:
                return None
            time.sleep(pause)
            pause = min(2 * pause, 0.2)

    def _end_command(self, mark: str, exec_id: str) -> None:
        """End every process of a command; as a last resort everything in the container."""
        try:
            self._helper(["/bin/sh", "-c", _END_PROCESSES, "sh", mark])
            if self._exec_end(exec_id, patience=5) is not None:
                return
        except EngineRefused as error:
            if error.status == 404:
                return  # the container is gone, and the command with it
        except EngineSilent:
            pass  # a container full of processes may not be able to start one more
        call(
            self._engine,
            "POST",
            f"/containers/{self.id}/restart",
            what=f"restart container {self.id}",
            params={"t": "0"},
        )

    def _helper(self, argv: Sequence[str]) -> None:
        """Run a command of ours as root, its output unread; `EngineSilent` if it does not end soon."""
        exec_id = self._create_exec(argv, env={}, user="0", cwd="/")
        what = f"run {argv[0]} in container {self.id}"
        with call(
            self._engine,
            "POST",
            f"/exec/{exec_id}/start",
            what=what,
            json={"Detach": False, "Tty": False},
            timeout=_STOPPING,
            stream=True,
        ) as answer:
            Output(1).drain(chunks(answer, what))

    def _put_input(self, mark: str, data: bytes) -> str:
        """Standard input as a file: it needs no second direction of the connection, which not every engine
        has.
        """
        name = f".beyondswe-input-{mark}"
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o644
            archive.addfile(member, io.BytesIO(data))
        self.put(buffer.getvalue(), "/")
        return f"/{name}"

    def _layer_paths(self, upper: str) -> Iterator[bytes]:
        """Files and links below the workdir in the container's own layer, absolute, as bytes.

        The layer is a folder on the engine's host; this is for where that host's files are not ours to read
        (`layer`). A second container that is never started sees it as a mount, and the engine gives
        out its tar: nothing is executed, names keep their bytes, and the cost is that of what changed.
        Raises `_TooLarge` beyond `_LAYER_LIMIT`.
        """
        name = job.container_name("layer")
        config = {
            "Image": self.image,
            "Entrypoint": ["/bin/false"],
            "Labels": container_labels(role="layer"),
            "NetworkDisabled": True,
            "HostConfig": {
                "NetworkMode": "none",
                "Mounts": [
                    {"Type": "bind", "Source": upper, "Target": "/.beyondswe-layer", "ReadOnly": True}
                ],
            },
        }
        below = posixpath.normpath(self.workdir)
        try:
            container = job.create(self._engine, name, config)
            with _get(self._engine, container, f"/.beyondswe-layer{below if below != '/' else ''}") as pieces:
                yield from _member_paths(_limited(pieces), os.fsencode(below))
        except FileNotFoundError:
            return  # nothing below the workdir was touched
        finally:
            remove(self._engine, name)

    def _say_if_it_died(self, error: EngineError) -> None:
        end = self.end_state()
        if not end.running:
            raise SandboxDied(f"{error} ({_describe(end)})") from error


def changes(
    listed: Iterable[Mapping[str, Any]], *, touched: Iterable[bytes] = (), opaque: Iterable[str] = ()
) -> list[Change]:
    """Changes by path, from the engine's list, the paths found in the container's layer, and folders that
    neither describes.

    The engine's JSON replaces bytes that are not UTF-8 by U+FFFD: such a path is not to be believed, so the
    nearest folder with a readable name stands for it. So does a deleted folder that has something in it: it
    was made anew.
    """
    kinds = {0: ChangeKind.MODIFIED, 1: ChangeKind.ADDED, 2: ChangeKind.DELETED}
    found: dict[str, ChangeKind] = dict.fromkeys(opaque, ChangeKind.UNLISTED)
    for item in listed:
        path, kind = str(item["Path"]), kinds[int(item["Kind"])]
        if "�" in path:
            path, kind = _readable_folder(path[: path.index("�")]), ChangeKind.UNLISTED
        if found.get(path) is not ChangeKind.UNLISTED:
            found[path] = kind
    for raw in touched:
        try:
            found.setdefault(raw.decode(), ChangeKind.MODIFIED)
        except UnicodeDecodeError as error:
            found[_readable_folder(raw[: error.start].decode())] = ChangeKind.UNLISTED
    for path, kind in list(found.items()):
        if kind is ChangeKind.DELETED:
            continue
        for parent in _parents(path):
            if found.get(parent) is ChangeKind.DELETED:
                found[parent] = ChangeKind.UNLISTED
    return [Change(path, kind) for path, kind in sorted(found.items())]


def _is_utf8(name: str) -> bool:
    return name.isascii() or os.fsencode(name).decode(errors="replace") == name


def _readable_folder(beginning: str) -> str:
    """The folder that a path is in, of which only the beginning can be read."""
    return posixpath.dirname(beginning + "x")


def _parents(path: str) -> Iterator[str]:
    while (parent := posixpath.dirname(path)) != path:
        yield parent
        path = parent


@contextmanager
def _get(engine: Engine, container: str, path: str) -> Iterator[Iterator[bytes]]:
    what = f"read {path!r} from container {container}"
    try:
        if engine.is_podman and (link := _link(engine, container, path)) is not None:
            yield iter([link])
            return
        answer = call(
            engine,
            "GET",
            f"/containers/{container}/archive",
            what=what,
            params={"path": os.fsencode(path)},
            timeout=600,
            stream=True,
        )
    except EngineRefused as error:
        missing = error.status == 404 or "not a directory" in str(error)  # a file lies on the way to it
        if missing and job.inspect_state(engine, container) is not None:
            raise FileNotFoundError(f"{path} is not in container {container}") from error
        raise
    with answer:
        yield chunks(answer, what)


def _link(engine: Engine, container: str, path: str) -> bytes | None:
    """A tar of ``path`` if it is a symbolic link, which Podman would follow."""
    answer = call(
        engine,
        "HEAD",
        f"/containers/{container}/archive",
        what=f"look at {path!r} in container {container}",
        params={"path": os.fsencode(path)},
    )
    stat = json.loads(base64.b64decode(answer.headers["X-Docker-Container-Path-Stat"]))
    if not int(stat["mode"]) & 1 << 27:  # Go's bit for a symbolic link
        return None
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        member = tarfile.TarInfo(str(stat["name"]))
        member.type, member.linkname = tarfile.SYMTYPE, str(stat["linkTarget"])
        archive.addfile(member)
    return buffer.getvalue()


class _TooLarge(Exception):
    """A container's own layer holds more than anybody would wait for."""


def _limited(pieces: Iterable[bytes]) -> Iterator[bytes]:
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > _LAYER_LIMIT:
            raise _TooLarge
        yield piece


def _member_paths(pieces: Iterable[bytes], below: bytes) -> Iterator[bytes]:
    """Paths of the files and links in the engine's tar of a folder, which names them from that folder's
    last part.
    """
    for member in members(pieces):
        if member.kind in (Kind.FILE, Kind.SYMLINK, Kind.HARD_LINK):
            _, _, rest = member.name.partition(b"/")
            yield b"/".join((below.rstrip(b"/"), rest)) if rest else below


class _Watch:
    """Calls something once when a time is over, unless it is closed before; ``fired`` says which."""

    def __init__(self, timeout: float, action: Any) -> None:
        self.timeout = timeout
        self.fired = False
        self._action = action
        self._error: EngineError | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        if self._closed.wait(self.timeout):
            return
        self.fired = True
        try:
            self._action()
        except EngineError as error:
            self._error = error

    def close(self) -> None:
        """Stand down, or wait until the action is done; raises what went wrong in it."""
        self._closed.set()
        self._thread.join()
        if self._error is not None:
            raise self._error


def _describe(end: EndState) -> str:
    if end.vanished:
        return "its container is gone"
    if end.running:
        return "its container runs"
    return f"exit code {end.exit_code}{', out of memory' if end.oom_killed else ''}"
