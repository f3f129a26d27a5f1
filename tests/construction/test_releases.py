"""Instances out of two source releases, which a package index of the tests' own has."""

from __future__ import annotations

import hashlib
import http.server
import io
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from beyondswe.construction import releases
from beyondswe.construction.commits import commit_id, difference
from beyondswe.construction.recipes import File, Recipe, Release, load_recipe
from beyondswe.construction.releases import fetch, material, unpack
from beyondswe.errors import DataError

OLD = {
    "PKG-INFO": "Metadata-Version: 2.2\nName: tides\nVersion: 1.0\n",
    "pyproject.toml": '[project]\nname = "tides"\nversion = "1.0"\n',
    "tides.egg-info/SOURCES.txt": "tides/__init__.py\n",
    "tides/__init__.py": "PERIOD = 12\n",
    "tides/gone.py": "",
    "tides/tests/test_period.py": "from tides import PERIOD\n",
    "tides/tests/data.txt": "old\n",
    "docs/news.txt": "1.0\n",
}
NEW = {
    **OLD,
    "PKG-INFO": "Metadata-Version: 2.2\nName: tides\nVersion: 1.1\n",
    "pyproject.toml": '[project]\nname = "tides"\nversion = "1.1"\n',
    "tides/__init__.py": "PERIOD = 12.42\n",
    "tides/moon.py": "AGE = 29.53\n",
    "tides/tests/test_period.py": "from tides import PERIOD\n\n\ndef test_it():\n    assert PERIOD > 12.4\n",
    "tides/tests/test_moon.py": "",
    "docs/news.txt": "1.1\n",
}
del NEW["tides/gone.py"], NEW["tides/tests/data.txt"]


def sdist(folder: Path, version: str, files: Mapping[str, str], executable: bool = False) -> str:
    """Write tides-<version>.tar.gz and give its sha256."""
    path = folder / f"tides-{version}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"tides-{version}/{name}")
            entry.size = len(text.encode())
            entry.mode = 0o755 if executable else 0o644
            archive.addfile(entry, io.BytesIO(text.encode()))
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that uv takes as its only package index; the cache is empty."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("BEYONDSWE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("UV_FIND_LINKS", str(folder))
    monkeypatch.setenv("UV_NO_INDEX", "1")
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "PIP_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    return folder


MakeRecipe = Callable[..., Recipe]


@pytest.fixture
def recipe(tmp_path: Path, index: Path) -> MakeRecipe:
    """A recipe of tides 1.0 → 1.1, which the index has; keywords replace facts of its source."""

    def make(**source: object) -> Recipe:
        folder = tmp_path / "tides_period"
        folder.mkdir(exist_ok=True)
        facts = {
            "instance_id": "tides_period",
            "family": "DomainFix",
            "repo": "example/tides",
            "title": "Tides come every 12.42 hours",
            "python": "3.11",
            "tests": {"paths": ["tides/tests"]},
            "index_date": "2024-01-02",
            "source": {
                "kind": "releases",
                "package": "tides",
                "old": {"version": "1.0", "sha256": sdist(index, "1.0", OLD)},
                "new": {"version": "1.1", "sha256": sdist(index, "1.1", NEW, executable=True)},
                "source": ["tides/*"],
                "tests": ["tides/tests/*"],
                **source,
            },
        }
        (folder / "recipe.yaml").write_text(yaml.safe_dump(facts))
        return load_recipe(folder)

    return make


def text(files: Mapping[str, File], path: str) -> str:
    return files[path].data.decode()


def test_the_difference_is_split_into_reference_and_hidden_tests(recipe: MakeRecipe) -> None:
    made = material(recipe())
    assert set(made.base) == set(OLD) - {"PKG-INFO", "tides.egg-info/SOURCES.txt"}
    patch, hidden = difference(made.base, made.reference), difference(made.base, made.hidden_tests)
    assert [line for line in patch.splitlines() if line.startswith("diff")] == [
        "diff --git a/tides/__init__.py b/tides/__init__.py",
        "diff --git a/tides/gone.py b/tides/gone.py",
        "diff --git a/tides/moon.py b/tides/moon.py",
    ]
    assert [line for line in hidden.splitlines() if line.startswith("diff")] == [
        "diff --git a/tides/tests/data.txt b/tides/tests/data.txt",
        "diff --git a/tides/tests/test_moon.py b/tides/tests/test_moon.py",
        "diff --git a/tides/tests/test_period.py b/tides/tests/test_period.py",
    ]


def test_what_belongs_to_neither_part_stays_as_it_was(recipe: MakeRecipe) -> None:
    made = material(recipe())
    for files in (made.reference, made.hidden_tests):
        assert text(files, "docs/news.txt") == "1.0\n" and 'version = "1.0"' in text(files, "pyproject.toml")


def test_modes_of_the_packing_machine_are_no_change(recipe: MakeRecipe) -> None:
    made = material(recipe())
    assert made.reference["tides/__init__.py"].mode == "100644"
    assert "old mode" not in difference(made.base, made.reference)


def test_what_a_recipe_drops_is_in_no_tree(recipe: MakeRecipe) -> None:
    made = material(recipe(drop=["docs/*", "tides/moon.py"]))
    for files in (made.base, made.reference, made.hidden_tests):
        assert not {"docs/news.txt", "tides/moon.py"} & files.keys()


def test_a_glob_that_matches_nothing_is_told(recipe: MakeRecipe) -> None:
    with pytest.raises(DataError, match=r"recipe\.yaml: source\.tests: 'test/\*' matches no path"):
        material(recipe(tests=["test/*"]))


def test_the_base_commit_must_come_out_as_recorded(recipe: MakeRecipe) -> None:
    made = material(recipe())
    right = commit_id(made.base, recipe().index_date)
    assert material(recipe(base_commit=right)).base == made.base
    with pytest.raises(DataError, match=rf"comes out as {right}, but must be {'0' * 40}"):
        material(recipe(base_commit="0" * 40))


def test_an_archive_is_downloaded_once(index: Path) -> None:
    release = Release(version="1.0", sha256=sdist(index, "1.0", OLD))
    first = fetch("tides", release)
    (index / "tides-1.0.tar.gz").unlink()
    assert fetch("tides", release) == first


def test_a_damaged_cache_is_filled_again(index: Path) -> None:
    release = Release(version="1.0", sha256=sdist(index, "1.0", OLD))
    content = fetch("tides", release).read_bytes()
    fetch("tides", release).write_bytes(content[:-1])
    assert fetch("tides", release).read_bytes() == content


def test_other_bytes_than_the_recipe_names_are_refused(index: Path, tmp_path: Path) -> None:
    expected = sdist(index, "1.0", OLD)
    found = sdist(index, "1.0", {**OLD, "tides/__init__.py": "import os\n"})
    with pytest.raises(DataError, match=rf"sha256 {found}, but the recipe says {expected}"):
        fetch("tides", Release(version="1.0", sha256=expected))
    assert list((tmp_path / "cache" / "sdists").iterdir()) == []


def test_a_release_that_the_index_does_not_have_is_told(index: Path) -> None:
    with pytest.raises(DataError, match=r"tides==2\.0: the package index did not give this release"):
        fetch("tides", Release(version="2.0", sha256="0" * 64))


@pytest.fixture
def server(index: Path) -> Iterator[str]:
    """A simple index over HTTP on loopback that has what the folder has."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/simple/tides/":
                links = "".join(f'<a href="/files/{file.name}">{file.name}</a>' for file in index.iterdir())
                kind, content = "text/html", links.encode()
            else:
                kind, content = "application/gzip", (index / Path(self.path).name).read_bytes()
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}/simple"
        running.shutdown()
        thread.join()


@pytest.mark.parametrize("variable", ["UV_DEFAULT_INDEX", "PIP_INDEX_URL"])
def test_the_users_own_index_is_asked(
    variable: str, index: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = Release(version="1.0", sha256=sdist(index, "1.0", OLD))
    monkeypatch.delenv("UV_FIND_LINKS")
    monkeypatch.delenv("UV_NO_INDEX")
    monkeypatch.setenv(variable, server)
    assert "tides/__init__.py" in unpack(fetch("tides", release))


def test_an_archive_beyond_all_size_is_refused(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = Release(version="1.0", sha256=sdist(index, "1.0", OLD))
    monkeypatch.setattr(releases, "MAX_ARCHIVE", 100)
    with pytest.raises(DataError, match="larger than"):
        fetch("tides", release)


def archive(path: Path, *entries: tarfile.TarInfo | str) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for entry in entries:
            tar.addfile(tarfile.TarInfo(entry) if isinstance(entry, str) else entry)
    return path


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    return entry


REFUSED = {
    "a parent folder": ("t/../../evil", "points outside"),
    "an absolute name": ("/etc/evil", "points outside"),
    "a backslash": ("t\\..\\evil", "points outside"),
    "a link out of the tree": (
        special("t/x/link", tarfile.SYMTYPE, "../../out"),
        "link 't/x/link' points out",
    ),
    "an absolute link": (special("t/link", tarfile.SYMTYPE, "/etc/passwd"), "link 't/link' points outside"),
    "a hard link": (special("t/hard", tarfile.LNKTYPE, "/etc/passwd"), "neither a file"),
    "a device": (special("t/zero", tarfile.CHRTYPE), "neither a file"),
    "a pipe": (special("t/pipe", tarfile.FIFOTYPE), "neither a file"),
    "a name twice": ("t/one", "in the archive twice"),
    "a second top folder": ("u/one", "expected one top folder"),
    "a file at the top": ("README", "expected one top folder"),
    "a file below a file": ("t/one/two", "below what is a file"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_archives_that_reach_out_or_contradict_themselves_are_refused(tmp_path: Path, what: str) -> None:
    entry, message = REFUSED[what]
    with pytest.raises(DataError, match=message):
        unpack(archive(tmp_path / "a.tar.gz", "t/one", entry))


def test_links_inside_the_tree_are_kept(tmp_path: Path) -> None:
    link = special("t/docs/readme", tarfile.SYMTYPE, "../README")
    files = unpack(archive(tmp_path / "a.tar.gz", "t/README", link))
    assert files["docs/readme"] == File(b"../README", "120000")


@pytest.mark.parametrize(("limit", "value"), [("MAX_FILES", 2), ("MAX_UNPACKED", 1000)])
def test_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for number in range(3):
            packed.writestr(f"t/{number}", b"0" * 400)
    assert len(unpack(path)) == 3
    monkeypatch.setattr(releases, limit, value)
    with pytest.raises(DataError, match="no source release"):
        unpack(path)


def test_a_truncated_archive_is_told(index: Path) -> None:
    sdist(index, "1.0", OLD)
    path = index / "tides-1.0.tar.gz"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match="not a readable tar or zip"):
        unpack(path)
