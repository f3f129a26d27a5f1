"""Trees on the host: tar streams become git objects, changes become patches, patches become trees again."""

from __future__ import annotations

import io
import json
import os
import random
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from beyondswe.sandbox.importing import RESERVED, TooLarge
from beyondswe.sandbox.paths import quoted, reserved
from beyondswe.sandbox.scratch import temporary_folder
from beyondswe.sandbox.tarstream import BadArchive, Kind
from beyondswe.sandbox.trees import EMPTY_TREE, EXECUTABLE, FILE, SYMLINK, ApplyError, Entry, File, Trees


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BEYONDSWE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def trees(tmp_path: Path) -> Iterator[Trees]:
    with Trees.create(tmp_path / "git") as made:
        yield made


def member(name: bytes, data: bytes = b"", **more: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(os.fsdecode(name))
    info.size = len(data)
    for key, value in more.items():
        setattr(info, key, value)
    return info, data


def tar(*content: tuple[tarfile.TarInfo, bytes], layout: int = tarfile.GNU_FORMAT) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(
        fileobj=stream, mode="w", format=layout, encoding="utf-8", errors="surrogateescape"
    ) as archive:
        for info, data in content:
            archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def taken(trees: Trees, archive: bytes, piece: int = 700) -> dict[bytes, tuple[str, bytes]]:
    """What an importer makes of an archive that comes in small pieces."""
    with trees.importer() as importer:
        importer.add((archive[at : at + piece] for at in range(0, len(archive), piece)), strip=b"w")
    return contents(trees, trees.edit(EMPTY_TREE, importer.entries))


def contents(trees: Trees, tree: str) -> dict[bytes, tuple[str, bytes]]:
    return {path: (mode, trees.read(oid)) for path, (mode, oid) in trees.entries(tree).items()}


@pytest.mark.parametrize("layout", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_files_links_and_modes_come_out_of_a_tar_stream(trees: Trees, layout: int) -> None:
    archive = tar(
        member(b"w", type=tarfile.DIRTYPE),
        member(b"w/a", b"1\n", mode=0o644),
        member(b"w/run", b"2" * 5000, mode=0o4711),
        member(b"w/l", type=tarfile.SYMTYPE, linkname="/etc"),
        member(b"w/hard", type=tarfile.LNKTYPE, linkname="w/run"),
        member(b"w/d/empty", b""),
        layout=layout,
    )
    assert taken(trees, archive) == {
        b"a": (FILE, b"1\n"),
        b"run": (EXECUTABLE, b"2" * 5000),
        b"hard": (EXECUTABLE, b"2" * 5000),
        b"l": (SYMLINK, b"/etc"),
        b"d/empty": (FILE, b""),
    }


@pytest.mark.parametrize("layout", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize(
    "name", [b"n" * 300, "ü/日".encode() * 60, b'a\nb\t"\\', b" x ", b"%s" % b"/".join([b"d" * 90] * 5)]
)
def test_long_and_odd_names_come_out_whole(trees: Trees, layout: int, name: bytes) -> None:
    link = member(b"w/l", type=tarfile.SYMTYPE, linkname=name.decode())
    assert taken(trees, tar(member(b"w/" + name, b"x"), link, layout=layout)) == {
        name: (FILE, b"x"),
        b"l": (SYMLINK, name),
    }


def test_names_that_are_not_utf8_keep_their_bytes(trees: Trees) -> None:
    name = b"caf\xe9/" + b"\xff" * 150
    assert taken(trees, tar(member(b"w/" + name, b"x"))) == {name: (FILE, b"x")}


def test_a_stream_that_breaks_off_is_refused_wherever_it_does(trees: Trees) -> None:
    archive = tar(member(b"w/a", b"x" * 600), member(b"w/b", b"y"))
    end = archive.rstrip(b"\0").rfind(b"y") + 512
    for length in (0, 1, 512, 900, 1536, 2048, end - end % 512):
        with pytest.raises(BadArchive, match="ended early"):
            taken(trees, archive[:length])


def test_a_damaged_header_is_refused(trees: Trees) -> None:
    archive = bytearray(tar(member(b"w/a", b"x")))
    archive[3] ^= 1
    with pytest.raises(BadArchive, match="checksum"):
        taken(trees, bytes(archive))


@pytest.mark.parametrize("name", [b"/etc/passwd", b"w/../x", b"../w/x", b"v/x", b"x"])
def test_names_that_lead_out_are_refused(trees: Trees, name: bytes) -> None:
    with pytest.raises(BadArchive):
        taken(trees, tar(member(name, b"x")))


def test_git_folders_are_dropped_and_what_lies_beside_them_is_kept(trees: Trees) -> None:
    with trees.importer() as importer:
        archive = tar(
            member(b"w/.git/config", b"x"),
            member(b"w/sub/.git", b"gitdir: x"),
            member(b"w/sub/f", b"x"),
            member(b"w/.GIT/x", b"x"),
            member(b"w/h", type=tarfile.LNKTYPE, linkname="w/.git/config"),
            member(b"w/p", type=tarfile.FIFOTYPE),
            member(b"w/c", type=tarfile.CHRTYPE),
        )
        importer.add([archive], strip=b"w")
    assert list(importer.entries) == [b"sub/f"]
    assert importer.left_out == {b".GIT": RESERVED, b"p": "fifo", b"c": "device"}
    assert importer.unresolved == {b"h"}


def test_more_bytes_or_files_than_wanted_end_in_an_error_of_their_own(trees: Trees) -> None:
    archive = tar(*(member(b"w/%d" % n, b"x" * 100) for n in range(10)))
    for limits in ({"max_bytes": 999}, {"max_files": 9}):
        with pytest.raises(TooLarge), trees.importer(**limits) as importer:
            importer.add([archive], strip=b"w")
    with trees.importer(max_bytes=1000, max_files=10) as importer:
        importer.add([archive], strip=b"w")
    assert len(importer.entries) == 10


def test_a_folder_is_only_told_when_asked_for_shallowly(trees: Trees) -> None:
    with trees.importer() as importer:
        folder = tar(member(b"w", type=tarfile.DIRTYPE), member(b"w/a", b"x"))
        assert importer.add([folder], strip=b"w", shallow=True) is Kind.DIRECTORY
        assert importer.add([tar(member(b"f", b"x"))], strip=b"f", into=b"d/f", shallow=True) is Kind.FILE
        assert importer.add([tar()], strip=b"s", shallow=True) is None
    assert list(importer.entries) == [b"d/f"]


def test_edits_put_files_in_the_place_of_folders_and_the_reverse(trees: Trees) -> None:
    tree = trees.edit(
        EMPTY_TREE, {b"a/b/c": File(FILE, b"1"), b"x": File(FILE, b"2"), b"keep": File(FILE, b"3")}
    )
    edited = trees.edit(
        tree,
        {b"a": File(SYMLINK, b"x"), b"x/y/z": File(EXECUTABLE, b"4"), b"not/there": None, b"keep/no": None},
    )
    assert contents(trees, edited) == {
        b"a": (SYMLINK, b"x"),
        b"x/y/z": (EXECUTABLE, b"4"),
        b"keep": (FILE, b"3"),
    }
    assert trees.edit(edited, {b"a": None, b"x": None, b"keep": None}) == EMPTY_TREE
    assert trees.edit(tree, {}) == tree


def test_what_is_taken_out_goes_before_what_is_put_in(trees: Trees) -> None:
    tree = trees.edit(EMPTY_TREE, {b"a/b": File(FILE, b"1"), b"a/c": File(FILE, b"2")})
    assert contents(trees, trees.edit(tree, {b"a": None, b"a/d": File(FILE, b"3")})) == {b"a/d": (FILE, b"3")}


@pytest.mark.parametrize("path", [b"", b"/a", b"a/", b"a//b", b"../a", b"a/./b", b"a\0b"])
def test_a_path_that_is_not_inside_the_tree_is_refused(trees: Trees, path: bytes) -> None:
    with pytest.raises(ValueError, match="not a path inside a tree"):
        trees.edit(EMPTY_TREE, {path: File(FILE, b"")})


def test_entries_below_some_paths(trees: Trees) -> None:
    names = [b"a/1", b"a/2", b"ab", b":(top)x", b"*", b"z" * 200]
    tree = trees.edit(EMPTY_TREE, {name: File(FILE, name) for name in names})
    assert set(trees.entries(tree, [b"a"])) == {b"a/1", b"a/2"}
    assert set(trees.entries(tree, [b"*", b":(top)x", b"none", b"z" * 200])) == {b"*", b":(top)x", b"z" * 200}
    assert set(trees.entries(tree, [b"%d" % n for n in range(30_000)] + [b"ab"])) == {b"ab"}
    assert trees.entries(tree, []) == {}
    assert trees.sizes(tree) == {name: len(name) for name in names}


NAMES = [b"a", b"b", b"a.py", b"\xff", "ü".encode(), b'q"\n', b" s ", b"-x", b":(top)y", b"\\", b"a b"]
LINES = [
    b"one\n",
    b"two\r\n",
    b"\xe9\n",
    b"\0\n",
    b"three",
    b"\r",
    "ü\u2028\n".encode(),
    b"@@ -1 +1 @@\n",
    b"-- x\n",
    b"\n",
]


def random_tree(chance: random.Random, start: dict[bytes, File]) -> dict[bytes, File]:
    """A tree that has something to do with another one."""
    tree = {path: file for path, file in start.items() if chance.random() < 0.7}
    for _ in range(chance.randrange(6)):
        path = b"/".join(chance.choices(NAMES, k=chance.randint(1, 3)))
        if start and chance.random() < 0.4:  # moved or copied, and perhaps edited
            data = chance.choice(list(start.values())).data + chance.choice(LINES) * chance.randrange(2)
        else:
            data = b"".join(chance.choices(LINES[: chance.randint(1, len(LINES))], k=chance.randrange(12)))
        mode = chance.choice([FILE, FILE, EXECUTABLE, SYMLINK])
        if mode == SYMLINK:
            data = data.replace(b"\0", b"")[:99] or b"x"
        tree = {
            other: file
            for other, file in tree.items()
            if not other.startswith(path + b"/") and not path.startswith(other + b"/")
        }
        tree[path] = File(mode, data)
    return tree


def test_any_change_comes_back_from_its_patch(trees: Trees) -> None:
    seed = 20260731
    for number in range(60):
        chance = random.Random(seed + number)
        before = random_tree(chance, {})
        after = random_tree(chance, before)
        old, new = trees.edit(EMPTY_TREE, before), trees.edit(EMPTY_TREE, after)
        assert contents(trees, new) == {path: tuple(file) for path, file in after.items()}
        patch = json.loads(json.dumps(trees.diff(old, new, renames=bool(number % 2))))
        patch.encode("utf-8")
        assert "\0" not in patch
        if patch:
            assert trees.apply(old, patch.encode()) == new, f"seed {seed + number}"
        else:
            assert old == new


def test_text_stays_readable_beside_binary(trees: Trees) -> None:
    old = trees.edit(EMPTY_TREE, {b"a.py": File(FILE, b"x = 1\n"), b"b": File(FILE, b"\xff")})
    new = trees.edit(EMPTY_TREE, {b"a.py": File(FILE, b"x = 2\n"), b"b": File(FILE, b"\xfe")})
    patch = trees.diff(old, new)
    assert "-x = 1\n+x = 2\n" in patch
    assert patch.count("GIT binary patch") == 1


def test_a_heading_that_git_cuts_inside_a_character_is_no_obstacle(trees: Trees) -> None:
    old = trees.edit(EMPTY_TREE, {b"f": File(FILE, ("x" + "ü" * 60 + "\n" + " y\n" * 9).encode())})
    new = trees.edit(EMPTY_TREE, {b"f": File(FILE, ("x" + "ü" * 60 + "\n" + " y\n" * 8 + " z\n").encode())})
    assert trees.apply(old, trees.diff(old, new).encode()) == new


def test_a_patch_has_a_limit(trees: Trees) -> None:
    new = trees.edit(EMPTY_TREE, {b"f": File(FILE, b"x\n" * 1000)})
    with pytest.raises(TooLarge):
        trees.diff(EMPTY_TREE, new, max_bytes=1000)
    assert len(trees.diff(EMPTY_TREE, new, max_bytes=10_000)) > 3000


def test_a_patch_applies_whole_or_not_at_all(trees: Trees) -> None:
    old = trees.edit(EMPTY_TREE, {b"a": File(FILE, b"1\n"), b"b": File(FILE, b"1\n")})
    new = trees.edit(EMPTY_TREE, {b"a": File(FILE, b"2\n"), b"b": File(FILE, b"2\n")})
    patch = trees.diff(old, new).encode()
    other = trees.edit(old, {b"b": File(FILE, b"3\n")})
    with pytest.raises(ApplyError, match="b: patch does not apply"):
        trees.apply(other, patch)
    with pytest.raises(ApplyError):
        trees.apply(new, patch)  # never in reverse


def test_nothing_that_is_configured_on_this_machine_has_a_say(
    trees: Trees, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = tmp_path / "trap"
    (tmp_path / ".gitconfig").write_text(
        f"[core]\nautocrlf = true\nfsmonitor = touch {trap}\nattributesFile = {tmp_path}/attributes\n"
        "[diff]\nnoprefix = true\nalgorithm = histogram\nexternal = false\n[apply]\nwhitespace = fix\n"
    )
    (tmp_path / "attributes").write_text("* -diff\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere/index")
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", f"touch {trap}")
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "'diff.noprefix'='true'")
    monkeypatch.setenv("GIT_DIFF_OPTS", "-u0")
    old = trees.edit(
        EMPTY_TREE, {b"f": File(FILE, b"a\r\nb  \n"), b".gitattributes": File(FILE, b"* -diff eol=crlf\n")}
    )
    new = trees.edit(old, {b"f": File(FILE, b"a\r\nc  \n")})
    patch = trees.diff(old, new)
    assert "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\r\n-b  \n+c  \n" in patch
    assert trees.apply(old, patch.encode()) == new
    assert not trap.exists()


def test_jobs_above_one_snapshot_see_nothing_of_one_another(trees: Trees, cache: Path) -> None:
    tree = trees.edit(EMPTY_TREE, {b"a": File(FILE, b"1")})
    before = sorted(trees.git_dir.rglob("*"))
    with Trees.above(trees.git_dir) as one, Trees.above(trees.git_dir) as two:
        mine = one.edit(tree, {b"b": File(FILE, b"2")})
        assert contents(one, mine) == {b"a": (FILE, b"1"), b"b": (FILE, b"2")}
        with pytest.raises(Exception, match="failed"):
            two.entries(mine)
    assert sorted(trees.git_dir.rglob("*")) == before
    assert [path for path in (cache / "scratch").iterdir() if path.name != ".lock"] == []


def test_a_folder_of_a_killed_process_goes_when_the_next_is_made(cache: Path) -> None:
    program = (
        "import os, signal\nfrom beyondswe.sandbox.scratch import temporary_folder\n"
        "with temporary_folder() as folder:\n"
        "    (folder / 'x').write_text('x')\n    print(folder, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    left = Path(done.stdout.strip())
    with temporary_folder() as alive:
        assert not left.exists()
        with temporary_folder() as other:
            assert alive.exists()
            assert other != alive
    assert [path.name for path in (cache / "scratch").iterdir()] == [".lock"]


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (b".git", b".git"),
        (b"a/.git/b", b"a/.git"),
        (b"a/.GiT", b"a/.GiT"),
        (b".git /x", b".git "),
        (b".git.", b".git."),
        (b"GIT~1/x", b"GIT~1"),
        (".g\u200cit/x".encode(), ".g\u200cit".encode()),
        (b".git::$INDEX/x", b".git::$INDEX"),
        (b".git\\x", b".git\\x"),
        (b".github/x", None),
        (b".gitignore", None),
        (b"a.git/x", None),
        (b"git", None),
        (b"\xff.git", None),
        (b"git~10", None),
    ],
)
def test_names_that_some_system_takes_for_dot_git(path: bytes, found: bytes | None) -> None:
    assert reserved(path) == found


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (b"a b", "a b"),
        ("ü".encode(), '"\\303\\274"'),
        (b'"', '"\\""'),
        (b"a\n\\", '"a\\n\\\\"'),
        (b"\x01", '"\\001"'),
    ],
)
def test_paths_are_shown_as_git_shows_them(trees: Trees, path: bytes, shown: str) -> None:
    assert quoted(path) == shown
    tree = trees.edit(EMPTY_TREE, {path: File(FILE, b"")})
    name = shown.strip('"')
    assert ("b/" + name) in trees.diff(EMPTY_TREE, tree)


def test_an_unknown_object_is_an_error_that_says_where(trees: Trees) -> None:
    with pytest.raises(Exception, match=str(trees.git_dir)):
        trees.read("0" * 39 + "1")
    with pytest.raises(Exception, match="failed"):
        trees.edit(EMPTY_TREE, {b"a": Entry(FILE, "0" * 39 + "1")})
