"""The child that runs pytest: its own imports first, then the tested tree, and a keyed record of every phase
of every test.

`supervise.py` hands this text and a task over on descriptor 4; records go out on descriptor 3. Deliberate:

- pytest and its parts are imported while nothing of the tree is on ``sys.path``; only where that fails
  (pytest itself or one of its dependencies is what is being tested) are they imported with it, and the first
  record says so.
- Modules that the change adds come last of all of their name, so that none stands in another's place.
- What is needed to report is bound before tested code runs; whatever that code replaces in `os`, `json`,
  `hmac` or `time` later is not used here. Nothing can stop code in the same process from lying all the same:
  for that there are the negative controls.
- A forked copy of this process never reports: tests that fork and let the child run on are no second witness.
- The end is ``os._exit``: threads that never end and exit handlers of tested code have no say in it.
- Everything else stays as the image has it: plugins, environment, warnings, order.
"""

import binascii
import fcntl
import hashlib
import hmac
import importlib
import importlib.machinery
import json
import os
import sys
import traceback

TEXT_LIMIT = 4000  # characters of a failure's text that a record keeps
TEXTS_LIMIT = 8 << 20  # characters of all of them


def channel(descriptor, key):
    """The function that sends a record: a line each, ``digest SPACE json``, keyed and chained to the one
    before.
    """
    # High up: tests that close "all" descriptors rarely mean these.
    high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 900)
    os.close(descriptor)
    opened = os.fstat(high)
    device, number = opened.st_dev, opened.st_ino
    new, sha256, hexlify = hmac.new, hashlib.sha256, binascii.hexlify
    encode = json.JSONEncoder(sort_keys=True).encode
    write, fstat, getpid = os.write, os.fstat, os.getpid
    owner = getpid()
    state = [0, b""]

    def send(**fields):
        if getpid() != owner:
            return
        try:
            now = fstat(high)
        except OSError:
            return  # closed by a test: the supervisor will miss the last record
        if (now.st_dev, now.st_ino) != (device, number):
            return  # closed, and the number belongs to something of the test's now
        fields["n"] = state[0]
        payload = encode(fields).encode("ascii")
        digest = new(key, state[1] + payload, sha256).digest()
        state[0] += 1
        state[1] = digest
        line = hexlify(digest) + b" " + payload + b"\n"
        while line:
            line = line[write(high, line) :]

    return send


def serve(task):
    """Be the template: pytest is imported once, and each round gets a fork of this process.

    Comes back in such a fork, which has the round's descriptors where a child of its own would have them.
    """
    import_clean(task["workdir"], sys.prefix)  # or else every round imports it, with the tree
    rounds = task["template"]
    for number in range(rounds):
        if not os.read(5, 1):
            os._exit(0)
        middle = os.fork()
        if middle == 0:
            child = os.fork()
            if child == 0:
                os.setsid()
                os.dup2(7 + 2 * number, 3)
                os.dup2(8 + 2 * number, 4)
                os.closerange(5, 7 + 2 * rounds)
                return
            os.write(6, b"%d\n" % child)
            os._exit(0)  # the child belongs to process 1 now, as one that was started there
        os.waitpid(middle, 0)
    os.read(5, 1)
    os._exit(0)


def import_clean(workdir, prefix):
    """pytest with nothing of the tree on the path; None where it needs something of the tree."""
    path = [entry for entry in sys.path if entry]
    before = set(sys.modules)
    try:
        sys.path[:] = [entry for entry in path if not inside(entry, workdir) or inside(entry, prefix)]
        return import_parts()
    except ImportError:
        for name in set(sys.modules) - before:
            del sys.modules[name]
        return None
    finally:
        sys.path[:] = path


def import_pytest(workdir, prefix):
    """pytest with the plugins that it always loads, and whether any of it came out of the tested tree."""
    pytest = import_clean(workdir, prefix)
    if pytest is None:
        path = list(sys.path)
        sys.path.insert(0, workdir)
        try:
            pytest = import_parts()
        finally:
            sys.path[:] = path
    parts = [sys.modules[name] for name in ("pytest", "_pytest", "pluggy") if name in sys.modules]
    return pytest, any(inside(getattr(part, "__file__", None) or "", workdir) for part in parts)


def import_parts():
    pytest = importlib.import_module("pytest")
    config = importlib.import_module("_pytest.config")
    for name in config.default_plugins:
        try:
            importlib.import_module("_pytest." + name)
        except ImportError:
            pass  # a part that this version loads under conditions; pytest itself will say
    return pytest


def inside(path, folder):
    """Whether a path lies in a folder, links resolved."""
    real, root = os.path.realpath(path), os.path.realpath(folder)
    return bool(path) and (real == root or real.startswith(root.rstrip(os.sep) + os.sep))


def other_order(items, order):
    """Verification only: the tests of a file in another order, the files too."""
    if order == "reversed":
        items.reverse()
        return
    import random

    random.Random(order).shuffle(items)


def other_machine(vary):
    """Verification only: the clock off by so many seconds, fewer processors, as far as Python code asks for them."""
    if "cpus" in vary:
        count = vary["cpus"]
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])
        os.cpu_count = lambda: count
        if hasattr(os, "process_cpu_count"):
            os.process_cpu_count = os.cpu_count
    if "shift" in vary:
        shift_clock(vary["shift"])


def shift_clock(seconds):
    import datetime
    import time

    now, now_ns, delta = time.time, getattr(time, "time_ns", None), datetime.timedelta(seconds=seconds)
    time.time = lambda: now() + seconds
    if now_ns is not None:
        time.time_ns = lambda: now_ns() + seconds * 10**9
    for name in ("localtime", "gmtime", "ctime"):
        real = getattr(time, name)
        setattr(time, name, lambda when=None, real=real: real(time.time() if when is None else when))
    strftime, asctime = time.strftime, time.asctime
    time.strftime = lambda form, when=None: strftime(form, time.localtime() if when is None else when)
    time.asctime = lambda when=None: asctime(time.localtime() if when is None else when)

    class Same(type):
        def __instancecheck__(cls, value):
            return isinstance(value, cls.__mro__[1])

        def __subclasscheck__(cls, other):
            return issubclass(other, cls.__mro__[1])

    class date(Same("base", (datetime.date,), {})):
        @classmethod
        def today(cls):
            return cls.fromordinal((datetime_class.today() + delta).toordinal())

    class moment(Same("base", (datetime.datetime,), {})):
        @classmethod
        def now(cls, tz=None):
            return cls._shifted(datetime_class.now(tz))

        @classmethod
        def utcnow(cls):
            return cls._shifted(datetime_class.utcnow())

        @classmethod
        def today(cls):
            return cls._shifted(datetime_class.today())

        @classmethod
        def _shifted(cls, real):
            real += delta
            return cls.combine(real.date(), real.timetz())

    datetime_class = datetime.datetime
    for own, name in ((date, "date"), (moment, "datetime")):
        own.__name__ = own.__qualname__ = name
        own.__module__ = "datetime"
        setattr(datetime, name, own)


def reporter(pytest, send, ids, workdir, vary):
    """A plugin that leaves only the wanted tests (``ids`` None: all) and reports what becomes of them."""
    wanted = None if ids is None else frozenset(ids)
    raised = {}
    left = [TEXTS_LIMIT]
    prefix = [""]
    instances = version_of(pytest) < (4, 0)  # old ids say ``TestA::()::test_b``; people and reports do not

    def name_of(nodeid):
        return prefix[0] + (nodeid.replace("::()", "") if instances else nodeid)

    def text_of(report):
        try:
            text = str(getattr(report, "longreprtext", "") or report.longrepr or "")[-TEXT_LIMIT:]
        except Exception as error:
            text = "<no text: %s>" % type(error).__name__
        text = text[: left[0]]
        left[0] -= len(text)
        return text

    class Reporter(object):
        @pytest.hookimpl(tryfirst=True)
        def pytest_sessionstart(self, session):
            # Before `--rootdir` (pytest 3.5) ids are relative to what the arguments have in common.
            root = os.path.relpath(str(session.config.rootdir), workdir)
            prefix[0] = "" if root == "." else root.replace(os.sep, "/") + "/"

        @pytest.hookimpl(trylast=True)
        def pytest_collection_modifyitems(self, config, items):
            if "order" in vary:
                other_order(items, vary["order"])
            seen = set()
            twice = set()
            for item in items:
                (twice if item.nodeid in seen else seen).add(item.nodeid)
            dropped = [item for item in items if wanted is not None and name_of(item.nodeid) not in wanted]
            if dropped:
                gone = set(map(id, dropped))
                items[:] = [item for item in items if id(item) not in gone]
                config.hook.pytest_deselected(items=dropped)
            send(
                w="collected",
                selected=len(items),
                deselected=len(dropped),
                duplicates=sorted(map(name_of, twice)),
                plugins=plugins_of(config),
                makereport=others_with(config, "pytest_runtest_makereport", self),
            )

        @pytest.hookimpl(tryfirst=True)
        def pytest_collectreport(self, report):
            if report.failed:
                send(w="collect", id=name_of(report.nodeid), o=report.outcome, t=text_of(report))

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtest_makereport(self, item, call):
            raised[item.nodeid, call.when] = call.excinfo is not None
            yield

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_logreport(self, report):
            fields = {"w": report.when, "id": name_of(report.nodeid), "o": report.outcome}
            fields["d"] = round(getattr(report, "duration", 0.0), 4)
            if hasattr(report, "wasxfail"):
                fields["x"] = True
            if hasattr(report, "context"):
                fields["sub"] = True  # one subtest of it: the test itself is reported too
            elif raised.pop((report.nodeid, report.when), False):
                fields["r"] = True
            if report.outcome != "passed":
                fields["t"] = text_of(report)
            send(**fields)

    return Reporter()


def plugins_of(config):
    """Installed plugins that pytest has loaded, as ``name-version``."""
    found = set()
    for _, distribution in config.pluginmanager.list_plugin_distinfo():
        name = getattr(distribution, "project_name", "")
        found.add("%s-%s" % (name, getattr(distribution, "version", "")))
    return sorted(found)


def others_with(config, hook, own):
    """Plugins that are not pytest's and implement a hook: where there are none, only pytest makes reports."""
    names = set()
    for plugin in config.pluginmanager.get_plugins():
        if plugin is own or not hasattr(plugin, hook):
            continue
        module = getattr(plugin, "__name__", None) or type(plugin).__module__
        if not module.startswith("_pytest."):
            names.add(module)
    return sorted(names)


def version_of(pytest):
    return tuple(int(part) for part in pytest.__version__.split(".")[:2])


def arguments(task, version):
    """pytest's command line: the first configuration that this version reads, and the filtered ``addopts`` of
    it.
    """
    config = next(config for config in task["configs"] if version >= tuple(config["since"]))
    found = list(config["addopts"])
    found += ["-c", os.path.join(task["workdir"], config["name"]), "-o", "addopts="]
    if version >= (3, 5):
        found.append("--rootdir=" + task["workdir"])
    found += ["--continue-on-collection-errors", "--tb=" + task.get("traceback", "short"), "--color=no"]
    return found + task["targets"]


class Added(object):
    """A finder that gives modules that the change adds the last place among all of their name.

    So a new module cannot be imported in the place of one that was there without the change, be it the
    interpreter's, pytest's, another plugin's or the tests' own. Nothing else is imported otherwise than without it.
    """

    def __init__(self, task):
        roots = (task["workdir"], os.path.realpath(task["workdir"]))
        self.places = {os.path.join(root, path) for root in roots for path in task["added"]}
        self.names = set(map(os.path.basename, task["added"]))
        self.built = set(task["append"]) | set(task["front"]) | {task["library"]["path"]}
        self.find = importlib.machinery.PathFinder.find_spec

    def find_spec(self, fullname, path=None, target=None):
        if path is not None or fullname not in self.names:
            return None
        for entry in [entry for entry in sys.path if entry not in self.built]:
            spec = self.find(fullname, [entry])
            if spec is not None and spec.origin not in (None, "namespace") and not self.is_added(spec.origin):
                return spec
        return None

    def is_added(self, origin):
        for place in (origin, os.path.realpath(origin)):
            folder, name = os.path.split(place)
            module = folder if name.startswith("__init__.") else os.path.join(folder, name.split(".")[0])
            while len(module) > 1:  # a link may stand anywhere on the way
                if module in self.places:
                    return True
                module = os.path.dirname(module)
        return False


def set_path(task):
    """The tree comes first, as with ``python -m pytest``; what was installed for it comes last."""
    old = task["pythonpath"].split(os.pathsep) if task["pythonpath"] else []
    sys.path[:0] = task["roots"] + old
    built = task["front"] + built_modules(task)
    # Metadata that was built anew stands before what the tree and the image have of it.
    sys.path[:0] = task["front"]
    at = len(task["front"]) + len(task["roots"])
    sys.path[at:at] = built[len(task["front"]) :]
    sys.path += task["append"]
    variable = os.pathsep.join(built + old + task["append"])
    if variable:
        os.environ["PYTHONPATH"] = variable
    if task["added"]:
        sys.meta_path.insert(sys.meta_path.index(importlib.machinery.PathFinder), Added(task))
    if task["commands"] or task["first_commands"]:
        paths = task["first_commands"] + [os.environ.get("PATH", os.defpath)] + task["commands"]
        os.environ["PATH"] = os.pathsep.join(paths)


def built_modules(task):
    """The folder of modules that were built anew, where those of the tree are not what is imported anyway."""
    modules = task["library"]["modules"]
    for name in modules:
        try:
            spec = importlib.machinery.PathFinder.find_spec(name) or editable(name)
        except Exception:
            spec = None  # a name that nothing can be found by
        places = [spec.origin] + list(spec.submodule_search_locations or []) if spec else []
        if any(inside(place, task["workdir"]) for place in places if place):
            return []
    return [task["library"]["path"]] if modules else []


def editable(name):
    """What a finder of an editable installation says of a module."""
    for finder in sys.meta_path:
        if finder is not importlib.machinery.PathFinder and hasattr(finder, "find_spec"):
            spec = finder.find_spec(name, None)
            if spec is not None:
                return spec
    return None


def main(task):
    leave = os._exit
    send = channel(3, binascii.unhexlify(task.pop("key")))
    try:
        pytest, from_tree = import_pytest(task["workdir"], sys.prefix)
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == "pytest"
        send(w="start", pytest=None, missing=missing, error=traceback.format_exc()[-TEXT_LIMIT:])
        leave(3)
    except BaseException:  # the tree's own pytest or a dependency of it, broken by the change
        send(w="start", pytest=None, missing=False, error=traceback.format_exc()[-TEXT_LIMIT:])
        leave(3)
    version = version_of(pytest)
    send(w="start", pytest=pytest.__version__, file=getattr(pytest, "__file__", None), from_tree=from_tree)
    plugin = reporter(pytest, send, task["ids"], task["workdir"], task.get("vary", {}))
    options = arguments(task, version)
    other_machine(task.get("vary", {}))
    set_path(task)
    os.chdir(task["workdir"])
    sys.argv[:] = [pytest.__file__] + options
    error = None
    try:
        code = int(pytest.main(options, plugins=[plugin]))
    except BaseException:  # SystemExit of an old pytest, a plugin that breaks while it is loaded
        code, error = 3, traceback.format_exc()[-TEXT_LIMIT:]
        sys.stderr.write(error)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass  # closed or replaced by a test; what it held is lost to the log only
    send(w="end", exit=code, error=error)
    leave(code)


TASK = globals().pop("TASK")
if "template" in TASK:
    serve(TASK)
    with os.fdopen(4, "rb") as given:
        TASK = json.loads(given.read().decode())
    TASK.pop("code")
main(globals().pop("TASK"))
