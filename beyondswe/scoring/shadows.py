"""Modules that a patch adds and that would be imported in another's place: pytest's, the interpreter's, the tests'.

Names say what is plain (`is_taken`): such a file at an import root is dropped. What else an added module could stand
before only the image knows: its test process is told which modules are new, and takes any other of the name first
(harness/runner/worker.py).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from beyondswe.instances.model import Instance
from beyondswe.sandbox.trees import SYMLINK, Changed
from beyondswe.scoring.protected import IMPORT_ROOTS, STARTED_BY_PYTHON, provided_module

Module = tuple[bytes, bytes]
"""The folder that it lies in, and its name."""

_NO_LONGER = "asynchat asyncore binhex distutils dummy_threading formatter imp macpath parser smtpd symbol"
_PYTEST = "pytest _pytest py pluggy iniconfig"
_TAKEN = frozenset(
    name.encode() for name in (*sys.stdlib_module_names, *_NO_LONGER.split(), *_PYTEST.split())
).difference([b"test"])  # the interpreter's own tests, which nobody imports; targets do have a `test`


def is_taken(module: Module) -> bool:
    """Whether pytest or the standard library has a module of that name, which this one would replace; or whether
    the interpreter would import it as it starts, from whatever the image has as an import root.
    """
    folder, name = module
    return name in STARTED_BY_PYTHON or (folder in IMPORT_ROOTS and name in _TAKEN)


def modules_of(paths: Iterable[bytes]) -> frozenset[Module]:
    """The modules that files are."""
    return frozenset(module for path in paths if (module := provided_module(path)))


def brought_by(change: Changed) -> list[Module]:
    """The modules that a change brings or replaces. A link may stand for a folder, a module or both."""
    found = [module for module in [provided_module(change.path)] if module]
    if change.new is not None and change.new.mode == SYMLINK:
        folder, _, name = change.path.rpartition(b"/")
        found.append((folder, name))
    return found


def names_of_target(instance: Instance) -> frozenset[bytes]:
    """What the target's own top-level modules may be called: its names as a repository and as a distribution."""
    repositories = (name.rpartition("/")[2] for name in (instance.repo, *instance.aliases))
    names = (*repositories, *instance.distributions)
    return frozenset(name.lower().replace("-", "_").replace(".", "_").encode() for name in names if name)
