"""Nothing secret of the host is visible in a sandbox, and what looks like a key is masked in what is kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import GOOD, Cli

pytestmark = pytest.mark.engine

PLANTED = "PLANTED-on-the-host-0123456789"
LOOK = r"""
m=PLANT
{
    env; cat /proc/*/environ | tr '\0' '\n'; cat /proc/*/cmdline | tr '\0' '\n'; cat /proc/mounts
    ls -la /var/run/docker.sock /run/docker.sock /run/podman/podman.sock 2>&1
    cat ~/.ssh/* ~/.netrc ~/.docker/config.json ~/.aws/credentials 2>&1
    grep -rls "${m}ED-" /root /home /etc /opt /run /tmp /var /srv /mnt "$PWD" /dev/shm
    echo "found: end"
    python3 - <<'EOF'
import socket
for address in ("169.254.169.254", "169.254.170.2", "fd00:ec2::254", "172.17.0.1"):
    try:
        socket.create_connection((address, 80), timeout=3).close()
        print("reached", address)
    except OSError as error:
        print("not reached", address)
EOF
} > seen.txt
"""
LEAK = f"echo 'sk-proj-{'Abc1' * 8} and {PLANTED}'; echo 'Bearer {'x1Y2' * 6}' >&2; {GOOD}; exit 3"
IN_PATCH = f"{GOOD}; echo {PLANTED} > token.txt"


def test_secrets_of_the_host_stay_there_and_keys_are_masked_in_what_is_kept(
    cli: Cli, dataset: Callable[..., str], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    for name in (".ssh/id_rsa", ".netrc", ".aws/credentials"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(f"{PLANTED}\n")
    names = ("OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "OUR_OWN_TOKEN", "https_proxy")
    env = dict.fromkeys(names, PLANTED) | {
        "https_proxy": f"http://me:{PLANTED}@127.0.0.1:1/",
        "HOME": str(home),
    }
    (cli.folder / "obey.j2").write_text("{{ problem_statement }}")
    path = dataset(statements={"look": LOOK, "leak": LEAK, "in-patch": IN_PATCH})
    words = ["--dataset", path, "--agent-cmd", "sh", "--prompt", "obey.j2", "--run-id", "s", "--workers", "2"]
    done = cli("eval", "--json", *words, env=env)
    assert done.code == 0, done.err

    seen = (cli.attempt("s", "look") / "patch.diff").read_text()
    assert "+found: end" in seen and "BEYONDSWE_PROMPT_FILE" in seen
    assert "PLANTED-" not in seen
    assert seen.count("not reached") == 4
    for socket in ("/var/run/docker.sock", "/run/podman/podman.sock"):
        assert f"cannot access '{socket}'" in seen
    mounts = [line for line in seen.splitlines() if line.startswith("+/dev/") and " /etc/" not in line]
    assert mounts == []

    leak = cli.attempt("s", "leak")
    log = (leak / "logs" / "agent.log").read_text()
    assert log == "[masked] and [masked]\n\n--- standard error ---\nBearer [masked]\n"
    by_id = {row["instance_id"]: row for row in cli.outcomes("s")}
    assert by_id["in-patch"]["flags"].count("secret_in_patch") == 1
    assert PLANTED in (cli.attempt("s", "in-patch") / "patch.diff").read_text()
    kept = [
        file
        for file in cli.runs.rglob("*")
        if file.is_file() and file.name not in ("patch.diff", "ledger.db")
    ]
    assert [file for file in kept if PLANTED.encode() in file.read_bytes()] == []
    assert json.loads((leak / "outcome.json").read_text())["agent_exit_code"] == 3
