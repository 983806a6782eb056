"""A wrong keyword is refused with a hint at the right one."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from pyspark import keyword_only

from optimizer.errors import InvalidArgumentError
from udfs.driver import UnknownKeywordError, validate_arguments

if TYPE_CHECKING:
    from collections.abc import Callable


@validate_arguments
def prepared(rows: int, *, num_shards: int = 1, test_fraction: float = 0.25) -> tuple[int, int, float]:
    return rows, num_shards, test_fraction


@validate_arguments
@dataclass(frozen=True, kw_only=True)
class Search:
    metric: str = "loss"
    num_shards: int = 1


@validate_arguments
class Stage:
    @keyword_only
    def __init__(self, *, imageAggregation: str = "mean", partitions: int = 1) -> None:
        self.image_aggregation, self.partitions = imageAggregation, partitions

    @keyword_only
    def setParams(self, **params: object) -> object:
        return params


def test_right_keywords_arrive() -> None:
    assert prepared(3, test_fraction=0.5) == (3, 1, 0.5)
    assert Search(metric="auc") == Search(metric="auc", num_shards=1)
    assert Stage(imageAggregation="max").image_aggregation == "max"
    assert Stage().setParams(partitions=4) == {"partitions": 4}
    assert Stage(partitions=4).partitions == 4, "a former name of another function is a keyword of its own here"
    assert list(inspect.signature(Search).parameters) == ["metric", "num_shards"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Search(evaluation_metric="auc"), r"Search\(\) has no parameter 'evaluation_metric'.* mean 'metric'"),  # type: ignore[call-arg]
        (lambda: Search(partitions=2), "'partitions'; did you mean 'num_shards'"),  # type: ignore[call-arg]
        (lambda: prepared(3, num_partitions=2), "'num_partitions'; did you mean 'num_shards'"),  # type: ignore[call-arg]
        (lambda: prepared(3, validation=0), "'validation'; did you mean 'test_fraction'"),  # type: ignore[call-arg]
        (lambda: prepared(3, tset_fraction=0), "'tset_fraction'; did you mean 'test_fraction'"),  # type: ignore[call-arg]
        (lambda: Stage(several="max"), "'several'; did you mean 'imageAggregation'"),  # type: ignore[call-arg]
        (lambda: Stage().setParams(several="max"), r"Stage.setParams\(\) .*'several'; did you mean 'imageAggregation'"),
        (lambda: Search(zzz=1), "has no parameter 'zzz'$"),  # type: ignore[call-arg]
    ],
)
def test_wrong_keywords_are_hinted_at(call: Callable[[], object], message: str) -> None:
    with pytest.raises(UnknownKeywordError, match=message) as caught:
        call()
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, InvalidArgumentError)
