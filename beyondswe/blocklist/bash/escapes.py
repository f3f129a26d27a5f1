"""What leads out of the sandbox or to what is hidden: engines, disks, credentials, git's objects, tests."""

from __future__ import annotations

import re

from beyondswe.blocklist.bash.context import Context, refuse
from beyondswe.blocklist.bash.shell import Call, Shell
from beyondswe.blocklist.hosts import words

ENGINES = words(
    """
    docker docker-compose podman podman-compose nerdctl ctr crictl buildah skopeo kubectl lxc machinectl runc
    crun nsenter capsh insmod modprobe kexec debugfs
    """
)
READERS = words(
    """
    cat less more most head tail strings xxd od hexdump hd cp tar zip rsync dd zcat gzip gunzip pigz unpigz
    zlib-flate qpdf openssl base64 sed awk perl mv ln cmp diff tac nl rev bat view vim vi nano ed cut sort
    uniq grep egrep fgrep rg zgrep bsdtar cpio install tee source . jq python python3 ruby node dump split wc
    sha1sum md5sum file scp curl git
    """
)
_OBJECTS = re.compile(r"(?:^|/|=)\.git/(?:objects(?:/|$)|logs(?:/|$)|lost-found)")
_REF_FILES = re.compile(
    r"(?:^|/|=)\.git/(?:packed-refs|FETCH_HEAD|ORIG_HEAD|info/refs|refs/(?:remotes|tags|pull|notes|stash|replace|original)(?:/|$))"
)
_ALTERNATES = re.compile(r"objects/info/(?:http-)?alternates")
_CREDENTIALS = re.compile(
    r"(?:^|/)(?:\.netrc|_netrc|\.git-credentials|\.pypirc|\.npmrc|\.pgpass|\.dockercfg|\.vault-token|\.env\.secrets|"
    r"\.ssh/(?:id_\w+|identity|\*)|\.aws/(?:credentials|config)|\.docker/config\.json|\.kube/config|\.config/gh/hosts\.yml|\.config/hub|"
    r"\.config/gcloud/\S*|\.huggingface/token|\.cache/huggingface/token|\.codex/auth\.json|\.claude/\.credentials\.json|"
    r"\.anthropic\S*|\.gemini/oauth_creds\.json|\.config/git/credentials|\.gnupg/\S*|etc/shadow|run/secrets/\S*|"
    r"var/run/secrets/\S*)$"
)
_HIDDEN = re.compile(
    r"(?<![a-z0-9])f2p(?![a-z0-9])|fail[-_ ]?to[-_ ]?pass|pass[-_ ]?to[-_ ]?pass|"
    r"hidden[-_]?tests?|gold[-_]?patch|fix[-_]patch",
    re.I,
)
_SEEKERS = words(
    """
    find fd fdfind locate mlocate plocate ls tree cat head tail less more cp strings glob
    """
)
_OUTSIDE = re.compile(r"^/(?:(?:root|opt|home|mnt|srv|eval|tests?|data|var)(?:/.*)?)?$")
"""Places beside the workspace where a search for hidden tests would look."""
_DEVICES = re.compile(
    r"^(?:\w+=)?/dev/(?:sd[a-z]|vd[a-z]|xvd[a-z]|nvme|hd[a-z]|dm-|mapper/|md\d|mmcblk|kmsg|mem$|kmem|disk/|loop|nbd|root|fuse|kvm)"
)
_PROC = re.compile(
    r"/proc/(?:\d+|\*)/(?:root|environ|cwd|mem|fd|maps)(?:/|$)|"
    r"/proc/(?:sysrq-trigger|kcore|kmem)|/sys/(?:fs/cgroup/.*release_agent|kernel/)"
)
_SOCKETS = re.compile(r"(?:docker|podman|containerd|crio)[\w./-]*\.sock")


def judge(call: Call, shell: Shell, context: Context) -> None:
    """Refuse calls that leave the sandbox or look for what must not be in it."""
    name, arguments = call.name, call.arguments
    whole = " ".join(call.words)
    if name in ENGINES and not (
        arguments[:1] and arguments[0] in ("--version", "version", "--help", "help", "-v")
    ):
        refuse("container-engine", whole)
    if name == "mount" and any(_DEVICES.match(one) for one in arguments):
        refuse("host-disk", whole)
    if name in ("chroot", "pivot_root") and any(
        re.match(r"/(?:host|mnt|proc/\d+/root)", one) for one in arguments
    ):
        refuse("host-disk", whole)
    if name == "git" and arguments[:1] == ("credential",) and context.policy.credential_files:
        refuse("credential-file", whole)
    for one in arguments:
        if re.search(r"\s", one):
            continue
        if _SOCKETS.search(one) and name not in ("echo", "printf", "grep"):
            refuse("container-engine", one)
        if name not in ("echo", "printf", "grep", "git"):
            path(one, context, device=name not in ("ls", "test", "[", "stat"))
    files = (
        arguments[1:] if name in ("grep", "egrep", "fgrep", "rg", "sed", "awk", "perl", "jq") else arguments
    )
    if name in READERS:
        for one in files:
            if one.startswith("--exclude") or re.search(r"\s", one):
                continue
            git_file(one, context)
            if ".git" in shell.directory:
                git_file(shell.path(one), context)
            if context.policy.credential_files and _CREDENTIALS.search(one):
                refuse("credential-file", one)
    everywhere = name in ("grep", "egrep", "rg", "ag") and any(_OUTSIDE.match(one) for one in arguments)
    if (name in _SEEKERS or everywhere) and context.policy.hidden_tests:
        for one in arguments:
            if _HIDDEN.search(one):
                refuse("hidden-tests", one)


def path(text: str, context: Context, *, device: bool = True) -> None:
    """Refuse paths that lead to the machine beneath."""
    if re.search(r"\s", text):
        return
    if _PROC.search(text):
        refuse("host-disk", text)
    if device and _DEVICES.match(text):
        refuse("host-disk", text)


def git_file(text: str, context: Context) -> None:
    """Refuse files in which git keeps what commits of the agent do not lead to."""
    if context.policy.pack_bytes and (_OBJECTS.search(text) or _ALTERNATES.search(text)):
        refuse("git-objects", text)
    if context.policy.list_refs and _REF_FILES.search(text):
        refuse("git-refs", text)


def read(text: str, context: Context) -> None:
    """Refuse a file that is read by a redirection."""
    git_file(text, context)
    path(text, context)
    if context.policy.credential_files and _CREDENTIALS.search(text):
        refuse("credential-file", text)
    tcp = re.match(r"/dev/(?:tcp|udp)/([^/]+)/(\d+)", text)
    if tcp:
        context.address(f"https://{tcp[1]}:{tcp[2]}/")


def strings(texts: list[str], context: Context) -> None:
    """Refuse programs whose texts are paths of git's objects, of credentials or of the engine's socket."""
    for one in texts:
        if len(one) < 200 and " " not in one and "\n" not in one:
            git_file(one, context)
            path(one, context)
            if _SOCKETS.search(one):
                refuse("container-engine", one)
            if context.policy.credential_files and _CREDENTIALS.search(one):
                refuse("credential-file", one)
