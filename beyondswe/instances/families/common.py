"""What any row may hold, read by type alone; what a family requires is for its own loader to say."""

from __future__ import annotations

from typing import Any

from beyondswe.instances import fields
from beyondswe.instances.row import Row

_NONE: tuple[str, ...] = ()

COMMIT_NAMES = ("base_commit", "pre_agent_commit_id", "parent_commit", "base.sha")
"""Names of the base commit, in order of preference."""


def load(row: Row) -> dict[str, Any]:
    """The fields of an instance under our names. Every row must have an id and an image."""
    given = {
        "instance_id": row.read(fields.identifier, "instance_id", default=""),
        "repo": row.read(fields.repository, "repo", default=""),
        "base_commit": row.read(fields.text, *COMMIT_NAMES, default=""),
        "workdir": row.read(fields.workdir, "workdir", default="/workspace"),
        "image": row.read(fields.image, "image", "image_url", default=""),
        "language": row.read(fields.language, "language", default="python"),
        "problem_statement": row.read(fields.text, "problem_statement", default=""),
        "specification": row.read(fields.text, "REPO_DOCUMENT_CONTENT", default=""),
        "patch": row.read(fields.patch, "patch", "fix_patch", default=""),
        "fail_to_pass": row.read(fields.test_ids, "FAIL_TO_PASS", default=_NONE),
        "pass_to_pass": row.read(fields.test_ids, "PASS_TO_PASS", default=_NONE),
        "f2p_patch": row.read(fields.patch, "f2p_patch", "test_patch", default=""),
        "f2p_script": row.read(fields.text, "f2p_script", default=""),
        "test_suite": row.read(fields.file_name, "test_suite", default=""),
        "test_suite_num": row.read(fields.count, "test_suite_num", default=0),
        "pre_commands": row.read(fields.commands, "pre_commands", default=_NONE),
        "distributions": row.read(fields.names, "distributions", default=_NONE),
        "aliases": row.read(fields.names, "aliases", default=_NONE),
        "docs_hosts": row.read(fields.names, "docs_hosts", default=_NONE),
        "index_date": row.read(fields.day, "index_date", default=""),
        "score_network": row.read(fields.network, "score_network", default="none"),
        "reference_archive": row.read(fields.file_name, "reference_archive", default=""),
        "verification": row.read(fields.record, "verification", default=None),
    }
    row.require(
        given["instance_id"], "instance_id", wrong="the row has no instance id", expected="a unique name"
    )
    row.require(
        given["image"],
        "image",
        "image_url",
        wrong="missing image",
        expected="a container image in image or image_url",
    )
    return given
