"""Configurations as plain data: equal values and types on the driver, in the log and after it was read."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from optimizer.errors import InvalidArgumentError
from optimizer.procedures import (
    Added,
    Listed,
    Schedule,
    Segment,
    Start,
    decision_document,
    plain,
    read_decision,
    read_params,
    read_result,
    result_document,
    written_params,
)

PARAMS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"h": np.int64(3)}, {"h": 3}),
    ({"lr": np.float32(0.1)}, {"lr": float(np.float32(0.1))}),
    ({"lr": np.float64(0.1)}, {"lr": 0.1}),
    ({"on": np.bool_(True), "name": np.str_("a")}, {"on": True, "name": "a"}),
    ({"k": (3, (5, 5), [1, (2,)])}, {"k": (3, (5, 5), [1, (2,)])}),
    ({"k": [(np.int8(1), None)], "empty": ()}, {"k": [(1, None)], "empty": ()}),
    ({"net": {"widths": (8, np.int32(4))}}, {"net": {"widths": (8, 4)}}),
]


def same(found: Any, expected: Any) -> bool:
    """Compare values and their types."""
    return repr(found) == repr(expected)


@pytest.mark.parametrize(("params", "expected"), PARAMS)
def test_values_and_types_survive_every_way(params: dict[str, Any], expected: dict[str, Any]) -> None:
    found = plain(params)
    assert same(found, expected)
    assert same(read_params(json.loads(json.dumps(written_params(found)))), expected)
    started = read_decision(json.loads(json.dumps(decision_document(Start("c0", params, 1)))))
    added = read_result(json.loads(json.dumps(result_document(Added(params, 1)))))
    (segment,) = Schedule.of(json.loads(json.dumps(Schedule((Segment(params, 2),)).document()))).segments
    procedure = Listed([params], epochs=1)
    procedure.ask([], idle=1)
    for other in (started.params, added.params, segment.params, procedure.ledger["c000"].params):  # type: ignore[union-attr]
        assert same(dict(other), expected)


BAD = [np.arange(2), np.array(3), {1, 2}, float("inf"), np.float32("nan"), object(), {1: 2}, {"$tuple": [1]}, b"a"]


@pytest.mark.parametrize("value", BAD)
def test_others_are_refused_by_name(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"must be plain data .*, got width="):
        plain({"width": value})
    with pytest.raises(InvalidArgumentError, match=r"got width="):
        plain({"width": [(value,)]})
