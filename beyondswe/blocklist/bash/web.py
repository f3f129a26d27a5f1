"""Programs that go to the web: HTTP clients, browsers, raw sockets, clients of forges, name lookups."""

from __future__ import annotations

import re
from itertools import product

from beyondswe.blocklist.address import NotAnAddress, parse
from beyondswe.blocklist.bash.context import Context, refuse
from beyondswe.blocklist.bash.shell import Call, Shell
from beyondswe.blocklist.bash.words import UNKNOWN, braces
from beyondswe.blocklist.hosts import words

CLIENTS = words(
    """
    curl wget wget2 aria2c axel http https httpie xh xhs curlie lynx w3m links links2 elinks browsh
    lwp-request lwp-download GET HEAD fetch ftp lftp ncftpget hurl httpx trafilatura youtube-dl yt-dlp
    chromium chromium-browser google-chrome firefox monolith httrack saldl puf snarf zsync websocat wscat
    grpcurl shot-scraper htmlq gallery-dl xidel rclone
    """
)
SOCKETS = frozenset(
    (
        "nc",
        "ncat",
        "netcat",
        "nc.openbsd",
        "nc.traditional",
        "socat",
        "telnet",
        "openssl",
        "gnutls-cli",
        "busybox-nc",
    )
)
LOOKUPS = words(
    """
    dig nslookup host drill kdig delv resolvectl systemd-resolve adnshost dnsget q doggo dog avahi-resolve
    """
)
RESOLVERS = frozenset(("ping", "ping6", "getent", "traceroute", "tracepath", "mtr", "arping"))
"""Programs that look a name up on the way: blocked only where the name is made of what a command prints."""
FORGES = frozenset(("gh", "hub", "glab", "tea", "lab", "bb", "forgejo", "berg"))
REMOTE = frozenset(("ssh", "scp", "sftp", "rsync", "mosh", "autossh"))
_CURL_VALUES = words(
    """
    -A -b -c -C -D -E -e -m -o -P -Q -r -t -T -u -U -w -X -Y -y -z --user-agent --cookie --cookie-jar
    --dump-header --cert --referer --max-time --output --ftp-port --quote --range --user --write-out --request
    --speed-limit --speed-time --time-cond --connect-timeout --retry --retry-delay --retry-max-time --cacert
    --capath --key --limit-rate --max-filesize --max-redirs --output-dir --stderr --trace --trace-ascii
    --interface --ciphers --tls-max --parallel-max --upload-file --noproxy
    """
)
_OTHER_VALUES = words(
    """
    -o -O -P -U -a -T -t -A -R -I -D -l -w -Q -d -s -x -k -j --output-document --directory-prefix --user-agent
    --append-output --timeout --tries --accept --reject --wait --dir --out --split --output --output-file
    --user --password --level --referer --max-time
    """
)
_DATA = (
    "-d",
    "--data",
    "--data-raw",
    "--data-binary",
    "--data-urlencode",
    "--data-ascii",
    "-F",
    "--form",
    "--form-string",
    "--json",
    "--post-data",
    "--body-data",
    "--url-query",
)
_CURL_OPTIONS = frozenset(
    (
        *_DATA,
        "-H",
        "--header",
        "--url",
        "-K",
        "--config",
        "--resolve",
        "--connect-to",
        "--unix-socket",
        "--abstract-unix-socket",
    )
)
_OTHER_OPTIONS = frozenset(
    (
        "--header",
        "-i",
        "--input-file",
        "--base",
        "-B",
        "--url",
        "--post-data",
        "--body-data",
        "--json",
        "--form",
    )
)
_CLUSTER = re.compile(r"^-([a-zA-Z0-9#]*?)([bcdeACDEFHKmoPQrtTuUwXxYyz])(.*)$")
_ENGINE_SOCKET = re.compile(r"(?:docker|podman|containerd|crio)[\w./-]*\.sock")


def client(call: Call, shell: Shell, context: Context) -> None:
    """Refuse a request of an HTTP client, with the host that its options put in place of the written one."""
    urls: list[str] = []
    hosts: list[str] = []
    arguments = list(call.arguments)
    curl = call.name == "curl"
    values = _CURL_VALUES if curl else _OTHER_VALUES
    at = 0
    while at < len(arguments):
        one = arguments[at]
        at += 1
        if not one.startswith("-") or one == "-":
            urls.append(one)
            continue
        name, equals, value = one.partition("=") if one.startswith("--") else (one, "", "")
        if curl and not one.startswith("--") and (cluster := _CLUSTER.match(one)):
            name, value = f"-{cluster[2]}", cluster[3]
            equals = "=" if value else ""
        known = name in (_CURL_OPTIONS if curl else _OTHER_OPTIONS)
        if not known and name not in values:
            continue
        if not equals and at < len(arguments):
            value = arguments[at]
            at += 1
        if known:
            _option(name, value, urls, hosts, call, shell, context)
        elif not curl and "://" in value:
            urls.append(value)
    if call.stdin and any(one in ("-", "/dev/stdin") for one in urls):
        urls += call.stdin.split()
    for one in urls:
        for url in globbed(one):
            _request(url, hosts, context)


def _option(
    name: str, value: str, urls: list[str], hosts: list[str], call: Call, shell: Shell, context: Context
) -> None:
    if name in ("-H", "--header"):
        found = re.match(r"(?i)\s*(?:host|x-forwarded-host|x-target-url|x-url|:authority)\s*:\s*(\S+)", value)
        if found:
            hosts.append(found[1])
        if re.match(r"(?i)\s*x-", value):
            context.text(value)
    elif name in ("--resolve", "--connect-to"):
        hosts += [
            part
            for part in re.split(r"[:,]", value.lstrip("+"))
            if re.search(r"[a-z]", part, re.I) and "." in part
        ]
    elif name in ("--url", "--base", "-B"):
        urls.append(value)
    elif name in ("--unix-socket", "--abstract-unix-socket") and _ENGINE_SOCKET.search(value):
        refuse("container-engine", value)
    elif name in ("-K", "--config", "-i", "--input-file"):
        text = call.stdin if value in ("-", "/dev/stdin") else shell.read_file(value)
        for line in (text or "").splitlines():
            found = re.match(r"\s*(?:-*url\s*[=: ]\s*)?[\"']?([^\s\"']+)", line)
            if found and ("url" in line or "://" in line or "-i" in name):
                urls.append(found[1])
    elif name in _DATA:
        text = (
            call.stdin
            if value in ("@-", "@/dev/stdin")
            else shell.read_file(value[1:])
            if value[:1] == "@"
            else value
        )
        if text:
            context.text(text)
            for one in re.findall(r"https?://[^\s\"'&]+", text):
                context.address(one)


def globbed(url: str) -> list[str]:
    """The addresses that a client's own patterns make of one: braces and ranges."""
    found = braces(url) if "{" in url else [url]
    made: list[str] = []
    for one in found[:64]:
        ranges = list(re.finditer(r"\[([A-Za-z0-9])-([A-Za-z0-9])\]", one))
        if not ranges or len(ranges) > 3:
            made.append(one)
            continue
        choices = [[chr(code) for code in range(ord(r[1]), ord(r[2]) + 1)][:36] for r in ranges]
        for letters in list(product(*choices))[:256]:
            text = one
            for span, letter in zip(reversed(ranges), reversed(letters), strict=True):
                text = text[: span.start()] + letter + text[span.end() :]
            made.append(text)
    return made


def _request(url: str, hosts: list[str], context: Context) -> None:
    if url in ("-", "") or url.startswith("@"):
        return
    if "://" not in url and not context.looks_like_address(url):
        if "." not in url and ":" not in url and "localhost" not in url:
            return
        url = f"http://{url}"
    context.address(url)
    rest = re.sub(r"^[a-zA-Z][\w+.-]*://[^/?#]*", "", url)
    for host in hosts:
        context.address(f"https://{host}{rest if rest.startswith('/') else '/' + rest}")


def socket(call: Call, shell: Shell, context: Context) -> None:
    """Refuse a raw connection whose host, or whose request on standard input, is the target's."""
    if call.name == "openssl" and "s_client" not in call.arguments:
        return
    joined = " ".join(call.arguments)
    if _ENGINE_SOCKET.search(joined):
        refuse("container-engine", joined)
    hosts = re.findall(
        r"(?i)(?<![\w.-])((?:[a-z0-9-]+\.)+[a-z]{2,18}|\d{1,3}(?:\.\d{1,3}){3})(?![\w.-])", joined
    )
    for host in hosts:
        context.host(host)
    if call.stdin:
        context.requests(call.stdin, hosts)
        if not any(host.startswith("127.") for host in hosts):
            context.text(call.stdin)


def lookup(call: Call, context: Context) -> None:
    """Refuse names looked up by hand: no name service answers in a sandbox, and a name carries data out."""
    if context.policy.dns_tools and any(not one.startswith("-") for one in call.arguments):
        refuse("name-lookup", " ".join(call.words))


def forge(call: Call, shell: Shell, context: Context) -> None:
    """Refuse what clients of forges are asked about the target, or about "this" repository."""
    arguments = list(call.arguments)
    joined = " ".join(call.words)
    context.text(joined)
    slug = dict(call.environment).get("GH_REPO") or shell.variables.get("GH_REPO", "")
    if slug:
        context.text(slug)
    named = bool(slug) or any(re.match(r"(?:-R|--repo)", one) for one in arguments)
    for at, one in enumerate(arguments):
        match = re.match(r"(?:-R=?|--repo=?)(.*)$", one)
        if match:
            one = match[1] or "".join(arguments[at + 1 : at + 2])
        if context.looks_like_address(one):
            context.address(one)
        elif re.fullmatch(r"[\w.-]+/[\w.-]+", one) or match:
            context.address(f"https://github.com/{one}")
    plain = [one for one in arguments if not one.startswith("-")]
    command, sub = ([*plain, "", ""])[:2]
    if command == "api" and len(plain) > 1:
        path = re.sub(r"^https://api\.github\.com/?", "", plain[1]).lstrip("/")
        if re.search(r"\{owner\}|:owner|\{repo\}", path):
            refuse("target-repository", joined)
        context.address(f"https://api.github.com/{path}")
    elif command in ("search",):
        query = " ".join(plain[2:])
        asked = re.sub(r"[^\w:/.-]+", "+", query)
        context.address(f"https://github.com/search?q={asked}")
        owner = re.search(r"--owner[= ](\S+)", joined)
        if owner and owner[1].lower() in context.names.owners:
            refuse("target-search", joined)
    elif (
        command
        in (
            "pr",
            "issue",
            "release",
            "run",
            "workflow",
            "browse",
            "mr",
            "ci",
            "cache",
            "label",
            "fetch",
            "pull-request",
            "sync",
            "compare",
            "pulls",
            "issues",
            "releases",
        )
        and not named
        and sub not in ("status", "create")
    ):
        if not any("://" in one or re.fullmatch(r"[\w.-]+/[\w.-]+#?\d*", one) for one in plain[1:]):
            refuse("target-repository", f"{joined} (asks about the repository of the workspace)")
    elif command == "repo" and sub in ("view", "sync", "clone") and len(plain) < 3 and not named:
        refuse("target-repository", joined)
    elif command == "auth" and sub == "token" and context.policy.credential_files:
        refuse("credential-file", joined)


def remote(call: Call, context: Context) -> None:
    """Refuse copies and shells on other machines that serve the target."""
    plain = [one for one in call.arguments if not one.startswith("-")]
    for at, one in enumerate(plain):
        if re.match(r"^(?:[\w.-]+@)?[\w-]+(?:\.[\w-]+)+:", one) or "://" in one:
            context.address(one)
        elif call.name in ("ssh", "mosh", "autossh") and re.match(r"^(?:[\w.-]+@)?[\w-]+(?:\.[\w-]+)+$", one):
            host = one.rpartition("@")[2]
            context.host(host)
            command = " ".join(plain[at + 1 :])
            for path in re.findall(r"[\w.~-]+/[\w./~-]+", command):
                context.address(f"https://{host}/{path.lstrip('/')}")
            return


def proxied(call: Call, context: Context) -> None:
    """Any other program: its arguments that are addresses."""
    for one in call.arguments:
        context.argument(one)


def host_of(url: str) -> str:
    """The host of an address, "" where there is none."""
    try:
        return parse(url.replace(UNKNOWN, "x")).host
    except NotAnAddress:
        return ""
