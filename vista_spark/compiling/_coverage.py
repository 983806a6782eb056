"""Table of compiled classes in docs/compiling.md, generated from the registry.

``python -m vista_spark.compiling._coverage`` writes it.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import NamedTuple

from vista_spark.compiling._refusals import LIMITS, REASONS
from vista_spark.compiling._registry import is_compiled

__all__ = ["BEGIN", "END", "Row", "between_marks", "sklearn_rows", "spark_rows", "table"]

BEGIN, END = "<!-- coverage: begin -->", "<!-- coverage: end -->"

_SPARK = ("classification", "regression", "clustering", "feature")
_COVERED = Path("docs") / "compiling.md"


class Row(NamedTuple):
    """Class of a library, and whether it is compiled.

    ``remark`` is the reason of a refusal, or the limit of the parser.
    """

    name: str
    compiled: bool
    remark: str


def sklearn_rows() -> list[Row]:
    """List the classes of ``sklearn.utils.all_estimators``, experimental ones included."""
    from sklearn.experimental import enable_halving_search_cv, enable_iterative_imputer  # noqa: F401
    from sklearn.utils import all_estimators

    return [_row(f"sklearn.{name}") for name, _ in all_estimators()]


def spark_rows() -> list[Row]:
    """List the fitted stages of ``pyspark.ml``: models, and transformers that have no fit."""
    from pyspark.ml import Transformer

    rows = []
    for name in _SPARK:
        module = importlib.import_module(f"pyspark.ml.{name}")
        kinds = [getattr(module, public) for public in module.__all__]
        rows += [
            _row(f"pyspark.{kind.__name__}")
            for kind in kinds
            if isinstance(kind, type) and issubclass(kind, Transformer)
        ]
    return sorted(set(rows))


def table() -> str:
    """Return the table as Markdown."""
    lines = []
    for title, rows in (("scikit-learn", sklearn_rows()), ("Spark ML", spark_rows())):
        count = sum(row.compiled for row in rows)
        lines += ["", f"### {title}: {count} of {len(rows)} classes", "", "| class | compiled | |", "|---|---|---|"]
        lines += [
            f"| `{row.name.partition('.')[2]}` | {'yes' if row.compiled else 'no'} | {row.remark} |" for row in rows
        ]
    return "\n".join([*lines, ""])


def between_marks(document: str) -> str:
    """Replace the table between the marks of a document."""
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def _row(name: str) -> Row:
    if is_compiled(name):
        return Row(name, compiled=True, remark=LIMITS.get(name, ""))
    if name not in REASONS:
        raise KeyError(f"{name} has neither a parser nor a reason in vista_spark/compiling/_refusals.py")
    return Row(name, compiled=False, remark=REASONS[name])


if __name__ == "__main__":
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else _COVERED
    path.write_text(between_marks(path.read_text()))
