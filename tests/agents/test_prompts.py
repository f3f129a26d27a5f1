"""Prompts: a set without search and one with it, for every family."""

from __future__ import annotations

import pytest

from beyondswe.agents.prompts import Prompts
from beyondswe.instances.model import Family, Instance
from beyondswe.sandbox.types import Network


def _prompt(kind: str, family: Family, network: str) -> str:
    instance = Instance(
        instance_id="secret_pr7", family=family, image="i", problem_statement="the {{ issue }}"
    )
    return Prompts(kind, Network(network)).render(instance)


@pytest.mark.parametrize("family", list(Family))
def test_every_family_with_and_without_search(family: Family) -> None:
    plain, search = _prompt("default", family, "none"), _prompt("searchswe", family, "filtered")
    assert "look up on the web" in search and "look up on the web" not in plain
    for text in (plain, search):
        assert "secret_pr7" not in text and "\n\n\n" not in text and "/workspace" in text
        assert ("the {{ issue }}" in text) is (family is not Family.DOC2REPO)
    assert "There is no network" in plain and "There is no network" not in search


@pytest.mark.parametrize(
    ("kind", "network", "said"),
    [
        ("default", "model", "There is no network"),
        ("default", "open", "The network can be reached"),
        ("searchswe", "model", "by your search tools alone"),
        ("searchswe", "filtered", "by your search tools and by commands"),
        ("searchswe", "none", "There is no network"),
    ],
)
def test_what_the_prompt_says_of_the_network_is_so(kind: str, network: str, said: str) -> None:
    for family in Family:
        assert said in _prompt(kind, family, network)


def test_the_two_sets_are_told_apart() -> None:
    assert Prompts("default", Network.NONE).sha256 != Prompts("searchswe", Network.NONE).sha256
