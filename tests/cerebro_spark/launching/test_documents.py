"""Launch documents: everything that is wrong with one is told before Spark is used."""

from __future__ import annotations

from typing import Any

import pytest

from cerebro_spark.launching._document import LaunchDocument
from cerebro_spark.launching._spaces import search_space
from optimizer.errors import InvalidArgumentError
from optimizer.space import Space, integer, log_uniform, uniform

LAUNCH = {"run": "adult", "table": "t.parquet", "source": {"builtin": "resnet50"}, "label_columns": ["label"]}
RATE = {"kind": "loguniform", "low": 1e-4, "high": 1e-1}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"run": ""}, "the name of a run"),
        ({"run": "../adult"}, "the name of a run"),
        ({"procedure": "grit"}, "procedure must be one of grid, .*, got 'grit'; did you mean 'grid'"),
        ({"procedure": ["grid"]}, "procedure must be"),
        ({"source": {}}, "source must have one of builtin, script and run"),
        ({"source": {"builtin": "x", "run": "y"}}, "source must have one of"),
        ({"source": "resnet50"}, "source must be an object"),
        ({"table": ""}, "table must be the path of a table, got none"),
        ({"table": 7}, "table must be a text"),
        ({"description": "x" * 1001}, "description must be a text of at most 1000"),
        ({"label_columns": "label"}, "label_columns must be a list of column names"),
        ({"feature_columns": {"a": [1]}}, r"feature_columns\['a'\] must be a list"),
        ({"settings": [1]}, "settings must be an object"),
        ({"epoch": 3}, "launch must have fields of run, .*, got 'epoch'"),
    ],
)
def test_a_wrong_field_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        LaunchDocument.read({**LAUNCH, **changes})


def test_missing_fields_have_defaults() -> None:
    read = LaunchDocument.read({**LAUNCH, "run": "", "settings": {"seed": None, "eta": 3}}, needs_run=False)
    assert (read.procedure, read.settings, read.feature_columns, read.parent) == ("grid", {"eta": 3}, [], "")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"kind": "normal"}, r"search_space\['lr'\] must have a kind of loguniform, uniform, int, choice, fixed"),
        ({"kind": ["uniform"]}, "must have a kind"),
        (0.1, "must have a kind"),
        ({"kind": "loguniform", "low": 1e-4}, r"\['lr'\] of kind loguniform must have high, low, got"),
        ({**RATE, "step": 2}, "must have high, low, got"),
        ({"kind": "uniform", "low": 1, "high": 0}, r"\['lr'\] must be a valid domain"),
        ({"kind": "loguniform", "low": 0, "high": 1}, "must be a valid domain"),
        ({"kind": "int", "low": "1", "high": 3}, "must be a valid domain"),
        ({"kind": "choice", "values": []}, "must be a valid domain"),
        ({"kind": "choice", "values": 3}, "must be a valid domain"),
        ({"kind": "fixed"}, "must have value"),
    ],
)
def test_a_wrong_domain_is_named(entry: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        search_space({"lr": entry}, {"lr": [0.1]})


def test_domains_replace_those_of_the_source() -> None:
    default = {"lr": log_uniform(1e-5, 1), "hidden": [8, 16], "drop": 0.1}
    space = search_space(
        {"lr": RATE, "hidden": {"kind": "int", "low": 8, "high": 32, "step": 8, "values": None}}, default
    )
    assert space == Space({"lr": log_uniform(1e-4, 1e-1), "hidden": integer(8, 32, step=8), "drop": 0.1})
    fixed = search_space({"drop": {"kind": "fixed", "value": 0.5}, "lr": {"kind": "choice", "values": [1, 2]}}, default)
    assert fixed.sample(0, 0)["drop"] == 0.5
    # A drill-down of this search narrows its space again.
    assert search_space({"lr": {"kind": "fixed", "value": 1}}, fixed) == Space(
        {"lr": 1, "hidden": [8, 16], "drop": 0.5}
    )
    assert search_space({}, default) is default


def test_a_domain_of_no_hyperparameter_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"hyperparameters of the model \(lr, hidden\), got 'hiden'; did"):
        search_space({"hiden": RATE}, {"lr": [1], "hidden": [2]})
    for default in ([{"lr": 0.1, "hidden": 8}], Space({"lr": uniform(0, 1), "hidden": {"size": [8, 16]}})):
        with pytest.raises(InvalidArgumentError, match="must have all hyperparameters of the model, got no hidden"):
            search_space({"lr": RATE}, default)
    assert search_space({"lr": RATE}, [{"lr": 0.1}]) == Space({"lr": log_uniform(1e-4, 1e-1)})
