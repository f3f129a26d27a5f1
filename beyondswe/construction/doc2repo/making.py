"""One Doc2Repo instance out of a tree: specification, suite and reference archive, with what a reviewer should see."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from beyondswe.construction.doc2repo.hidden import Requirement, only_in_tests
from beyondswe.construction.doc2repo.hiding import TARGET, Names
from beyondswe.construction.doc2repo.interface import public_interface
from beyondswe.construction.doc2repo.material import Masked, masked_material
from beyondswe.construction.doc2repo.specification import Rewrite, write_specification
from beyondswe.construction.masking import check_specification
from beyondswe.construction.recipes import Files
from beyondswe.construction.shipped import tarred, zipped
from beyondswe.instances.model import Instance


@dataclass(frozen=True)
class Made:
    """What an instance is made of, all of it masked. ``leaks`` are lines of the reference that the text repeats."""

    specification: str
    masked: Masked
    requirements: tuple[Requirement, ...]
    leaks: tuple[str, ...]
    notes: tuple[str, ...]
    left_out: tuple[str, ...] = ()  # tests that cannot pass on the reference

    @property
    def suite(self) -> Files:
        return self.masked.suite

    @property
    def reference(self) -> Files:
        return self.masked.reference


def make(files: Files, names: Names, *, version: str = "1.0.0", rewrite: Rewrite | None = None) -> Made:
    """Mask a repository's tree and write its specification. `DataError` says why it cannot be made one of."""
    masked = masked_material(files, names, version=version)
    interface = public_interface(masked.reference, TARGET)
    written = write_specification(masked, interface, names, rewrite=rewrite)
    check_specification(written.text, names.words, "specification")
    return Made(
        specification=written.text,
        masked=masked,
        requirements=tuple(only_in_tests(masked.suite, written.text, TARGET)),
        leaks=tuple(repeated_code(written.text, masked.reference)),
        notes=(
            *(f"left out, a binary file that names the target: {path}" for path in masked.left_out),
            *written.notes,
        ),
    )


def with_files(instance: Instance, made: Made, folder: Path, day: date) -> Instance:
    """The instance with specification, suite and reference; the two archives are written into ``folder``."""
    suite, archive = f"{instance.instance_id}.suite.zip", f"{instance.instance_id}.reference.tar"
    (folder / suite).write_bytes(zipped(made.suite, day))
    (folder / archive).write_bytes(tarred(made.reference, day))
    review = dict(instance.extra.get("review") or {})
    reasons = [*review.get("reasons", ())]
    reasons += [f"only tests know ({each.kind}): {each.what} ({each.where})" for each in made.requirements]
    reasons += [f"the specification repeats code: {line}" for line in made.leaks]
    reasons += [f"left out, fails on the reference: {test}" for test in made.left_out]
    reasons += list(made.notes)
    extra = {
        **instance.extra,
        "left_out_tests": list(made.left_out),
        "hidden_requirements": [each.to_row() for each in made.requirements],
        # Whoever accepted the candidate has not read this text.
        "review": {"votes": [], **review, "status": "needs_review", "reasons": list(dict.fromkeys(reasons))},
    }
    return instance.model_copy(
        update={
            "specification": made.specification,
            "test_suite": suite,
            "reference_archive": archive,
            "test_suite_dir": folder,
            "extra": extra,
        }
    )


def repeated_code(specification: str, reference: Files) -> Sequence[str]:
    """Statements of the reference's functions that the specification has word for word: its implementation."""
    told = {_squeezed(line) for line in specification.splitlines()}
    prompts = re.findall(r"^\s*(?:>>>|\.\.\.) ?(.*)$", specification, re.MULTILINE)
    shown = {_squeezed(line) for line in prompts}
    found: dict[str, None] = {}
    for path, file in reference.items():
        if path.endswith(".py"):
            for line in _statements(file.data):
                short = _squeezed(line)
                if len(short) >= 24 and short in told and short not in shown:
                    found[line.strip()] = None
    return list(found)


def _statements(source: bytes) -> list[str]:
    """Lines of function bodies, without signatures and docstrings."""
    import ast

    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return []
    text = source.decode("utf-8", "replace").splitlines()
    wanted: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
            for statement in body:
                if not isinstance(statement, ast.Import | ast.ImportFrom):
                    wanted.update(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
    return [text[number - 1] for number in sorted(wanted) if number <= len(text)]


def _squeezed(line: str) -> str:
    return re.sub(r"\s+", "", line)
