"""Decides a whole command: wrappers are taken off, then each program is judged by its kind."""

from __future__ import annotations

import posixpath
import re

from beyondswe.blocklist.bash import code, escapes, git, installers, web
from beyondswe.blocklist.bash.builtins import simulated
from beyondswe.blocklist.bash.context import Context, Refused, refuse
from beyondswe.blocklist.bash.shell import Call, Shell
from beyondswe.blocklist.bash.words import UNKNOWN, TooLong, expand_all
from beyondswe.blocklist.hosts import words
from beyondswe.blocklist.names import names_of
from beyondswe.blocklist.types import ALLOWED, DEFAULT, Decision, Policy, Target

_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh", "ash", "rbash", "mksh", "fish", "yash", "busybox"))
_PYTHON = re.compile(r"^(?:python|pypy|ipython)[\d.]*$")
_OTHERS = re.compile(
    r"^(?:node|nodejs|deno|bun|perl|ruby|php|lua(?:jit)?|Rscript|R|julia|tclsh|"
    r"osascript|pwsh|guile|ghc|runghc|raku|groovy)[\d.]*$"
)
_CODE_OPTIONS = re.compile(r"^-(?:[a-zA-Z]*[eEcrlp]|-eval|-execute|-print)$")
_WRAPPERS: dict[str, tuple[str, ...]] = {
    # name: options that take a value
    "sudo": ("-u", "-g", "-h", "-p", "-C", "-r", "-t", "-T", "-U", "-D"),
    "doas": ("-u", "-C"),
    "env": ("-u", "-C", "--unset", "--chdir"),
    "nohup": (),
    "setsid": (),
    "nice": ("-n",),
    "ionice": ("-c", "-n", "-p"),
    "chrt": (),
    "taskset": (),
    "time": ("-o", "-f"),
    "timeout": ("-s", "-k", "--signal", "--kill-after"),
    "stdbuf": ("-i", "-o", "-e"),
    "unbuffer": (),
    "command": (),
    "builtin": (),
    "exec": ("-a",),
    "busybox": (),
    "toybox": (),
    "chronic": (),
    "watch": ("-n", "-d"),
    "strace": ("-e", "-o", "-p", "-s"),
    "ltrace": ("-e", "-o"),
    "proxychains": ("-f",),
    "proxychains4": ("-f",),
    "torsocks": (),
    "torify": (),
    "fakeroot": (),
    "unshare": (),
    "setarch": (),
    "catchsegv": (),
    "xvfb-run": ("-s", "-n"),
    "dbus-run-session": (),
    "coproc": (),
    "then": (),
    "do": (),
    "else": (),
    "noglob": (),
    "rlwrap": (),
    "parallel": ("-j", "--jobs", "-a", "-I", "-n", "-N", "--delay", "--joblog"),
    "retry": (),
    "gosu": (),
    "runuser": ("-u", "-g"),
    "flock": ("-w", "-E"),
    "daemonize": (),
    "caffeinate": (),
    "cachegrind": (),
    "valgrind": (),
    "eatmydata": (),
    "tini": (),
    "dumb-init": (),
    "firejail": (),
    "bwrap": (),
}
_FIRST_PLAIN = {"timeout": 1, "taskset": 1, "chrt": 1, "gosu": 1, "flock": 1, "setarch": 1}
"""How many words stand before the wrapped command."""
_RUNNERS = frozenset(
    tuple(one.split(":"))
    for one in words(
        """
        bundle:exec conda:run coverage:run hatch:run mamba:run micromamba:run nix:run
        npm:exec pdm:run pipenv:run pixi:run poetry:run rye:run uv:run
        """
    )
)
_LOCAL = words(
    """
    echo printf grep egrep fgrep rg ag ack zgrep sed cat tac less more head tail tee ls test [ [[ true false :
    sort uniq cut tr wc diff cmp comm cp mv rm mkdir rmdir touch chmod chown ln find fd fdfind stat file
    basename dirname realpath readlink make pytest py.test tox nox jq yq ed patch column fold fmt nl rev paste
    join expand base64 xxd od hexdump strings export unset set read cd pushd popd pwd type which whereis hash
    alias trap sleep wait date env kill ps declare local sphinx-build towncrier ruff black flake8 mypy isort
    pre-commit awk gawk mawk tree du df seq yes expr md5sum sha1sum sha256sum tar unzip zip gzip gunzip xargs
    vim vi nano emacs code man help history cargo-fmt pandoc markdown rst2html codespell linkchecker-dry wrapt
    return exit break continue shift let git
    """
)
"""Programs that only work on texts and files of the sandbox: addresses among their words are texts."""


def decide_command(command: str, target: Target, policy: Policy = DEFAULT, *, search: bool) -> Decision:
    """Decide a bash command by the rules of the paper, with or without search.

    Advice to the agent: what cannot be read off the command (a program of the agent's own, a name built at run time) is
    allowed here and stopped by the proxy or by the history that was cut.
    """
    context = Context(names_of(target), policy, search)
    shell = Shell(_Judge(context))
    try:
        shell.run(command)
    except Refused as refused:
        return refused.decision
    except RecursionError:
        return Decision(True, "nested-too-deep", "commands inside commands")
    except TooLong:
        return Decision(True, "too-long", "more than is read of one command; do it in several steps")
    return ALLOWED


class _Judge:
    """Looks at each call that the shell would make."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def reads(self, path: str, shell: Shell) -> None:
        escapes.read(path, self.context)
        connection = re.match(r"/dev/(?:tcp|udp)/([\w.-]+)/\d+", path)
        if connection:
            shell.marks["connection"] = connection[1]
        if ".git" in shell.directory:
            escapes.read(shell.path(path), self.context)

    def call(self, call: Call, shell: Shell) -> str | None:
        for name, value in call.environment:
            if name in (
                "GIT_SSH_COMMAND",
                "GIT_PAGER",
                "PAGER",
                "GIT_EDITOR",
                "EDITOR",
                "PROMPT_COMMAND",
                "GIT_EXTERNAL_DIFF",
            ):
                shell.run(value)
            if name.startswith(("PIP_INDEX", "PIP_EXTRA", "PIP_FIND", "UV_INDEX", "UV_DEFAULT", "UV_FIND")):
                self.context.argument(value)
        name = call.name
        escapes.judge(call, shell, self.context)
        if (name, *call.arguments[:1]) in _RUNNERS:
            kind = installers.installer(name)
            if kind:
                installers.judge(kind, call, shell, self.context)
            return self._inner(
                call,
                shell,
                list(call.arguments[1:]),
                ("-n", "-p", "--with", "--from", "--python", "-e", "--extra"),
            )
        if name in _WRAPPERS and not (name == "busybox" and call.arguments[:1] in (("sh",), ("ash",))):
            return self._wrapped(call, shell)
        if name == "xargs":
            return self._xargs(call, shell)
        if name in ("eval", "source", "."):
            return self._evaluated(call, shell)
        if name in (
            "su",
            "script",
            "at",
            "batch",
            "crontab",
            "tmux",
            "screen",
            "trap",
            "vim",
            "vi",
            "ed",
            "nix-shell",
            "ssh-agent",
        ):
            self._other_shells(call, shell)
        if name in _SHELLS or (name == "busybox" and call.arguments):
            return self._shell(call, shell)
        if _PYTHON.match(name):
            return self._python(call, shell)
        if _OTHERS.match(name):
            self._program(code.other(_script(call, shell), call.arguments), shell)
            web.proxied(call, self.context)
            return None
        return self._tool(call, shell)

    def _tool(self, call: Call, shell: Shell) -> str | None:
        name, context = call.name, self.context
        if name == "git" or name.startswith("git-"):
            return git.judge(call, shell, context)
        kind = installers.installer(name)
        if kind:
            installers.judge(kind, call, shell, context)
            return None
        if name in web.CLIENTS:
            web.client(call, shell, context)
            return None
        if name in web.SOCKETS:
            web.socket(call, shell, context)
            return simulated(call, shell)
        if name in web.LOOKUPS or (name in web.RESOLVERS and any(UNKNOWN in one for one in call.arguments)):
            web.lookup(call, context)
            return None
        if name in web.FORGES:
            web.forge(call, shell, context)
            return None
        if name in web.REMOTE:
            web.remote(call, context)
            return None
        if name in ("find", "fd", "fdfind"):
            self._found(call, shell)
        if name in ("awk", "gawk", "mawk", "tar", "make", "sed"):
            self._inside_tools(call, shell)
        path = shell.path(call.words[0])
        if path in shell.files:
            return self._script_file(path, call, shell)
        if name not in _LOCAL:
            web.proxied(call, context)
            context.benchmark(" ".join(call.arguments))
            if name in (
                "svn",
                "hg",
                "bzr",
                "brz",
                "fossil",
                "jj",
                "darcs",
                "go",
                "cargo",
                "cookiecutter",
                "copier",
                "cruft",
                "repo",
            ):
                for one in call.arguments:
                    context.text(one)
                    if one.startswith("lp:"):
                        context.address(f"https://launchpad.net/{one[3:]}")
        printed = simulated(call, shell)
        if "connection" in shell.marks and printed and name in ("echo", "printf", "cat"):
            context.requests(printed, [shell.marks["connection"]])
        return printed

    def _inner(self, call: Call, shell: Shell, words: list[str], values: tuple[str, ...]) -> str | None:
        """The call behind a wrapper's options."""
        at = 0
        while at < len(words) and (words[at].startswith("-") or words[at] == "!"):
            at += 2 if words[at] in values else 1
        rest = words[at:]
        return shell.execute(Call(tuple(rest), call.stdin, call.environment, call.source)) if rest else None

    def _wrapped(self, call: Call, shell: Shell) -> str | None:
        words = list(call.arguments)
        name = call.name
        if name == "env":
            for at, one in enumerate(words):
                if one in ("-S", "--split-string") or one.startswith("--split-string="):
                    text = one.partition("=")[2] or " ".join(words[at + 1 :])
                    return shell.run(text, call.stdin)
        if name == "command" and words[:1] and words[0] in ("-v", "-V"):
            return None
        if name in ("watch", "flock", "runuser") and "-c" in words[:-1]:
            return shell.run(words[words.index("-c") + 1], call.stdin)
        at, values = 0, _WRAPPERS[name]
        while at < len(words) and words[at].startswith("-"):
            at += 2 if words[at] in values else 1
        at += _FIRST_PLAIN.get(name, 0)
        while at < len(words) and re.match(r"^[A-Za-z_]\w*=", words[at]) and name in ("env", "sudo", "doas"):
            variable, _, value = words[at].partition("=")
            shell.variables[variable] = value
            at += 1
        rest = words[at:]
        if name in ("watch", "parallel") and rest:
            return self._parallel(rest, call, shell)
        return shell.execute(Call(tuple(rest), call.stdin, call.environment, call.source)) if rest else None

    def _parallel(self, rest: list[str], call: Call, shell: Shell) -> str | None:
        """parallel and watch join their words to a text for a shell."""
        cut = next((at for at, one in enumerate(rest) if one in (":::", "::::")), len(rest))
        text, values = " ".join(rest[:cut]), rest[cut + 1 :]
        if call.name == "parallel" and not values:
            values = (call.stdin or "").splitlines()
        for value in values[:64] or [""]:
            shell.run(text.replace("{}", value) if "{}" in text else f"{text} {value}")
        return None

    def _xargs(self, call: Call, shell: Shell) -> str | None:
        words, at, placeholder = list(call.arguments), 0, ""
        while at < len(words) and words[at].startswith("-"):
            one = words[at]
            if one in ("-I", "-i", "--replace"):
                placeholder = words[at + 1] if one == "-I" and at + 1 < len(words) else "{}"
                at += 1 if one == "-I" else 0
            elif one.startswith(("-I", "--replace=")):
                placeholder = one.partition("=")[2] or one[2:]
            elif one in (
                "-n",
                "-P",
                "-L",
                "-d",
                "-s",
                "-a",
                "-E",
                "--max-args",
                "--max-procs",
                "--delimiter",
                "--max-lines",
            ):
                at += 1
            at += 1
        rest = words[at:] or ["echo"]
        items = expand_all(call.stdin, shell.scope()) if call.stdin else []
        if placeholder:
            for line in (call.stdin or "").splitlines()[:64] or [""]:
                shell.execute(Call(tuple(one.replace(placeholder, line.strip()) for one in rest)))
            return None
        return shell.execute(Call((*rest, *items)))

    def _evaluated(self, call: Call, shell: Shell) -> str | None:
        if call.name == "eval":
            return shell.run(" ".join(call.arguments), call.stdin)
        for one in call.arguments[:1]:
            text = call.stdin if one in ("/dev/stdin", "-") else shell.read_file(one)
            return shell.run(text) if text else None
        return None

    def _shell(self, call: Call, shell: Shell) -> str | None:
        words = list(call.arguments)
        if call.name == "busybox":
            words = words[1:]
        at = 0
        while at < len(words) and words[at].startswith(("-", "+")):
            if re.fullmatch(r"-[a-zA-Z]*c[a-zA-Z]*", words[at]) and at + 1 < len(words):
                for number, value in enumerate(words[at + 2 :]):
                    shell.variables[str(number)] = value
                shell.variables["@"] = shell.variables["*"] = " ".join(words[at + 3 :])
                return shell.run(words[at + 1], call.stdin)
            at += 2 if words[at] in ("-o", "+o", "--rcfile", "--init-file", "-O") else 1
        if at < len(words) and words[at] not in ("-", "/dev/stdin"):
            text = shell.read_file(words[at])
            for number, value in enumerate(words[at:]):
                shell.variables[str(number)] = value
            return shell.run(text, call.stdin) if text else None
        return shell.run(call.stdin) if call.stdin else None

    def _script_file(self, path: str, call: Call, shell: Shell) -> str | None:
        text = shell.files[path]
        if re.match(r"#!.*python", text):
            self._program(code.python(text), shell)
            return None
        if re.match(r"#!.*\b(?:node|perl|ruby|php|deno)", text):
            self._program(code.other(text), shell)
            return None
        for number, value in enumerate(call.words):
            shell.variables[str(number)] = value
        return shell.run(text, call.stdin)

    def _python(self, call: Call, shell: Shell) -> str | None:
        words, at = list(call.arguments), 0
        while at < len(words) and words[at].startswith("-") and words[at] != "-":
            option = words[at]
            if re.fullmatch(r"-[a-zA-Z]*c.*", option) and not option.startswith("--"):
                attached = option.partition("c")[2]
                return self._program(
                    code.python(attached or "".join(words[at + 1 : at + 2])), shell, words[at + 2 :]
                )
            if re.fullmatch(r"-[a-zA-Z]*m.*", option) and not option.startswith("--"):
                attached = option.partition("m")[2]
                rest = ([attached] if attached else []) + words[at + 1 :]
                return self._module(rest, call, shell)
            at += 2 if option in ("-W", "-X", "--check-hash-based-pycs") else 1
        if at < len(words) and words[at] not in ("-", "/dev/stdin"):
            text = shell.read_file(words[at])
            if text is not None:
                return self._program(code.python(text), shell, words[at + 1 :])
            web.proxied(call, self.context)
            if posixpath.basename(words[at]) in ("pip", "pip.pyz", "get-pip.py"):
                return shell.execute(Call(("pip", *words[at + 1 :]), call.stdin))
            return None
        return self._program(code.python(call.stdin), shell) if call.stdin else None

    def _module(self, rest: list[str], call: Call, shell: Shell) -> str | None:
        if not rest:
            return None
        name = rest[0].partition(".")[0]
        if (
            name == "pip"
            or installers.installer(name)
            or name in ("httpx", "httpie", "gitpython", "dulwich", "trafilatura")
        ):
            return shell.execute(Call((name, *rest[1:]), call.stdin, call.environment))
        web.proxied(Call(tuple(rest), call.stdin), self.context)
        return None

    def _program(self, program: code.Program, shell: Shell, arguments: list[str] | None = None) -> str | None:
        """Judge what is known of a program in another language."""
        context = self.context
        for command in program.commands:
            if isinstance(command, str):
                shell.run(command)
            else:
                shell.execute(Call(tuple(command)))
        for module, rest in program.modules:
            shell.execute(Call((module, *rest)))
        escapes.strings(program.texts, context)
        if program.network:
            context.strings(program.texts)
            for one in arguments or []:
                context.argument(one)
        if program.fetches:
            refuse("git-network", "fetch of a git library")
        return program.printed

    def _other_shells(self, call: Call, shell: Shell) -> None:
        words = list(call.arguments)
        for at, one in enumerate(words):
            if re.fullmatch(r"-[a-z]*c|--command|--run", one) and at + 1 < len(words):
                shell.run(words[at + 1].lstrip(":!"))
            elif one.startswith(("+!", ":!", "!")) and len(one) > 2:
                shell.run(one.lstrip("+:!"))
        if call.name in ("at", "batch", "crontab", "ed") and call.stdin:
            shell.run("\n".join(line.lstrip("!") for line in call.stdin.splitlines()))
        if call.name == "trap" and words:
            shell.run(words[0])
        if call.name in ("tmux", "screen"):
            for one in words:
                if " " in one:
                    shell.run(one)

    def _found(self, call: Call, shell: Shell) -> None:
        words = list(call.arguments)
        for at, one in enumerate(words):
            if one in ("-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec"):
                rest = words[at + 1 :]
                end = next((n for n, word in enumerate(rest) if word in (";", "\\;", "+")), len(rest))
                root = words[0] if words and not words[0].startswith("-") else "."
                inside = f"{root}/objects/x" if re.search(r"(?:^|/)\.git/?$", root) else f"{root}/x"
                shell.execute(Call(tuple(one.replace("{}", inside) for one in rest[:end])))

    def _inside_tools(self, call: Call, shell: Shell) -> None:
        for one in call.arguments:
            if call.name.endswith("awk"):
                for text in re.findall(
                    r"system\s*\(\s*\"((?:[^\"\\]|\\.)*)\"|\"((?:[^\"\\]|\\.)*)\"\s*\|\s*getline", one
                ):
                    shell.run((text[0] or text[1]).replace('\\"', '"'))
            elif call.name == "tar":
                found = re.match(
                    r"--(?:checkpoint-action=exec|to-command|use-compress-program|rsh-command)=(.+)", one
                )
                if found:
                    shell.run(found[1])
            elif call.name == "sed":
                found = re.match(r"^\d*!?e\s+(.+)$", one)
                if found:
                    shell.run(found[1])
            elif call.name == "make" and one.startswith("--eval="):
                shell.run(one.partition(":")[2].strip().lstrip("@"))
        if call.name == "make" and "-f" in call.arguments:
            place = "".join(call.arguments[call.arguments.index("-f") + 1 :][:1])
            text = call.stdin if place in ("-", "") else shell.files.get(shell.path(place))
            for line in (text or "").splitlines():
                if line.startswith("\t"):
                    shell.run(line.strip().lstrip("@-+").replace("$$", "$"))


def _script(call: Call, shell: Shell) -> str:
    """The source that an interpreter is given: by an option, a file that was written before, or its input."""
    words = list(call.arguments)
    for at, one in enumerate(words):
        if _CODE_OPTIONS.match(one) and at + 1 < len(words):
            return words[at + 1]
        attached = re.match(r"^(?:--eval=|--print=|-e)(.+)$", one)
        if attached:
            return attached[1]
        if not one.startswith("-"):
            text = shell.read_file(one)
            if text is not None:
                return text
            if one == "eval":
                return "".join(words[at + 1 : at + 2])
            break
    return call.stdin or ""
