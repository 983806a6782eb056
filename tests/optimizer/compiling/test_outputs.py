"""Results in the shapes, types and names of the library, and through a document."""

from __future__ import annotations

import json

import numpy as np
import pytest

from optimizer.compiling import INPUT, Builder, Cast, Output, ProgramError, UnsupportedOperatorError

ROWS = np.arange(12.0).reshape(2, 6)
PLACES = np.array([[1, 0], [0, 2]])


def again(output: Output) -> Output:
    return Output.of_document(json.loads(json.dumps(output.document())))


@pytest.mark.parametrize(
    "labels",
    [
        np.array([3, -1, 2**62]),
        np.array([0.1, np.nan, -np.inf]),
        np.array([False, True, True]),
        np.array(["a", "ccc", "ü"]),
        np.array(["a", 7, True], dtype=object),
        np.array([np.int64(4), 2.5, np.True_], dtype=object),
    ],
    ids=lambda labels: str(labels.dtype),
)
def test_names_of_classes_come_back_as_they_were(labels: np.ndarray) -> None:
    own = Output("best", flat=True, labels=labels)
    for output in (own, again(own)):
        found = output.answer(np.array([[2], [0], [1]]))
        assert found.dtype == labels.dtype
        np.testing.assert_array_equal(found, labels[[2, 0, 1]])


def test_each_column_has_names_of_its_own() -> None:
    output = again(Output("best", labels=(np.array(["a", "bb"]), np.array(["x", "y", "zzz"]))))
    assert output.answer(PLACES).tolist() == [["bb", "x"], ["a", "zzz"]]
    assert output.texts
    numbers = again(Output("best", labels=(np.array([0, 5]), np.array([7, 8, 9])), dtype="float64"))
    assert numbers.answer(PLACES).dtype == np.float64
    assert numbers.answer(PLACES).tolist() == [[5, 7], [0, 9]]
    assert not numbers.texts


def test_a_list_of_arrays_and_an_array_of_three_dimensions() -> None:
    parts = again(Output("shares", split=(2, 1, 3))).answer(ROWS)
    assert [part.tolist() for part in parts] == [ROWS[:, :2].tolist(), ROWS[:, 2:3].tolist(), ROWS[:, 3:].tolist()]
    cube = again(Output("leaves", shape=(2, 3), dtype="int64")).answer(ROWS)
    assert cube.shape == (2, 2, 3)
    assert cube.dtype == np.int64
    assert again(Output("leaves", shape=(2, 3))).answer(ROWS[:0]).shape == (0, 2, 3)


@pytest.mark.parametrize(
    ("output", "field"),
    [
        (Output("cast", flat=True), "flat of output .predict. must be for the 6 columns.*got 1"),
        (Output("cast", split=(2, 3)), "split of output .predict. must be for the 6 columns.*got 5"),
        (Output("cast", shape=(2, 2)), "shape of output .predict. must be for the 6 columns.*got 4"),
        (Output("cast", labels=(np.array([0, 1]),)), "labels of output .predict. must be for the 6 columns.*got 1"),
    ],
)
def test_a_result_that_does_not_fit_its_node_is_refused(output: Output, field: str) -> None:
    build = Builder(6)
    build.add(Cast("float64"), INPUT)
    with pytest.raises(ProgramError, match=field):
        build.program({"predict": output})


@pytest.mark.parametrize("labels", [np.array(["2020-01-01"], "datetime64[D]"), np.array([None, "a"], dtype=object)])
def test_other_names_of_classes_are_refused(labels: np.ndarray) -> None:
    with pytest.raises(UnsupportedOperatorError, match="labels must be numbers, booleans or texts"):
        Output("best", labels=labels)
