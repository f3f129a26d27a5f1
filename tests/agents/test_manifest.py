"""Agents: manifests, commands, what is put into the sandbox, prompts."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from beyondswe.agents.command import PROMPT_FILE, CommandAgent, command_line
from beyondswe.agents.loader import agent_from_command, load_agent, shipped_agents
from beyondswe.agents.manifest import Manifest, folder_digest
from beyondswe.agents.prompts import Prompts
from beyondswe.errors import UsageError
from beyondswe.instances.model import Family, Instance
from beyondswe.sandbox.types import Network

WORDS = {"{prompt}": "it's {workdir}", "{prompt_file}": "/p.md", "{workdir}": "/w", "{agent_dir}": "/a"}


def agent_folder(tmp_path: Path, manifest: str, **files: str) -> Path:
    folder = tmp_path / "my-agent"
    folder.mkdir(exist_ok=True)
    (folder / "agent.yaml").write_text(manifest)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def test_the_shipped_agents_are_there_by_name() -> None:
    names = {manifest.name for manifest in shipped_agents()}
    assert {"command", "nop", "oracle", "openhands", "mini-swe-agent", "swe-agent", "codex"} <= names
    assert {"claude-code", "gemini-cli", "aider", "opencode", "qwen-code"} <= names
    assert load_agent("oracle").name == "oracle" and load_agent("nop").name == "nop"


def test_an_unknown_name_says_what_there_is() -> None:
    with pytest.raises(UsageError, match=r"command, .*nop, .*oracle"):
        load_agent("nope")
    with pytest.raises(UsageError, match="no such folder"):
        load_agent("./nope")
    with pytest.raises(UsageError, match="--agent-cmd"):
        load_agent("command")


def test_an_agent_is_taken_from_any_folder(tmp_path: Path) -> None:
    folder = agent_folder(tmp_path, "name: mine\nversion: 2\ncommand: [run]\n")
    agent = load_agent(str(folder))
    assert (agent.name, agent.version, agent.network) == ("mine", "2", Network.NONE)


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        ("command: x\n", "name is missing: add `name:"),
        ("name: a\ncomand: x\n", "unknown field 'comand'; did you mean command?"),
        ("name: a\ncommand: x\nshape: round\n", "unknown field 'shape'; there are name, version,"),
        ("name: a\ncommand: x\nfiles: [../secret]\n", "outside the agent's folder"),
        ("name: a\ncommand: x\nfiles: [nosuch]\n", "there is no file 'nosuch' in"),
        ("name: a\ncommand: []\n", "command is empty"),
        ("name: a\ncommand: 7\n", "command: expected text for `sh -c`, or a list of texts (the program and"),
        ("name: a\ncommand: [x, 7]\n", 'found ["x", 7]'),
        ("name: a\ncommand: {x: 7}\n", 'found {"x": 7}'),
        ("name: a\ncommand: x\nbuiltin: oracle\n", "exclude each other"),
        ("name: a\ncommand: x\nnetwork: filtered\n", "only none, model and open"),
        ("name: a\ncommand: x\nnetwork: far\n", "expected none, model or open"),
        ("name: a\ncommand: x\ntimeout: 0\n", "timeout: expected a number of seconds above 0; found 0"),
        ("name: a b\ncommand: x\n", "name: expected letters"),
        ("- a\n", "expected fields such as `name"),
        ("", "found nothing"),
        ("name: a\ncommand: [\n", "line 3, column 1: this is no YAML"),
        ("name: a\n", "there is no command; add `command:`"),
    ],
)
def test_faults_of_a_manifest_are_named(tmp_path: Path, manifest: str, words: str) -> None:
    with pytest.raises(UsageError, match="agent") as caught:
        load_agent(str(agent_folder(tmp_path, manifest)))
    assert words in str(caught.value)
    for jargon in ("\n", "pydantic", "Input should", "loc", "Value error"):
        assert jargon not in str(caught.value).replace(str(tmp_path), "")


def test_a_changed_file_makes_another_agent_and_links_are_refused(tmp_path: Path) -> None:
    folder = agent_folder(tmp_path, "name: a\ncommand: x\n", run="1")
    before = folder_digest(folder)
    (folder / "run.py").write_text("2")
    assert folder_digest(folder) != before
    (folder / "link").symlink_to("/etc/passwd")
    with pytest.raises(UsageError, match="must not hold links"):
        load_agent(str(folder))


def test_words_are_replaced_once_and_other_braces_stay() -> None:
    manifest = Manifest(name="a", command=["x", "{prompt}", "{agent_dir}/y", '{"k": {"v": 1}}'])
    assert command_line(manifest, WORDS) == ["x", "it's {workdir}", "/a/y", '{"k": {"v": 1}}']


def test_words_in_a_shell_command_are_quoted() -> None:
    manifest = Manifest(name="a", command="x {prompt} > {workdir}/y")
    assert command_line(manifest, WORDS) == "x 'it'\"'\"'s {workdir}' > /w/y"


def test_a_prompt_that_is_an_argument_comes_last_unless_it_has_a_place() -> None:
    last = Manifest(name="a", command=["x"], prompt="argument")
    assert command_line(last, WORDS) == ["x", "it's {workdir}"]
    placed = Manifest(name="a", command=["x", "-p={prompt}", "y"], prompt="argument")
    assert command_line(placed, WORDS) == ["x", "-p=it's {workdir}", "y"]


def test_only_the_files_that_are_named_go_into_the_sandbox(tmp_path: Path) -> None:
    folder = agent_folder(tmp_path, "name: a\ncommand: x\nfiles: [run.py, lib]\n", run="1", other="2")
    (folder / "lib").mkdir()
    (folder / "lib" / "tool").write_text("3")
    (folder / "lib" / "tool").chmod(0o755)
    agent = load_agent(str(folder))
    assert isinstance(agent, CommandAgent)
    with tarfile.open(fileobj=io.BytesIO(agent._archive("the prompt", WORDS))) as archive:
        modes = {f"/{member.name}": member.mode for member in archive if member.isfile()}
        prompt = archive.extractfile(PROMPT_FILE.lstrip("/"))
        assert prompt is not None and prompt.read() == b"the prompt"
    assert modes == {
        PROMPT_FILE: 0o644,
        "/opt/beyondswe/agent/run.py": 0o644,
        "/opt/beyondswe/agent/lib/tool": 0o755,
    }


def test_a_command_on_the_spot_has_a_version_by_its_text() -> None:
    assert (
        agent_from_command("x").version == agent_from_command("x").version != agent_from_command("y").version
    )
    with pytest.raises(UsageError):
        agent_from_command("  ")


def test_a_command_on_the_spot_is_named_after_its_program() -> None:
    commands = {
        "my-agent --x": "cmd-my-agent",
        "/opt/a/run.sh": "cmd-run.sh",
        "KEY=1 python3 -m solve": "cmd-python3",
        "(true)": "cmd-true",
        "$(x)": "cmd-x",
        ":": "command",
        "A=1": "command",
    }
    assert {command: agent_from_command(command).name for command in commands} == commands


def instance(family: Family, **more: str) -> Instance:
    return Instance(
        instance_id="owner_secret_pr7",
        family=family,
        image="i",
        base_commit="c0ffee",
        workdir="/srv/tree",
        problem_statement="It <breaks> {{ here }}",
        specification="the long specification",
        patch="THE-REFERENCE",
        fail_to_pass=("tests/test_hidden.py::test_x",),
        f2p_patch="THE-TESTS",
        **more,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("family", list(Family))
@pytest.mark.parametrize("network", [Network.NONE, Network.OPEN])
def test_prompts_tell_the_task_and_nothing_of_the_answer(family: Family, network: Network) -> None:
    prompt = Prompts("default", network).render(instance(family))
    assert "/srv/tree" in prompt
    assert ("There is no network" in prompt) == (network is Network.NONE)
    if family is Family.DOC2REPO:
        assert "repo_document.md" in prompt and "target_repo" in prompt
        assert "the long specification" not in prompt
    else:
        assert "It <breaks> {{ here }}" in prompt  # as it is: neither escaped nor rendered
    for secret in ("THE-REFERENCE", "THE-TESTS", "test_hidden", "pr7", "secret", "c0ffee"):
        assert secret not in prompt


def test_the_families_have_prompts_of_their_own() -> None:
    prompts = Prompts("default", Network.NONE)
    assert len({prompts.render(instance(family)) for family in Family}) == 4


def test_a_prompt_file_is_a_template_and_its_faults_are_named(tmp_path: Path) -> None:
    path = tmp_path / "p.j2"
    path.write_text("{{ family }} in {{ workdir }}\n")
    prompts = Prompts(str(path), Network.NONE)
    assert prompts.render(instance(Family.CROSSREPO)) == "CrossRepo in /srv/tree\n"
    path.write_text("{{ patch }}")
    assert Prompts(str(path), Network.NONE).sha256 != prompts.sha256
    with pytest.raises(UsageError, match="'patch' is undefined"):
        Prompts(str(path), Network.NONE).render(instance(Family.CROSSREPO))
    path.write_text("{% if %}")
    with pytest.raises(UsageError, match="cannot be read"):
        Prompts(str(path), Network.NONE)
    with pytest.raises(UsageError, match="nor a file"):
        Prompts(str(tmp_path / "none"), Network.NONE)
