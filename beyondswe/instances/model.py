"""An instance: problem statement, environment, hidden tests; one frozen record (arXiv:2603.03194, section 3).

`sources` finds rows, `families` makes instances of them, `writing` makes rows again.
"""

from __future__ import annotations

import hashlib
import json
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Family(StrEnum):
    """The four families, spelled as in outcomes and reports."""

    CROSSREPO = "CrossRepo"
    DOMAINFIX = "DomainFix"
    DEPMIGRATE = "DepMigrate"
    DOC2REPO = "Doc2Repo"


class Instance(BaseModel):
    """One task of the benchmark. Field names are ours; `writing.to_row` gives the published names back."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    instance_id: str
    family: Family
    repo: str = ""
    base_commit: str = ""
    workdir: str = "/workspace"
    image: str = Field(
        description="container image that holds the environment: a tag, or name@sha256:… (pulled by digest)"
    )
    language: str = "python"
    problem_statement: str = ""
    specification: str = Field(
        default="", description="Doc2Repo: REPO_DOCUMENT_CONTENT, written to repo_document.md in the workdir"
    )
    patch: str = Field(default="", description="reference change; never shown to the agent")
    fail_to_pass: tuple[str, ...] = ()
    pass_to_pass: tuple[str, ...] = ()
    f2p_patch: str = Field(
        default="",
        description="patch that brings the hidden tests; applied at scoring only (SWE-bench: test_patch)",
    )
    f2p_script: str = Field(
        default="", description="text of test_fail_to_pass.py, placed in the workdir at scoring only"
    )
    test_suite: str = Field(default="", description="Doc2Repo: name of the suite's zip")
    test_suite_num: int = Field(default=0, ge=0, description="Doc2Repo: number of expected tests")
    test_suite_dir: Path | None = Field(
        default=None, description="folder that holds the zip: beside the dataset or --test-suite-dir"
    )
    pre_commands: tuple[str, ...] = ()
    distributions: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    docs_hosts: tuple[str, ...] = ()
    index_date: str = ""
    score_network: str = Field(default="none", pattern="^(none|open)$")
    reference_archive: str = Field(
        default="",
        description="Doc2Repo: name of a tar beside the dataset with the reference; for the oracle",
    )
    verification: dict[str, Any] | None = Field(
        default=None, description="record of `verify`; None for datasets verified elsewhere"
    )
    extra: dict[str, Any] = Field(
        default_factory=dict, description="fields of the row that we do not know, kept as they came"
    )

    @property
    def is_doc2repo(self) -> bool:
        return self.family is Family.DOC2REPO

    @property
    def project_names(self) -> tuple[str, ...]:
        """What the project's distributions are called; the repository's name where nobody says."""
        return self.distributions or tuple(filter(None, [self.repo.rpartition("/")[2].removesuffix(".git")]))

    @property
    def expected_tests(self) -> int:
        """How many test results a score is made of."""
        return self.test_suite_num if self.is_doc2repo else len(self.fail_to_pass) + len(self.pass_to_pass)

    @property
    def content_hash(self) -> str:
        """sha256 over all that decides a score: same hash, same question (part of the verdict cache key)."""
        record = self.model_dump(mode="json", exclude={"extra", "test_suite_dir", "image"})
        if self.test_suite and self.test_suite_dir:
            suite = self.test_suite_dir / self.test_suite
            if suite.is_file():
                record["test_suite_sha256"] = hashlib.sha256(suite.read_bytes()).hexdigest()
        return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
