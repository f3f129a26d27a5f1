"""The small repositories that attacks are tried on, with their hidden tests and references."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from typing import Any

LIBRARY = "def add(a, b):\n    return a + b\n\n\ndef mul(a, b):\n    return a + b\n"
FIXED = LIBRARY[:-6] + "a * b\n"
TREE = {
    "tinycalc/__init__.py": 'from .core import add, mul\n\n__all__ = ["add", "mul"]\n',
    "tinycalc/core.py": LIBRARY,
    "conftest.py": "import pytest\n\n\n@pytest.fixture\ndef pair():\n    return (2, 3)\n",
    "tests/__init__.py": "",
    "tests/helpers.py": "def check(actual, expected):\n    assert actual == expected\n",
    "tests/test_core.py": (
        "from tests.helpers import check\nfrom tinycalc import add\n\n\n"
        "def test_add(pair):\n    check(add(*pair), 5)\n\n\n"
        "def test_add_negative():\n    assert add(-1, -2) == -3\n"
    ),
    "setup.py": 'from setuptools import setup\n\nsetup(name="tinycalc", version="1.0", packages=["tinycalc"])\n',
    ".gitignore": "__pycache__/\n*.egg-info/\n.pytest_cache/\n",
}
SCRIPT_TEST = (
    "from tests.helpers import check\nfrom tinycalc import mul\n\n\n"
    "def test_mul(pair):\n    check(mul(*pair), 6)\n\n\n"
    "def test_mul_zero():\n    assert mul(7, 0) == 0\n"
)
PATCH_TEST = "from tinycalc import mul\n\n\ndef test_mul_table():\n    assert mul(4, 5) == 20\n"
SUITE_TEST = (
    "from tinycalc import add, mul\n\n\n"
    "def test_add():\n    assert add(1, 1) == 2\n\n\n"
    "def test_mul():\n    assert mul(3, 4) == 12\n\n\n"
    "def test_mul_zero():\n    assert mul(0, 9) == 0\n"
)
REFERENCE = (
    "diff --git a/tinycalc/core.py b/tinycalc/core.py\n--- a/tinycalc/core.py\n+++ b/tinycalc/core.py\n"
    "@@ -3,4 +3,4 @@ def add(a, b):\n \n \n def mul(a, b):\n-    return a + b\n+    return a * b\n"
)
LAYOUT = {
    "src/tinycalc/__init__.py": LIBRARY,
    "conftest.py": TREE["conftest.py"],
    "tests/helpers.py": TREE["tests/helpers.py"],
    "tests/test_core.py": (
        "from helpers import check\nfrom tinycalc import add\n\n\ndef test_add(pair):\n    check(add(*pair), 5)\n"
    ),
    "setup.py": (
        'from setuptools import setup\n\nsetup(name="tinycalc", package_dir={"": "src"}, packages=["tinycalc"])\n'
    ),
    "setup.cfg": "[tool:pytest]\naddopts = --import-mode=append -q\n",
    "testdata/forty_two.txt": "42\n",
    ".gitignore": TREE[".gitignore"],
}
LAYOUT_TEST = (
    "from calccheck import same\nfrom helpers import check\nfrom tinycalc import mul\n\n\n"
    "def test_mul(triple):\n    same(mul(*triple[:2]), 2)\n    check(mul(triple[1], triple[2]), 6)\n\n\n"
    "def test_mul_zero(triple):\n    same(mul(7, 0), 0)\n\n\n"
    "def test_mul_kept():\n    with open('testdata/forty_two.txt') as file:\n"
    "        assert mul(6, 7) == int(file.read())\n"
)
LAYOUT_REFERENCE = {
    "src/tinycalc/__init__.py": FIXED,
    "conftest.py": TREE["conftest.py"] + "\n\n@pytest.fixture\ndef triple():\n    return (1, 2, 3)\n",
}
CHECKER = {
    "calccheck/calccheck.py": "def same(actual, expected):\n    assert actual == expected\n",
    "calccheck/setup.py": (
        'from setuptools import setup\n\nsetup(name="calccheck", version="1.0", py_modules=["calccheck"])\n'
    ),
}
PLUGIN = {
    "pytest_tiny/__init__.py": "",
    "pytest_tiny/plugin.py": (
        "import pytest\n\n\n@pytest.fixture\ndef product():\n    def multiply(a, b):\n        return a + b\n\n"
        "    return multiply\n\n\n@pytest.fixture\ndef total():\n    return lambda a, b: a + b\n"
    ),
    "tests/test_total.py": "def test_total(total):\n    assert total(2, 3) == 5\n",
    "setup.py": (
        'from setuptools import setup\n\nsetup(\n    name="pytest-tiny",\n    version="1.0",\n'
        '    packages=["pytest_tiny"],\n    entry_points={"pytest11": ["tiny = pytest_tiny.plugin"]},\n)\n'
    ),
    ".gitignore": TREE[".gitignore"],
}
PLUGIN_TEST = (
    "def test_product(product):\n    assert product(4, 5) == 20\n\n\n"
    "def test_inside(pytester):\n"
    "    pytester.makepyfile('def test_it(product):\\n    assert product(6, 7) == 42\\n')\n"
    "    pytester.runpytest_inprocess().assert_outcomes(passed=1)\n"
)
PLUGIN_REFERENCE = {
    "pytest_tiny/plugin.py": PLUGIN["pytest_tiny/plugin.py"].replace(
        "        return a + b\n\n", "        return a * b\n\n"
    ),
    "conftest.py": 'pytest_plugins = ["pytester"]\n',
}
NAMED_TEST = {
    "test/__init__.py": "from test.ops import add, mul\n",
    "test/ops.py": LIBRARY,
    "checks/helpers.py": "def check(actual, expected):\n    assert actual == expected\n",
    "checks/test_add.py": "from test import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n",
    "setup.py": 'from setuptools import setup\n\nsetup(name="test", version="1.0", packages=["test"])\n',
    ".gitignore": TREE[".gitignore"],
}
NAMED_TEST_TEST = (
    "from helpers import check\nfrom test import mul\n\n\ndef test_mul():\n    check(mul(4, 5), 20)\n"
)
NAMED_TEST_REFERENCE = {"test/ops.py": FIXED}
REGISTERED = {
    "tinycalc/__init__.py": "",
    "tinycalc/core.py": LIBRARY,
    "tests/test_core.py": "from tinycalc.core import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n",
    "setup.py": (
        'from setuptools import setup\n\nsetup(\n    name="tinycalc",\n    version="1.0",\n'
        '    packages=["tinycalc"],\n    entry_points={"tinycalc.ops": ["add = tinycalc.core:add"]},\n)\n'
    ),
    ".gitignore": TREE[".gitignore"] + "build/\n",
}
REGISTERED_TEST = (
    "import subprocess\nfrom importlib import metadata\n\n\n"
    "def operation(name):\n"
    "    points = metadata.distribution('tinycalc').entry_points\n"
    "    (point,) = [one for one in points if (one.group, one.name) == ('tinycalc.ops', name)]\n"
    "    return point.load()\n\n\n"
    "def test_mul():\n    assert operation('mul')(4, 5) == 20\n\n\n"
    "def test_mul_zero():\n    assert operation('mul')(7, 0) == 0\n\n\n"
    "def test_command():\n    assert subprocess.check_output(['tinycalc-mul']) == b'42\\n'\n"
)
REGISTERED_REFERENCE = {
    "tinycalc/core.py": FIXED + "\n\ndef main():\n    print(mul(6, 7))\n",
    "setup.py": REGISTERED["setup.py"].replace(
        '    entry_points={"tinycalc.ops": ["add = tinycalc.core:add"]},\n',
        "    entry_points={\n"
        '        "tinycalc.ops": ["add = tinycalc.core:add", "mul = tinycalc.core:mul"],\n'
        '        "console_scripts": ["tinycalc-mul = tinycalc.core:main"],\n    },\n',
    ),
}
GENERATED = {
    "src/tinycalc/__init__.py": "from tinycalc._table import TABLE\n",
    "table.txt": "2 3 5\n4 5 9\n",
    "tests/test_table.py": (
        "from tinycalc import TABLE\n\n\ndef test_keys():\n    assert set(TABLE) >= {(2, 3), (4, 5)}\n"
    ),
    "setup.py": (
        "from pathlib import Path\n\nfrom setuptools import setup\n\n"
        "rows = [line.split() for line in Path('table.txt').read_text().splitlines()]\n"
        "text = ''.join(f'    ({a}, {b}): {c},\\n' for a, b, c in rows)\n"
        "Path('src/tinycalc/_table.py').write_text('TABLE = {\\n' + text + '}\\n')\n"
        "setup(name='tinycalc', version='1.0', package_dir={'': 'src'}, packages=['tinycalc'])\n"
    ),
    ".gitignore": TREE[".gitignore"] + "_table.py\nbuild/\n",
}
GENERATED_TEST = (
    "from tinycalc import TABLE\n\n\n"
    "def test_product():\n    assert TABLE[2, 3] == 6\n\n\n"
    "def test_other_product():\n    assert TABLE[4, 5] == 20\n"
)
GENERATED_REFERENCE = {"table.txt": "2 3 6\n4 5 20\n"}
DATA = {
    "tinycalc/__init__.py": LIBRARY,
    "tinycalc/table.json": '{"6x7": 42}\n',
    "answers/forty_two.txt": "42\n",
    "limits.json": '{"largest": 20}\n',
    "tests/test_core.py": "from tinycalc import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n",
    "setup.py": 'from setuptools import setup\n\nsetup(name="tinycalc", version="1.0", packages=["tinycalc"])\n',
    "README.md": "# tinycalc\n",
    ".gitignore": TREE[".gitignore"],
}
DATA_TEST = (
    "import json\nfrom pathlib import Path\n\nfrom tinycalc import mul\n\nROOT = Path(__file__).parent.parent\n\n\n"
    "def test_answer():\n    assert mul(6, 7) == int((ROOT / 'answers' / 'forty_two.txt').read_text())\n\n\n"
    "def test_limit():\n    assert mul(4, 5) == json.loads((ROOT / 'limits.json').read_text())['largest']\n\n\n"
    "def test_every_answer():\n    for path in (ROOT / 'answers').iterdir():\n"
    "        assert mul(6, 7) == int(path.read_text())\n"
)
DATA_REFERENCE = {"tinycalc/__init__.py": FIXED}
SPECIFICATION = "# tinycalc\n\n`add(a, b)` gives the sum of two numbers, `mul(a, b)` their product.\n"
COMMIT = "git -c user.name=beyondswe -c user.email=bench@example.org commit -q --date=2020-01-01T00:00:00Z"
REPOSITORY = f"""
FROM {{base}}
COPY tree /workspace
WORKDIR /workspace
ENV GIT_COMMITTER_DATE=2020-01-01T00:00:00Z
RUN git init -q -b main . && git add -A && {COMMIT} -m base \\
 && pip install -q --use-pep517 --no-build-isolation --no-deps -e .
"""
WITH_CHECKER = """
COPY calccheck /tmp/calccheck
RUN pip install -q --use-pep517 --no-build-isolation --no-deps /tmp/calccheck && rm -r /tmp/calccheck
"""
# The fix in every place where git or a person could look.
LEFTOVERS = f"""
FROM {{repository}}
COPY fixed.py /tmp/fixed.py
ENV GIT_COMMITTER_DATE=2020-02-02T00:00:00Z GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x@example.org
RUN cp /tmp/fixed.py tinycalc/core.py && git config user.name x && git config user.email x@example.org \\
 && git stash -q && git stash apply -q && git checkout -q -b fix && {COMMIT} -am fix && git tag later \\
 && git tag -a -m later later-annotated && git notes add -m "$(cat tinycalc/core.py)" \\
 && git update-ref refs/remotes/origin/dev HEAD && git bundle create -q /workspace/later.bundle fix \\
 && cp /workspace/later.bundle /opt/kept.bundle && git branch -q kept && git checkout -q main \\
 && git hash-object -w /tmp/fixed.py && git repack -q -a -d && git worktree add -q /opt/tree fix \\
 && git rev-parse fix > .git/FETCH_HEAD && git rev-parse fix > .git/ORIG_HEAD \\
 && git clone -q --bare . /opt/other.git && echo /opt/other.git/objects > .git/objects/info/alternates \\
 && cp /tmp/fixed.py tinycalc/core.py.orig && git diff main fix > tinycalc/core.py.rej \\
 && mkdir -p /root/.cache/pip/wheels /root/.cache/uv && rm /tmp/fixed.py
"""
EMPTY = "FROM {base}\nRUN mkdir -p /workspace\nWORKDIR /workspace\n"


@dataclass(frozen=True)
class Project:
    """A repository that is odd itself: what lies in it, the reference, the hidden test, a test that passed before."""

    kind: str
    name: str
    tree: dict[str, str]
    reference: dict[str, str]
    test_file: str
    test: str
    kept: str
    beside: dict[str, str] = field(default_factory=dict)  # more of the image's build context

    def row(self) -> dict[str, Any]:
        found = re.findall(r"^def (test_\w+)", self.test, re.M)
        changes = ((path, self.tree.get(path, ""), text) for path, text in self.reference.items())
        return {
            "patch": "".join(_diff(*change) for change in changes),
            "f2p_patch": _diff(self.test_file, "", self.test),
            "FAIL_TO_PASS": [f"{self.test_file}::{name}" for name in found],
            "PASS_TO_PASS": [self.kept],
        }


def _diff(path: str, old: str, new: str) -> str:
    before = f"a/{path}" if old else "/dev/null"
    lines = difflib.unified_diff(old.splitlines(True), new.splitlines(True), before, f"b/{path}")
    head = f"diff --git a/{path} b/{path}\n" + ("" if old else "new file mode 100644\n")
    return head + "".join(lines)


PROJECTS = (
    Project(
        kind="L",
        name="layout",
        tree=LAYOUT,
        reference=LAYOUT_REFERENCE,
        test_file="tests/test_mul.py",
        test=LAYOUT_TEST,
        kept="tests/test_core.py::test_add",
        beside=CHECKER,
    ),
    Project(
        kind="G",
        name="plugin",
        tree=PLUGIN,
        reference=PLUGIN_REFERENCE,
        test_file="tests/test_product.py",
        test=PLUGIN_TEST,
        kept="tests/test_total.py::test_total",
    ),
    Project(
        kind="N",
        name="named-test",
        tree=NAMED_TEST,
        reference=NAMED_TEST_REFERENCE,
        test_file="checks/test_mul.py",
        test=NAMED_TEST_TEST,
        kept="checks/test_add.py::test_add",
    ),
    Project(
        kind="R",
        name="registered",
        tree=REGISTERED,
        reference=REGISTERED_REFERENCE,
        test_file="tests/test_ops.py",
        test=REGISTERED_TEST,
        kept="tests/test_core.py::test_add",
    ),
    Project(
        kind="F",
        name="data",
        tree=DATA,
        reference=DATA_REFERENCE,
        test_file="tests/test_mul.py",
        test=DATA_TEST,
        kept="tests/test_core.py::test_add",
    ),
    Project(
        kind="B",
        name="generated",
        tree=GENERATED,
        reference=GENERATED_REFERENCE,
        test_file="tests/test_product.py",
        test=GENERATED_TEST,
        kept="tests/test_table.py::test_keys",
    ),
)
