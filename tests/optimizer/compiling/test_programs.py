"""Programs as data: what fits together, what is refused, and that a document gives the same program again."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizer.compiling import (
    INPUT,
    OPERATORS,
    ArgMax,
    Arithmetic,
    Builder,
    Cast,
    Clip,
    Concatenate,
    Finite,
    Impute,
    Linear,
    Node,
    Output,
    Program,
    ProgramError,
    Select,
    Trees,
    UnsupportedOperatorError,
    choose_strategy,
)
from optimizer.compiling._operator import Operator, later


def stump(threshold: np.ndarray, *, strict: bool = False) -> Trees:
    return Trees.of_nodes(
        feature=[0, 0, 0],
        threshold=threshold,
        left=[1, -1, -1],
        right=[2, -1, -1],
        missing_left=[False] * 3,
        value=[[0.0], [1.0], [2.0]],
        root=[0],
        target=[0],
        base=[0.0],
        divisor=1.0,
        features=1,
        missing=False,
        strict=strict,
    )


def chain(depth: int) -> Trees:
    """A tree that goes down on the right alone."""
    inner = np.arange(depth)
    left = np.concatenate([depth + 1 + inner, np.full(depth + 1, -1)])
    right = np.concatenate([inner + 1, np.full(depth + 1, -1)])
    nodes = 2 * depth + 1
    return Trees.of_nodes(
        feature=np.zeros(nodes, int),
        threshold=np.arange(nodes, dtype=np.float64),
        left=left,
        right=right,
        missing_left=np.zeros(nodes, bool),
        value=np.arange(nodes, dtype=float)[:, None],
        root=[0],
        target=[0],
        base=[0.0],
        divisor=1.0,
        features=1,
        missing=False,
    )


def program() -> Program:
    build = Builder(3, ["a", "b", "c"])
    rows = build.add(Finite("float32", nan=False, who="Model"), INPUT)
    rows = build.add(Impute(np.array([1.5, np.nan, 3.0]), float("nan")), rows)
    rows = build.add(Clip(-np.inf, 1e300), rows)
    first = build.add(Select(np.array([2, 0])), rows)
    both = build.add(Concatenate(), rows, first)
    scores = build.add(Linear(np.ones((5, 2), np.float32), np.zeros(2, np.float32)), both)
    best = build.add(ArgMax(), scores)
    build.add(Cast("float32"), scores)  # no output reads it
    labels = np.array(["no", "yes"], dtype=object)
    return build.program({"predict": Output(best, flat=True, labels=labels), "decision_function": Output(scores)})


def test_a_document_gives_the_same_program_again() -> None:
    own = program()
    document, arrays = own.document()
    again = Program.of_document(json.loads(json.dumps(document)), arrays)
    assert again.digest == own.digest
    assert again.explain() == own.explain()
    assert again.outputs["predict"].labels.tolist() == ["no", "yes"]  # type: ignore[union-attr]
    assert again.columns == ("a", "b", "c")
    clip = next(node.operator for node in again.nodes if isinstance(node.operator, Clip))
    assert (clip.low, clip.high) == (-np.inf, 1e300)


def test_an_operator_saved_before_it_had_a_field_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("optimizer.compiling._operator.OPERATORS", {})

    @dataclass(frozen=True, eq=False)
    class Shift(Operator):
        amount: float
        rounded: bool = later(False)

    assert set(Shift(1.0).numbers()) == {"amount"}
    assert Shift(1.0, rounded=True).numbers()["rounded"] is True
    assert Shift.build({"amount": 1.0}, {}).digest() == Shift(1.0).digest() != Shift(1.0, rounded=True).digest()
    with pytest.raises(ProgramError, match="Shift must have the fields"):
        Shift.build({"rounded": True}, {})


def test_what_no_output_needs_is_left_out() -> None:
    assert "cast" not in {node.name for node in program().nodes}


def test_an_operator_that_is_there_already_is_not_added_twice() -> None:
    build = Builder(2)
    first = build.add(Arithmetic("add", np.array([1.0, 2.0])), INPUT)
    assert build.add(Arithmetic("add", np.array([1.0, 2.0])), INPUT) == first
    others = (
        build.add(Arithmetic("add", np.array([1.0, 2.0])), first),
        build.add(Arithmetic("add", np.array([1.0, 2.0], np.float32)), INPUT),
        build.add(Arithmetic("add", np.array([1.0, 2.0]), rounded=True), INPUT),
        build.add(Clip(-0.0, 1.0), INPUT),
        build.add(Clip(0.0, 1.0), INPUT),
    )
    assert len({first, *others}) == 6


def test_a_digest_sees_every_number() -> None:
    document, arrays = program().document()
    for name, array in arrays.items():
        other = np.array(array)
        other.flat[0] += 1
        if name.startswith("select"):
            other.flat[0] = 1
        assert Program.of_document(document, arrays | {name: other}).digest != program().digest


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(version=1), "version 1; this package reads 2"),
        (lambda d: d["nodes"][0].update(operator="Pickle"), r"operator must be .* got 'Pickle'"),
        (lambda d: d["nodes"][0]["numbers"].update(extra=1), "fields"),
        (lambda d: d["nodes"][1].update(inputs=["later"]), "later"),
        (lambda d: d["nodes"][0].update(inputs=[]), "takes 1 inputs"),
        (lambda d: d["outputs"].clear(), "without an output"),
        (lambda d: d["outputs"]["predict"].update(node="gone"), "gone"),
        (lambda d: d.pop("nodes"), "damaged"),
        (lambda d: d.update(columns=["a"]), "1 names for 3 columns"),
    ],
)
def test_a_damaged_document_is_refused(change: object, message: str) -> None:
    document, arrays = program().document()
    change(document)  # type: ignore[operator]
    with pytest.raises(ProgramError, match=message):
        Program.of_document(document, arrays)


@pytest.mark.parametrize(
    ("operator", "width", "message"),
    [
        (Select(np.array([3])), 3, "columns"),
        (Arithmetic("add", np.zeros(2)), 3, "must have 2 columns, got 3"),
        (Linear(np.zeros((2, 1)), np.zeros(1)), 3, "must have 2 columns, got 3"),
        (Linear(np.zeros((3, 1)), np.zeros(2)), 3, "bias"),
        (stump(np.zeros(3)), 2, "must have 1 columns, got 2"),
    ],
)
def test_widths_are_checked_when_an_operator_is_added(operator: object, width: int, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        Builder(width).add(operator, INPUT)  # type: ignore[arg-type]


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ProgramError, match="kind of Arithmetic must be one of 'add'"):
        Arithmetic("power", np.zeros(1))


def test_a_name_comes_once() -> None:
    node = Node("a", Cast("float32"), (INPUT,))
    with pytest.raises(ProgramError, match="'a' comes twice"):
        Program(1, None, [node, node], {"transform": Output("a")})


def test_all_operators_are_known_by_name() -> None:
    assert {"Select", "Trees", "Linear", "Above"} <= OPERATORS.keys()
    assert all(kind.__name__ == name for name, kind in OPERATORS.items())


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("left", [1, 1, 1], "name each node once"),
        ("left", [7, 1, 2], "between 0 and 2"),
        ("feature", [1, 0, 0], "between 0 and 0"),
        ("root", [0, 1], "one length"),
    ],
)
def test_what_is_no_tree_is_refused(field: str, value: list[int], message: str) -> None:
    tree = stump(np.zeros(3))
    values = {**tree.numbers(), **tree.arrays(), field: np.array(value, np.int32)}
    with pytest.raises(ProgramError, match=message):
        Trees(**values)


@given(st.floats(allow_nan=False, width=32), st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_a_lowered_threshold_decides_as_less_than(x: float, threshold: float) -> None:
    tree = stump(np.array([threshold, 0, 0], np.float32), strict=True)
    assert (np.float32(x) <= tree.threshold[0]) == (np.float32(x) < np.float32(threshold))


def test_nothing_is_less_than_minus_infinity() -> None:
    with pytest.raises(UnsupportedOperatorError, match="minus infinity"):
        stump(np.array([-np.inf, 0, 0]), strict=True)


def test_the_depth_is_the_longest_path() -> None:
    assert stump(np.zeros(3)).depths().tolist() == [1]
    assert chain(9).depths().tolist() == [9]


def test_strategies_follow_the_depth() -> None:
    assert [choose_strategy(chain(depth)) for depth in (3, 4, 10, 11)] == ["gemm", "perfect", "perfect", "traversal"]
    assert choose_strategy(chain(11), "gemm") == "gemm"
    with pytest.raises(UnsupportedOperatorError, match="more than 1 GiB"):
        choose_strategy(chain(40), "perfect")
    with pytest.raises(UnsupportedOperatorError, match="tree_strategy must be one of"):
        choose_strategy(chain(1), "fast")
