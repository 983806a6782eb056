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
        with pytest.raises(
            SpaceError, match=r"is a function|has a function for its where=, which no document can hold"
        ):
            ask()


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["version"], 2, "is of version 2, and this one is 1"),
        (["more"], 1, "has the keys version and entries, and no other"),
        (["entries"], {}, "entries={}: a list"),
        (["entries"], [], "give a mapping of names to domains"),
        (["entries", 0, "kind"], "normal", "its kind is one of uniform, "),
        (["entries", 0, "kind"], ["uniform"], "its kind is one of"),
        (["entries", 0], "lr", "its kind is one of"),
        (["entries", 0, "name"], 5, "the name 5"),
        (["entries", 0, "name"], "batch", "the name 'batch' twice"),
        (["entries", 0, "low"], -1, "needs bounds above 0"),
        (["entries", 0, "low"], float("nan"), "not finite"),
        (["entries", 0, "high"], 10**400, "larger than any float"),
        (["entries", 0, "steps"], 1, "needs high, low, and may have where"),
        (["entries", 0, "where"], "function", "where='function': a mapping"),
        (["entries", 0, "where"], {"nothing": [1]}, "no dimension has this name"),
        (["entries", 1, "options"], "ab", "options='ab': a list"),
        (["entries", 1, "options"], [1, 1], "the option 1 is there twice"),
        (["entries", 2, "branches", 0], "cnn", "it needs entries"),
        (["entries", 2, "branches", 0, "name"], "lstm", "the name 'lstm' twice"),
        (["entries", 2, "branches", 0, "entries", 0, "name"], "lr", "the name 'lr' is there twice"),
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
    with pytest.raises(SpaceError, match="nested too deeply"):
        Space.of({"version": 1, "entries": [entry]})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: uniform(1, 0), r"uniform\(1.0, 0.0\): the bounds are reversed"),
        (lambda: integer(8, 1), "reversed"),
        (lambda: log_uniform(1e-1, 1e-5), "reversed"),
        (lambda: log_integer(9, 1), "reversed"),
        (lambda: uniform(1, 1), "the bounds are equal, give 1.0 itself"),
        (lambda: integer(3, 3), "equal"),
        (lambda: log_uniform(0, 1), "low=0.0: a logarithm needs bounds above 0"),
        (lambda: log_uniform(-5, -1), "values, not exponents"),
        (lambda: log_integer(0, 8), "bounds of 1 or more"),
        (lambda: uniform(0, float("inf")), "uniform: high=inf is not finite"),
        (lambda: log_uniform(float("nan"), 1), "log_uniform: low=nan is not finite"),
        (lambda: uniform(False, 1), "uniform: low=False: give a number"),
        (lambda: integer(0, True), "integer: high=True: give a whole number"),
        (lambda: uniform("0", 1), "low='0': give a number"),  # type: ignore[arg-type]
        (lambda: log_uniform(None, 1), "low=None"),  # type: ignore[arg-type]
        (lambda: integer(0.0, 8), "low=0.0: give a whole number"),  # type: ignore[arg-type]
        (lambda: integer(0, 2**60), "at most 2"),
        (lambda: integer(-(2**60), 0), "at least"),
        (lambda: uniform(0, 10**400), "larger than any float"),
        (lambda: uniform(0, 1, step=2), "step=2.0 is beyond the range"),
        (lambda: uniform(0, 1, step=0), "step=0.0: give a number above 0"),
        (lambda: uniform(0, 1, step=-0.1), "above 0"),
        (lambda: uniform(0, 1, step=1e-300), "more than 2\\*\\*53 values"),
        (lambda: uniform(0, 1, step=float("nan")), "uniform: step=nan"),
        (lambda: integer(0, 8, 9), "step=9 is beyond the range"),
        (lambda: integer(0, 8, 0), "step=0: give a number above 0"),
        (lambda: integer(0, 8, 0.5), "step=0.5: give a whole number"),  # type: ignore[arg-type]
        (lambda: choice([]), "empty: give at least one option"),
        (lambda: choice({}), "empty: give at least one branch"),
        (lambda: choice("abc"), "give a list of values"),
        (lambda: choice(5), "give a list of values"),  # type: ignore[arg-type]
        (lambda: choice({1, 2}), "give a list of values"),  # type: ignore[arg-type]
        (lambda: choice([1, 2, 1]), "the option 1 is there twice"),
        (lambda: choice([1, 1.0]), "the option 1.0 is there twice"),
        (lambda: choice([None, None]), "the option None is there twice"),
        (lambda: choice([[32], [64]]), r"option 0=\[32\] is a list"),  # type: ignore[list-item]
        (lambda: choice([1, {2}]), "option 1=.2. is a set"),  # type: ignore[list-item]
        (lambda: choice([int, float]), "is a type"),  # type: ignore[list-item]
        (lambda: choice([b"raw"]), "is a bytes"),  # type: ignore[list-item]
        (lambda: choice([float("inf")]), "not finite"),
        (lambda: choice(np.zeros((2, 2))), "is a ndarray"),
        (lambda: choice({"a": 5}), "the branch 'a' is 5: give a mapping, {} if it has no"),  # type: ignore[dict-item]
        (lambda: choice({1: {}}), "the branch 1 needs a name"),  # type: ignore[dict-item]
        (lambda: choice({"a]": {}}), "a string without brackets"),
        (lambda: Space({}), "give a mapping of names to domains"),
        (lambda: Space([("a", 1)]), "give a mapping of names to domains"),  # type: ignore[arg-type]
        (lambda: Space({"a": {}}), "'a' is an empty mapping"),
        (lambda: Space({"a.b": [1]}), "'a.b' is no name of a dimension"),
        (lambda: Space({"": [1]}), "'' is no name"),
        (lambda: Space({1: [1]}), "1 is no name"),  # type: ignore[dict-item]
        (lambda: Space({"a": []}), r"'a': choice\(\[\]\) is empty"),
        (lambda: Space({"a": object()}), "a=<object .* is a object"),
        (lambda: Space({"a": float("-inf")}), "a=-inf is not finite"),
        (lambda: Space({"net": choice({"x": {"lr": [1]}}), "lr": [1]}), "the name 'lr' is there twice"),
        (lambda: Space({"lr": {"x": [1]}, "net": choice({"x": {"lr": [1]}})}), "the name 'lr' is there twice"),
        (lambda: Space({"net": choice({"x": {"net": [1]}})}), "the name 'net' of a choice is also one of its branch"),
        (lambda: Space({"a": choice({"x": {"w": [1]}}), "b": choice({"x": {"w": [1]}})}), "'w' is there twice"),
        (lambda: Space({"a": choice({"x": {"b": choice({"y": {"a": [1]}})}})}), "'a' of a choice is also one of its"),
    ],
)
def test_a_search_space_that_is_none(make: Any, message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        make()


def test_branches_of_one_choice_may_share_a_name() -> None:
    space = Space({"net": choice({"a": {"width": [1]}, "b": {"width": {"in": [2]}}})})
    assert space.grid() == [{"net": "a", "width": 1}, {"net": "b", "width": {"in": 2}}]
