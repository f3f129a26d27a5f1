"""The persistent shell: what lasts, what does not, and output that tries to break it."""

from __future__ import annotations

import pytest

from beyondswe.agents.searchswe.shell import Shell
from beyondswe.sandbox.docker import DockerSandbox


@pytest.fixture
def shell(sandbox: DockerSandbox) -> Shell:
    sandbox.run("rm -rf /tmp/.beyondswe-shell", timeout=20, user="0")
    return Shell(sandbox, "/opt", env={"FROM_OUTSIDE": "yes"})


def _out(shell: Shell, command: str, timeout: float = 30) -> str:
    return shell.run(command, timeout=timeout).output


def test_folder_variables_functions_and_aliases_last(shell: Shell) -> None:
    assert _out(shell, "pwd; echo $FROM_OUTSIDE") == "/opt\nyes\n"
    _out(
        shell,
        "cd /tmp; X=1; export Y='a b\"c'$'\\n'd; f() { echo \"f: $1\"; }; alias ll='echo LL'; arr=(1 '2 3')\n"
        "declare -A m=([k]=v); shopt -s nullglob; umask 027",
    )
    shown = 'pwd; echo "$X-$Y"; f 3; ll; echo ${arr[1]} ${m[k]}; echo *.none; umask; env | grep -c ^Y='
    assert _out(shell, shown) == '/tmp\n1-a b"c\nd\nf: 3\nLL\n2 3 v\n\n0027\n1\n'


def test_exit_codes_and_both_streams_in_order(shell: Shell) -> None:
    ran = shell.run("echo one; echo two >&2; echo three; exit 7", timeout=30)
    assert (ran.output, ran.exit_code, ran.state_kept) == ("one\ntwo\nthree\n", 7, True)
    ran = shell.run("Z=2; false", timeout=30)
    assert ran.exit_code == 1 and _out(shell, "echo $Z") == "2\n"


def test_the_time_limit_ends_the_command_and_not_the_shell(shell: Shell) -> None:
    _out(shell, "X=before")
    ran = shell.run("echo begun; X=after; while :; do :; done", timeout=5)
    assert ran.exit_code is None and ran.output.startswith("begun\n")
    assert _out(shell, "echo $X") == "before\n"


def test_background_processes_live_on_and_hold_nothing_up(shell: Shell) -> None:
    ran = shell.run("(sleep 1000; echo never) & echo $! > /tmp/pid; echo started", timeout=60)
    assert (ran.output, ran.exit_code) == ("started\n", 0)
    assert _out(shell, "kill -0 $(cat /tmp/pid) && echo alive; kill $(cat /tmp/pid)") == "alive\n"


@pytest.mark.parametrize(
    "command",
    [
        "set -x; true; set +x",
        "echo 'unfinished",
        "trap 'echo mine' EXIT",
        "exec true",
        "set -e; false; true",
        "set -u; echo $none; set +u",
        "unset PATH",
        "cat; read -r line",
        "kill -9 $$",
        "declare() { echo hijacked; }; cd() { echo hijacked; }; export -f declare",
        "printf '# whole\\nexit 3\\n'; head -c 200 /dev/urandom",
        "IFS=x; set -- a b; shopt -s extglob failglob; set -f",
        "exec > /dev/null 2>&1",
        "exec 0<&- 1>&- 2>&-; true",
        "readonly R=1; R=2",
        "return 4",
        "BASH_ENV=/nonsense ENV=/nonsense PS4='$(echo boo)' PROMPT_COMMAND='exit 9'",
    ],
)
def test_nothing_that_a_command_does_spoils_the_next(shell: Shell, command: str) -> None:
    _out(shell, "KEPT=yes; cd /tmp")
    shell.run(command, timeout=20)
    ran = shell.run("builtin set +f; unset -f declare cd; echo $KEPT; builtin pwd; /bin/true", timeout=20)
    assert (ran.output.splitlines()[-2:], ran.exit_code) == (["yes", "/tmp"], 0), ran


def test_a_lost_state_is_said(shell: Shell) -> None:
    _out(shell, "X=1; cd /tmp")
    shell.run("rm -rf /tmp/.beyondswe-shell", timeout=20)
    ran = shell.run("echo [$X]; pwd", timeout=20)
    assert ran.state_lost and ran.output == "[]\n/opt\n"


def test_a_folder_that_is_gone_is_said(shell: Shell) -> None:
    _out(shell, "mkdir /tmp/gone; cd /tmp/gone; rmdir /tmp/gone")
    assert _out(shell, "echo on") == "[The working folder /tmp/gone is gone; you are in /opt.]\non\n"


def test_endless_output_is_kept_in_bounds(shell: Shell) -> None:
    ran = shell.run("echo first; yes | head -c 6000000; echo last", timeout=60)
    assert ran.output.startswith("first\n") and ran.output.endswith("last\n")
    assert len(ran.output) < 2_200_000 and "bytes of output were dropped" in ran.output
    ran = shell.run("yes", timeout=5)
    assert ran.exit_code is None and ran.output.startswith("y\n") and len(ran.output) < 2_200_000


def test_a_command_of_any_length(shell: Shell) -> None:
    text = "x" * 300_000
    assert _out(shell, f"cat <<'EOF' | wc -c\n{text}\nEOF\n") == "300001\n"
