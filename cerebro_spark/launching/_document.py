"""Launch document: a search as plain data, validated before Spark is used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cerebro_spark.tune import PROCEDURES
from optimizer.arguments import choice_error
from optimizer.errors import InvalidArgumentError, nearest
from udfs.names import check_name

__all__ = ["LaunchDocument", "columns_of"]

_FIELDS = (
    *("run", "description", "procedure", "table", "table_format", "feature_columns", "label_columns", "source"),
    *("search_space", "settings"),
)
_LONGEST_DESCRIPTION = 1000
_LONGEST_TABLE = 2000


@dataclass(frozen=True, slots=True)
class LaunchDocument:
    """Search that a user describes.

    Parameters
    ----------
    run : str
        Name of the run; ``""`` for a plan.
    description : str
        Description by the user; ``""`` for none.
    procedure : str
        Key of :data:`cerebro_spark.tune.PROCEDURES`.
    table : str
        Path or URI; ``""`` for a drill-down, which uses the shards of its parent.
    table_format : str or None
        Reader of the table; None for the one that its ending names.
    feature_columns : list of str, or dict of str to list of str
        Columns that the model reads; empty for those of the source.
    label_columns : list of str
        Columns that the model predicts; empty for those of the source.
    source : dict
        ``{"builtin": ...}``, ``{"script": ...}`` or ``{"run": ...}``.
    search_space : dict
        Typed domains by name; empty for those of the source.
    settings : dict
        Settings of the search.

    Examples
    --------
    >>> document = LaunchDocument.read(
    ...     {"run": "narrow", "procedure": "asha", "source": {"run": "adult"}, "settings": {"max_epochs": 9}}
    ... )
    >>> document.parent, document.table
    ('adult', '')
    """

    run: str
    description: str
    procedure: str
    table: str
    table_format: str | None
    feature_columns: Any
    label_columns: list[str]
    source: dict[str, Any]
    search_space: dict[str, Any]
    settings: dict[str, Any]

    @classmethod
    def read(cls, document: Mapping[str, Any], *, needs_run: bool = True) -> LaunchDocument:
        """Validate a document.

        Raises
        ------
        InvalidArgumentError
            A field is unknown, missing or of a wrong type.
        """
        for name in document:
            if name not in _FIELDS:
                raise InvalidArgumentError(
                    f"launch must have fields of {', '.join(_FIELDS)}, got {name!r}{nearest(name, _FIELDS) or '.'}"
                )
        run = _text(document, "run", 128)
        if run or needs_run:
            check_name(run, "a run")
        procedure = document.get("procedure") or "grid"
        if not isinstance(procedure, str) or procedure not in PROCEDURES:
            raise InvalidArgumentError(choice_error("procedure", procedure, PROCEDURES))
        source = _mapping(document, "source")
        if len(set(source) & {"builtin", "script", "run"}) != 1:
            raise InvalidArgumentError(f"source must have one of builtin, script and run, got {source!r}.")
        table = _text(document, "table", _LONGEST_TABLE)
        if not table and "run" not in source:
            raise InvalidArgumentError("table must be the path of a table, got none.")
        return cls(
            run=run,
            description=_text(document, "description", _LONGEST_DESCRIPTION),
            procedure=str(procedure),
            table=table,
            table_format=_text(document, "table_format", 100) or None,
            feature_columns=_features(document),
            label_columns=_names(document.get("label_columns") or [], "label_columns"),
            source=source,
            search_space=_mapping(document, "search_space"),
            settings={name: value for name, value in _mapping(document, "settings").items() if value is not None},
        )

    @property
    def parent(self) -> str:
        """Run that a drill-down continues to explore; ``""`` for another search."""
        return str(self.source.get("run") or "")


def columns_of(features: Any) -> list[str]:
    """List the columns of all inputs.

    Examples
    --------
    >>> columns_of({"numbers": ["age", "hours"], "words": ["town"]}), columns_of(["age"])
    (['age', 'hours', 'town'], ['age'])
    """
    groups = features.values() if isinstance(features, Mapping) else [features]
    return [name for group in groups for name in group]


def _text(document: Mapping[str, Any], name: str, longest: int) -> str:
    value = document.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > longest:
        raise InvalidArgumentError(f"{name} must be a text of at most {longest} characters, got {str(value)[:200]!r}.")
    return value.strip()


def _mapping(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = document.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidArgumentError(f"{name} must be an object, got {str(value)[:200]!r}.")
    return dict(value)


def _names(value: Any, name: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
        raise InvalidArgumentError(f"{name} must be a list of column names, got {str(value)[:200]!r}.")
    return list(value)


def _features(document: Mapping[str, Any]) -> Any:
    value = document.get("feature_columns") or []
    if isinstance(value, Mapping):
        return {str(name): _names(each, f"feature_columns[{name!r}]") for name, each in value.items()}
    return _names(value, "feature_columns")
