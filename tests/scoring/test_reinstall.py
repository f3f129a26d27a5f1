"""What a project that is built anew may bring along, by the names in its wheel."""

from __future__ import annotations

import io
import zipfile

import pytest

from beyondswe.errors import InstanceFault
from beyondswe.instances.model import Family, Instance
from beyondswe.scoring.archives import BadArchive
from beyondswe.scoring.reinstall import METADATA, NONE, mode_of, with_mode
from beyondswe.scoring.wheels import Brought, brought, installed, starts_by_itself

POINTS = b"[console_scripts]\ntool = pkg:main\n[pytest11]\nours = pkg.plugin\n[pkg.ways]\na = pkg:a\n"


def wheel(*files: tuple[str, bytes], points: bytes = POINTS, name: str = "Some_Pkg-1.0") -> bytes:
    out = io.BytesIO()
    own = ((f"{name}.dist-info/METADATA", b"Name: x\n"), (f"{name}.dist-info/entry_points.txt", points))
    with zipfile.ZipFile(out, "w") as archive:
        for path, data in (*own, *files):
            archive.writestr(path, data)
    return out.getvalue()


def test_what_a_wheel_brings_is_named_and_survives_the_record() -> None:
    made = wheel(
        ("pkg/__init__.py", b""),
        ("fast.cpython-311.so", b""),
        ("Some_Pkg-1.0.data/scripts/other", b"#!python\n"),
        ("Some_Pkg-1.0.data/purelib/late.py", b""),
    )
    found = brought(made)
    assert found == Brought(
        distribution="some-pkg",
        groups=("console_scripts", "pkg.ways", "pytest11"),
        plugins=("ours",),
        commands=("other", "tool"),
        modules=("fast", "late", "pkg"),
    )
    assert Brought.from_record(found.to_record()) == found


def test_entry_points_are_kept_as_the_reference_has_them() -> None:
    reference = brought(wheel())
    theirs = (
        POINTS.replace(b"ours = pkg.plugin", b"ours = pkg.other\nmore = pkg.cheat")
        + b"[hypothesis]\nx = pkg\n"
    )
    (kept,) = [
        write.data.decode()
        for write in installed(
            wheel(points=theirs), library=1, commands=2, keeps=reference.keeps, distribution="some-pkg"
        )
        if write.path.endswith(b"entry_points.txt")
    ]
    assert "ours = pkg.other" in kept and "a = pkg:a" in kept
    assert "cheat" not in kept and "hypothesis" not in kept


def test_metadata_of_another_distribution_is_left_out() -> None:
    made = wheel(("pytest-9.dist-info/entry_points.txt", b"[pytest11]\nx = pkg\n"))
    paths = [write.path for write in installed(made, library=1, commands=2, distribution="some-pkg")]
    assert not any(path.startswith(b"pytest-9") for path in paths)


@pytest.mark.parametrize(
    ("path", "starts"),
    [
        (b"zz.pth", True),
        (b"Some_Pkg-1.0.data/purelib/zz.pth", True),
        (b"Some_Pkg-1.0.data/data/lib/python3.11/site-packages/zz.pth", True),
        (b"sitecustomize.py", True),
        (b"pkg/__pycache__/a.pyc", True),
        (b"Some_Pkg-1.0.dist-info/METADATA", False),
        (b"pkg/data.txt", False),
    ],
)
def test_files_that_start_by_themselves_are_told(path: bytes, starts: bool) -> None:
    assert starts_by_itself(path) is starts


def test_a_wheel_without_metadata_of_its_own_or_with_two_is_none() -> None:
    with pytest.raises(BadArchive, match="2 folders"):
        brought(wheel(("other-1.dist-info/METADATA", b"")))


def test_the_mode_is_the_records() -> None:
    instance = Instance(instance_id="a", family=Family.CROSSREPO, image="x")
    assert mode_of(instance) == NONE
    built = with_mode(instance, METADATA, brought(wheel()))
    assert mode_of(built) == METADATA
    assert built.content_hash != instance.content_hash  # so that verdicts of both are told apart
    assert with_mode(built, NONE, Brought()).verification == {"reinstall": NONE}
    odd = instance.model_copy(update={"verification": {"reinstall": "halfway"}})
    with pytest.raises(InstanceFault, match="'halfway'"):
        mode_of(odd)
