"""Base images: Debian, git, a compiler and one Python with pytest, wherever the parts come from."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from beyondswe.errors import DataError, EngineError, UsageError
from beyondswe.sandbox import host
from beyondswe.sandbox.base_images import ensure_base_image, find_interpreter, tool_requirements
from beyondswe.sandbox.engine import Engine

from .inside import inside
from .registry import PLAIN_LAYER, serving

AUTHORITY = """\
-----BEGIN CERTIFICATE-----
MIIDKTCCAhGgAwIBAgIURa9mHVoT16v+gkHyCKL2V/uNlZcwDQYJKoZIhvcNAQEL
BQAwIzEhMB8GA1UEAwwYYmV5b25kc3dlIHRlc3QgYXV0aG9yaXR5MCAXDTI2MTEz
MDE3MzI0M1oYDzIxMjYxMTA2MTczMjQzWjAjMSEwHwYDVQQDDBhiZXlvbmRzd2Ug
dGVzdCBhdXRob3JpdHkwggEiMA0GCSqGSIb3DQEBAQUAA4IBDwAwggEKAoIBAQC2
O9uqTz6VUv939FdHo9oGyxFD0qFhoWP8TZNjr82BGGq4H6Xdr4ILh/6BG3C6ytil
2ueMcQ68BPWninPDSH7ITiw1cuVeoyqR64wVigOE8MBxJ2r1wyw6cL0krNorCD2X
ipzYj9TfM1kQn2J9pIg8A17rRGILBSamoTTHvJ2BgwdksGhPzS26vh1nUynfc1QA
n+pboEbl4a3AujNtHBeKowhaff+0NjY9lxO0DfeGrSBD461LxDnVTQWSVQFhVd8Y
PRQwAgMvuWE7E9zd6/VDvy0nzRpJeXbj0pysLE3GQJ4wKgIc502WHohhD7WxqXkb
YQbQmfdo/BGdljY7/FlLAgMBAAGjUzBRMB0GA1UdDgQWBBReXf4LTRgVRDbXbIJb
8vRZIwUU4jAfBgNVHSMEGDAWgBReXf4LTRgVRDbXbIJb8vRZIwUU4jAPBgNVHRMB
Af8EBTADAQH/MA0GCSqGSIb3DQEBCwUAA4IBAQCrvL/mvPUm5gNVr5Xg4s7Bn1Xu
gn76p7WJQ4eTvafMNlZ35BkTgkoPziLHiEQad+uTEfhdmDw0MlWBVwHwaGQJuU7+
dtMUadO4TLW12B2h+MMTvoIYQBzVWYrdX2NgB3aB1MYVFPx7c8zu3CF2c43YAo/M
plUmWSxN/JPeB3eWa4dWHJPbMWu9hd9grq49zia3n3HbNy22q0/MQXTkMFizflix
VI6my0dPCWCD98OIQaacCKrEpJaFslx50QebtuRY5mqsbGqVOSYaY4lf6tOJ50uI
w7e+p7AX5C5qSf6rg4rMOZWcA1m50IA/xMSnBfzDpfImzg1kPDaIOjGE0EAs
-----END CERTIFICATE-----
"""

EXTENSION = r"""
set -e
mkdir /tmp/ext && cd /tmp/ext
cat > here.c <<'END'
#include <Python.h>
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "here", 0, -1, 0};
PyMODINIT_FUNC PyInit_here(void) { return PyModule_Create(&module); }
END
cat > setup.py <<'END'
from setuptools import Extension, setup
setup(name="here", version="1", ext_modules=[Extension("here", ["here.c"])])
END
python setup.py -q build_ext --inplace
python -c 'import here; print("compiled", here.__name__)'
"""


@pytest.mark.engine
class TestBaseImage:
    def test_python_pytest_git_and_a_compiler_are_there_for_every_user(
        self, engine: Engine, base_image: str
    ) -> None:
        script = (
            "id -u; python -V; which python pip pytest; git --version; python -m pip check; pytest --version"
        )
        lines = inside(engine, base_image, script, user="bench").splitlines()
        assert lines[0] == "1000" and lines[1].startswith("Python 3.11.")
        assert lines[2:5] == ["/opt/venv/bin/python", "/opt/venv/bin/pip", "/opt/venv/bin/pytest"]
        assert lines[5].startswith("git version") and lines[6] == "No broken requirements found."
        assert lines[7].startswith("pytest 8.4")
        assert (
            inside(engine, base_image, "python -c 'import locale; print(locale.getpreferredencoding())'")
            == "UTF-8\n"
        )

    def test_an_extension_compiles_without_network(self, engine: Engine, base_image: str) -> None:
        assert "compiled here" in inside(engine, base_image, EXTENSION)

    def test_the_second_call_only_looks(self, engine: Engine, base_image: str) -> None:
        started = time.monotonic()
        assert ensure_base_image(engine) == base_image
        assert time.monotonic() - started < 1

    def test_certificates_of_the_host_are_trusted_inside(
        self, engine: Engine, base_image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bundle = tmp_path / "company.pem"
        bundle.write_text(f"a comment\n{AUTHORITY}")
        # for this image only: what fetches its parts still needs the machine's own
        monkeypatch.setattr(host, "host_bundle", lambda: bundle)
        host.extra_certificates.cache_clear()
        try:
            image = ensure_base_image(engine)
        finally:
            host.extra_certificates.cache_clear()
        assert image != base_image
        for name in host.CA_VARIABLES:
            assert AUTHORITY.split("\n")[1] in inside(engine, image, f'cat "${name}"')
        verify = "openssl verify /usr/local/share/ca-certificates/beyondswe/000.crt"
        assert ": OK" in inside(engine, image, verify)


@pytest.fixture(scope="module")
def interpreters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in pyenv's layout with the interpreter that runs this."""
    prefix = Path(sys.base_prefix).resolve()
    if prefix in (Path("/usr"), Path("/usr/local")):
        pytest.skip("this Python is the system's own: not in a folder of its own that could be copied")
    folder = tmp_path_factory.mktemp("interpreters")
    (folder / ".".join(map(str, sys.version_info[:3]))).symlink_to(prefix)
    return folder


@pytest.mark.engine
class TestInterpreterFromAFolder:
    def test_it_works_in_the_image_though_it_was_made_elsewhere(
        self, engine: Engine, interpreters: Path
    ) -> None:
        minor = "{}.{}".format(*sys.version_info)
        full = ".".join(map(str, sys.version_info[:3]))
        said: list[str] = []
        image = ensure_base_image(engine, minor, python_dir=interpreters, on_line=said.append)
        script = (
            "python -c 'import ssl, sqlite3, ctypes, lzma, bz2, venv, ensurepip, sys, sysconfig;"
            "print(sys.version.split()[0], sys.base_prefix);"
            "print([value for value in sysconfig.get_config_vars().values() if OLD in str(value)])'"
        ).replace("OLD", f'"{Path(sys.base_prefix).resolve()}"')
        assert inside(engine, image, script, user="bench").splitlines() == [
            f"{full} /opt/python/{full}",
            "[]",
        ]
        assert "compiled here" in inside(engine, image, EXTENSION)
        assert "site-packages/pip" not in inside(engine, image, f"find /opt/python/{full} -name pip")
        assert f"Python {full} from " in engine.client.images.get(image).labels["io.beyondswe.origin"]

    def test_a_version_that_the_folder_lacks_is_an_error_that_says_what_it_has(
        self, engine: Engine, interpreters: Path
    ) -> None:
        with pytest.raises(DataError, match=re.escape(f"it has: {next(interpreters.iterdir()).name}")):
            ensure_base_image(engine, "3.7", python_dir=interpreters)


class TestChoice:
    def test_the_newest_patch_of_a_version_is_taken(self, tmp_path: Path) -> None:
        for version in ("3.9.2", "3.9.18", "3.10.1", "3.9-dev", "pypy3.9-7.3", "3.9.20"):
            (tmp_path / version / "bin").mkdir(parents=True)
        for version in ("3.9.2", "3.9.18", "3.10.1"):
            (tmp_path / version / "bin" / f"python{version.rpartition('.')[0]}").touch()
        found = find_interpreter(tmp_path, "3.9", "test")
        assert found and (found.version, found.prefix) == ("3.9.18", tmp_path / "3.9.18")
        exact = find_interpreter(tmp_path, "3.9.2", "test")
        assert exact and exact.version == "3.9.2"
        assert find_interpreter(tmp_path, "3.1", "test") is None

    def test_uvs_layout_is_understood(self, tmp_path: Path) -> None:
        place = tmp_path / "cpython-3.12.4-linux-x86_64-gnu" / "bin"
        place.mkdir(parents=True)
        (place / "python3.12").touch()
        found = find_interpreter(tmp_path, "3.12", "test")
        assert found and found.version == "3.12.4"

    @pytest.mark.parametrize(
        ("python", "pytest_version"),
        [("3.6", "7.0.1"), ("3.7", "7.4.4"), ("3.8", "8.3.5"), ("3.11.2", "8.4.2")],
    )
    def test_pytest_is_one_that_this_python_runs(self, python: str, pytest_version: str) -> None:
        assert f"pytest=={pytest_version}" in tool_requirements(python)

    @pytest.mark.parametrize("python", ["3", "2.7", "3.11; rm", "latest", "3.11.1.1"])
    def test_what_is_no_version_is_wrong_use(self, engine: Engine, python: str) -> None:
        with pytest.raises(UsageError, match="no Python version"):
            ensure_base_image(engine, python)

    def test_a_python_that_is_too_old_is_wrong_use(self, engine: Engine) -> None:
        with pytest.raises(UsageError, match=r"the oldest is 3\.6"):
            ensure_base_image(engine, "3.5")


@pytest.fixture
def root_archive(engine: Engine, base_image: str, tmp_path: Path) -> Iterator[Path]:
    """The bootstrapped root's layer, which a registry can serve."""
    root = next(
        tag
        for row in engine.api.images(filters={"label": "io.beyondswe.role=root"})
        for tag in row.get("RepoTags") or ()
    )
    saved = tmp_path / "root.tar"
    with saved.open("wb") as stream:
        for chunk in engine.client.images.get(root).save():
            stream.write(chunk)
    subprocess.run(["tar", "--extract", "--file", saved.name], cwd=tmp_path, check=True)
    saved.unlink()
    yield max(tmp_path.rglob("*"), key=lambda path: path.stat().st_size)


@pytest.mark.engine
@pytest.mark.slow
def test_where_a_registry_answers_its_python_is_the_root(
    engine: Engine, root_archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine.is_podman:
        pytest.skip("Podman asks for TLS of a registry on loopback; only its configuration can change that")
    import hashlib
    import io
    import tarfile

    link = io.BytesIO()
    with tarfile.open(fileobj=link, mode="w") as tar:
        info = tarfile.TarInfo("usr/local/bin/python3.11")
        info.type, info.linkname = tarfile.SYMTYPE, "/usr/bin/python3.11"
        tar.addfile(info)
    extra = link.getvalue()
    with root_archive.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    with serving() as registry:
        registry.add_layers(
            "python",
            "3.11.2-slim",
            [
                (PLAIN_LAYER, root_archive, f"sha256:{digest}"),
                (PLAIN_LAYER, extra, f"sha256:{hashlib.sha256(extra).hexdigest()}"),
            ],
            "linux/amd64",
        )
        monkeypatch.setenv("BEYONDSWE_REGISTRY", registry.address)
        said: list[str] = []
        image = ensure_base_image(engine, "3.11.2", on_line=said.append)
        try:
            ref = f"{registry.address}/python:3.11.2-slim"
            assert f"asking the registry for {ref}" in said
            assert engine.client.images.get(image).labels["io.beyondswe.origin"] == ref
            assert (
                inside(engine, image, "readlink -f $(which python); pytest --version")
                .splitlines()[1]
                .startswith("pytest")
            )
        finally:
            engine.client.images.remove(image, force=True)
            engine.client.images.remove(ref, force=True)


@pytest.mark.engine
def test_a_python_that_nobody_has_ends_in_an_error_that_names_the_remedy(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BEYONDSWE_REGISTRY", "none")
    monkeypatch.setenv("BEYONDSWE_CACHE", str(tmp_path))
    with pytest.raises(
        EngineError, match=r"no Python 3\.98\.1 for the base image.*(?s:.*)Install it with pyenv"
    ):
        ensure_base_image(engine, "3.98.1", on_line=lambda _line: None)
