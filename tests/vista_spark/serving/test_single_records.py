"""Records of ``execute`` as batches of one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from udfs.serving import Admission, BadRequestError, TensorSpec
from vista_spark.serving._single_record import batch_of_one

INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]


def admitted(record: Any, spec: TensorSpec) -> Any:
    (row,) = Admission("m", (spec,), {}).rows(batch_of_one(record, (spec,)))
    return row[spec.name]


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        *((dtype, 41) for dtype in (*INTEGERS, "float16", "float32", "float64")),
        *((dtype, 0.5) for dtype in ("float16", "float32", "float64")),
        ("bool", True),
        ("float32", [0.5, 1]),
        ("int8", [1, 2]),
        ("float64", np.float64(0.5)),
    ],
)
def test_numbers_of_python_get_the_type_of_the_input(dtype: str, value: Any) -> None:
    array = admitted(value, TensorSpec("x", dtype, (-1, *np.shape(value))))
    assert array.dtype == dtype
    assert array.tolist() == value


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("uint8", 256),
        ("uint8", -1),
        ("int32", 1.0),
        ("float32", 1e39),
        ("float32", True),
        ("bool", 1),
        ("float32", np.float64(0.5)),
        ("float32", float("nan")),
        ("float32", [[1.0], [1.0, 2.0]]),
        ("float32", "1"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(dtype: str, value: Any) -> None:
    with pytest.raises(BadRequestError, match="Input 'x' must"):
        admitted(value, TensorSpec("x", dtype, (-1, *((-1,) if isinstance(value, list) else ()))))
