"""Git as the agent calls it: what goes over the network, what looks past the commit that is checked out."""

from __future__ import annotations

import re

from beyondswe.blocklist.bash.context import Context, refuse
from beyondswe.blocklist.bash.shell import Call, Shell
from beyondswe.blocklist.bash.words import UNKNOWN
from beyondswe.blocklist.hosts import words

_VALUE_OPTIONS = (
    "-C",
    "-c",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--super-prefix",
    "--config-env",
    "--attr-source",
)
NETWORK = frozenset(
    (
        "fetch",
        "pull",
        "ls-remote",
        "fetch-pack",
        "http-fetch",
        "remote-http",
        "remote-https",
        "remote-ftp",
        "remote-ftps",
        "remote-ext",
        "remote-fd",
        "cvsimport",
        "p4",
    )
)
"""Subcommands that ask another repository."""
OBJECTS = frozenset(
    (
        "fsck",
        "fsck-objects",
        "cat-file",
        "verify-pack",
        "show-index",
        "unpack-objects",
        "index-pack",
        "unpack-file",
        "lost-found",
        "reflog",
        "pack-redundant",
        "multi-pack-index",
        "fast-export",
    )
)
"""Subcommands that reach objects which no commit of the agent's leads to."""
_REFS = frozenset(("for-each-ref", "show-ref", "ls-refs", "pack-refs", "refs"))
_REVISIONS = words(
    """
    log show diff checkout switch restore reset merge rebase cherry-pick revert archive grep blame annotate
    rev-list rev-parse ls-tree format-patch worktree branch describe difftool range-diff show-branch read-tree
    merge-base merge-tree bisect diff-tree diff-index whatchanged shortlog cherry name-rev bundle pack-objects
    filter-branch notes stash checkout-index update-ref replace tag send-email request-pull merge-file
    last-modified reflog
    """
)
"""Subcommands whose arguments name commits."""
_WALKS = words(
    """
    log show rev-list grep shortlog whatchanged blame diff rev-parse show-branch bundle pack-objects name-rev
    format-patch filter-branch cherry-pick revert range-diff bisect
    """
)
_EVERYTHING = re.compile(
    r"^--(?:all|al|branches|remotes|tags|glob|reflog|walk-reflogs|alternate-refs|batch-all-objects|bisect|indexed-objects)(?:=|$)"
)
_FOREIGN = re.compile(
    r"^[\^+:]?(?:"
    r"(?:refs/)?remotes/\S+|(?:origin|upstream)(?:/\S+)?(?=$|[:~^@.])|(?:origin|upstream)/\S+|"
    r"refs/(?:tags|pull|pulls|notes|replace|stash|original|bisect|changes|merge-requests|keep-around|prefetch)\b\S*|"
    r"(?:tags/)\S+|(?:pull|pr|merge-requests)/\d+\S*|"
    r"(?:FETCH_HEAD|ORIG_HEAD|MERGE_HEAD|CHERRY_PICK_HEAD|AUTO_MERGE)\b\S*|"
    r"stash(?:@\{\S*)?$|(?:[\w./-]*@\{(?:u|upstream|push|-?\d|[\w. -]*(?:ago|yesterday|now|date))\S*)|"
    r"(?:release[-_/])?v?\d+\.\d+(?:\.\d+)*(?:[-._]?(?:a|b|rc|alpha|beta|dev|post)\d*)?(?=$|[:~^])"
    r")"
)
"""Names of commits that are not the agent's own: remotes, tags, pull requests, what git left behind."""


def parse(call: Call, shell: Shell, context: Context) -> tuple[str, list[str]]:
    """Subcommand and its arguments; configuration given on the way is kept."""
    arguments = list(call.arguments)
    while arguments and arguments[0].startswith("-"):
        option = arguments.pop(0)
        name, equals, value = option.partition("=")
        if name in _VALUE_OPTIONS and not equals:
            value = arguments.pop(0) if arguments else ""
        if name == "-c":
            configure(*value.partition("=")[::2], shell, context)
    return (arguments[0], arguments[1:]) if arguments else ("", [])


def configure(key: str, value: str, shell: Shell, context: Context) -> None:
    """Remember what configuration changes the meaning of later calls; refuse what leads to the target."""
    lowered = key.lower()
    if lowered.startswith("alias."):
        shell.marks[f"git.{lowered}"] = value
    rewrite = re.match(r"url\.(.*)\.(?:push)?insteadof$", key, re.I)
    if rewrite:
        shell.marks[f"git.instead.{value}"] = rewrite[1]
    if re.match(r"(?:remote\..*\.(?:push)?url|submodule\..*\.url|url\..*)$", lowered) and not rewrite:
        address(value, shell, context)
    if re.match(
        r"core\.(?:pager|editor|sshcommand|fsmonitor|gitproxy|askpass)|diff\.external|pager\..*|.*\.(?:cmd|command)",
        lowered,
    ):
        shell.run(value)


def address(text: str, shell: Shell, context: Context) -> None:
    """Refuse a repository to clone or to add that is the target."""
    for mark, value in shell.marks.items():
        short = mark.removeprefix("git.instead.")
        if short != mark and short and text.startswith(short):
            text = value + text[len(short) :]
    if text.startswith(("ext::", "fd::")):
        shell.run(re.sub(r"%[A-Za-z]?", " ", text.partition("::")[2]))
        return
    if "::" in text:
        text = text.partition("::")[2]
    if is_local(text):
        return
    context.text(text)
    context.address(text)
    if not context.search:
        refuse("no-search", f"git clone {text}")


def is_local(text: str) -> bool:
    """Whether a repository is a folder or a bundle of the sandbox."""
    if re.match(r"^file:", text, re.I):
        return True
    return (
        "://" not in text and not re.match(r"^(?:[\w.-]+@)?[\w.-]+:(?!/?/)|^[\w-]+(?:\.[\w-]+)+/", text)
    ) or text.startswith(("/", "./", "../", "~", "."))


def judge(call: Call, shell: Shell, context: Context) -> str | None:
    """Refuse what the paper always blocks, in all spellings; answer what is printed where that is known."""
    if call.name.startswith("git-") and call.name not in ("git-lfs",):
        command, arguments = call.name[4:], list(call.arguments)
    elif call.name == "git-lfs":
        command, arguments = "lfs", list(call.arguments)
    else:
        command, arguments = parse(call, shell, context)
    return subcommand(command, arguments, call, shell, context)


def subcommand(command: str, arguments: list[str], call: Call, shell: Shell, context: Context) -> str | None:
    alias = shell.marks.get(f"git.alias.{command.lower()}")
    if alias is not None and shell.depth < 12:
        return _alias(alias, arguments, call, shell, context)
    whole = " ".join(["git", command, *arguments])
    plain = [one for one in arguments if not one.startswith("-")]
    if "--help" in arguments or "-h" in arguments or "--help" in call.arguments[:1]:
        return None
    if command in NETWORK:
        refuse("git-network", whole)
    if command in OBJECTS:
        refuse("git-objects", whole)
    if command in _REFS and context.policy.list_refs:
        refuse("git-refs", whole)
    if command == "config":
        _config(arguments, shell, context)
        return None
    if command == "clone":
        for one in _positional(arguments, _CLONE_VALUES)[:1]:
            address(one, shell, context)
        for at, one in enumerate(arguments):
            if one in ("-c", "--config") and at + 1 < len(arguments):
                configure(*arguments[at + 1].partition("=")[::2], shell, context)
            elif one in ("--reference", "--reference-if-able") and at + 1 < len(arguments):
                address(arguments[at + 1], shell, context)
        return None
    if command in (
        "remote",
        "submodule",
        "subtree",
        "lfs",
        "svn",
        "archive",
        "bundle",
        "stash",
        "maintenance",
        "scalar",
    ):
        _with_subcommands(command, arguments, plain, whole, shell, context)
    if command in ("bisect", "submodule", "rebase", "filter-branch", "difftool", "mergetool"):
        _runs(command, arguments, shell)
    if command in ("push", "send-pack", "request-pull"):
        for one in plain:
            if context.looks_like_address(one):
                address(one, shell, context)
    _history(command, arguments, whole, shell, context)
    return UNKNOWN if command in ("rev-parse", "--exec-path") else None


_CLONE_VALUES = words(
    """
    -b --branch -o --origin -u --upload-pack --depth --reference --reference-if-able -j --jobs -c --config
    --template --separate-git-dir --filter --shallow-since --shallow-exclude --server-option --bundle-uri
    --revision
    """
)


def _positional(arguments: list[str], with_value: frozenset[str]) -> list[str]:
    found: list[str] = []
    at = 0
    while at < len(arguments):
        one = arguments[at]
        if one == "--":
            return found + arguments[at + 1 :]
        if one in with_value:
            at += 1
        elif not one.startswith("-"):
            found.append(one)
        at += 1
    return found


def _alias(alias: str, arguments: list[str], call: Call, shell: Shell, context: Context) -> str | None:
    shell.depth += 1
    try:
        if alias.startswith("!"):
            return shell.run(" ".join([alias[1:], *arguments]), call.stdin)
        words = alias.split() + arguments
        if words and words[0].startswith("-"):
            command, rest = parse(Call(("git", *words)), shell, context)
            return subcommand(command, rest, call, shell, context)
        return subcommand(words[0], words[1:], call, shell, context) if words else None
    finally:
        shell.depth -= 1


def _config(arguments: list[str], shell: Shell, context: Context) -> None:
    plain = _positional(arguments, frozenset(("-f", "--file", "--blob", "--type", "--default", "--comment")))
    if plain[:1] in (["set"], ["get"], ["unset"], ["list"]):
        plain = plain[1:]
    if len(plain) >= 2 and not any(one.startswith(("--get", "--unset")) for one in arguments):
        configure(plain[0], plain[1], shell, context)


def _with_subcommands(
    command: str, arguments: list[str], plain: list[str], whole: str, shell: Shell, context: Context
) -> None:
    first = plain[0] if plain else ""
    if command == "remote":
        if first in ("update", "prune") or (first == "show" and len(plain) > 1 and "-n" not in arguments):
            refuse("git-network", whole)
        if first == "set-head" and ("-a" in arguments or "--auto" in arguments):
            refuse("git-network", whole)
        if first in ("add", "set-url"):
            if "-f" in arguments or "--fetch" in arguments:
                refuse("git-network", whole)
            for one in plain[2:]:
                if context.looks_like_address(one):
                    context.text(one)
                    context.address(one)
    elif command == "submodule":
        if first == "update" and "--remote" in arguments:
            refuse("git-network", whole)
        if first in ("add", "set-url"):
            for one in plain[1:]:
                if context.looks_like_address(one):
                    address(one, shell, context)
        if first in ("update", "sync") and not context.search and first == "update":
            refuse("no-search", whole)
    elif command == "subtree":
        if first == "pull":
            refuse("git-network", whole)
        for one in plain[1:]:
            if context.looks_like_address(one):
                address(one, shell, context)
    elif command == "lfs" and first == "clone":
        for one in plain[1:2]:
            address(one, shell, context)
    elif command == "lfs" and first in ("fetch", "pull"):
        refuse("git-network", whole)
    elif command in ("svn", "scalar") and first in ("clone", "fetch", "init", "rebase"):
        if first in ("fetch", "rebase"):
            refuse("git-network", whole)
        for one in plain[1:2]:
            address(one, shell, context)
    elif (command == "archive" and any(re.match(r"--remo?t?e?(?:=|$)", one) for one in arguments)) or (
        command == "maintenance" and any("prefetch" in one for one in arguments)
    ):
        refuse("git-network", whole)
    elif command == "bundle" and first in ("unbundle", "list-heads"):
        refuse("git-objects", whole)
    elif command == "stash":
        _stash(first, plain, whole, shell)


def _stash(first: str, plain: list[str], whole: str, shell: Shell) -> None:
    if first in ("", "push", "save", "create", "store") or first.startswith("-"):
        shell.marks["git.stashed"] = "yes"
    elif (first in ("list", "show", "branch") and "git.stashed" not in shell.marks) or (
        first in ("apply", "pop") and len(plain) > 1 and "git.stashed" not in shell.marks
    ):
        refuse("git-stash", whole)


def _runs(command: str, arguments: list[str], shell: Shell) -> None:
    """Commands that git runs for the caller."""
    if command == "bisect" and arguments[:1] == ["run"]:
        shell.execute(Call(tuple(arguments[1:])))
    if command == "submodule" and "foreach" in arguments:
        shell.run(
            " ".join(one for one in arguments[arguments.index("foreach") + 1 :] if one != "--recursive")
        )
    for at, one in enumerate(arguments):
        name, equals, value = one.partition("=")
        if (command == "rebase" and name in ("-x", "--exec")) or name in (
            "--tree-filter",
            "--index-filter",
            "--msg-filter",
            "--extcmd",
        ):
            shell.run(value if equals else "".join(arguments[at + 1 : at + 2]))


def _history(command: str, arguments: list[str], whole: str, shell: Shell, context: Context) -> None:
    """Refuse what walks or names commits that are not the agent's own."""
    before = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if command in _WALKS:
        for one in _without_values(command, before):
            if _EVERYTHING.match(one) or (
                command in ("log", "show", "whatchanged") and re.fullmatch(r"-[a-zA-Z]*g", one)
            ):
                refuse("git-all-history", whole)
    if context.policy.list_refs:
        listing = command == "branch" and any(
            re.fullmatch(r"-[vqi]*[ar][vqi]*|--all|--remotes", one) for one in arguments
        )
        tags = command == "tag" and not _tags_own(arguments)
        contains = command in ("describe", "name-rev") and any(
            one in ("--contains", "--all") for one in before
        )
        if (
            listing
            or tags
            or contains
            or (command == "notes" and (before or ["list"])[0] in ("list", "show"))
        ):
            refuse("git-refs", whole)
        if command == "replace" and any(one in ("-l", "--list") for one in arguments):
            refuse("git-refs", whole)
    if command not in _REVISIONS or (command == "tag" and _tags_own(arguments)):
        return
    for one in _named_commits(command, before):
        if _foreign(one, command):
            refuse("git-foreign-commit", whole)


def _tags_own(arguments: list[str]) -> bool:
    """Whether ``git tag`` makes or removes a tag rather than listing them."""
    plain = [one for one in arguments if not one.startswith("-")]
    lists = {"-l", "--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at", "-n"}
    return bool(plain) and not any(one.partition("=")[0] in lists for one in arguments)


def _named_commits(command: str, arguments: list[str]) -> list[str]:
    """Arguments that may be commits, values of options that take one included, patterns and messages left out."""
    found: list[str] = []
    skip = _takes_value(command)
    at = 0
    while at < len(arguments):
        one = arguments[at]
        if one in ("-s", "--source") and command == "restore":
            found += arguments[at + 1 : at + 2]
            at += 1
        elif one in skip:
            at += 1
        elif one.startswith("--source="):
            found.append(one[9:])
        elif command == "restore" and re.match(r"-s.", one):
            found.append(one[2:])
        elif not one.startswith("-"):
            found.append(one)
        at += 1
    if command == "grep" and not any(one in ("-e", "-f") for one in arguments):
        found = found[1:]
    if command in ("stash", "notes", "bisect", "worktree", "bundle"):
        found = found[1:]
    if command == "restore" and not any(one.startswith(("-s", "--source")) for one in arguments):
        found = []
    return found


def _without_values(command: str, arguments: list[str]) -> list[str]:
    """Arguments without the values of options that take one."""
    skip = _takes_value(command)
    return [one for at, one in enumerate(arguments) if not at or arguments[at - 1] not in skip]


def _takes_value(command: str) -> tuple[str, ...]:
    """Options of a subcommand that take a value."""
    return {
        "log": (
            "-n",
            "-S",
            "-G",
            "--grep",
            "--author",
            "--committer",
            "--since",
            "--until",
            "--after",
            "--before",
            "--format",
            "-L",
            "--skip",
            "--max-count",
            "--date",
            "--diff-filter",
            "-O",
            "--pretty",
            "--max-depth",
        ),
        "grep": ("-e", "-f", "-A", "-B", "-C", "-m", "--max-depth", "--threads", "-O"),
        "checkout": ("-b", "-B", "--orphan"),
        "switch": ("-c", "-C", "--create", "--orphan"),
        "merge": ("-m", "-F", "-s", "-X", "--strategy"),
        "stash": ("-m", "--message"),
        "notes": ("-m", "-F", "--ref"),
        "cherry-pick": ("-m", "--mainline", "-X", "-s"),
        "archive": ("-o", "--output", "--prefix", "--format", "--add-file"),
        "format-patch": ("-o", "--output-directory", "--subject-prefix", "-v"),
        "blame": ("-L", "-S", "--date", "--since"),
    }.get(command, ("-n", "-S", "-G", "-m", "-L", "--grep", "-O", "--format"))


def _foreign(text: str, command: str) -> bool:
    ranged = (
        re.match(r"^(.*?)(\.{2,3})(.*)$", text)
        if ".." in text and not text.startswith(("../", "./"))
        else None
    )
    if ranged and command not in ("diff", "difftool", "range-diff") and ranged[2] == "..":
        return bool(_FOREIGN.match(ranged[3])) if ranged[3] else False
    if ranged:
        return any(bool(_FOREIGN.match(end)) for end in (ranged[1], ranged[3]) if end)
    if text.startswith("^") and command != "restore":
        return False
    return bool(_FOREIGN.match(text))
