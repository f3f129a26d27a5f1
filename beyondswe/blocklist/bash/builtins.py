"""What builtins change in a shell and what text programs print, for words that are known."""

from __future__ import annotations

import posixpath

from beyondswe.blocklist.bash import texttools
from beyondswe.blocklist.bash.shell import Call, Shell
from beyondswe.blocklist.bash.words import UNKNOWN


def simulated(call: Call, shell: Shell) -> str | None:
    """What the text programs print, and what builtins change in the shell."""
    name, arguments = call.name, list(call.arguments)
    if name == "echo":
        return texttools.echo(arguments)
    if name == "printf":
        if arguments[:1] == ["-v"] and len(arguments) > 2:
            shell.variables[arguments[1]] = texttools.printf(arguments[2:]) or ""
            return ""
        return texttools.printf(arguments)
    if name == "read":
        names = [one for one in arguments if not one.startswith("-")] or ["REPLY"]
        line = (call.stdin if call.stdin is not None else UNKNOWN).split("\n", 1)[0]
        parts = line.split(None, len(names) - 1) if len(names) > 1 else [line.strip()]
        for at, one in enumerate(names):
            shell.variables[one] = parts[at] if at < len(parts) else ""
        return ""
    if name in ("basename", "dirname") and arguments:
        head, tail = posixpath.split(arguments[0].rstrip("/"))
        end = arguments[1] if len(arguments) > 1 and name == "basename" else ""
        return (tail.removesuffix(end) if name == "basename" else head or ".") + "\n"
    if name == "cd":
        place = next((one for one in arguments if not one.startswith("-")), "~")
        shell.directory = shell.path(place)
        return ""
    if name == "alias":
        for one in arguments:
            alias, equals, value = one.partition("=")
            if equals:
                shell.aliases[alias] = value
        return ""
    if name == "set" and arguments[:1] == ["--"]:
        shell.variables.update({str(at): one for at, one in enumerate(arguments[1:], 1)})
        shell.variables["@"] = shell.variables["*"] = " ".join(arguments[1:])
        return ""
    if name in ("cp", "mv", "ln", "install"):
        plain = [one for one in arguments if not one.startswith("-")]
        if len(plain) == 2 and shell.path(plain[0]) in shell.files:
            shell.write_file(plain[1], shell.files[shell.path(plain[0])])
        return ""
    if name in ("true", ":", "false", "export", "unset", "shopt", "mkdir", "touch", "chmod", "rm"):
        return ""
    if name == "pwd":
        return UNKNOWN
    return _filtered(call, shell)


def _filtered(call: Call, shell: Shell) -> str | None:
    """What filters print, from their standard input or the files they name."""
    arguments = list(call.arguments)
    plain = [one for one in arguments if not one.startswith("-")]
    if call.name == "tee":
        for one in plain:
            shell.write_file(one, call.stdin, append="-a" in arguments)
        return call.stdin
    named = plain[1:] if call.name in ("sed", "tr", "awk") else plain
    texts = [shell.files[shell.path(one)] for one in named if shell.path(one) in shell.files]
    if call.name == "cat" and plain and len(texts) < len([one for one in plain if one != "-"]):
        return None
    text = "".join(texts) if texts else call.stdin
    return None if text is None else texttools.filtered(call.name, arguments, text)
