"""Decisions of the egress proxy over single requests, addresses and names, and what is kept of them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

import beyondswe
from beyondswe.errors import UsageError
from beyondswe.gateway.egress import allowed_host, policy_for
from beyondswe.gateway.egress_config import VARIABLE, egress_config
from beyondswe.gateway.egress_rules import (
    EgressLimits,
    EgressPolicy,
    Facts,
    Refused,
    check_names,
    check_place,
    check_request,
    is_public,
    masked_url,
    wants_head,
)
from beyondswe.gateway.proxy_build import proxy_python
from beyondswe.instances.model import Family, Instance
from beyondswe.resources import resource
from beyondswe.sandbox.types import Network

POLICY = EgressPolicy(repo="acme/tiny", index_date="2024-03-01")


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "::1", "fe80::1",
     "fe80::1%eth0", "fd00::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "224.0.0.1", "192.0.2.1"],
)  # fmt: skip
def test_addresses_inside(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700:4700::1111", "64:ff9b::808:808"])
def test_addresses_outside(address: str) -> None:
    assert is_public(address)


def refused(policy: EgressPolicy, facts: Facts) -> str:
    try:
        check_request(policy, facts, None)
    except Refused as error:
        return error.rule
    return ""


def facts(
    host: str = "www.example.com", path: str = "/", *, scheme: str = "https", port: int = 443, **more: object
) -> Facts:
    return Facts(**{"method": "GET", "scheme": scheme, "host": host, "port": port, "path": path, **more})  # type: ignore[arg-type]


def test_hosts_are_compared_in_one_spelling() -> None:
    check_names(
        facts("WWW.example.com.", host_headers=["www.EXAMPLE.com:443"], sni="www.example.com", authority="")
    )
    check_names(facts("bücher.example.com", host_headers=["xn--bcher-kva.example.com"]))
    for more in (
        {"host_headers": ["www.example.com:8443"]},
        {"host_headers": ["www.example.com", "www.example.com"]},
        {"host_headers": [""], "sni": "other.example.com"},
        {"authority": "other.example.com"},
        {"connect": ("www.example.com", 8443)},
        {"host_headers": ["@"]},
    ):
        with pytest.raises(Refused) as error:
            check_names(facts(**more))
        assert error.value.rule == "host-mismatch"


def test_allowed_hosts_do_not_open_the_target() -> None:
    policy = EgressPolicy(repo="acme/tiny", allow_hosts=("github.com", "bit.ly", "10.0.0.1:8080"))
    assert refused(policy, facts("github.com", "/acme/tiny")) == "target-repository"
    assert refused(policy, facts("bit.ly", "/abc")) == ""
    assert refused(POLICY, facts("bit.ly", "/abc")) == "shortener"
    assert refused(policy, facts("10.0.0.1", scheme="http", port=8080)) == ""
    assert refused(policy, facts("10.0.0.1", scheme="http", port=8081)) == "internal-address"


def test_only_allowed_hosts() -> None:
    policy = EgressPolicy(allow_hosts=("api.example.com",), only_allowed=True)
    check_place(policy, "API.example.com", 443)
    for host, port in (("api.example.com", 8443), ("www.example.com", 443), ("x.api.example.com", 443)):
        with pytest.raises(Refused):
            check_place(policy, host, port)


def test_policies_survive_the_way_to_the_proxy() -> None:
    policy = EgressPolicy(repo="a/b", aliases=("c/d",), allow_hosts=("h",), limits=EgressLimits(rate=1.5))
    assert EgressPolicy.from_dict(json.loads(json.dumps(policy.to_dict()))) == policy


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://u:p@example.com/a?access_token=x&b=1#frag", "https://example.com/a?access_token=***&b=1"),
        ("https://example.com/?X-Amz-Signature=abc&x=%20", "https://example.com/?X-Amz-Signature=***&x=%20"),
        ("https://example.com/ghp_abcdefghijkl0123456789/x", "https://example.com/***/x"),
        ("https://example.com/?q=monkey", "https://example.com/?q=monkey"),
        ("https://u:p@[bad/x", "https://[bad/x"),
    ],
)
def test_secrets_in_addresses_are_masked(url: str, shown: str) -> None:
    assert masked_url(url) == shown


def test_long_addresses_are_cut_in_the_log() -> None:
    assert len(masked_url("https://example.com/" + "a" * 10_000)) < 4_200


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("https://example.com/a/b/pull/7", True),
        ("https://example.com/a/b/-/merge_requests/7/diffs", True),
        ("https://example.com/a/b/commit/abc.patch", True),
        ("https://example.com/a/pulling-teeth", False),
        ("https://example.com/?x=/pull/7", False),
    ],
)
def test_heads_kept(url: str, wanted: bool) -> None:
    assert wants_head(url) is wanted


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("hosts: {a: b}", "hosts"),
        ("index: ftp://x", "index"),
        ("limits: {rate: 0}", "limits.rate"),
        ("what: 1", "what"),
        ("[", "no YAML"),
    ],
)
def test_configuration_is_checked(
    text: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "egress.yaml"
    path.write_text(text)
    monkeypatch.setenv(VARIABLE, str(path))
    with pytest.raises(UsageError, match=named):
        egress_config()


def test_what_network_and_hosts_mean() -> None:
    tiny = Instance(
        instance_id="i", family=Family.CROSSREPO, repo="acme/tiny", image="x", index_date="2024-03-01",
        distributions=("tiny-dist",),
    )  # fmt: skip
    assert policy_for(Network.NONE) is None and policy_for(Network.OPEN) is None
    assert policy_for(Network.MODEL) is None
    filtered, model = policy_for(Network.FILTERED), policy_for(Network.MODEL, ["API.Example.com:8443"])
    assert filtered is not None and model is not None
    assert not filtered(tiny).only_allowed and filtered(tiny).barred == {"tiny-dist"}
    assert model(tiny).only_allowed and model(tiny).allow_hosts == ("api.example.com:8443",)
    for network in (Network.NONE, Network.OPEN):
        with pytest.raises(UsageError, match="no effect"):
            policy_for(network, ["example.com"])
    for text in ("https://example.com", "example.com/x", "", "*.example.com", "example.com:99999", "a b"):
        with pytest.raises(UsageError, match="no HOST"):
            allowed_host(text)


REBINDING = """
import asyncio, runpy, sys
main = runpy.run_path(sys.argv[1] + "/main.py")
main["borrow"](sys.argv[2])
sys.path.insert(0, sys.argv[1])
from places import Inside, Places

class Loop(main["Loop"]):
    answers = []

    async def getaddrinfo(self, host, port, **_):
        return [(2, 1, 6, "", (self.answers.pop(0), port))]

async def ask(host):
    loop = asyncio.get_running_loop()
    places = loop.places = Places({}, {})
    seen = []
    for _ in range(2):  # once by the request, once by the connection
        try:
            seen.append(await places.addresses(host, 80))
        except Inside as inside:
            seen.append(inside.rule)
    return seen

with asyncio.Runner(loop_factory=Loop) as runner:
    Loop.answers = ["93.184.215.14", "127.0.0.1"]
    print(runner.run(ask("rebind.example.org")))
    Loop.answers = ["127.0.0.1", "93.184.215.14"]
    print(runner.run(ask("rebind.example.org")))
    Loop.answers = ["127.0.0.1"]
    async def connect():
        try:
            await asyncio.open_connection("inside.example.org", 80)
        except OSError as error:
            return str(error)
    print(runner.run(connect()))
"""


@pytest.mark.index
def test_names_that_change_their_address() -> None:
    """What was vetted is what is connected to; a name that leads inside is refused at either moment."""
    script = [str(proxy_python()), "-c", REBINDING, str(resource("harness", "proxy"))]
    done = subprocess.run(
        [*script, str(Path(beyondswe.__file__).parent)],
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"]},
    )
    assert done.returncode == 0, done.stderr
    first, second, third = done.stdout.splitlines()
    assert first == "[[('93.184.215.14', 80)], [('93.184.215.14', 80)]]"
    assert second == "['internal-address', 'internal-address']"
    assert "127.0.0.1" in third and "open internet" in third
