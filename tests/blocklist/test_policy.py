"""Each setting changes what it says and nothing of what is never open."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields, replace

import pytest

from beyondswe.blocklist import (
    DEFAULT,
    Policy,
    Target,
    decide_command,
    decide_text,
    decide_url,
    file_distribution,
    is_index_path,
    package_of,
)
from beyondswe.blocklist.target import target_of
from tests.blocklist.rows import rows, target

COLANDER = Target("Pylons/colander", docs_hosts=("docs.pylonsproject.org/projects/colander",))
PULL = "https://github.com/Pylons/colander/pull/239"

URL_SETTINGS = [
    ("forks", "https://github.com/someone/colander"),
    ("owner_repositories", "https://github.com/Pylons/webob"),
    ("package_pages", "https://index.example.org/simple/colander/"),
    ("package_files", "https://example.org/colander-2.0.tar.gz"),
    ("container_images", "https://ghcr.io/v2/pylons/colander/manifests/latest"),
    ("documentation", "https://colander.readthedocs.io/en/latest/api.html"),
    ("opaque_ids", "https://api.github.com/repositories/2154789"),
    ("site_search", "https://github.com/search?q=colander"),
    ("wrappers", "https://r.jina.ai/https://docs.python.org/3/"),
    ("shorteners", "https://bit.ly/abc"),
    ("search_pages", "https://www.google.com/search?q=date"),
    ("raw_addresses", "https://8.8.8.8/"),
]
COMMAND_SETTINGS = [
    ("loopback_in_bash", "curl -s http://127.0.0.1:8000/"),
    ("dns_tools", "dig example.org"),
    ("list_refs", "git for-each-ref"),
    ("pack_bytes", "strings .git/objects/pack/x.pack"),
    ("dependents", "pip install -t /tmp/x deform"),
    ("credential_files", "cat ~/.netrc"),
    ("hidden_tests", "find / -name '*f2p*'"),
]
LISTS = {"prompt_addresses": (PULL,), "allow_hosts": ("10.1.2.3",)}


def test_every_setting_is_tried() -> None:
    assert {field.name for field in fields(Policy)} == {
        *(name for name, _ in URL_SETTINGS + COMMAND_SETTINGS),
        *LISTS,
    }


@pytest.mark.parametrize(("name", "url"), URL_SETTINGS)
def test_a_setting_turns_a_decision_on_addresses(name: str, url: str) -> None:
    other = replace(DEFAULT, **{name: not getattr(DEFAULT, name)})
    assert decide_url(url, COLANDER).blocked != decide_url(url, COLANDER, other).blocked
    assert decide_url(PULL, COLANDER, other).blocked


@pytest.mark.parametrize(("name", "command"), COMMAND_SETTINGS)
def test_a_setting_turns_a_decision_on_commands(name: str, command: str) -> None:
    other = replace(DEFAULT, **{name: not getattr(DEFAULT, name)})
    default = decide_command(command, COLANDER, search=True)
    assert default.blocked != decide_command(command, COLANDER, other, search=True).blocked
    assert decide_command("git fetch", COLANDER, other, search=True).blocked


def test_pages_that_the_prompt_names_are_open_and_no_others() -> None:
    policy = replace(DEFAULT, prompt_addresses=(PULL,))
    assert not decide_url(f"{PULL}/", COLANDER, policy).blocked
    assert not decide_url("http://GITHUB.com/pylons/colander/pull/239#issue", COLANDER, policy).blocked
    for more in (".diff", "/files", "0"):
        assert decide_url(PULL + more, COLANDER, policy).blocked
    assert decide_url(f"https://web.archive.org/web/{PULL}", COLANDER, policy).blocked
    assert not decide_text(f"see {PULL}", COLANDER, policy).blocked


def test_allowed_hosts_are_reached_but_never_lead_to_the_target() -> None:
    policy = replace(DEFAULT, allow_hosts=("127.0.0.1:8123", "bit.ly"))
    assert not decide_url("http://127.0.0.1:8123/page", COLANDER, policy).blocked
    assert decide_url("http://127.0.0.1:8124/page", COLANDER, policy).blocked
    assert not decide_url("https://bit.ly/abc", COLANDER, policy).blocked
    assert decide_url("http://127.0.0.1:8123/Pylons/colander", COLANDER, policy).blocked
    assert decide_url("http://127.0.0.1:8123/?u=http://10.0.0.1/", COLANDER, policy).blocked


def test_source_listings_stay_closed_where_documentation_is_open() -> None:
    policy = replace(DEFAULT, documentation=False)
    assert not decide_url("https://colander.readthedocs.io/en/latest/", COLANDER, policy).blocked
    assert decide_url("https://colander.readthedocs.io/en/latest/_modules/x.html", COLANDER, policy).blocked


def test_rows_that_are_no_policy_hold_under_every_policy() -> None:
    opened = replace(
        DEFAULT,
        **{
            name: False for name, _ in URL_SETTINGS if name not in ("package_files", "package_pages", "forks")
        },
    )
    held = {"direct", "syntax", "benchmark"}
    for row in rows("url_given.jsonl"):
        if row["blocked"] and not row["policy"] and row["kind"] in held:
            assert decide_url(row["url"], target(row), opened).blocked, row


def test_settings_of_a_wrong_type_are_refused() -> None:
    for settings in ({"forks": "no"}, {"allow_hosts": "x"}, {"allow_hosts": [3]}, {"nothing": True}):
        with pytest.raises(ValueError, match="setting"):
            Policy.from_settings(settings)
    assert Policy.from_settings({"allow_hosts": ["a.example"]}).allow_hosts == ("a.example",)


def test_connect_asks_with_host_and_port() -> None:
    assert not decide_url("github.com:443", COLANDER, method="CONNECT").blocked
    assert decide_url("127.0.0.1:22", COLANDER, method="CONNECT").rule == "internal-address"
    assert (
        decide_url("colander.readthedocs.io:443", COLANDER, method="CONNECT").rule == "target-documentation"
    )


@pytest.mark.parametrize(
    "text",
    [
        "Add Date format by x · Pull Request #239 · Pylons/colander · GitHub",
        "see https://github.com/Pylons/colander/pull/239.",
        "Pylons/colander#239",
        "clone git@github.com:Pylons/colander.git",
        "mirror: gitee.com/mirrors/colander",
        "GitHub - Pylons / colander",
        "the dataset AweAI-Team/BeyondSWE",
    ],
)
def test_texts_that_show_the_target(text: str) -> None:
    assert decide_text(text, COLANDER).blocked


@pytest.mark.parametrize(
    "text",
    [
        "How to use colander to validate a Date",
        "https://github.com/Pylons/webob and https://docs.python.org",
        "colander vs marshmallow",
        "http://localhost:8000/ and https://bit.ly/x",
        "",
    ],
)
def test_texts_that_only_name_the_project(text: str) -> None:
    assert not decide_text(text, COLANDER).blocked


@pytest.mark.parametrize(
    ("url", "distribution"),
    [
        ("https://i.example/simple/Foo.Bar/", "foo-bar"),
        ("https://i.example/root/pypi/+simple/foo_bar", "foo-bar"),
        ("https://i.example/pypi/foo/json", "foo"),
        ("https://i.example/pypi/foo/1.0/json", "foo"),
        ("https://f.example/packages/ab/cd/foo_bar-1.0-py3-none-any.whl", "foo-bar"),
        ("https://f.example/packages/ab/cd/foo_bar-1.0-py3-none-any.whl.metadata", "foo-bar"),
        ("https://f.example/packages/ab/cd/foo-bar-1.0rc1.tar.gz#sha256=ab", "foo-bar"),
        ("https://f.example/packages/ab/cd/foo-2-bar-1.0.zip", "foo-2-bar"),
        ("https://i.example/project/foo/1.0/", "foo"),
        ("https://i.example/simple/", None),
        ("https://i.example/", None),
        ("https://i.example/about.html", None),
        ("not an address", None),
    ],
)
def test_what_an_index_is_asked_for(url: str, distribution: str | None) -> None:
    assert package_of(url) == distribution


def test_shapes_of_an_index() -> None:
    assert is_index_path("/simple/")
    assert is_index_path("/simple/foo/")
    assert is_index_path("/pypi/foo/json")
    assert not is_index_path("/packages/ab/foo-1.0.tar.gz")
    assert not is_index_path("/simple-life")
    assert file_distribution("Foo_Bar-1.0.tar.gz") == "foo-bar"
    assert file_distribution("README.md") is None


def test_an_instance_says_what_it_is_called() -> None:
    from beyondswe.instances import Family, Instance

    instance = Instance(
        instance_id="x",
        family=Family.CROSSREPO,
        image="x",
        repo="NeuralEnsemble/python-neo",
        distributions=("neo",),
        aliases=("old/neo",),
        docs_hosts=("neo.example.org",),
    )
    assert target_of(instance) == Target(
        "NeuralEnsemble/python-neo", ("neo",), ("old/neo",), ("neo.example.org",)
    )


def test_the_package_needs_nothing_but_the_parser_of_addresses() -> None:
    """The egress proxy loads it in an environment where only ada-url is installed beside the standard library."""
    program = (
        "import sys, beyondswe.blocklist; "
        "foreign = {m.partition('.')[0] for m in sys.modules} - set(sys.stdlib_module_names); "
        "print(sorted(m for m in foreign if not m.startswith('_')))"
    )
    found = subprocess.run(
        [sys.executable, "-S", "-c", _with_path(program)], capture_output=True, text=True, check=True
    )
    assert set(eval(found.stdout)) <= {"ada_url", "beyondswe", "cffi", "sitecustomize", "pycparser"}
    rooms = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, beyondswe.blocklist; print([m for m in sys.modules if m.startswith('beyondswe')])",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert all(name == "beyondswe" or name.startswith("beyondswe.blocklist") for name in eval(rooms.stdout))


def _with_path(program: str) -> str:
    """A program that finds packages where this one does, without what start-up files of the environment bring in."""
    return f"import sys; sys.path[:] = {sys.path!r}; {program}"


def test_nonsense_is_answered() -> None:
    for text in (
        "\x00",
        "a" * 100_000,
        "((((",
        "${",
        "$(",
        "`",
        "'",
        "<<E",
        "git \ud800",
        "[" * 500,
        "$(" * 200,
        "{" * 300,
    ):
        assert isinstance(decide_command(text, COLANDER, search=True).blocked, bool)
        assert isinstance(decide_url(text, COLANDER).blocked, bool)
        assert isinstance(decide_text(text, COLANDER).blocked, bool)
    assert decide_url("https://example.org/" + "%" + "25" * 20 + "41", COLANDER).rule == "not-an-address"


@pytest.mark.parametrize(
    "word", ["colander-", "a.", "colander", "http", "www.x", "github.com/", "Pylons/", "x" * 64 + "."]
)
def test_long_texts_are_decided_quickly(word: str) -> None:
    text = word * (400_000 // len(word))
    assert not decide_text(f"colander {text}", Target("Pylons/colander")).blocked
    assert decide_text(f"{text} https://github.com/Pylons/colander/pull/1", Target("Pylons/colander")).blocked


@pytest.mark.parametrize(
    "command",
    [
        "a|" * 20_000,
        "a|" * 20_000 + "a",
        "echo a;" * 20_000,
        "x=aaaaaaaaaaaaaaaa;" + "x=$x$x;" * 60,
        "x=aaaaaaaaaaaaaaaaaaaa; for i in {1..9}; do x=${x//a/$x}; done",
        "echo aaaaaaaaaaaaaaaa > f; for i in {1..60}; do cat f f > g; cat g g > f; done",
    ],
    ids=lambda command: command[:24],
)
def test_commands_beyond_all_measure_are_refused(command: str) -> None:
    assert decide_command(command, COLANDER, search=True).rule == "too-long"


def test_large_files_may_be_written() -> None:
    body = "print((1, 2) or [3 | 4])\n" * 3_500
    assert not decide_command(
        f"cat > x.py <<'E'\n{body * 8}E\n".replace("|", "+"), COLANDER, search=True
    ).blocked
    assert not decide_command(f"cat > x.py <<'E'\n{body}E\n", COLANDER, search=True).blocked
