"""Whose word counts on when files of an index were uploaded."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from types import SimpleNamespace
from typing import Any

import pytest

from beyondswe.gateway.egress_rules import EgressPolicy
from beyondswe.gateway.index import SIMPLE_JSON, IndexRequest, Kind
from beyondswe.resources import resource

OWN = "https://index.example/simple/"
REAL, FORGED = "2024-09-01T00:00:00Z", "2001-01-01T00:00:00Z"
NAME = "helper-2.0.tar.gz"


@pytest.fixture
def lookup() -> Any:
    spec = importlib.util.spec_from_file_location("proxy_lookup", resource("harness", "proxy", "lookup.py"))
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Lookup(None, trust=None, index=OWN)


def attempt(*allow_hosts: str) -> Any:
    return SimpleNamespace(policy=EgressPolicy(allow_hosts=allow_hosts), file_hosts=set())


def page(host: str, moment: str) -> bytes:
    return json.dumps(
        {"files": [{"filename": NAME, "url": f"https://{host}/{NAME}", "upload-time": moment}]}
    ).encode()


def told(lookup: Any, host: str, who: Any) -> str:
    asked = IndexRequest(Kind.FILE, "helper", filename=NAME)
    moment: str = asyncio.run(lookup.uploaded(SimpleNamespace(host=host), asked, who))
    return moment


def test_a_page_of_the_agents_own_does_not_date_files_of_another_host(lookup: Any) -> None:
    evil, other = attempt(), attempt()
    forged = page("files.example", FORGED)
    lookup.learn("https://evil.example/simple/helper/", "helper", forged, SIMPLE_JSON, attempt=evil)
    assert "files.example" in lookup.file_hosts(evil) and "files.example" not in lookup.file_hosts(other)
    lookup.learn(f"{OWN}helper/", "helper", page("files.example", REAL), SIMPLE_JSON, attempt=other)
    for who in (evil, other):
        assert told(lookup, "files.example", who) == REAL
    lookup.learn("https://evil.example/simple/helper/", "helper", forged, SIMPLE_JSON, attempt=evil)
    assert told(lookup, "files.example", evil) == REAL


def test_the_configured_index_has_the_last_word_over_one_that_is_allowed(lookup: Any) -> None:
    who, mirror = attempt("mirror.example"), "https://mirror.example/simple/helper/"
    lookup.learn(mirror, "helper", page("files.example", FORGED), SIMPLE_JSON, attempt=who)
    assert told(lookup, "files.example", who) == FORGED  # the user vouches for it
    lookup.learn(f"{OWN}helper/", "helper", page("files.example", REAL), SIMPLE_JSON, attempt=who)
    assert told(lookup, "files.example", who) == REAL


def test_an_index_dates_files_of_its_own_host(lookup: Any) -> None:
    who = attempt()
    url = "https://small.example/simple/helper/"
    lookup.learn(url, "helper", page("small.example", REAL), SIMPLE_JSON, attempt=who)
    assert told(lookup, "small.example", who) == REAL
