"""``help()`` of a search describes every parameter, the common ones and its own."""

from __future__ import annotations

import inspect
import re

import pytest

import cerebro_spark

SEARCHES = [
    each
    for each in [getattr(cerebro_spark, name) for name in cerebro_spark.__all__]
    if isinstance(each, type) and issubclass(each, cerebro_spark.Search) and each is not cerebro_spark.Search
]


@pytest.mark.parametrize("search", SEARCHES, ids=lambda each: each.__name__)
def test_every_parameter_is_described_where_the_class_is(search: type) -> None:
    text = inspect.getdoc(search) or ""
    section = text.partition("\nParameters\n")[2].partition("\nRaises\n")[0]
    entries = re.findall(r"^(\w+(?:, \w+)*) : .*\n    \S", section, re.MULTILINE)
    described = [name.strip() for entry in entries for name in entry.split(",")]
    assert set(inspect.signature(search).parameters) <= set(described)
    assert len(described) == len(set(described)), "each is described once"
    assert text.count("\nParameters\n") == text.count("\nRaises\n") == 1
    assert text.index("\nParameters\n") < text.index("\nRaises\n")


def test_there_are_searches() -> None:
    assert len(SEARCHES) >= 8
