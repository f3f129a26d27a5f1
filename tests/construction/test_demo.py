"""The demo instances tell a solution from what looks like one: wrong changes that hurried people make."""

from __future__ import annotations

from functools import cache

import pytest

from beyondswe.construction.commits import difference
from beyondswe.construction.environments import ensure_image
from beyondswe.construction.materials import material
from beyondswe.construction.recipes import File, Files, load_recipes
from beyondswe.construction.shipped import materialize
from beyondswe.instances import Instance, load_dataset
from beyondswe.sandbox.engine import Engine
from beyondswe.sandbox.environment import prepare
from beyondswe.sandbox.limits import capped
from beyondswe.sandbox.types import Environment, Limits
from beyondswe.scoring.score import score_patch
from beyondswe.scoring.types import Scored, Status

pytestmark = pytest.mark.engine

QUAY, NIGHT = "quaywatch_compact_frames", "nightlark_thick_air"
LARDER, SPANS = "larderbook_rowkeeper_2", "time_spans_from_scratch"

# instance, what is wrong, file, text of the reference, what stands there instead
WRONG = [
    (
        *(QUAY, "rounds ties to even", "quaywatch/decode.py"),
        *("_nearest_or_lower(level * 100, _STEPS_PER_METRE)", "round(level * 100 / _STEPS_PER_METRE)"),
    ),
    (
        *(QUAY, "leaves the kind out of the check", "quaywatch/decode.py"),
        *("_crc8(bytes([Kind.COMPACT]) + frame.payload[:-1])", "_crc8(frame.payload[:-1])"),
    ),
    (
        *(QUAY, "allows for no fast clocks", "quaywatch/decode.py"),
        *("frame.received)\n    if level", "frame.received - _FAST_CLOCK)\n    if level"),
    ),
    (
        *(NIGHT, "another air mass formula, bad near the horizon", "nightlark/sky.py"),
        *(
            "1 / (sin(altitude) + 0.50572 * (altitude + 6.07995) ** -1.6364)",
            "(s := 1 / max(sin(altitude), 1e-3)) - 0.0018167 * (s - 1) - 0.002875 * (s - 1) ** 2",
        ),
    ),
    (
        *(NIGHT, "the weather plays no part", "nightlark/sky.py"),
        *("return pressure / 1010 * 283 / (273 + temperature)", "return 1.0"),
    ),
    (
        *(NIGHT, "takes the true altitude for the apparent one", "nightlark/sky.py"),
        *("1.02 / tan(altitude + 10.3 / (altitude + 5.11))", "1 / tan(altitude + 7.31 / (altitude + 4.4))"),
    ),
    (
        *(LARDER, "half of a recipe is taken", "larderbook/items.py"),
        *(
            "    with book.change() as tx:\n        for name, (amount, unit) in ingredients.items():\n",
            "    for name, (amount, unit) in ingredients.items():\n        with book.change() as tx:\n",
        ),
    ),
    (
        *(LARDER, "the last day does not count", "larderbook/reports.py"),
        *("from rowkeeper import le\n", "from rowkeeper import lt as le\n"),
    ),
    (
        *(LARDER, "the journal is forgotten", "larderbook/book.py"),
        *("if before != after:", "if before != after and False:"),
    ),
    (
        *(SPANS, "the end is in the span", "target_repo/spans.py"),
        *("self.begin <= other < self.end", "self.begin <= other <= self.end"),
    ),
    (
        *(SPANS, "halves go up, not away from zero", "target_repo/lengths.py"),
        *(
            "whole, rest = divmod(abs(length), to)",
            "return (length + to / 2) // to * to\n    whole, rest = 0, to",
        ),
    ),
    (
        *(SPANS, "forgets who opened the day before", "target_repo/weekly.py"),
        *(" or when in self.on(when.date() - timedelta(days=1))", ""),
    ),
]


@cache
def instances() -> dict[str, Instance]:
    return {instance.instance_id: instance for instance in load_dataset(str(materialize("demo"))).instances}


@cache
def environment(engine: Engine, instance_id: str) -> Environment:
    instance = instances()[instance_id]
    return prepare(
        engine,
        ensure_image(engine, instance),
        workdir=instance.workdir,
        base_commit=instance.base_commit,
        pre_commands=instance.pre_commands,
        extra_files={"repo_document.md": instance.specification.encode()} if instance.is_doc2repo else {},
        run_labels={},
    )


def score(engine: Engine, instance_id: str, files: Files) -> Scored:
    (recipe,) = load_recipes("demo", [instance_id])
    patch = difference(material(recipe).base, files)
    limits, _ = capped(Limits(test_timeout=120), engine)
    return score_patch(
        engine, instances()[instance_id], environment(engine, instance_id), patch, limits=limits
    )


def reference(instance_id: str) -> Files:
    (recipe,) = load_recipes("demo", [instance_id])
    return material(recipe).reference


@pytest.mark.parametrize("instance_id", [QUAY, NIGHT, LARDER, SPANS])
def test_the_reference_resolves(engine: Engine, instance_id: str) -> None:
    scored = score(engine, instance_id, reference(instance_id))
    assert (scored.status, scored.score, scored.flags) == (Status.RESOLVED, 1.0, ()), scored.log


@pytest.mark.parametrize(
    ("instance_id", "path", "right", "wrong"),
    [(instance_id, *change) for instance_id, _, *change in WRONG],
    ids=[f"{instance_id}: {what}" for instance_id, what, *_ in WRONG],
)
def test_a_wrong_change_does_not(engine: Engine, instance_id: str, path: str, right: str, wrong: str) -> None:
    files = dict(reference(instance_id))
    text = files[path].data.decode()
    assert text.count(right) == 1, "the reference has changed: this wrong change must follow it"
    files[path] = File(text.replace(right, wrong).encode())
    scored = score(engine, instance_id, files)
    assert scored.status is Status.UNRESOLVED, scored.status
    assert 0 < scored.pass_rate < 1
