"""Spaces as values and as plain data, and search spaces that are none."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from spaces import LR_BATCH_NET, few, search_spaces, spaces

import optimizer.space
from optimizer.space import Space, SpaceError, choice, integer, log_integer, log_uniform, uniform


@few
@given(spaces())
def test_a_document_survives_json(space: Space) -> None:
    again = Space.of(json.loads(json.dumps(space.document())))
    assert again == space
    assert hash(again) == hash(space)
    assert again.fingerprint == space.fingerprint
    assert str(again) == str(space)
    assert again.sample(1, 2) == space.sample(1, 2)


@few
@given(search_spaces())
def test_the_representation_is_python(search_space: dict[str, Any]) -> None:
    space = Space(search_space)
    assert eval(repr(space), vars(optimizer.space).copy()) == space  # of our own text
    assert pickle.loads(pickle.dumps(space)) == space  # of our own bytes


EVERY_KIND: dict[str, Any] = {
    "net": choice({"cnn": {"channels": [16, 32]}, "linear": {}}, where={"deep": True}),
    "optim": {"lr": log_uniform(1e-5, 1e-1), "m": uniform(0, 1, step=0.5, where={"n": [4, 8], "deep": False})},
    "n": integer(4, 8, step=4),
    "deep": [True, False],
    "seed": 7,
}
EXPLAINED = """\
net                choice 'cnn', 'linear' where deep = True
net[cnn].channels  choice 16, 32 where net = 'cnn'
optim.lr           log_uniform 1e-05 .. 0.1
optim.m            uniform 0.0 .. 1.0 step 0.5 where n in 4, 8 and deep = False
n                  integer 4 .. 8 step 4
deep               choice True, False
seed               always 7
where _anything(...)"""


def test_every_kind_is_in_the_document() -> None:
    space = Space(EVERY_KIND)
    assert Space.of(json.loads(json.dumps(space.document(), sort_keys=True))) == space


def test_a_space_explains_itself() -> None:
    assert str(Space(EVERY_KIND, where=_anything)) == EXPLAINED


def _anything(params: dict[str, Any]) -> bool:
    return bool(params)


def test_dimensions_have_what_a_sampler_asks_for() -> None:
    lr, batch, net, channels, units = LR_BATCH_NET.dimensions
    assert (lr.path, lr.kind, lr.low, lr.high, lr.log, lr.integral, lr.step, lr.choices, lr.count) == (
        ("lr", "log_uniform", 1e-5, 1e-1, True, False, None, None, None)
    )
    assert (batch.kind, batch.choices, batch.count, batch.low, batch.parent) == ("choice", (32, 128), 2, None, None)
    assert (net.choices, net.condition) == (("cnn", "lstm"), {})
    assert (channels.path, channels.name, channels.parent) == ("net[cnn].channels", "channels", ("net", "cnn"))
    assert (units.kind, units.low, units.high, units.integral, units.count) == ("log_integer", 32, 256, True, 225)
    stepped, conditional = Space({"a": uniform(0, 1, step=0.3), "b": choice([1], where={"a": 0.3})}).dimensions
    assert (stepped.step, stepped.count) == (0.3, 4)
    assert conditional.condition == {"a": (0.3,)}


def test_spaces_differ_by_all_that_a_configuration_may() -> None:
    different = [
        {"a": [1, 2]},
        {"a": [2, 1]},
        {"a": [1.0, 2]},
        {"a": [True, 2]},
        {"a": integer(1, 2)},
        {"a": log_integer(1, 2)},
        {"a": uniform(1, 2)},
        {"a": uniform(1, 2, step=1)},
        {"b": [1, 2]},
        {"a": [1, 2], "b": 1},
        {"a": [1, 2], "b": [1]},
        {"a": [1, 2], "b": choice([1], where={"a": 1})},
        {"b": [1], "a": [1, 2]},
        {"a": {"a": [1, 2]}},
    ]
    made = [Space(search_space) for search_space in different]
    assert len(set(made)) == len({space.fingerprint for space in made}) == len(different)
    assert Space({"a": [1, 2]}) == Space({"a": choice((1, 2))}) != "a"
    assert Space({"a": 1}, where=_anything) == Space({"a": 1}, where=_anything) != Space({"a": 1})


def test_values_of_numpy_are_plain() -> None:
    space = Space(
        {"a": list(np.array([1, 2])), "b": np.array([0.5, 1.5]), "c": np.float32(0.5), "d": integer(np.int8(1), 3)}
    )
    assert space == Space({"a": [1, 2], "b": [0.5, 1.5], "c": 0.5, "d": integer(1, 3)})


def test_a_mapping_that_changes_later_changes_no_space() -> None:
    search_space: dict[str, Any] = {"a": [1, 2], "b": {"c": [1]}}
    space = Space(search_space)
    before = space.fingerprint
    search_space["a"].append(3)
    search_space["b"]["d"] = 1
    space.document()["entries"].clear()
    space.sample(0, 0)["b"].clear()
    assert space.fingerprint == before


@pytest.mark.parametrize(
    "space",
    [
        Space({"a": [1], "b": uniform(0, 1, where=_anything)}),
        Space({"net": choice({"x": {"b": uniform(0, 1, where=_anything)}})}),
        Space({"a": [1]}, where=_anything),
    ],
)
def test_a_function_is_in_no_document(space: Space) -> None:
    for ask in (space.document, lambda: space.fingerprint):
        with pytest.raises(SpaceError, match=r"for a document, .*got a function"):
            ask()


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["version"], 2, "version of the document must be 1, got 2"),
        (["more"], 1, r"document must have the keys version and entries, got \{'version': 1,"),
        (["entries"], {}, r"entries must be a list, got \{\}"),
        (["entries"], [], "search_space must be a mapping of names to domains, got"),
        (
            ["entries", 0, "kind"],
            "normal",
            "kind of an entry must be one of uniform, log_uniform, integer, log_integer,",
        ),
        (
            ["entries", 0, "kind"],
            ["uniform"],
            "kind of an entry must be one of uniform, log_uniform, integer, log_integer,",
        ),
        (["entries", 0], "lr", "kind of an entry must be one of uniform, log_uniform, integer, log_integer,"),
        (["entries", 0, "name"], 5, "name of an entry must be a string that occurs once, got 5"),
        (["entries", 0, "name"], "batch", "name of an entry must be a string that occurs once, got 'batch'"),
        (["entries", 0, "low"], -1, r"low must be above 0 for log_uniform, got -1\.0: bounds are values, not"),
        (["entries", 0, "low"], float("nan"), "must be finite"),
        (["entries", 0, "high"], 10**400, "must be within the range of floats"),
        (["entries", 0, "steps"], 1, r"an entry must have high, low and optionally where, got \{'name': 'lr', 'kind':"),
        (["entries", 0, "where"], "function", "where must be a mapping of names to values, got 'function'"),
        (
            ["entries", 0, "where"],
            {"nothing": [1]},
            "where of lr must have names of dimensions, lr, batch, net, channels, units,",
        ),
        (["entries", 1, "options"], "ab", "options must be a list, got 'ab'"),
        (["entries", 1, "options"], [1, 1], "options must differ, got 1 twice"),
        (["entries", 2, "branches", 0], "cnn", "an entry must have entries, got 'cnn'"),
        (
            ["entries", 2, "branches", 0, "name"],
            "lstm",
            "name of an entry must be a string that occurs once, got 'lstm'",
        ),
        (
            ["entries", 2, "branches", 0, "entries", 0, "name"],
            "lr",
            "names must differ from those of branches in the same mapping, got 'lr' twice:",
        ),
        (["entries", 1], {"name": "batch", "kind": "constant", "value": [1, 2]}, "which is not plain"),
    ],
)
def test_a_document_that_describes_no_space(path: list[Any], value: Any, message: str) -> None:
    document = copy.deepcopy(LR_BATCH_NET.document())
    inner: Any = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(SpaceError, match=message):
        Space.of(document)


def test_a_document_of_a_thousand_levels_is_an_error_of_ours() -> None:
    entry: dict[str, Any] = {"name": "a", "kind": "constant", "value": 1}
    for _ in range(2000):
        entry = {"name": "a", "kind": "mapping", "entries": [entry]}
    with pytest.raises(SpaceError, match="document must be nested less deeply than Python's recursion limit"):
        Space.of({"version": 1, "entries": [entry]})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: uniform(1, 0), r"low must be less than high for uniform, got 1\.0 and 0\.0"),
        (lambda: integer(8, 1), "low must be less than high for"),
        (lambda: log_uniform(1e-1, 1e-5), "low must be less than high for"),
        (lambda: log_integer(9, 1), "low must be less than high for"),
        (lambda: uniform(1, 1), r"low must be less than high for uniform, got 1\.0 for both: use the value as a"),
        (lambda: integer(3, 3), "low must be less than high for integer, got 3 for both: use the value as a"),
        (lambda: log_uniform(0, 1), r"low must be above 0 for log_uniform, got 0\.0: bounds are values, not exponents"),
        (lambda: log_uniform(-5, -1), "values, not exponents"),
        (lambda: log_integer(0, 8), "low must be at least 1 for log_integer, got 0"),
        (lambda: uniform(0, float("inf")), "high of uniform must be finite, since it is written as JSON, got inf"),
        (
            lambda: log_uniform(float("nan"), 1),
            "low of log_uniform must be finite, since it is written as JSON, got nan",
        ),
        (lambda: uniform(False, 1), "low of uniform must be a number, got False"),
        (lambda: integer(0, True), "high of integer must be an integer, got True"),
        (lambda: uniform("0", 1), "low of uniform must be a number, got '0'"),  # type: ignore[arg-type]
        (lambda: log_uniform(None, 1), "low of log_uniform must be a number, got None"),  # type: ignore[arg-type]
        (lambda: integer(0.0, 8), r"low of integer must be an integer, got 0\.0"),  # type: ignore[arg-type]
        (lambda: integer(0, 2**60), "at most 2"),
        (lambda: integer(-(2**60), 0), "at least"),
        (lambda: uniform(0, 10**400), "must be within the range of floats"),
        (
            lambda: uniform(0, 1, step=2),
            r"step of uniform\(0\.0, 1\.0\) must be at most the width of the range, got 2\.0",
        ),
        (lambda: uniform(0, 1, step=0), r"step of uniform\(0\.0, 1\.0\) must be above 0, got 0\.0"),
        (lambda: uniform(0, 1, step=-0.1), "above 0"),
        (
            lambda: uniform(0, 1, step=1e-300),
            r"step of uniform\(0\.0, 1\.0\) must divide it into at most 2\*\*53 values, got",
        ),
        (
            lambda: uniform(0, 1, step=float("nan")),
            "step of uniform must be finite, since it is written as JSON, got nan",
        ),
        (lambda: integer(0, 8, 9), r"step of integer\(0, 8\) must be at most the width of the range, got 9"),
        (lambda: integer(0, 8, 0), r"step of integer\(0, 8\) must be above 0, got 0"),
        (lambda: integer(0, 8, 0.5), r"step of integer must be an integer, got 0\.5"),  # type: ignore[arg-type]
        (lambda: choice([]), r"options must have at least one value, got \[\]"),
        (lambda: choice({}), r"options must have at least one branch, got \{\}"),
        (lambda: choice("abc"), "options must be a list of values or a mapping of branches, got"),
        (lambda: choice(5), "options must be a list of values or a mapping of branches, got"),  # type: ignore[arg-type]
        (lambda: choice({1, 2}), "options must be a list of values or a mapping of branches, got"),  # type: ignore[arg-type]
        (lambda: choice([1, 2, 1]), "options must differ, got 1 twice"),
        (lambda: choice([1, 1.0]), r"options must differ, got 1\.0 twice"),
        (lambda: choice([None, None]), "options must differ, got None twice"),
        (
            lambda: choice([[32], [64]]),
            r"option 0 must be a string, number, boolean or None, got \[32\] of type list\.",
        ),  # type: ignore[list-item]
        (lambda: choice([1, {2}]), r"option 1 must be a string, number, boolean or None, got \{2\} of type set\."),  # type: ignore[list-item]
        (lambda: choice([int, float]), "option 0 must be a string, number, boolean or None,"),  # type: ignore[list-item]
        (lambda: choice([b"raw"]), r"option 0 must be a string, number, boolean or None, got b'raw' of type bytes\."),  # type: ignore[list-item]
        (lambda: choice([float("inf")]), "must be finite"),
        (
            lambda: choice(np.zeros((2, 2))),
            r"option 0 must be a string, number, boolean or None, got array\(\[0\., 0\.\]\) of",
        ),
        (lambda: choice({"a": 5}), r"branch 'a' must be a mapping, \{\} without dimensions, got 5"),  # type: ignore[dict-item]
        (lambda: choice({1: {}}), "name of a branch must be a string without brackets, got 1: for other values"),  # type: ignore[dict-item]
        (lambda: choice({"a]": {}}), "a string without brackets"),
        (lambda: Space({}), "search_space must be a mapping of names to domains, got"),
        (lambda: Space([("a", 1)]), "search_space must be a mapping of names to domains, got"),  # type: ignore[arg-type]
        (lambda: Space({"a": {}}), r"a must have at least one entry, got \{\}: leave it out"),
        (lambda: Space({"a.b": [1]}), r"name of a dimension must be a string without dots and brackets, got 'a\.b':"),
        (lambda: Space({"": [1]}), "name of a dimension must be a string without dots and brackets, got '': use a"),
        (lambda: Space({1: [1]}), "name of a dimension must be a string without dots and brackets, got 1: use a"),  # type: ignore[dict-item]
        (lambda: Space({"a": []}), r"a: options must have at least one value, got \[\]"),
        (lambda: Space({"a": object()}), "a must be a string, number, boolean or None,"),
        (lambda: Space({"a": float("-inf")}), "a must be finite, since it is written as JSON, got -inf"),
        (
            lambda: Space({"net": choice({"x": {"lr": [1]}}), "lr": [1]}),
            "names must differ from those of branches in the same mapping, got 'lr' twice:",
        ),
        (
            lambda: Space({"lr": {"x": [1]}, "net": choice({"x": {"lr": [1]}})}),
            "names must differ from those of branches in the same mapping, got 'lr' twice:",
        ),
        (
            lambda: Space({"net": choice({"x": {"net": [1]}})}),
            "name of a choice must differ from the names of its branches, got 'net':",
        ),
        (
            lambda: Space({"a": choice({"x": {"w": [1]}}), "b": choice({"x": {"w": [1]}})}),
            "names must differ from those of branches in the same mapping, got 'w' twice:",
        ),
        (
            lambda: Space({"a": choice({"x": {"b": choice({"y": {"a": [1]}})}})}),
            "name of a choice must differ from the names of its branches, got 'a': rename",
        ),
    ],
)
def test_a_search_space_that_is_none(make: Any, message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        make()


def test_branches_of_one_choice_may_share_a_name() -> None:
    space = Space({"net": choice({"a": {"width": [1]}, "b": {"width": {"in": [2]}}})})
    assert space.grid() == [{"net": "a", "width": 1}, {"net": "b", "width": {"in": 2}}]
