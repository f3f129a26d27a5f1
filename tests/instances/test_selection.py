"""Which instances a command gets: families, globs, samples, shards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from beyondswe.errors import DataError, UsageError
from beyondswe.instances import Family, load_dataset
from beyondswe.instances.selection import share

Row = dict[str, Any]
Make = Callable[..., Row]
Written = Callable[[list[Row]], str]


@pytest.fixture
def mixed(issue: Make, doc2repo: Make) -> list[Row]:
    """20 CrossRepo, 7 DomainFix, 18 DepMigrate, 5 Doc2Repo rows: the published shares at a tenth."""
    rows = [issue(number, patch="", f2p_patch="") for number in range(45)]
    for row in rows[20:27]:
        row["task"] = "DomainFix"
    for row in rows[27:]:
        row["task"] = "dep_migrate"
    return rows + [doc2repo(number) for number in range(5)]


def ids(spec: str, **options: Any) -> list[str]:
    return [instance.instance_id for instance in load_dataset(spec, **options).instances]


def test_families_may_be_named_in_any_spelling(mixed: list[Row], written: Written) -> None:
    found = load_dataset(written(mixed), families=["domain-fix", "DOC2REPO"])
    assert Counter(instance.family for instance in found.instances) == {
        Family.DOMAINFIX: 7,
        Family.DOC2REPO: 5,
    }
    with pytest.raises(UsageError, match="--family: unknown family 'Bugs'; allowed: CrossRepo, DomainFix"):
        load_dataset(written(mixed), families=["Bugs"])


def test_globs_choose_ids_and_their_case_counts(mixed: list[Row], written: Written) -> None:
    spec = written(mixed)
    assert ids(spec, instances=["*_pr1", "owner_book[01]"]) == [
        "owner_repo_pr1",
        "owner_book0",
        "owner_book1",
    ]
    with pytest.raises(UsageError, match="--instance OWNER_BOOK1: no instance matches; near it: owner_book1"):
        load_dataset(spec, instances=["owner_repo_pr1", "OWNER_BOOK1"])


def test_an_id_with_brackets_can_be_named_as_it_is(issue: Make, written: Written) -> None:
    spec = written([issue(instance_id="a[1]"), issue(instance_id="a1")])
    assert ids(spec, instances=["a[1]"]) == ["a[1]", "a1"]


def test_a_glob_is_looked_for_in_the_chosen_families(mixed: list[Row], written: Written) -> None:
    with pytest.raises(UsageError, match="--instance owner_repo_pr1: no instance matches"):
        load_dataset(written(mixed), families=["Doc2Repo"], instances=["owner_repo_pr1"])


def test_a_sample_has_each_family_by_its_share_and_none_left_out(mixed: list[Row], written: Written) -> None:
    spec = written(mixed)

    def sizes(limit: int) -> list[int]:
        found = Counter(one.family for one in load_dataset(spec, limit=limit).instances)
        return [found[family] for family in Family]

    assert sizes(10) == [4, 1, 4, 1]
    assert sizes(25) == [10, 4, 9, 2]
    assert sizes(4) == [1, 1, 1, 1]
    assert sum(sizes(3)) == 3
    assert sizes(50) == sizes(1000) == [20, 7, 18, 5]


def test_a_sample_hangs_on_the_seed_and_not_on_the_order_of_rows(mixed: list[Row], written: Written) -> None:
    chosen = ids(written(mixed), limit=10, seed=3)
    assert chosen == ids(written(mixed), limit=10, seed=3)
    assert set(chosen) == set(ids(written(mixed[::-1]), limit=10, seed=3))
    assert set(chosen) != set(ids(written(mixed), limit=10, seed=4))
    assert chosen == sorted(chosen, key=[row["instance_id"] for row in mixed].index)


@pytest.mark.parametrize("seats", range(1, 60))
def test_seats_are_divided_without_rest(seats: int) -> None:
    counts = {Family.CROSSREPO: 20, Family.DOMAINFIX: 1, Family.DOC2REPO: 7}
    given = share(counts, seats)
    assert sum(given.values()) == min(seats, 28)
    assert all(given[family] <= counts[family] for family in counts)
    assert seats < 3 or min(given.values()) >= 1


def test_shards_are_disjoint_and_together_all(mixed: list[Row], written: Written) -> None:
    spec = written(mixed)
    parts = [ids(spec, shard=(number, 4)) for number in (1, 2, 3, 4)]
    assert sorted(chain(*parts)) == sorted(ids(spec))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    for wrong in ((0, 4), (5, 4)):
        with pytest.raises(UsageError, match="--shard"):
            load_dataset(spec, shard=wrong)


def test_shards_of_a_sample_are_the_sample(mixed: list[Row], written: Written) -> None:
    spec = written(mixed)
    parts = [ids(spec, limit=9, shard=(number, 2)) for number in (1, 2)]
    assert sorted(chain(*parts)) == sorted(ids(spec, limit=9))


def test_nothing_selected_is_an_error(issue: Make, written: Written) -> None:
    with pytest.raises(UsageError, match="none of its 1 rows"):
        load_dataset(written([issue()]), families=["Doc2Repo"])
    with pytest.raises(UsageError, match="none of its 1 rows"):
        load_dataset(written([issue()]), shard=(2, 2))


def test_a_bad_row_counts_only_among_the_selected(issue: Make, written: Written) -> None:
    rows = [issue(1), issue(2, image=""), issue(3, task="Doc 2 Repo"), issue(4, task="Bug")]
    spec = written(rows)
    assert ids(spec, instances=["*_pr1"]) == ["owner_repo_pr1"]
    for options in ({}, {"instances": ["*_pr[12]"]}, {"families": ["CrossRepo"]}):
        with pytest.raises(DataError, match=r"rows.jsonl:2: owner_repo_pr2: image: missing image"):
            load_dataset(spec, **options)
    with pytest.raises(DataError) as bad:
        load_dataset(spec)
    assert "3 of 4 selected rows are bad" in str(bad.value)
    assert "--skip-bad" in str(bad.value)


def test_a_row_that_cannot_be_read_may_be_any_instance_but_one_that_is_named(
    issue: Make, written: Written
) -> None:
    spec = written([issue(1), issue(2)])
    with Path(spec).open("a") as stream:
        stream.write('{"instance_id": "owner_repo_pr3", \n')
    for options in ({}, {"families": ["CrossRepo"]}, {"instances": ["owner_*"]}):
        with pytest.raises(DataError, match=r"rows.jsonl:3: row: invalid JSON"):
            load_dataset(spec, **options)
    assert ids(spec, instances=["owner_repo_pr2"]) == ["owner_repo_pr2"]
    assert len(ids(spec, limit=2)) == 2


def test_mending_a_row_leaves_the_others_where_they_were(mixed: list[Row], written: Written) -> None:
    whole = ids(written(mixed), limit=12, shard=(1, 2))
    broken = next(row for row in mixed if row["instance_id"] == whole[0])
    broken["image"] = ""
    found = load_dataset(written(mixed), limit=12, shard=(1, 2), skip_bad=True)
    assert [one.instance_id for one in found.instances] == whole[1:]
    assert [row.instance_id for row in found.bad] == whole[:1]
