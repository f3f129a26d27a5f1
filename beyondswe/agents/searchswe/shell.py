r"""A bash that lasts over a sandbox whose commands each run to their end.

Every command is a fresh bash that first takes over what the one before it left: working folder, variables
(exported, arrays, attributes), functions, aliases, umask, shell options. What a process has and a file cannot
hold does not last: traps, open descriptors, ``ulimit``, job numbers. Background processes live on.

Why not one bash that is fed line by line: its output would have to be taken apart by marks that a hostile or
unlucky command can print, and a command that hangs inside the shell itself (``while :; do :; done``) could
only be ended together with it. Here the exit code is the engine's, the output of a command is whatever it
wrote, and a time limit leaves the state as it was before.

Output goes to a file and not down the connection, because a process left in the background would hold that
open; a file beyond `_FILE_LIMIT` is emptied, with its head kept.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass

from beyondswe.errors import AgentError
from beyondswe.sandbox.types import Sandbox

_FOLDER = "/tmp/.beyondswe-shell"
_FILE_LIMIT = 256 << 20  # bytes of output on the sandbox's disk
_KEPT = 1 << 20  # bytes of head and of tail that come out

_RUNNER = r"""
__beyondswe_save() {
    builtin local __beyondswe_name
    {
        builtin printf '%s\n' "$1"
        builtin alias -p
        builtin umask -p
        while IFS= builtin read -r __beyondswe_name; do
            case $__beyondswe_name in
                BASH | BASH_* | BASHOPTS | BASHPID | BEYONDSWE_EXEC | COMP_* | DIRSTACK | EPOCH* | EUID | FUNCNAME) ;;
                GROUPS | HISTCMD | LINENO | PIPESTATUS | PPID | PWD | RANDOM | SECONDS | SHELLOPTS | SHLVL) ;;
                SRANDOM | UID | _ | __beyondswe_*) ;;
                *) builtin declare -p "$__beyondswe_name" ;;
            esac
        done < <(builtin compgen -A variable)
        builtin printf 'builtin cd -- %q 2>/dev/null || __beyondswe_gone=%q\n' "$PWD" "$PWD"
        builtin declare -f  # last: one that is called declare or cd must not meet the lines above
        while builtin read -r _ _ __beyondswe_name; do
            builtin printf 'builtin declare -fx %q\n' "$__beyondswe_name"
        done < <(builtin declare -Fx)
    } > "$__beyondswe_folder/state.new" && builtin printf '\n# whole\n' >> "$__beyondswe_folder/state.new"
}
__beyondswe_folder=$1
builtin shopt -s expand_aliases
__beyondswe_options=
[ ! -f "$__beyondswe_folder/state" ] || . "$__beyondswe_folder/state" 2> /dev/null
[ -z "${__beyondswe_gone-}" ] ||
    builtin printf '%s\n' "[The working folder $__beyondswe_gone is gone; you are in $PWD.]"
__beyondswe_end() {
    [ -z "${__beyondswe_ended-}" ] || builtin return 0
    __beyondswe_ended=yes
    __beyondswe_options="$(builtin set +o; builtin shopt -p)"
    builtin set +eux
    __beyondswe_save "__beyondswe_options=$(builtin printf %q "$__beyondswe_options")"
}
trap '{ __beyondswe_end; } 2> /dev/null' EXIT
set --
{ builtin eval "$__beyondswe_options"; set +n; unset __beyondswe_gone; } 2> /dev/null
. "$__beyondswe_folder/command"
{ __beyondswe_code=$?; __beyondswe_end; } 2> /dev/null
exit "$__beyondswe_code"
"""
"""Read by bash from a file. The state is saved however the command ends, but for a kill, an ``exec``, or an
``exit`` under a trap of the command's own. ``set -e`` holds for the command that says it.
"""

_OUTER = r"""
folder=$1 kept=$2 limit=$3
cd "$folder" || exit 1
[ -f state ] || echo fresh >&2
rm -f state.new head
: > out
(
    while sleep 1; do
        size=$(wc -c < out) || exit
        if [ "$size" -gt "$limit" ]; then
            [ -f head ] || head -c "$kept" out > head
            : > out
        fi
    done
) > /dev/null 2>&1 &
watcher=$!
cd "$4" 2> /dev/null || cd /
BASH_ENV= bash --noprofile --norc "$folder/runner" "$folder" >> "$folder/out" 2>&1 < /dev/null
code=$?
cd "$folder" || exit 1
kill "$watcher" 2> /dev/null
if [ -f state.new ] && [ "$(tail -n 1 state.new)" = "# whole" ]; then mv -f state.new state; else echo unsaved >&2; fi
. ./show
exit "$code"
"""

_SHOW = r"""
size=$(wc -c < out)
if [ -f head ]; then
    cat head
    printf '\n[... output beyond what is kept was dropped ...]\n'
    tail -c "$kept" out
elif [ "$size" -gt $((2 * kept)) ]; then
    head -c "$kept" out
    printf '\n[... %s bytes of output were dropped ...]\n' $((size - 2 * kept))
    tail -c "$kept" out
else
    cat out
fi
rm -f out head
"""


@dataclass(frozen=True)
class Ran:
    """How a command in the shell ended."""

    output: str
    exit_code: int | None  # None: ended by the time limit
    state_lost: bool = False  # the shell's state of before was not there any more
    state_kept: bool = True  # False: what this command changed in the shell did not last


class Shell:
    """The persistent shell of one attempt."""

    def __init__(self, sandbox: Sandbox, workdir: str, *, env: Mapping[str, str] | None = None) -> None:
        self._sandbox, self._workdir, self._env = sandbox, workdir, env
        self._used = False

    def run(self, command: str, *, timeout: float) -> Ran:
        """Run a command to its end or to the time limit, which ends it and whatever it started."""
        self._put(command)
        arguments = [_FOLDER, str(_KEPT), str(_FILE_LIMIT), self._workdir]
        result = self._sandbox.run(
            ["/bin/sh", f"{_FOLDER}/outer", *arguments],
            timeout=timeout,
            env=self._env,
            cwd="/",
            max_output=4 * _KEPT,
        )
        if result.timed_out:
            self._used = True
            return Ran(self._rest(), None, state_kept=False)
        if result.exit_code == 127 and b"bash: not found" in result.stdout:
            raise AgentError("the image has no bash, which this agent needs")
        told = result.stderr.decode("utf-8", "replace").split()
        lost = self._used and "fresh" in told
        self._used = True
        return Ran(
            result.stdout.decode("utf-8", "replace"), result.exit_code, lost, state_kept="unsaved" not in told
        )

    def _rest(self) -> str:
        """What a command that was ended had written."""
        result = self._sandbox.run(
            ["/bin/sh", "-c", f'cd "$1" || exit; kept={_KEPT}; . ./show', "sh", _FOLDER],
            timeout=60,
            cwd="/",
            max_output=4 * _KEPT,
        )
        return result.stdout.decode("utf-8", "replace")

    def _put(self, command: str) -> None:
        files = {"command": command + "\n", "runner": _RUNNER, "outer": _OUTER, "show": _SHOW}
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
            folder = tarfile.TarInfo(_FOLDER.lstrip("/"))
            folder.type, folder.mode = tarfile.DIRTYPE, 0o777  # whoever the image's user is, it writes here
            archive.addfile(folder)
            for name, text in files.items():
                data = text.encode("utf-8", "replace")
                entry = tarfile.TarInfo(f"{_FOLDER}/{name}".lstrip("/"))
                entry.size, entry.mode = len(data), 0o644
                archive.addfile(entry, io.BytesIO(data))
        self._sandbox.put(buffer.getvalue())
