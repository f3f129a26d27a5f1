"""Package installers: whether one is asked for the target, by name, by address, or by what drags it along."""

from __future__ import annotations

import re

from beyondswe.blocklist.bash.context import Context, refuse
from beyondswe.blocklist.bash.shell import Call, Shell
from beyondswe.blocklist.hosts import words
from beyondswe.blocklist.names import bare, canonical

_VALUES = words(
    """
    -r -c -t -d -i -f -w -b -p -n -G -C -m --requirement --requirements --constraint --constraints --override
    --target --dest --destination-directory --index-url --extra-index-url --index --default-index --find-links
    --wheel-dir --src --root --prefix --platform --python-version --implementation --abi --no-binary
    --only-binary --progress-bar --log --proxy --retries --timeout --exists-action --trusted-host --cert
    --client-cert --cache-dir --python --config-settings --global-option --install-option --report
    --upgrade-strategy --use-feature --use-deprecated --root-user-action --group --format --uploaded-prior-to
    --exclude-newer --extra --directory --project --name --channel --file --source --dev-group --bin-dir
    --no-build-isolation-package --color --env-file --python-platform --link-mode --index-strategy
    --keyring-provider --resolution --prerelease --branch --tag --rev --optional --script --marker --package
    --suffix --fetch --category
    """
)
_PACKAGE_VALUES = (
    "--with",
    "--from",
    "--spec",
    "--upgrade-package",
    "-P",
    "--reinstall-package",
    "--preinstall",
    "-e",
    "--editable",
)
_FILE_VALUES = ("-r", "--requirement", "--requirements", "--file", "--with-requirements")
_ADDRESS_VALUES = (
    "-f",
    "--find-links",
    "-i",
    "--index-url",
    "--extra-index-url",
    "--index",
    "--default-index",
)
_REQUIREMENT = re.compile(r"^([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*(?:(?:@|[<>=!~;^]).*)?$", re.S)
_SUBCOMMANDS: dict[str, tuple[str, ...]] = {
    "pip": ("install", "download", "wheel", "index", "lock", "search"),
    "uv": ("add", "install", "run"),
    "poetry": ("add",),
    "pdm": ("add",),
    "pipenv": ("install",),
    "rye": ("add", "install"),
    "hatch": ("dep",),
    "pixi": ("add", "global"),
    "pipx": ("install", "run", "inject", "upgrade", "runpip"),
    "conda": ("install", "create", "update", "search", "upgrade", "search", "info"),
    "flit": (),
}
_CONDA = ("conda", "mamba", "micromamba", "pixi")
_SYSTEM: dict[str, tuple[str, ...]] = {
    "apt": ("install", "source", "download", "build-dep", "changelog", "reinstall"),
    "apt-get": ("install", "source", "download", "build-dep", "changelog", "reinstall"),
    "aptitude": ("install", "download", "changelog"),
    "dnf": ("install", "download", "reinstall"),
    "yum": ("install", "download", "reinstall"),
    "microdnf": ("install", "download"),
    "yumdownloader": (),
    "zypper": ("install", "in", "source-install", "si", "download"),
    "apk": ("add", "fetch"),
    "pacman": (),
    "yay": (),
    "brew": ("install", "fetch"),
    "emerge": (),
    "guix": ("install", "shell", "build", "environment"),
    "nix": ("shell", "build", "run", "profile", "develop"),
    "nix-env": (),
    "nix-shell": (),
    "nix-build": (),
    "pkg": ("install", "fetch", "add"),
    "port": ("install", "fetch"),
    "xbps-install": (),
    "apt-src": (),
    "pull-debian-source": (),
    "pull-lp-source": (),
    "debcheckout": (),
    "dget": (),
    "snap": ("install", "download"),
    "spack": ("install", "fetch", "stage"),
}
_NODE = {
    "npm": ("install", "i", "add", "ci", "exec", "x", "view", "pack"),
    "pnpm": ("add", "install", "i", "dlx"),
    "yarn": ("add", "dlx"),
    "bun": ("add", "install", "i"),
    "npx": (),
    "bunx": (),
    "degit": (),
    "tiged": (),
    "giget": (),
}


def installer(name: str) -> str:
    """The kind of installer a program is, "" for none."""
    if re.fullmatch(r"pip\d?(?:\.\d+)*", name):
        return "pip"
    if name in ("uv", "uvx", "poetry", "pdm", "pipenv", "rye", "hatch", "pixi", "pipx", "easy_install"):
        return name
    if re.fullmatch(r"easy_install-[\d.]+", name):
        return "easy_install"
    if name in _CONDA:
        return "conda"
    return "system" if name in _SYSTEM else "node" if name in _NODE else ""


def judge(kind: str, call: Call, shell: Shell, context: Context) -> None:
    """Refuse a call that brings the target."""
    arguments = list(call.arguments)
    if kind == "system":
        _system(call, context)
        return
    if kind == "node":
        _node(call, context)
        return
    command = _first_plain(arguments)
    if kind == "uv" and command in ("pip", "tool"):
        arguments = arguments[arguments.index(command) + 1 :]
        kind = "pip" if command == "pip" else "pipx"
        command = _first_plain(arguments)
    if kind == "conda" and command == "run":
        return
    if kind in ("easy_install", "uvx"):
        rest = arguments
    elif command in _SUBCOMMANDS.get(kind, ()):
        at = arguments.index(command)
        rest = arguments[:at] + arguments[at + 1 :]
    else:
        return
    if kind == "pip" and command == "index":
        rest = [one for one in rest if one not in ("versions",)]
        if not context.policy.package_pages:
            return
    _asked(kind, command, rest, call, shell, context)


def _first_plain(arguments: list[str]) -> str:
    """The first argument that is neither an option nor the value of one."""
    for at, one in enumerate(arguments):
        if not one.startswith("-") and (not at or arguments[at - 1] not in _VALUES):
            return one
    return ""


def _asked(kind: str, command: str, rest: list[str], call: Call, shell: Shell, context: Context) -> None:
    whole = " ".join(call.words)
    requirements: list[str] = []
    at = 0
    running = kind == "uvx" or (kind in ("pipx", "uv") and command == "run")
    while at < len(rest):
        one = rest[at]
        name, equals, value = one.partition("=") if one.startswith("--") else (one, "", "")
        short = re.match(r"^(-[rcftdie])(.+)$", one) if not one.startswith("--") else None
        if short and short[1] in (*_FILE_VALUES, *_ADDRESS_VALUES, "-e") and kind in ("pip", "uv"):
            name, equals, value = short[1], "=", short[2]
        if name in _PACKAGE_VALUES or name in _VALUES:
            if not equals:
                value = rest[at + 1] if at + 1 < len(rest) else ""
                at += 1
            if name in _PACKAGE_VALUES:
                requirements += value.split(",") if "://" not in value else [value]
            elif name in _FILE_VALUES:
                requirements += _lines(value, call, shell, context)
            elif name in _ADDRESS_VALUES:
                context.address(value) if "://" in value else None
        elif not one.startswith("-"):
            if not running or kind != "uv":
                requirements.append(one)
            if running:
                break
        at += 1
    others = False
    for one in requirements:
        others = _requirement(kind, one, whole, context) or others
    fresh = any(re.match(r"(?:-t.*|--target|--prefix|--root)(?:=|$)", one) for one in rest)
    fresh = fresh or (kind == "pip" and command in ("download", "wheel"))
    without = any(one in ("--no-deps", "--no-dependencies") for one in rest)
    brings = (
        kind == "pip" and command in ("install", "download", "wheel") and fresh and not without and others
    )
    if brings and context.policy.dependents:
        refuse("package-dependents", f"{whole} (brings dependencies beside the environment; say --no-deps)")


def _lines(path: str, call: Call, shell: Shell, context: Context) -> list[str]:
    """Requirements of a file that this command wrote, or that comes from its input or from the web."""
    if "://" in path:
        context.address(path)
        return []
    text = call.stdin if path in ("-", "/dev/stdin") else shell.files.get(shell.path(path))
    lines = (line.partition(" #")[0].strip() for line in (text or "").splitlines())
    return [
        re.sub(r"^(?:-e|--editable)[ =]", "", line).strip()
        for line in lines
        if line and not line.startswith("#")
    ]


def _requirement(kind: str, text: str, whole: str, context: Context) -> bool:
    """Refuse a requirement that is the target; whether it is another package of an index."""
    text = text.strip()
    direct = re.match(r"^([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*@\s*(.+)$", text)
    if direct and re.match(r"[\w+]+:", direct[2]):
        if context.distribution(direct[1]):
            refuse("target-package", whole)
        text = direct[2]
    if re.match(r"^[\w+]+:/", text) or re.match(r"^(?:git@|[\w.-]+@[\w.-]+:)", text):
        egg = re.search(r"#(?:.*&)?egg=([\w.-]+)", text)
        if egg and context.distribution(egg[1]) and not text.startswith("file:"):
            refuse("target-package", whole)
        context.address(text.partition("#")[0])
        return False
    if re.match(r"^(?:gh|github|gitlab|bitbucket):", text):
        context.text(text)
        return False
    if kind == "conda":
        text = text.rpartition("::")[2]
        text = re.sub(r"(?<![<>=!~])=(?!=).*", "", text)
    if text.startswith((".", "/", "~")) or ("/" in text and not text.startswith("@")):
        if kind in ("poetry", "pdm", "pipenv", "uv") or kind.startswith("pip"):
            return False
        context.text(text)
        return False
    found = _REQUIREMENT.match(text)
    if not found:
        return False
    if context.distribution(found[1]) or (kind == "conda" and bare(found[1]) in context.names.distributions):
        refuse("target-package", whole)
    return not re.search(r"\.(?:whl|tar\.gz|zip|txt|toml)$", text)


def _system(call: Call, context: Context) -> None:
    wanted = _SYSTEM[call.name]
    plain = [one for one in call.arguments if not one.startswith("-")]
    if call.name == "pacman" and not any(re.match(r"-(?:S|-sync|U)", one) for one in call.arguments):
        return
    if wanted:
        if not plain or plain[0] not in wanted:
            return
        plain = plain[1:]
    for one in [word for text in plain for word in text.split()]:
        if context.looks_like_address(one):
            context.address(one)
        name = re.split(r"[=:@]", one.rpartition("/")[2].rpartition("#")[2], maxsplit=1)[0]
        names = {bare(name), canonical(name), canonical(name.rpartition(".")[2])}
        if names & context.names.distributions:
            refuse("target-package", " ".join(call.words))


def _node(call: Call, context: Context) -> None:
    """Node's installers: packages of the same name are others; repositories are asked for by owner/name."""
    wanted = _NODE[call.name]
    plain = [one for one in call.arguments if not one.startswith("-")]
    if wanted and (not plain or plain[0] not in wanted):
        return
    for one in plain:
        context.text(one)
        context.argument(re.sub(r"^git\+", "", one))
