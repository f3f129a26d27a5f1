"""Builds the distribution in the current folder into a wheel: no network, no build isolation, the installed version
pretended.

Started as ``python -c TEXT OUT NAME…`` in a container that is thrown away; what it leaves in OUT is read as data.
Python 3.6 syntax, standard library only.
"""

import os
import sys

# What version tools read in place of a history that they may not find.
PRETENDED = ("SETUPTOOLS_SCM_PRETEND_VERSION", "PBR_VERSION", "PDM_BUILD_SCM_VERSION")
OPTIONS = ("--no-deps", "--no-build-isolation", "--no-index", "--no-cache-dir", "--disable-pip-version-check")
WITHOUT_PIP = """
import importlib, os, sys
requires, backend, path = [], "setuptools.build_meta:__legacy__", []
try:
    import tomllib as toml
except ImportError:
    try:
        import tomli as toml
    except ImportError:
        toml = None
if toml is not None and os.path.exists("pyproject.toml"):
    with open("pyproject.toml", "rb") as file:
        table = toml.load(file).get("build-system", {})
    backend, path = table.get("build-backend", backend), table.get("backend-path", [])
sys.path[:0] = [os.path.abspath(entry) for entry in path]
name, _, attribute = backend.partition(":")
found = importlib.import_module(name)
for part in filter(None, attribute.split(".")):
    found = getattr(found, part)
found.build_wheel(sys.argv[1])
"""


def installed_version(names):
    """The version of the first distribution of these names that the image has; nothing where there is none."""
    for name in names:
        try:
            from importlib.metadata import version
        except ImportError:
            try:
                from pkg_resources import get_distribution
            except ImportError:
                return ""

            def version(name):
                return get_distribution(name).version

        try:
            return version(name)
        except Exception:  # none of that name, or its metadata is damaged
            continue
    return ""


def main(out, names):
    tree = os.getcwd()
    sys.path[:] = [entry for entry in sys.path if entry and os.path.realpath(entry) != os.path.realpath(tree)]
    version = installed_version(names)
    environment = dict(os.environ, PIP_NO_INPUT="1")
    if version:
        environment.update((name, version) for name in PRETENDED)
    environment["POETRY_DYNAMIC_VERSIONING_BYPASS"] = environment["UV_DYNAMIC_VERSIONING_BYPASS"] = (
        version or "0.0.0"
    )
    os.makedirs(out, exist_ok=True)
    try:
        import pip  # noqa: F401  # is it there
    except ImportError:
        argv = [sys.executable, "-c", WITHOUT_PIP, out]
    else:
        os.chdir("/")  # nothing of the tree in pip's place
        argv = [sys.executable, "-m", "pip", "wheel", *OPTIONS, "--wheel-dir", out, tree]
    os.execve(sys.executable, argv, environment)


main(sys.argv[1], sys.argv[2:])
