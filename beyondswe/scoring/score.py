"""Score one patch: compose the tree, run the tests in one fresh container, judge the evidence."""

from __future__ import annotations

from collections.abc import Mapping

from beyondswe.instances.model import Instance
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.types import Environment, Limits
from beyondswe.scoring.types import Scored, Selection, TestRun


def score_patch(
    engine: Engine,
    instance: Instance,
    environment: Environment,
    patch_text: str,
    *,
    limits: Limits,
    run_labels: Mapping[str, str] = {},  # noqa: B006 (never written to)
) -> Scored:
    """The verdict on ``patch_text``. Faults of the machine or the dataset come back as ``infrastructure_error``."""
    raise NotImplementedError  # being written (helper R)


def run_tests(
    engine: Engine,
    instance: Instance,
    environment: Environment,
    patch_text: str | None,
    *,
    selection: Selection | None = None,
    limits: Limits,
    run_labels: Mapping[str, str] = {},  # noqa: B006 (never written to)
) -> TestRun:
    """Run hidden tests and suite on a side of the reference change: ``None`` before it, ``instance.patch`` after it.

    The same job as `score_patch`: same restoring, same configuration, same runner. Doc2Repo runs its suite and
    needs no selection. Raises `EngineError` or `ScoringError` where `score_patch` says ``infrastructure_error``
    and `PatchRejected` where the patch does not apply.
    """
    raise NotImplementedError  # being written (helper R)
