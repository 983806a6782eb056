"""Handlers of requests for data debugging: they run in the pool of a search, over a table that the user names.

An entry of ``context.searches`` is a :class:`cerebro_spark.launching.Launched`: a search, its experiment, and the
document of the launch with the path of the table.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from cerebro_spark.debugging._comparison import compare_models
from cerebro_spark.debugging._influence import find_influential_rows
from cerebro_spark.debugging._label_errors import find_label_errors
from cerebro_spark.debugging._near_duplicates import find_leaks, find_near_duplicates
from cerebro_spark.debugging._outliers import find_outliers
from cerebro_spark.debugging._request_rows import json_value, shown_rows
from cerebro_spark.debugging._slices import find_slices
from cerebro_spark.errors import InvalidArgumentError, NoModelError
from optimizer.arguments import whole
from optimizer.errors import nearest
from udfs.driver import check_present, quoted, read_table
from udfs.requests import RequestHandler

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd
    from pyspark.sql import DataFrame

    from cerebro_spark.tune import Selection, TrialResult, TunedModel
    from udfs.requests import RequestContext

__all__ = ["COMPARISON", "INFLUENCE", "LABEL_ERRORS", "LEAKS", "NEAR_DUPLICATES", "OUTLIERS", "SLICES"]

_MOST_ROWS = 1000
_MOST_CLASSES = 200


@dataclass(frozen=True)
class _Question:
    """Document of a request, with the search and the tables that it names."""

    document: Mapping[str, Any]
    context: RequestContext

    def text(self, name: str, default: str | None = None) -> str:
        value = self.document.get(name)
        value = default if value is None else value
        if not isinstance(value, str) or not value:
            raise InvalidArgumentError(f"{name} must be a text, got {value!r}. Fill it in")
        return value

    def names(self, name: str) -> list[str]:
        value = self.document.get(name) or []
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise InvalidArgumentError(f"{name} must be a list of columns, got {value!r}.")
        return list(value)

    @property
    def limit(self) -> int:
        limit = self.document.get("limit")
        return min(_MOST_ROWS, whole("limit", 100 if limit is None else limit))

    def entry(self, name: str = "run") -> Any:
        run, searches = self.text(name), self.context.searches
        if run not in searches:
            raise InvalidArgumentError(
                f"{name} must be a search of this pool since its start, got {run!r}{nearest(run, list(searches))}. "
                "Launch it from the page, or debug it in a notebook with cerebro_spark.debugging"
            )
        return searches[run]

    def selection(self, name: str = "run") -> Selection:
        try:
            selection: Selection = self.entry(name).experiment.wait(0)
        except TimeoutError as error:
            raise InvalidArgumentError(
                f"{name} must be a search that has ended, got {self.text(name)!r}, which trains. Wait, or end it"
            ) from error
        return selection

    def trial(self, run: str = "run", name: str = "trial") -> TrialResult:
        selection, wanted = self.selection(run), self.document.get(name)
        if wanted is None:
            return selection.best
        known = {each.trial_id: each for each in selection.trials}
        if wanted not in known:
            raise NoModelError(f"{name} must be a configuration of {self.text(run)!r}, got {wanted!r}.")
        return known[wanted]

    @cached_property
    def model(self) -> TunedModel:
        return self.selection().model(self.trial().trial_id)

    def table(self, name: str = "table") -> DataFrame:
        """Read a table that the document names, by default the one that the search trains on."""
        entry = self._with_table()
        launched: Mapping[str, Any] = getattr(entry, "document", {}) if name == "table" else {}
        path = self.text(name, launched.get("table"))
        form = launched.get("table_format") if path == launched.get("table") else None
        try:
            df = read_table(self.context.spark, path, form, option=name)
        except AnalysisException as error:
            first = str(error).strip().split("\n", 1)[0]
            raise InvalidArgumentError(f"{name} must be a table that Spark can read, got {path!r}: {first}") from error
        convert = getattr(entry, "convert_table", None)
        return df if convert is None else convert(df)

    def _with_table(self) -> Any:
        """Return the entry whose launch names the table: of a drill-down that of its parent."""
        entry = self.entry()
        for _ in range(len(self.context.searches)):
            launched = getattr(entry, "document", {})
            parent = str((launched.get("source") or {}).get("run"))
            if launched.get("table") or parent not in self.context.searches:
                break
            entry = self.context.searches[parent]
        return entry

    @property
    def id_column(self) -> str:
        return self.text("id_column", "id")

    def working(self, text: str) -> None:
        """Report what is being done; raises if the request is cancelled."""
        self.context.report({"text": text})

    def rows(self, ranked: pd.DataFrame, df: DataFrame, **more: Any) -> dict[str, Any]:
        """Return the result: the first rows, and what the page needs to relabel them."""
        model = self.model
        label = model.label_column
        columns = [column.name for group in model.inputs for column in group.columns]
        shown = [name for name in df.columns if name not in {label, *columns}]
        missing = label if "given_label" not in ranked and label in df.columns else None
        return {
            "rows": shown_rows(ranked.head(self.limit), df, self.id_column, [*columns, *shown], missing),
            "total": len(ranked),
            "id_column": self.id_column,
            "label_column": label,
            "classes": self._classes(df),
            **more,
        }

    def _classes(self, df: DataFrame) -> list[Any]:
        """List the labels of the table for the menu of the page; none if they are not classes."""
        label = self.model.label_column
        if self.model.task.kind not in {"binary", "multiclass"} or label not in df.columns:
            return []
        labels = df.select(quoted(label)).distinct().limit(_MOST_CLASSES + 1).collect()
        values = sorted({row[0] for row in labels if row[0] is not None}) if len(labels) <= _MOST_CLASSES else []
        return [json_value(each) for each in values]


def _label_errors(document: Mapping[str, Any], context: RequestContext) -> dict[str, Any]:
    """Rank rows by out-of-sample probabilities; a table that is held out is scored by the model itself."""
    asked = _Question(document, context)
    df, ident = asked.table(), asked.id_column
    if document.get("held_out"):
        asked.working("Scoring the rows")
        ranked = find_label_errors(asked.model, df, id_column=ident)
    else:
        folds, trial = document.get("folds") or 4, asked.trial()
        asked.working(f"Training {folds} networks, each without a part of the rows")
        epochs = document.get("epochs") or max(1, trial.epoch)
        search = asked.entry().search
        ranked = find_label_errors(search, df, id_column=ident, params=trial.params, num_epochs=epochs, folds=folds)
    return asked.rows(ranked, df, errors=int(ranked["is_error"].sum()))


def _slices(document: Mapping[str, Any], context: RequestContext) -> dict[str, Any]:
    asked = _Question(document, context)
    asked.working("Searching the slices")
    worst = find_slices(asked.model, asked.table(), asked.names("columns"), k=min(asked.limit, 100))
    rows = [{name: json_value(value) for name, value in each.items()} for each in worst.to_dict("records")]
    return {"rows": rows, "total": len(rows)}


def _influence(document: Mapping[str, Any], context: RequestContext) -> dict[str, Any]:
    """Find the training rows that led to the predictions for some rows of the same table, or of ``target_table``."""
    asked = _Question(document, context)
    targets = document.get("targets")
    if not isinstance(targets, list) or not 0 < len(targets) <= _MOST_ROWS:
        raise InvalidArgumentError(f"targets must be a list of 1 to {_MOST_ROWS} ids, got {targets!r}. Name a row")
    df, ident = asked.table(), asked.id_column
    others = asked.table("target_table") if document.get("target_table") else df
    check_present(others, [ident], "target_table")
    chosen = others.where(F.col(quoted(ident)).cast("string").isin([str(each) for each in targets]))
    asked.working("Computing gradients at the kept states")
    k = max(1, asked.limit // (2 * len(targets)))
    ranked = find_influential_rows(asked.selection(), df, chosen, id_column=ident, trial_id=asked.trial().trial_id, k=k)
    return asked.rows(ranked.rename(columns={"influence": "score"}), df)


def _near_duplicates(document: Mapping[str, Any], context: RequestContext) -> dict[str, Any]:
    asked = _Question(document, context)
    df = asked.table()
    asked.working("Comparing the rows")
    ranked = find_near_duplicates(asked.names("columns") or asked.model, df, id_column=asked.id_column)
    return asked.rows(ranked, df, errors=int(ranked["is_near_duplicate"].sum()))


def _outliers(document: Mapping[str, Any], context: RequestContext) -> dict[str, Any]:
    asked = _Question(document, context)
    df = asked.table()
    asked.working("Comparing the rows")
    ranked = find_outliers(asked.names("columns") or asked.model, df, id_column=asked.id_column)
    return asked.rows(ranked, df, errors=int(ranked["is_outlier"].sum()))


def _leaks(document: Mapping[str, Any], context: RequestContext) -> dict[str, Any]:
    asked = _Question(document, context)
    held_out = asked.table("held_out_table")
    asked.working("Comparing the tables")
    features = asked.names("columns") or asked.model
    ranked = find_leaks(features, asked.table(), held_out, id_column=asked.id_column)
    return asked.rows(ranked, held_out, errors=int(ranked["is_leak"].sum()))


def _comparison(document: Mapping[str, Any], context: RequestContext) -> dict[str, Any]:
    """Compare the best model of another search with that of this one on held-out rows."""
    asked = _Question(document, context)
    first = asked.selection("other").model(asked.trial("other", "other_trial").trial_id)
    df = asked.table("held_out_table")
    asked.working("Scoring the rows with both models")
    compared = compare_models(first, asked.model, df)
    facts = {name: json_value(value) for name, value in asdict(compared).items()}
    return {**facts, "is_significant": compared.is_significant, "text": compared.explain()}


LABEL_ERRORS = RequestHandler("label_errors", _label_errors)
SLICES = RequestHandler("slices", _slices)
INFLUENCE = RequestHandler("influence", _influence)
NEAR_DUPLICATES = RequestHandler("near_duplicates", _near_duplicates)
OUTLIERS = RequestHandler("outliers", _outliers)
LEAKS = RequestHandler("leaks", _leaks)
COMPARISON = RequestHandler("comparison", _comparison)
