"""`eval --network filtered`: an agent that asks for its own pull request in every way, also past the proxy."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
import yaml

from beyondswe.gateway.egress_config import VARIABLE
from beyondswe.gateway.proxy_env import FOLDER
from tests.cli.conftest import Cli
from tests.gateway import web as standin
from tests.gateway.web import FORGE, INDEX, INDEX_DATE, READER, TARGET, WEB, Web

pytestmark = [pytest.mark.engine, pytest.mark.index]

PULL = f"https://{FORGE}/{TARGET}/pull/7"
AGENT = f"""
exec 2>&1
ask() {{ python3 -c 'import sys, urllib.request as r, urllib.error as e
try: print("GOT", r.urlopen(sys.argv[1], timeout=20).read().decode())
except e.HTTPError as x: print("REFUSED", x.code, x.headers.get("x-refused-rule"))
except OSError as x: print("FAILED", x)' "$1"; }}
echo "== web"; ask https://{WEB}/page
echo "== pull"; ask {PULL}; ask https://{READER}/{PULL}; ask https://{WEB}/away
echo "== git"; git clone -q https://{FORGE}/{TARGET} /tmp/stolen
git clone -q https://{FORGE}/other/lib.git /tmp/lib && ls /tmp/lib
echo "== pip"; pip download -q --no-deps -d /tmp/got -i https://{INDEX}/simple tiny
pip download -q --no-deps git+https://{FORGE}/{TARGET}
pip download -q --no-deps -d /tmp/got -i https://{INDEX}/simple helper; ls /tmp/got
echo "== past the proxy"; python3 - <<'PY'
import os, socket, urllib.request
for name in [n for n in os.environ if n.lower().endswith("_proxy")]: del os.environ[name]
for family, address in [(socket.AF_INET, ("93.184.215.14", 80)), (socket.AF_INET, ("8.8.8.8", 53)),
                        (socket.AF_INET, ("172.17.0.1", 80)), (socket.AF_INET, ("169.254.169.254", 80)),
                        (socket.AF_INET6, ("2606:4700::1111", 443, 0, 0))]:
    try:
        with socket.socket(family) as s: s.settimeout(3); s.connect(address); print("REACHED", address)
    except OSError: pass
try:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(3); s.sendto(b"x", ("8.8.8.8", 53)); s.recv(10); print("REACHED dns")
except OSError: pass
try: print("REACHED", socket.getaddrinfo("{FORGE}", 443))
except OSError: pass
try: print("REACHED", urllib.request.urlopen("{PULL}", timeout=5).read())
except OSError: print("closed")
PY
echo "== end"
sed -i '0,/a - b/s//a + b/' calc.py
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Web, dict[str, str]]]:
    """A web of our own, and the variable that leads the proxy to it."""
    folder = tmp_path_factory.mktemp("web")
    web = Web(folder)
    web.start()
    config = {"hosts": web.hosts, "certificates": str(web.authority), "index": f"https://{INDEX}/simple/"}
    (folder / "egress.yaml").write_text(yaml.safe_dump(config))
    yield web, {VARIABLE: str(folder / "egress.yaml")}
    web.stop()


def part(log: str, name: str) -> str:
    return log.partition(f"== {name}\n")[2].partition("\n== ")[0]


def test_an_agent_behind_the_rules(
    cli: Cli, dataset: Callable[..., str], world: tuple[Web, dict[str, str]]
) -> None:
    web, env = world
    (cli.folder / "obey.j2").write_text("{{ problem_statement }}")
    rows = dataset(statements={"tiny-1": AGENT}, repo=TARGET, index_date=INDEX_DATE, distributions=["tiny"])
    asked = ("--agent-cmd", "sh", "--prompt", "obey.j2", "--network", "filtered", "--allow-host", WEB)
    done = cli("eval", "--json", "--dataset", rows, *asked, "--run-id", "r", env=env)
    assert done.code == 0, done.err
    folder = cli.attempt("r", "tiny-1")
    log = (folder / "logs" / "agent.log").read_text()
    assert "GOT" in part(log, "web"), log
    pull = part(log, "pull")
    assert pull.count("REFUSED 403 target-repository") == 3 and "GOT" not in pull, log
    assert "403" in part(log, "git") and "lib.py" in part(log, "git"), log
    assert part(log, "pip").strip().endswith("helper-1.1-py3-none-any.whl"), log
    assert part(log, "past the proxy").strip() == "closed", log
    assert standin.ANSWER not in log

    records = [json.loads(line) for line in (folder / "egress.jsonl").read_text().splitlines()]
    blocked = {record["url"]: record["rule"] for record in records if record["decision"] == "blocked"}
    for address in (
        PULL,
        f"https://{READER}/{PULL}",
        f"https://{FORGE}/{TARGET}/info/refs?service=git-upload-pack",
    ):
        assert blocked[address] == "target-repository"
    assert blocked[f"https://{INDEX}/simple/tiny/"].startswith("target-")
    assert any(record["url"] == f"https://{WEB}/page" and record["status"] == 200 for record in records)
    assert not [line for line in web.asked if TARGET in line]

    patch = (folder / "patch.diff").read_text()
    assert "calc.py" in patch and FOLDER not in patch and "CERTIFICATE" not in patch
    run = json.loads((cli.runs / "r" / "run.json").read_text())
    assert run["network"] == "filtered" and run["allow_hosts"] == [WEB]
    assert done.json["avg"] == 100
    for path in (cli.runs / "r").rglob("*"):
        assert not path.is_file() or b"PRIVATE KEY" not in path.read_bytes()


def test_hosts_need_a_network(cli: Cli, dataset: Callable[..., str]) -> None:
    for arguments, said in (
        (("--network", "none", "--allow-host", "a.example.com"), "no effect"),
        (("--network", "open", "--allow-host", "a.example.com"), "no effect"),
        (("--network", "filtered", "--allow-host", "https://a.example.com/x"), "no HOST"),
    ):
        done = cli.eval("--dataset", dataset("tiny-1"), "--agent-cmd", "true", *arguments)
        assert done.code == 2 and said in done.json["error"]["message"]
    assert not cli.runs.exists()
