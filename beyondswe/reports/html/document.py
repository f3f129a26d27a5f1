"""Writes a report as one HTML file: no network, no other file, light and dark, usable by keyboard and without scripts
up to the attempts' details.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from beyondswe.instances.model import Instance
from beyondswe.reports.figures.draw import make_figures
from beyondswe.reports.formats import percent
from beyondswe.reports.html.attempts import attempts
from beyondswe.reports.matrix import FAMILIES, make_matrix, matrix_notes, rate_of
from beyondswe.reports.table import notes
from beyondswe.runs.folder import RunFolder

_HERE = Path(__file__).parent


def to_html(
    reports: Sequence[dict[str, Any]], folders: Sequence[RunFolder], instances: Sequence[Instance] = ()
) -> str:
    """The page of these reports; ``folders`` are those of the runs among them, whose attempts are shown."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": percent, "data": _data}
    figures, missing = make_figures(reports, instances)
    runs = [{"id": folder.run_id, "attempts": list(attempts(folder))} for folder in folders]
    return environment.get_template("report.html.j2").render(
        title=reports[0]["run_id"] if len(reports) == 1 else f"{len(reports)} runs",
        reports=reports,
        rows=make_matrix(reports),
        families=FAMILIES,
        rate_of=rate_of,
        notes=[(r["run_id"], notes(r)) for r in reports if not r.get("reported")],
        matrix_notes=matrix_notes(reports),
        figures=figures,
        missing=missing,
        runs=runs,
        style=(_HERE / "report.css").read_text(encoding="utf-8"),
        script=(_HERE / "report.js").read_text(encoding="utf-8"),
        version=version("beyondswe"),
    )


def _data(value: Any) -> Any:
    """JSON that cannot end the element that it stands in."""
    from markupsafe import Markup

    finite = json.loads(json.dumps(value), parse_constant=lambda _name: None)  # a browser reads no NaN
    text = json.dumps(finite, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))
