"""``beyondswe engine doctor`` says what is there, what is missing, and the remedy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from beyondswe.sandbox.engine import Engine


def doctor(**environment: str) -> tuple[int, dict[str, dict[str, Any]]]:
    done = subprocess.run(
        [sys.executable, "-m", "beyondswe.cli", "engine", "doctor", "--json"],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )
    return done.returncode, {check["name"]: check for check in json.loads(done.stdout)["checks"]}


@pytest.mark.engine
def test_a_machine_that_is_fit_is_said_to_be(engine: Engine, base_image: str) -> None:
    code, checks = doctor()
    assert code == 0, checks
    assert checks["engine"]["found"].startswith(engine.kind)
    assert checks["limited sandbox without network"]["found"] == "works"
    assert base_image.rpartition("/")[2] in checks["base images"]["found"]
    expected = {
        "platform",
        "storage driver",
        "control groups",
        "memory limit",
        "cpu limit",
        "processes limit",
    }
    assert expected | {
        "free disk",
        "cores and memory",
        "git",
        "mmdebstrap",
        "uv",
        "certificates",
        "proxy",
    } < set(checks)
    assert all(check["remedy"] for check in checks.values() if check["state"] != "ok")


def test_no_engine_ends_in_exit_code_3_and_the_rest_is_still_examined(tmp_path: Path) -> None:
    code, checks = doctor(DOCKER_HOST=f"unix://{tmp_path}/none.sock")
    assert code == 3
    assert checks["engine"]["state"] == "missing"
    assert f"DOCKER_HOST=unix://{tmp_path}/none.sock does not answer" in checks["engine"]["found"]
    assert "unset it" in checks["engine"]["remedy"] and "engine setup" not in checks["engine"]["remedy"]
    assert "git" in checks


@pytest.mark.engine
def test_a_bundle_that_is_no_file_prevents_work(tmp_path: Path) -> None:
    code, checks = doctor(SSL_CERT_FILE=str(tmp_path / "none.pem"))
    assert code == 1
    assert checks["certificates"]["state"] == "missing" and "none.pem" in checks["certificates"]["found"]


@pytest.mark.engine
def test_a_proxy_on_loopback_is_a_warning_and_passwords_are_not_shown() -> None:
    code, checks = doctor(https_proxy="http://127.0.0.1:3128")
    assert code == 0 and checks["proxy"]["state"] == "warn" and "bridge" in checks["proxy"]["remedy"]
    _, checks = doctor(https_proxy="http://me:secret@proxy.example:3128")
    assert checks["proxy"]["found"] == "http://proxy.example:3128"
