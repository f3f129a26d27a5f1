"""Limits are capped to what the host has, and it is said."""

from __future__ import annotations

from typing import Any

import pytest

from beyondswe.sandbox.limits import capped, host_config
from beyondswe.sandbox.types import Limits


class Host:
    """An engine that says what its host has."""

    def __init__(self, **info: Any) -> None:
        self.info = {"NCPU": 2, "MemTotal": 4 << 30, **info}

    def ulimits(self) -> list[dict[str, Any]]:
        return []


@pytest.mark.parametrize(
    ("host", "asked", "given", "words"),
    [
        (Host(), Limits(cpus=1, memory=1 << 30), Limits(cpus=1, memory=1 << 30), []),
        (Host(), Limits(), Limits(cpus=2, memory=4 << 30), ["asked for 4, the host has 2", "8589934592"]),
        (Host(NCPU=8, MemTotal=64 << 30), Limits(), Limits(), []),
        (Host(NCPU=8, MemTotal=64 << 30, MemoryLimit=False), Limits(), Limits(memory=0), ["cannot limit it"]),
        (
            Host(NCPU=8, MemTotal=64 << 30, PidsLimit=False),
            Limits(),
            Limits(pids=0),
            ["cannot limit their number"],
        ),
    ],
)
def test_limits_are_capped_with_a_note(host: Any, asked: Limits, given: Limits, words: list[str]) -> None:
    limits, notes = capped(asked, host)
    assert limits == given
    assert len(notes) == len(words)
    assert all(word in note for word, note in zip(words, notes, strict=True))


def test_swap_counts_as_memory_and_what_cannot_be_limited_is_left_out() -> None:
    host: Any = Host()
    config = host_config(host, Limits(cpus=1.5, memory=1 << 30, pids=99), network="none", privileges=False)
    assert config["Memory"] == config["MemorySwap"] == 1 << 30
    assert (config["NanoCpus"], config["PidsLimit"], config["NetworkMode"]) == (1_500_000_000, 99, "none")
    assert config["SecurityOpt"] == ["no-new-privileges"]
    config = host_config(host, Limits(cpus=0, memory=0, pids=0), network="none", privileges=True)
    assert not {"Memory", "MemorySwap", "NanoCpus", "PidsLimit", "SecurityOpt", "Privileged", "CapAdd"} & set(
        config
    )
