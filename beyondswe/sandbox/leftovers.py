"""Removes from an image what holds later states of the project outside its own history, or says that it is there.

Commands and tools of the image find it: nobody but its maker has been in it yet. One walk names what could be such a
thing (`sort_out`, pure), a second command looks into those few, a third removes what nothing can need. What may be
needed stays and becomes a flag. Not found: a copy under a name that has nothing to do with the project.
"""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from beyondswe.errors import EngineError
from beyondswe.sandbox.history import History
from beyondswe.sandbox.types import Sandbox

_TIMEOUT = 300.0
_MOST_OUTPUT = 16 << 20
_MOST_FLAGS = 20

_EDITED = re.compile(r"(\.orig|\.rej|\.bak|~|\.sw[op])$")
_PATCH = re.compile(r"\.(patch|diff)$")
_ARCHIVE = re.compile(r"\.(whl|egg|zip|conda|tgz|tbz2?|tar(\.\w+)?)$")
_METADATA = re.compile(r"\.(dist|egg)-info$")
_REFERENCE = re.compile(r"(\.pth|\.egg-link|/direct_url\.json)$")
_INSTALLED = re.compile(r"/(site-packages|dist-packages)/")
_THIRD_PARTY = re.compile(r"/(site-packages|dist-packages|node_modules|ensurepip)/")
_SYSTEM = re.compile(r"/(usr|lib|lib32|lib64|libx32|bin|sbin|boot|etc|var/lib)/")
_CACHE = re.compile(
    r"/\.cache/(pip|uv|pypoetry/(cache|artifacts))$|/(ana|mini)?(conda|forge|mamba)[^/]*/pkgs/[^/]+$"
)
_KEPT_FOLDERS = re.compile(
    r"/([^/]+)?|/(home|Users|var|usr|tmp)/[^/]+"
)  # never removed whole, whatever lies in them

_WALK = r"""
python=$(command -v python3 || command -v python) || python=:
if [ -n "$2" ]; then "$python" -c "$2" "$3" & fi
find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path "$1" \) -prune -o \( \
    -name '*.orig' -o -name '*.rej' -o -name '*.bak' -o -name '*~' -o -name '*.sw[op]' \
    -o -name '*.patch' -o -name '*.diff' -o -name '*.bundle' -o -name '*.pack' \
    -o -name objects -o -name .git -o -name '*.pth' -o -name '*.egg-link' -o -name direct_url.json \
    -o -path '*/.cache/pip' -o -path '*/.cache/uv' -o -path '*/.cache/pypoetry/*' @NAMES@ \) -print0 || true
[ -z "$2" ] || wait $!
"""
_STALE = r"""
import os, struct, sys
for base, folders, names in os.walk(sys.argv[1]):
    folders[:] = [name for name in folders if name not in ("site-packages", "node_modules", ".git")]
    if os.path.basename(base) != "__pycache__":
        continue
    for name in names:
        path = os.path.join(base, name)
        source = os.path.join(os.path.dirname(base), name.split(".")[0] + ".py")
        with open(path, "rb") as file:
            head = file.read(16)
        if not name.endswith(".pyc") or len(head) < 16:
            continue
        flags, mtime, size = struct.unpack("<3I", head[4:])
        if os.path.isfile(source) and not flags:
            status = os.stat(source)
            if (int(status.st_mtime) & 0xFFFFFFFF, status.st_size & 0xFFFFFFFF) == (mtime, size):
                continue
        os.unlink(path)
"""
"""Removes modules that were compiled from another state of their source than the one that is there."""

_LOOK = r"""
export LC_ALL=C
say() { printf '%s\t%s\t%s\0' "$1" "$2" "$3"; }
differs() {  # a copy of a part of the project, and the name that it has there
    for root in . src lib python; do
        [ -e "$work/$root/$2" ] || continue
        diff -rq -x __pycache__ -x '*.pyc' -x _version.py "$1" "$work/$root/$2" 2> /dev/null \
            | grep -q -e '^Files' -e "^Only in $1.*\.py\$"
        return
    done
    return 0
}
blobs=
if command -v git > /dev/null; then
    blobs=$(cd "$work" && git -c safe.directory='*' rev-parse HEAD && git -c safe.directory='*' ls-tree -r HEAD \
        | grep -v e69de29bb2d1d6434b8b29ae775ad8c2e48c5391 | sed -n 's/^[0-9]* blob \([0-9a-f]*\).*/\1/p' | head -n 200)
fi
while [ $# -gt 0 ]; do
    kind=$1 path=$2
    shift 2
    case $kind in
    bundle) case $(head -c 16 "$path" | tr -d '\0') in '# v'?' git bundle'*) say bundle "$path" "" ;; esac ;;
    pack) case $(head -c 4 "$path" | tr -d '\0') in PACK) say pack "$path" "" ;; esac ;;
    patch) say patch "$path" "$(grep -a '^+++ ' "$path" | head -n 50)" ;;
    reference) say reference "$path" "$(head -c 4000 "$path" | tr -d '\0')" ;;
    cache)
        used=
        case $path in */uv) used=$(find / -xdev -type l -lname "$path/*" 2> /dev/null | head -n 1) ;; esac
        say cache "$path" "$used" ;;
    store)
        case $(ls "$path" 2> /dev/null) in *pack* | *info* | [0-9a-f][0-9a-f]*) ;; *) continue ;; esac
        [ -n "$blobs" ] || { say store "$path" unknown; continue; }
        found=$(printf '%s\n' "$blobs" | GIT_OBJECT_DIRECTORY=$path git -c safe.directory='*' -C "$work" \
            cat-file --batch-check 2> /dev/null | sed 's/^[0-9a-f]* \([a-z]*\).*/\1/')
        case $found in commit*) say store "$path" same; continue ;; esac
        all=$(printf '%s\n' "$blobs" | wc -l) some=$(printf '%s\n' "$found" | grep -c '^blob')
        [ $((some * 3)) -le "$all" ] || say store "$path" same ;;
    pointer)
        [ -f "$path" ] || continue
        say pointer "$path" "$(sed -n 's/^gitdir: //p' "$path")" ;;
    installed)
        ! grep -qs '"editable": *true' "$path/direct_url.json" || continue
        site=${path%/*}
        tops=$(sed -n 's/^\([^,"]*\.py\),.*/\1/p' "$path/RECORD" 2> /dev/null | sed 's,/.*,,' | sort -u)
        [ -n "$tops" ] || tops=$(cat "$path/top_level.txt" 2> /dev/null)
        for top in $tops; do
            case $top in .. | __pycache__ | *-info) continue ;; esac
            [ -e "$site/$top" ] || top=$top.py
            [ -e "$site/$top" ] || continue
            [ "$(cd "$site" && readlink -f "$top")" != "$work/$top" ] || continue
            ! differs "$site/$top" "$top" || say installed "$site/$top" ""
        done ;;
    copy)
        [ ! -f "$path" ] || case $path in *.py) ;; *) continue ;; esac
        [ ! -L "$path" ] || continue
        ! differs "$path" "${path##*/}" || say copy "$path" "" ;;
    esac
done
"""


@dataclass(frozen=True)
class Cleared:
    """What was removed, for people, and what is still there, as flags of every outcome."""

    notes: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


@dataclass
class _Decision:
    remove: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)

    def drop(self, path: str, what: str) -> None:
        if path not in self.remove:
            self.remove.append(path)
            self.notes.append(f"removed {path}: {what}")


def clear(sandbox: Sandbox, *, history: History, names: Sequence[str]) -> Cleared:
    """Remove leftovers of later states; ``names`` are those of the project's distributions (or repository)."""
    work = posixpath.normpath(sandbox.workdir)
    top = history.root or work
    patterns = [name_pattern(name) for name in names if name]
    conditions = "".join(
        f" -o -iname {shlex.quote(form)}" for pattern in patterns for form in (pattern, f"{pattern}[-.]*")
    )
    compiled = _STALE if history.tracked else ""
    walk = [_WALK.replace("@NAMES@", conditions), "sh", posixpath.join(top, ".git"), compiled, work]
    found_paths = _run(sandbox, ["/bin/sh", "-c", *walk])
    paths = [os.fsdecode(path) for path in found_paths.split(b"\0")[:-1]]
    flags = []
    if not paths:
        flags.append("leftover:not searched")  # the image has no `find`
    tracked = None if history.tracked is None else [os.fsdecode(path) for path in history.tracked]
    candidates = list(sort_out(paths, top=top, work=work, tracked=tracked, names=names))
    found = list(_look(sandbox, candidates, work))
    decision = decide(found, top=top, tracked=tracked)
    if decision.remove:
        _run(sandbox, ["rm", "-rf", "--", *decision.remove])
    flags += decision.flags
    if len(flags) > _MOST_FLAGS:
        flags = [*flags[:_MOST_FLAGS], f"leftover:{len(flags) - _MOST_FLAGS} more"]
    return Cleared(tuple(decision.notes), tuple(flags))


def name_pattern(name: str) -> str:
    """A shell pattern for a distribution's name in all its spellings: ``My.Pkg`` → ``my[-_.]pkg``."""
    words = re.split(r"[-_.]+", name.lower())
    return "[-_.]".join(re.sub(r"([\[\]*?\\])", r"\\\1", word) for word in words)


def sort_out(
    paths: Iterable[str], *, top: str, work: str, tracked: Sequence[str] | None, names: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """What of the walk is to be looked into: what it may be, and where."""
    paths = list(paths)
    known = {posixpath.join(work, path) for path in tracked or ()}
    folders = {parent for path in known for parent in _parents(path)}
    named = {re.sub(r"[-_.]+", "-", name.lower()) for name in names if name}
    stores = [path for path in paths if path.endswith("/objects")]
    repositories = [f"{posixpath.dirname(path)}/" for path in stores]
    basenames = {posixpath.basename(path) for path in known}
    for path in paths:
        name = posixpath.basename(path)
        inside = path.startswith(f"{work}/") if work != "/" else True
        if path in known or path in folders or (inside and tracked is None):
            continue
        third_party, foreign = bool(_THIRD_PARTY.search(path)), not inside
        if _REFERENCE.search(path):
            yield "reference", path
        elif _CACHE.search(path):
            if ".cache/" in path or _is_called(name, named):
                yield "cache", path
        elif name == "objects":
            if not path.startswith(f"{top}/.git/"):
                yield "store", path
        elif name == ".git":
            if path != f"{top}/.git":
                yield "pointer", path
        elif name.endswith(".bundle"):
            if not third_party:
                yield "bundle", path
        elif name.endswith(".pack"):
            if not third_party and not any(path.startswith(place) for place in repositories):
                yield "pack", path
        elif third_party and _METADATA.search(name) and _is_called(name, named):
            if _INSTALLED.search(path):
                yield "installed", path
        elif not third_party and _ARCHIVE.search(name) and _is_called(name, named):
            yield "archive", path
        elif _EDITED.search(name):
            of = _EDITED.sub("", name).lstrip(".")
            if not third_party and (inside or (of in basenames and not _SYSTEM.match(path))):
                yield "edited", path
        elif _PATCH.search(name):
            if not third_party and (inside or not _SYSTEM.match(path)):
                yield ("edited" if inside else "patch"), path
        elif third_party or _METADATA.search(name) or not _is_called(name, named):
            continue
        elif (foreign and not _SYSTEM.match(path)) or "/build/lib" in path:
            yield "copy", path


def decide(found: Iterable[tuple[str, str, str]], *, top: str, tracked: Sequence[str] | None) -> _Decision:
    """What goes and what is told, by what was seen: kind, place, and what the look brought."""
    made, found = _Decision(), list(found)
    referenced = "\n".join(text for kind, _, text in found if kind == "reference")
    for kind, path, text in found:
        if kind in ("bundle", "pack"):
            made.drop(path, f"a {kind} of git objects")
        elif kind == "archive":
            made.drop(path, "an archive of the project")
        elif kind == "edited":
            made.drop(path, "left over and not tracked")
        elif kind == "patch":
            if any(f"/{name}" in line for line in text.splitlines() for name in tracked or ()):
                made.drop(path, "a patch of the project")
        elif kind == "cache":
            if text:
                made.flags.append(f"leftover:{path}")  # an environment links into it
            else:
                made.drop(path, "a package cache")
        elif kind == "installed":
            made.flags.append(f"installed_copy:{path}")
        elif kind == "copy":
            if path.startswith(f"{top}/"):
                made.drop(path, "a build of another state of the project")
            else:
                made.flags.append(f"leftover:{path}")
        elif kind == "store":
            _drop_repository(made, posixpath.dirname(path), path, text, top, referenced)
    for kind, path, text in found:
        if kind == "pointer" and text and _is_below(text, made.remove):
            _drop_tree(made, posixpath.dirname(path), top, referenced)
    made.flags = [flag for flag in made.flags if not _is_below(flag.partition(":")[2], made.remove)]
    return made


def _drop_repository(made: _Decision, place: str, store: str, text: str, top: str, referenced: str) -> None:
    """Another repository of the project: git directory and, where nothing refers to them, the files beside."""
    if text == "unknown":
        if not place.startswith(f"{top}/"):
            made.flags.append(f"leftover:{place}")
        return
    if posixpath.basename(place) == ".git":
        made.drop(place, "another repository of the project")
        if not place.startswith(f"{top}/"):
            _drop_tree(made, posixpath.dirname(place), top, referenced)
    elif place.endswith(".git") or not _KEPT_FOLDERS.fullmatch(place):
        made.drop(place, "another repository of the project")
    else:
        made.drop(store, "git objects of the project")


def _drop_tree(made: _Decision, folder: str, top: str, referenced: str) -> None:
    if f"{top}/".startswith(f"{folder}/") or _KEPT_FOLDERS.fullmatch(folder) or folder in referenced:
        made.flags.append(f"leftover:{folder}")
    else:
        made.drop(folder, "files of another repository of the project")


def _is_below(path: str, places: Iterable[str]) -> bool:
    return any(f"{path}/".startswith(f"{place}/") for place in places)


def _is_called(name: str, named: set[str]) -> bool:
    """Whether a file's or folder's name is that of a project, or begins with it and a version or ending."""
    plain = re.sub(r"[-_.]+", "-", name.lower())
    return any(
        plain == one or re.fullmatch(rf"{re.escape(one)}-(v?\d.*|[a-z]+(-info)?)", plain) for one in named
    )


def _parents(path: str) -> Iterator[str]:
    while (parent := posixpath.dirname(path)) != path:
        yield parent
        path = parent


def _look(
    sandbox: Sandbox, candidates: Sequence[tuple[str, str]], work: str
) -> Iterator[tuple[str, str, str]]:
    """Kind, place and finding of every candidate that is what it seems to be."""
    certain = [item for item in candidates if item[0] in ("archive", "edited")]
    yield from ((kind, path, "") for kind, path in certain)
    # what is referred to matters only where there is something to be removed with its folder
    wanted = [item for item in candidates if item not in certain]
    if all(kind == "reference" or path.endswith("/.git") for kind, path in wanted):
        return
    arguments = [word for item in wanted for word in item]
    script = f"work={shlex.quote(work)}\n{_LOOK}"
    for piece in _pieces(arguments):
        output = _run(sandbox, ["/bin/sh", "-c", script, "sh", *piece])
        for record in output.split(b"\0")[:-1]:
            kind, path, text = os.fsdecode(record).split("\t", 2)
            yield kind, path, text


def _pieces(arguments: Sequence[str], size: int = 1000) -> Iterator[Sequence[str]]:
    return (arguments[start : start + size] for start in range(0, len(arguments), size))


def _run(sandbox: Sandbox, command: Sequence[str]) -> bytes:
    done = sandbox.run(command, user="0", cwd="/", timeout=_TIMEOUT, max_output=_MOST_OUTPUT)
    if done.exit_code != 0 or done.truncated:
        said = done.stderr.decode(errors="replace").strip()[-2000:]
        raise EngineError(f"could not look for leftovers in the image ({done.exit_code}): {said}")
    return done.stdout
