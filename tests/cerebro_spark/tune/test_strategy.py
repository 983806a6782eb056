"""A search of the user's own: settings of Search, and a strategy that makes its procedure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from cerebro_spark import PBT, Search, SparkBackend, Store, Strategy
from cerebro_spark.errors import InvalidArgumentError
from optimizer.procedures import Listed

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(kw_only=True, eq=False)
class Pair(Search):
    epochs: int

    @property
    def strategy(self) -> Strategy:
        configurations = [{"lr": 0.1}, {"lr": 0.01}]
        return Strategy(partial(Listed, configurations, epochs=self.epochs), lambda: configurations)


def settings(folder: Path) -> dict[str, Any]:
    absent: Any = None
    return {
        "backend": SparkBackend(absent, num_workers=2),
        "store": Store.from_uri(str(folder)),
        "trainer_fn": lambda params: params,
        "feature_columns": ["x"],
        "label_columns": ["y"],
    }


def test_a_strategy_makes_a_new_procedure_with_the_limits_of_the_search(tmp_path: Path) -> None:
    search = Pair(**settings(tmp_path), epochs=3, max_total_epochs=4)
    first, second = search.procedure(), search.procedure()
    assert first is not second
    assert first.limits.max_total_epochs == 4
    assert (search.plan().configurations, search.plan().epochs_each, search.sample()) == (2, 3, {"lr": 0.1})
    search.epochs = 5
    assert search.plan().epochs_each == 5, "settings may change until the search runs"


def test_searches_that_draw_configurations_themselves_refuse_a_sampler(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="no parameter 'sampler'"):
        PBT(**settings(tmp_path), search_space={"lr": 0.1}, population=2, num_epochs=1, sampler="tpe")  # type: ignore[call-arg]
