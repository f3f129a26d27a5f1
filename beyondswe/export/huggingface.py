"""A dataset folder for the Hugging Face Hub: a card and a parquet file that `datasets.load_dataset` opens, and which
reads back as the same instances.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from beyondswe.errors import UsageError
from beyondswe.instances.dataset import Dataset
from beyondswe.instances.huggingface import need
from beyondswe.instances.model import Instance
from beyondswe.instances.writing import ALWAYS, WHERE_FILLED, to_row
from beyondswe.runs.folder import write_atomic

_NESTED = {"pre_commands", "verification"}
_LISTS = {"FAIL_TO_PASS", "PASS_TO_PASS", "distributions", "aliases", "docs_hosts"}


def export_hf(dataset: Dataset, out: Path) -> int:
    """Write ``README.md``, ``data/test.parquet`` and Doc2Repo's suites to a folder; how many instances."""
    need("pyarrow", "export hf")
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    rows = [_flat(instance) for instance in dataset.instances]
    names = [*ALWAYS, *WHERE_FILLED, *sorted({key for row in rows for key in row} - {*ALWAYS, *WHERE_FILLED})]
    columns = {name: [row.get(name) for row in rows] for name in names if any(name in row for row in rows)}
    schema = arrow.schema([(name, _type(arrow, name)) for name in columns])
    (out / "data").mkdir(parents=True, exist_ok=True)
    temporary = out / "data" / ".test.parquet.tmp"
    parquet.write_table(arrow.table(columns, schema=schema), temporary)
    temporary.replace(out / "data" / "test.parquet")
    _copy_archives(dataset.instances, out)
    write_atomic(out / "README.md", _card(dataset).encode())
    return len(rows)


def _flat(instance: Instance) -> dict[str, Any]:
    """The row with nested values as JSON text: a table has one type a column."""
    row = to_row(instance)
    return {key: value if _is_plain(key, value) else json.dumps(value) for key, value in row.items()}


def _is_plain(key: str, value: Any) -> bool:
    return key in _LISTS or isinstance(value, str) or (key == "test_suite_num" and isinstance(value, int))


def _type(arrow: Any, name: str) -> Any:
    if name in _LISTS:
        return arrow.list_(arrow.string())
    return arrow.int64() if name == "test_suite_num" else arrow.string()


def _copy_archives(instances: Sequence[Instance], out: Path) -> None:
    for instance in instances:
        for name in filter(None, (instance.test_suite, instance.reference_archive)):
            source = instance.test_suite_dir / name if instance.test_suite_dir else None
            if source is None or not source.is_file():
                if name == instance.reference_archive:
                    continue  # for the oracle alone; a dataset may come without
                raise UsageError(
                    f"{instance.instance_id}: its suite {name} is not there; name its folder with --test-suite-dir"
                )
            shutil.copyfile(source, out / name)


def _card(dataset: Dataset) -> str:
    counts = Counter(instance.family.value for instance in dataset.instances)
    table = "\n".join(f"| {family} | {n} |" for family, n in counts.items())
    return f"""---
language:
- en
task_categories:
- text-generation
tags:
- code
- software-engineering
- benchmark
configs:
- config_name: default
  data_files:
  - split: test
    path: data/test.parquet
---

# {dataset.name}

Instances for `beyondswe` (version {dataset.version}, hash `{dataset.hash}`).

| family | instances |
|---|---:|
{table}

`beyondswe eval --dataset <this repository or folder> --agent …` evaluates on it. Fields are described in the tool's
`docs/instances.md`; `verification`, `pre_commands` and unknown nested fields are JSON text.
"""
