"""The only program of a scoring container: puts the change in place, runs one child, and says how it went.

Started as ``python -I -S -B supervise.py FOLDER`` and process 1 there, which is what makes it strong: nothing
inside the container can kill it, ``kill(-1)`` from here ends everything else, and orphans come to it.
Deliberate:

- It refuses to run as any other process: ``kill(-1)`` outside a container would end the user's session.
- It is not dumpable, so that its descriptors and memory are closed to tested code even where both are root.
- Standard output carries only frames (see README.md). What the child prints is drained into a head and a
  tail, in time that grows with its length and memory that does not.
- The job's folder is gone, and the key is handed over on a pipe, before any tested code runs.
"""

import base64
import binascii
import collections
import hashlib
import hmac
import json
import os
import select
import signal
import stat
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tree

FAULT = 70
NOBODY = 65534  # the user, and the group, who owns nothing
LINE_LIMIT = 1 << 18  # bytes of one record
RECORDS_LIMIT = 96 << 20  # bytes of all records: some 200,000 tests, and less than the host reads
FORGED_LIMIT = 20  # lines that are shown; the rest is counted
_TEMPLATE_PATIENCE = 30.0  # seconds that it may take to import pytest, start a child, end what a child left
_NOT_STARTED = {
    "exit_code": None,
    "signal": None,
    "timed_out": False,
    "forged": 0,
    "overflow": False,
    "seconds": 0.0,
    "started": None,
}
_PR_SET_DUMPABLE = 4
_F_SETPIPE_SZ = 1031
_BOOT = (
    "import os\n"
    "t=b''.join(iter(lambda:os.read(4,1<<20),b''))\n"
    "os.close(4)\n"
    "import json\n"
    "t=json.loads(t.decode())\n"
    "exec(compile(t.pop('code'),'<beyondswe runner>','exec'),{'__name__':'beyondswe_runner','TASK':t})\n"
)


class Frames:
    """Events on standard output, one ASCII JSON document a line."""

    def send(self, event, **fields):
        fields["event"] = event
        write_all(1, json.dumps(fields, sort_keys=True).encode("ascii") + b"\n")


class HeadTail:
    """The first and the last ``limit`` bytes of a stream, and how long it was."""

    def __init__(self, limit):
        self.limit = limit
        self.total = 0
        self.head = bytearray()
        self.tail = collections.deque()
        self.tail_size = 0

    def add(self, data):
        self.total += len(data)
        room = self.limit - len(self.head)
        if room > 0:
            self.head += data[:room]
            data = data[room:]
        if data:
            self.tail.append(data)
            self.tail_size += len(data)
            while self.tail_size - len(self.tail[0]) >= self.limit:
                self.tail_size -= len(self.tail.popleft())

    def fields(self):
        tail = b"".join(self.tail)[-self.limit :] if self.tail else b""
        return {
            "log_head": base64.b64encode(bytes(self.head)).decode("ascii"),
            "log_tail": base64.b64encode(tail).decode("ascii"),
            "log_bytes": self.total,
        }


class Records:
    """Checks the child's records, each bound by a keyed digest to the last one, and passes the good ones on.

    A line that was begun and never finished is no forgery: the child may have been killed in the middle.
    """

    def __init__(self, key, frames):
        self.key = key
        self.frames = frames
        self.before = b""
        self.buffer = b""
        self.size = 0
        self.forged = 0
        self.overflow = False
        self.first = None  # when the first record came: pytest is imported then

    def add(self, data):
        self.buffer += data
        lines = self.buffer.split(b"\n")
        self.buffer = lines.pop()
        for line in lines:
            self._line(line)
        if len(self.buffer) > LINE_LIMIT:
            self._refuse("longer than any record", self.buffer)
            self.buffer = b""

    def _line(self, line):
        digest, _, payload = line.partition(b" ")
        right = hmac.new(self.key, self.before + payload, hashlib.sha256).digest()
        try:
            given = binascii.unhexlify(digest)
        except ValueError:
            given = b""
        if not hmac.compare_digest(given, right):
            self._refuse("its digest is not the one that this job's key gives here", line)
            return
        self.first = self.first or time.monotonic()
        self.before = right
        self.size += len(payload)
        if self.size > RECORDS_LIMIT:
            self.overflow = True
        else:
            self.frames.send("record", r=json.loads(payload.decode("ascii")))

    def _refuse(self, why, line):
        self.forged += 1
        if self.forged <= FORGED_LIMIT:
            self.frames.send("forged", why=why, text=line[:200].decode("utf-8", "replace"))


def main():
    if os.getpid() != 1:
        sys.stderr.write(
            "supervise.py runs only as process 1 of a container of its own: it ends every other process\n"
        )
        return FAULT
    os.umask(0o022)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    close_to_others()
    frames = Frames()
    try:
        run(os.fsencode(sys.argv[1]), frames)
    except Exception as error:  # whatever it is, the host must hear of it: it is no verdict on the change
        end_everything()
        frames.send("fault", what="%s: %s" % (type(error).__name__, error))
        return FAULT
    return 0


def run(folder, frames):
    with open(os.path.join(folder, b"job.json"), "rb") as file:
        job = json.loads(file.read().decode("ascii"))
    with open(os.path.join(folder, b"worker.py"), "rb") as file:
        worker_code = file.read().decode("utf-8")
    frames.send(
        "hello",
        runner=job["runner"],
        python="%d.%d.%d" % sys.version_info[:3],
        executable=sys.executable,
        pid=os.getpid(),
    )
    workdir = os.path.realpath(encode(job["workdir"]))
    with open(os.path.join(folder, b"payload"), "rb") as payload:
        counts = apply_change(payload, job, workdir)
        rounds = read_rounds(job, payload, workdir) if "rounds" in job else None
    tree.remove_all(folder)
    frames.send("applied", **counts)

    environment = dict(os.environ)
    user = sealed_user(workdir, environment) if job["sealed"] else user_of(job["user"], environment)
    environment.update(job["environment"])
    log = HeadTail(job["log_limit"])
    if "command" in job:
        argv = [part.replace("{python}", sys.executable) for part in job["command"]]
        child = start(argv, environment, user, workdir)
        ended = child.watch(os.urandom(32), None, log, frames, job["time_limit"])
        if job.get("collect") and ended["exit_code"] == 0:
            send_files(encode(job["collect"]), job["collect_limit"], frames)
        finish(ended, log, frames)
        return
    task = dict(job["tests"], code=worker_code, workdir=job["workdir"])
    # The tree may be on it: at the start of the interpreter it would come before the standard library.
    task["pythonpath"] = environment.pop("PYTHONPATH", "")
    # The image's taste in reporting and selecting; `addopts` of the repository is handed over filtered
    # instead.
    environment.pop("PYTEST_ADDOPTS", None)
    argv = [sys.executable, "-c", _BOOT]
    if rounds is None:
        child = start(argv, environment, user, b"/")
        finish(child.watch(os.urandom(32), task, log, frames, job["time_limit"]), log, frames)
    else:
        run_rounds(rounds, task, argv, environment, user, workdir, job, frames)


def run_rounds(rounds, task, argv, environment, user, workdir, job, frames):
    """The same tests again and again, each time from other sources, by children of one prepared process."""
    template = None
    clock = int(time.time())
    for number, (served, ids, targets) in enumerate(rounds):
        frames.send("round", number=number)
        log = HeadTail(job["log_limit"])
        try:
            for path, mode, data, owner in served:
                tree.forget_compiled(workdir, path)
                # Files of two rounds differ in time, so that nothing compiled is taken for current; within a
                # round all are alike.
                tree.write(workdir, path, mode, data, owner, clock + 2 * number)
            child = template and template.child()
            if child is None:
                end_everything()
                template = Template(argv, environment, user, task, len(rounds) - number)
                child = template.child()
            if child is None:
                raise OSError("the prepared process starts no child")
        except (OSError, tree.Refused) as error:
            if number == 0:
                raise
            # Tested code has run here, as root perhaps: what it broke is no fault of the machine.
            log.add(("%s: %s" % (type(error).__name__, error)).encode("utf-8", "replace"))
            finish(dict(_NOT_STARTED), log, frames)
            continue
        # Most failures are wanted here: their texts are made in the cheapest way.
        mine = dict(task, ids=ids, targets=targets, traceback="native")
        ended = child.watch(os.urandom(32), mine, log, frames, job["time_limit"], keep=template)
        if template.gone:
            template = None
        finish(ended, log, frames)
    end_everything()


def finish(ended, log, frames):
    """Say how a child ended."""
    ended.update(log.fields())
    ended["oom_kills"] = memory_kills()
    frames.send("end", **ended)


def read_rounds(job, payload, workdir):
    """The rounds of a job, taken into this process's memory: no source lies on disk before its round."""
    owner = os.stat(workdir)
    rounds = []
    for step in job["rounds"]:
        served = []
        for path, mode, size in step["write"]:
            data = payload.read(size)
            if len(data) != size:
                raise tree.Refused("the payload ends before %r" % (path,))
            served.append((encode(path), int(mode, 8), data, (owner.st_uid, owner.st_gid)))
        rounds.append((served, step["ids"], step["targets"]))
    return rounds


def apply_change(payload, job, workdir):
    """Deletions, then files, each in the folder of its number: 0 is the workdir, then come ``places``."""
    deleted = 0
    for path in job["delete"]:
        forget(workdir, path)
        tree.delete(workdir, encode(path))
        deleted += 1
    owners = []
    for place in [workdir] + [encode(place) for place in job["places"]]:
        os.makedirs(place, mode=0o755, exist_ok=True)
        found = os.stat(place)
        owners.append((place, (found.st_uid, found.st_gid)))
    for place, path, mode, size in job["write"]:
        data = payload.read(size)
        if len(data) != size:
            raise tree.Refused("the payload ends before %r" % (path,))
        if mode == "script":  # as an installer does: the interpreter's path becomes known here
            mode, data = 0o100755, data.replace(b"#!python", b"#!" + os.fsencode(sys.executable), 1)
        else:
            mode = int(mode, 8)
        root, owner = owners[place]
        forget(root, path)
        tree.write(root, encode(path), mode, data, owner)
    return {"deleted": deleted, "written": len(job["write"])}


def forget(root, path):
    """What was compiled of a module that changes must not be taken for it, whatever it says it was made from."""
    if path.endswith(".py"):
        tree.forget_compiled(root, encode(path))


class Child(object):
    """One process that runs tests or a command, and what comes from it."""

    def __init__(self, pid, task_in, records_out, log_out, wake_out):
        self.pid, self.task_in, self.records_out = pid, task_in, records_out
        self.log_out, self.wake_out = log_out, wake_out
        self.begun = time.monotonic()

    def watch(self, key, task, log, frames, time_limit, keep=None):
        """Hand over the task, see the child to its end or to the time limit; then nothing but this process
        (and ``keep``) is left.
        """
        if task is not None:
            task = dict(task, key=binascii.hexlify(key).decode("ascii"))
            try:
                write_all(self.task_in, json.dumps(task).encode("ascii"))
            except BrokenPipeError:  # the child is dead already; how, is found below
                pass
        os.close(self.task_in)
        records = Records(key, frames)
        takers = {self.log_out: log.add, self.records_out: records.add}
        poll = select.poll()
        for descriptor in (self.log_out, self.records_out, self.wake_out):
            poll.register(descriptor, select.POLLIN)
        status = reap(self.pid)
        timed_out = False
        while status is None and not records.overflow:
            left = self.begun + time_limit - time.monotonic()
            if left <= 0:
                timed_out = True
                break
            for descriptor, _ in poll.poll(min(left, 3600.0) * 1000 + 1):
                if descriptor == self.wake_out:
                    read_some(self.wake_out)
                    status = reap(self.pid)
                elif not take(descriptor, takers[descriptor]):
                    poll.unregister(descriptor)  # its last writer is gone
        seconds = time.monotonic() - self.begun
        last = keep.alone(self.pid) if keep else end_everything(self.pid)
        status = last if status is None else status
        for descriptor, taker in takers.items():
            for data in iter(lambda descriptor=descriptor: read_some(descriptor) or b"", b""):
                taker(data)
        os.close(self.records_out)
        return {
            "exit_code": os.WEXITSTATUS(status) if status is not None and os.WIFEXITED(status) else None,
            "signal": os.WTERMSIG(status) if status is not None and os.WIFSIGNALED(status) else None,
            "timed_out": timed_out,
            "forged": records.forged,
            "overflow": records.overflow,
            "seconds": round(seconds, 4),
            "started": round(records.first - self.begun, 4) if records.first else None,
        }


class Template(object):
    """A process that has imported pytest, and nothing of the tree, and forks a child a round.

    Tested code runs as the same user and may do to it what it likes; then a round fails, or later ones learn
    what they could have read in a file too.
    """

    def __init__(self, argv, environment, user, task, rounds):
        self.gone = False
        self.log_out, log_in = readable()
        self.wake_out = notice_ends()
        self.rounds = []
        go_out, self.go_in = os.pipe()
        self.pids_out, pids_in = os.pipe()
        task_out, task_in = os.pipe()
        given = {1: log_in, 2: log_in, 4: task_out, 5: go_out, 6: pids_in}
        for number in range(rounds):
            records_out, records_in = readable()
            mine_out, mine_in = os.pipe()
            self.rounds.append((records_out, mine_in))
            given[7 + 2 * number] = records_in
            given[8 + 2 * number] = mine_out
        self.pid = spawn(argv, environment, user, given, b"/")
        for descriptor in set(given.values()):
            os.close(descriptor)
        try:
            code = {"code": task["code"], "workdir": task["workdir"], "template": rounds}
            write_all(task_in, json.dumps(code).encode("ascii"))
        except BrokenPipeError:
            pass  # the first round finds it dead
        os.close(task_in)

    def child(self):
        """A fresh child that waits for its task; None: this process is of no use any more."""
        records_out, task_in = self.rounds.pop(0)
        try:
            os.write(self.go_in, b"1")
        except BrokenPipeError:
            return None
        ready, _, _ = select.select([self.pids_out], [], [], _TEMPLATE_PATIENCE)
        word = os.read(self.pids_out, 64) if ready else b""
        if not word.endswith(b"\n"):
            return None
        return Child(int(word), task_in, records_out, self.log_out, self.wake_out)

    def alone(self, child):
        """End all processes but this one and the template; the child's status if it was still there."""
        status = None
        deadline = time.monotonic() + _TEMPLATE_PATIENCE
        while time.monotonic() < deadline:
            others = [int(name) for name in os.listdir("/proc") if name.isdigit()]
            others = [pid for pid in others if pid not in (1, self.pid)]
            if not others:
                try:
                    os.kill(self.pid, signal.SIGCONT)  # a child may have stopped it
                except ProcessLookupError:
                    pass
                return status
            for pid in others:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.0005)  # to die takes a moment
            found = reap(child)
            status = found if status is None else status
        self.gone = True  # they multiply faster than they are ended one by one
        found = end_everything(child)
        return found if status is None else status


def start(argv, environment, user, folder):
    """A child that is a program of its own."""
    log_out, log_in = readable()
    records_out, records_in = readable()
    task_out, task_in = os.pipe()
    wake_out = notice_ends()
    given = {1: log_in, 2: log_in, 3: records_in, 4: task_out}
    child = Child(spawn(argv, environment, user, given, folder), task_in, records_out, log_out, wake_out)
    for descriptor in (records_in, log_in, task_out):
        os.close(descriptor)
    return child


def readable():
    """A wide pipe that is read without waiting."""
    out, into = os.pipe()
    os.set_blocking(out, False)
    widen(out)
    return out, into


def notice_ends():
    """A descriptor that can be read when a child has ended."""
    out, into = os.pipe()
    os.set_blocking(out, False)
    os.set_blocking(into, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(into)
    return out


def spawn(argv, environment, user, given, folder):
    """Start a program with exactly the descriptors ``given`` (number there -> number here)."""
    child = os.fork()
    if child == 0:
        become(argv, environment, user, given, folder)
    return child


def become(argv, environment, user, given, folder):
    """In the fork: take on the child's descriptors, user and program. Does not come back."""
    try:
        import fcntl

        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        wanted = dict(given)
        wanted[0] = os.open("/dev/null", os.O_RDONLY)
        # High up first: a number that is wanted may be in use here.
        high = {to: fcntl.fcntl(own, fcntl.F_DUPFD_CLOEXEC, 128) for to, own in wanted.items()}
        for number, descriptor in high.items():
            os.dup2(descriptor, number)
        try:
            with open("/proc/self/oom_score_adj", "w") as file:
                file.write("500")  # when memory is short, this one goes, not the supervisor
        except OSError:
            pass  # no such file here: then the engine's end state tells
        os.chdir(folder)
        if user is not None:
            uid, gid, groups = user
            os.setgroups(groups)
            os.setgid(gid)
            os.setuid(uid)
        os.execve(argv[0], argv, environment)
    except BaseException as error:
        os.write(2, ("cannot start %s: %s\n" % (argv[0], error)).encode("utf-8", "replace"))
    finally:
        os._exit(126)


def reap(child):
    """Collect every process that has ended; the status of the child if it is among them."""
    status = None
    while True:
        try:
            pid, found = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if pid == 0:
            return status
        if pid == child:
            status = found


def end_everything(child=0):
    """Kill all other processes and wait until none is left; the child's status if it was still there."""
    status = None
    while True:
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            pass
        try:
            pid, found = os.waitpid(-1, 0)
        except ChildProcessError:
            return status
        if pid == child:
            status = found


def send_files(folder, limit, frames):
    """Regular files of a folder that untrusted code wrote, in pieces; nothing else is read."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        names = []  # the command made no such folder, or made something else of it
    for name in names:
        path = os.path.join(folder, name)
        try:
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                continue
            while True:
                piece = os.read(file, 1 << 20)
                if not piece:
                    break
                limit -= len(piece)
                if limit < 0:
                    frames.send("file", name=name.decode("utf-8", "replace"), too_large=True)
                    return
                frames.send(
                    "file", name=name.decode("utf-8", "replace"), data=base64.b64encode(piece).decode("ascii")
                )
        finally:
            os.close(file)


def user_of(spec, environment):
    """(uid, gid, groups) of an image's ``USER`` (name or number, a group too), or None to stay root."""
    if spec in ("", "root", "0", "0:0", "root:root"):
        return None
    import grp
    import pwd

    name, _, group = spec.partition(":")
    try:
        entry = pwd.getpwuid(int(name)) if name.isdigit() else pwd.getpwnam(name)
        uid, gid, home, login = entry.pw_uid, entry.pw_gid, entry.pw_dir, entry.pw_name
    except KeyError:
        if not name.isdigit():
            raise tree.Refused("the image's user %r is not in its /etc/passwd" % name)
        uid, gid, home, login = int(name), 0, "/", ""
    groups = os.getgrouplist(login, gid) if login else [gid]
    if group:
        gid = int(group) if group.isdigit() else grp.getgrnam(group).gr_gid
        groups = [gid]
    environment["HOME"] = home  # the engine set root's, since the supervisor is root
    return uid, gid, groups


def sealed_user(workdir, environment):
    """Somebody who cannot write to the tree, with a home of their own."""
    tree.seal(workdir, NOBODY)
    environment.update(HOME="/nonexistent", USER="nobody", LOGNAME="nobody")
    name = b"beyondswe-" + binascii.hexlify(os.urandom(6))
    for folder in (b"/tmp", b"/var/tmp", b"/dev/shm"):
        home = os.path.join(folder, name)
        try:
            os.mkdir(home, 0o700)
        except OSError:
            continue  # an image without that folder
        os.chown(home, NOBODY, NOBODY)
        environment["HOME"] = os.fsdecode(home)
        break
    return NOBODY, NOBODY, [NOBODY]


def close_to_others():
    """Nobody reads our memory or descriptors through /proc, or traces us, even as the same user."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        pass  # a Python without ctypes: one wall less, the digests still hold


def memory_kills():
    """How many processes the kernel killed for memory in this container (cgroup v2, v1); None where it does
    not say.
    """
    for path in ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"):
        try:
            with open(path) as file:
                for line in file:
                    name, _, value = line.partition(" ")
                    if name == "oom_kill":
                        return int(value)
        except (OSError, ValueError):
            continue
    return None


def take(descriptor, taker):
    """Hand on what can be read now; False when there will be no more."""
    data = read_some(descriptor)
    if data:
        taker(data)
    return data != b""


def read_some(descriptor):
    """Bytes; b"" at the end of the stream; None if there are none just now."""
    try:
        return os.read(descriptor, 1 << 20)
    except BlockingIOError:
        return None


def write_all(descriptor, data):
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def widen(descriptor):
    try:
        import fcntl

        fcntl.fcntl(descriptor, _F_SETPIPE_SZ, 1 << 20)
    except OSError:
        pass  # the default size works too, with more switches


def encode(path):
    return path.encode("utf-8", "surrogateescape")


if __name__ == "__main__":
    os._exit(main())  # all is written; taking the interpreter down in order would only cost time
