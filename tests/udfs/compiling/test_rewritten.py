"""Rewritten programs against those they come from: equal bit by bit, and the same rows refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from optimizer.compiling import (
    INPUT,
    ArgMax,
    Arithmetic,
    Average,
    Bins,
    Builder,
    Cast,
    Choose,
    Clip,
    CodeLookup,
    Combine,
    Concatenate,
    Constant,
    Finite,
    Function,
    Impute,
    Leaves,
    Linear,
    Missing,
    Monomials,
    NarrowIntegers,
    Normalise,
    OneHot,
    Output,
    Program,
    Recode,
    Reject,
    Replace,
    Select,
    Trees,
    Ufunc,
    Within,
    rewrite,
)
from udfs.compiling.torch import Engine
from udfs.compiling.torch._numbers import unit_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

WIDTH = 4
DTYPES = ("float32", "float64")
HARD = (0.0, -0.0, 1.0, -1.0, 0.5, 3.0, 1e-30, 1e30, -1e30, np.nan)
NUMBERS = st.one_of(st.sampled_from(HARD), st.floats(-10, 10, width=32), st.integers(-3, 3).map(float))
ORDINARY = st.floats(0.01, 10).map(lambda number: round(number, 3))


def ran(
    program: Program, table: NDArray[Any], outputs: Iterable[str] | None = None
) -> tuple[dict[str, Any], NDArray[np.bool_]]:
    answer = Engine(program).run(table, outputs=outputs)
    return answer.outputs, answer.bad


def check_same(program: Program, table: NDArray[Any], *, bits: bool = True) -> Program:
    """Run both, and hold them to each other; each output alone too, rewritten by itself and as part of the whole."""
    dtype = table.dtype.name
    names = [(name,) for name in program.outputs]
    cases = [(program, None), *((program, one) for one in names), *((program.only(one), None) for one in names)]
    for part, asked in cases:
        own = rewrite(part, dtype).program
        (before, bad), (after, worse) = ran(part, table, asked), ran(own, table, asked)
        np.testing.assert_array_equal(bad, worse)
        assert list(before) == list(after)
        for name, values in before.items():
            assert after[name].dtype == values.dtype
            good, ours = values[~bad], after[name][~bad]
            if bits:
                np.testing.assert_array_equal(good, ours, strict=True)
            else:
                np.testing.assert_allclose(ours, good, rtol=1e-9 if dtype == "float64" else 1e-5, atol=1e-12)
    return rewrite(program, dtype).program


def trees(draw: Any, width: int, kind: str) -> Trees:
    """Two trees of two splits each."""
    limits = draw(st.lists(NUMBERS.filter(lambda one: not np.isnan(one)), min_size=10, max_size=10))
    with np.errstate(over="ignore"):
        thresholds = np.array(limits).astype(kind)
    return Trees.of_nodes(
        feature=draw(st.lists(st.integers(0, width - 1), min_size=10, max_size=10)),
        threshold=thresholds,
        left=[1, 3, -1, -1, -1, 6, -1, 8, -1, -1],
        right=[2, 4, -1, -1, -1, 7, -1, 9, -1, -1],
        missing_left=draw(st.lists(st.booleans(), min_size=10, max_size=10)),
        value=np.arange(10.0)[:, None],
        root=[0, 5],
        target=[0, 0],
        base=[0.0],
        divisor=2.0,
        features=width,
        missing=True,
    )


def some_columns(draw: Any, width: int) -> NDArray[np.int64]:
    return np.array(draw(st.lists(st.integers(0, width - 1), min_size=1, max_size=width)), np.int64)


def numbers(draw: Any, width: int, kind: Any = ORDINARY) -> NDArray[np.float64]:
    return np.array(draw(st.lists(kind, min_size=width, max_size=width)))


def hot(draw: Any, build: Builder, table: str) -> str:
    width = build.width(table)
    edges = [np.sort(numbers(draw, 2, st.floats(-3, 3))) for _ in range(width)]
    codes = build.add(Bins(np.concatenate(edges), np.full(width, 2)), table)
    if draw(st.booleans()):
        shown = np.array(draw(st.lists(st.integers(-1, 2), min_size=3 * width, max_size=3 * width)))
        codes = build.add(Recode(shown[:, None], np.full(width, 3)), codes)
    return build.add(OneHot(np.full(width, 3), draw(st.sampled_from(DTYPES))), codes)


def recoded(draw: Any, build: Builder, table: str) -> str:
    width, each = build.width(table), draw(st.integers(1, 2))
    known = [np.unique(numbers(draw, 3, st.sampled_from((-1.0, 0.0, 1.0, 2.0, 3.0)))) for _ in range(width)]
    sizes = np.array([len(own) for own in known])
    codes = build.add(Cast("int64"), build.add(matched(known, nan=draw(st.booleans())), table))
    values = numbers(draw, int((sizes + 1).sum()) * each, NUMBERS).reshape(-1, each)
    return build.add(Recode(values, sizes + 1), codes)


def matched(known: Sequence[NDArray[np.float64]], *, nan: bool = False) -> CodeLookup:
    """Places of numbers among those that are known, and their count for others; NaN may be the first of them."""
    tables = [dict(zip(own.tolist(), np.arange(float(len(own))), strict=True)) for own in known]
    counts = [float(len(own)) for own in known]
    return CodeLookup.of_tables(range(len(known)), tables, counts, missing=[0.0] * len(known) if nan else counts)


def chosen(draw: Any, build: Builder, table: str) -> str:
    """One column meets all the others, or a table another one."""
    one = build.add(Select(some_columns(draw, build.width(table))[:1]), table)
    limit = build.add(Constant(numbers(draw, 1)), table)
    above = build.add(Combine(draw(st.sampled_from(("greater", "add", "minimum")))), table, limit)
    return draw(
        st.sampled_from(
            (
                lambda: build.add(Choose(), above, table, one),
                lambda: build.add(Choose(), one, limit, table),
                lambda: build.add(Reject("a mark"), table, build.add(Function("is_nan"), one)),
                lambda: build.add(ArgMax(draw(st.sampled_from(("greatest", "stays first", "left out")))), table),
            )
        )
    )()


def polynomial(draw: Any, build: Builder, table: str) -> str:
    left = [(one, other) for one in range(build.width(table)) for other in range(one + 1)]
    chosen = draw(st.sampled_from((left, left[1:], [])))
    first, second = (np.array([pair[side] for pair in chosen], np.int64) for side in (0, 1))
    return build.add(Monomials(first + 1, second, np.array([len(chosen)] if chosen else [], np.int64)), table)


def simple(draw: Any, width: int) -> Any:
    """An operator that leaves the columns where they are."""
    kind = draw(st.sampled_from(("add", "subtract", "multiply", "divide")))
    signed = st.one_of(ORDINARY, ORDINARY.map(lambda one: -one), st.sampled_from((0.0, 1.0, 1e-30, 1e30, -2.0)))
    return draw(
        st.sampled_from(
            (
                Arithmetic(kind, numbers(draw, width), rounded=draw(st.booleans())),
                Arithmetic(kind, numbers(draw, width, signed)),
                Arithmetic("divide", np.ones(width)),
                Arithmetic("subtract", np.zeros(width)),
                Cast(draw(st.sampled_from(DTYPES))),
                Clip(-2.0, draw(st.sampled_from((0.5, 0.1, np.inf)))),
                Finite(draw(st.sampled_from(("as given", *DTYPES))), draw(st.booleans()), "Model"),
                Finite("as given", nan=False, who="Other", infinite=True),
                Impute(numbers(draw, width, NUMBERS), draw(st.sampled_from((np.nan, 0.0, 1.0)))),
                Missing(draw(st.sampled_from((np.nan, 1.0)))),
                NarrowIntegers("Reader"),
                Replace(np.zeros(width), np.ones(width), numbers(draw, width, NUMBERS)),
                Replace(np.full(width, -0.1), numbers(draw, width), np.zeros(width)),
                Ufunc(draw(st.sampled_from(("negative", "floor", "rint", "square")))),
                Within(-numbers(draw, width), numbers(draw, width), "out of bounds"),
                Normalise("max"),
            )
        )
    )


def wide(draw: Any, build: Builder, table: str) -> str:
    """An operator that chooses, makes or mixes columns."""
    kind = draw(st.integers(0, 6))
    if kind < len(MAKERS):
        return MAKERS[kind](draw, build, table)
    columns = some_columns(draw, build.width(table))
    count = len(columns)
    tables = [{1.0: 5.0, 2.0: float(place)} for place in range(count)]
    chosen = (
        CodeLookup.of_tables(columns, tables, numbers(draw, count), rounding="down"),
        CodeLookup.of_tables(columns, tables, numbers(draw, count, NUMBERS), missing=numbers(draw, count, NUMBERS)),
        Select(columns),
    )
    return build.add(chosen[kind - len(MAKERS)], table)


MAKERS = (hot, recoded, polynomial, chosen)


@st.composite
def programs(draw: Any) -> Program:
    """Two branches of operators and checks, side by side, with selections; then trees, or the table itself."""
    build = Builder(WIDTH)
    parts = []
    for _ in range(2):
        table = INPUT
        for _ in range(draw(st.integers(1, 4))):
            own = build.width(table)
            table = wide(draw, build, table) if draw(st.integers(0, 3)) == 0 else build.add(simple(draw, own), table)
            assume(build.width(table) < 40)
        parts.append(table)
    parts.append(build.add(Constant(np.array([2.0])), INPUT))
    parts += [build.add(Cast("float64"), build.add(Select(np.zeros(0, np.int64)), INPUT))] * draw(st.integers(0, 1))
    table = build.add(Concatenate(), *parts) if draw(st.booleans()) else parts[0]
    table = build.add(Select(some_columns(draw, build.width(table))), table)
    if draw(st.booleans()):
        table = build.add(Finite(draw(st.sampled_from(("as given", *DTYPES))), draw(st.booleans()), "Last"), table)
    outputs = {"transform": Output(build.add(Select(some_columns(draw, build.width(table))), table))}
    if draw(st.booleans()):
        grown = build.add(trees(draw, build.width(table), draw(st.sampled_from(DTYPES))), table)
        outputs["predict"] = Output(grown, flat=True)
        outputs["apply"] = Output(build.add(Leaves(np.arange(10), 2), grown))
    if draw(st.booleans()):
        outputs["score_samples"] = Output(parts[1])
    return build.program(outputs)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    programs(),
    st.lists(st.lists(NUMBERS, min_size=WIDTH, max_size=WIDTH), min_size=1, max_size=6),
    st.sampled_from(DTYPES),
)
def test_a_rewritten_program_is_equal_bit_by_bit(program: Program, rows: list[list[float]], dtype: str) -> None:
    with np.errstate(over="ignore"):
        check_same(program, np.array(rows, dtype))


def scaled_trees(kind: str, dtype: str, thresholds: NDArray[Any]) -> Program:
    """One split a tree, behind a scaler."""
    count = len(thresholds)
    here = 3 * np.arange(count)
    table = np.full(3 * count, np.inf, thresholds.dtype)
    table[here] = thresholds
    left, right = np.full(3 * count, -1), np.full(3 * count, -1)
    left[here], right[here] = here + 1, here + 2
    grown = Trees.of_nodes(
        feature=np.where(np.isin(np.arange(3 * count), here), np.arange(3 * count) // 3 % 2, 0),
        threshold=table,
        left=left,
        right=right,
        missing_left=np.arange(3 * count) % 2 == 0,
        value=np.arange(3.0 * count)[:, None],
        root=here,
        target=np.zeros(count),
        base=[0.0],
        divisor=1.0,
        features=2,
        missing=True,
    )
    build = Builder(2)
    rows = build.add(Arithmetic("subtract", np.array([0.3, 1e9]), rounded=dtype == "float32"), INPUT)
    rows = build.add(Arithmetic(kind, np.array([0.7, 3e-5])), rows)
    rows = build.add(Cast(thresholds.dtype.name), rows)
    found = build.add(grown, rows)
    leaves = build.add(Leaves(np.arange(3 * count), count), found)
    return build.program({"predict": Output(found), "apply": Output(leaves)})


@pytest.mark.parametrize("kind", ["multiply", "divide"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("compared", DTYPES)
def test_leaves_are_equal_at_pulled_thresholds_and_the_floats_beside(kind: str, dtype: str, compared: str) -> None:
    drawn = np.random.default_rng(0)
    limits = np.concatenate([drawn.normal(size=40), [0.0, -0.0, 1e-20, 1e20]]).astype(compared)
    program = scaled_trees(kind, dtype, limits)
    done = rewrite(program, dtype)
    (own,) = (node for node in done.program.nodes if isinstance(node.operator, Trees))
    assert own.inputs == (INPUT,)
    assert any(one.kind == "thresholds pulled back" for one in done.applied)
    ends = own.operator.threshold[::3]
    with np.errstate(over="ignore"):
        beside = [np.nextafter(ends, ends.dtype.type(end)) for end in (-np.inf, np.inf)]
    around = np.concatenate([ends, *beside])
    special = np.array([np.nan, 0.0, -0.0, 1e9, 0.3], dtype)
    values = np.unique(np.concatenate([around, special]))
    check_same(program, np.stack([values, values[::-1]], axis=1))
    check_same(program, np.stack([values, values], axis=1))


def test_a_scaler_that_is_read_otherwise_stays() -> None:
    build = Builder(1)
    rows = build.add(Arithmetic("divide", np.array([3.0])), INPUT)
    grown = build.add(one_split(), rows)
    program = build.program({"predict": Output(grown), "transform": Output(rows)})
    done = rewrite(program, "float64")
    assert not [one for one in done.applied if one.kind == "thresholds pulled back"]
    check_same(program, np.linspace(-5, 5, 50)[:, None])


def one_split() -> Trees:
    return Trees.of_nodes(
        feature=[0, 0, 0],
        threshold=np.float64([0.5, 0, 0]),
        left=[1, -1, -1],
        right=[2, -1, -1],
        missing_left=[True, False, False],
        value=[[0.0], [1.0], [2.0]],
        root=[0],
        target=[0],
        base=[0.0],
        divisor=1.0,
        features=1,
        missing=True,
    )


def linear_program(*, held: bool, shift: float = 1e9) -> Program:
    """A scaler of time stamps before weights of which most are zero."""
    build = Builder(5)
    rows = build.add(Finite("as given", nan=True, who="Scaler"), INPUT)
    rows = build.add(Arithmetic("subtract", np.full(5, shift)), rows)
    rows = build.add(Arithmetic("divide", np.array([1e-3, 2.0, 0.3, 5.0, 0.1])), rows)
    if held:
        rows = build.add(Finite("as given", nan=False, who="Model"), rows)
    weights = np.array([[0.5, 0.0, -3.0, 0.0, 0.0], [1.5, 0.0, 0.0, 0.0, 0.0]]).T
    return build.program({"decision_function": Output(build.add(Linear(weights.copy(), np.array([0.1, -0.2])), rows))})


def test_zero_weights_read_nothing_and_refuse_what_they_refused() -> None:
    program = linear_program(held=True)
    rows = np.random.default_rng(0).normal(1e9, 10.0, (40, 5))
    rows[3, 1], rows[4, 3] = np.nan, np.inf
    own = check_same(program, rows, bits=False)
    (linear,) = (node for node in own.nodes if isinstance(node.operator, Linear))
    assert linear.operator.weights.shape == (2, 2)
    _, bad = ran(own, rows)
    assert np.flatnonzero(bad).tolist() == [3, 4]


def test_zero_weights_of_numbers_that_may_be_nan_are_read() -> None:
    program = linear_program(held=False)
    rows = np.random.default_rng(0).normal(1e9, 10.0, (40, 5))
    rows[3, 1] = np.nan
    own = check_same(program, rows, bits=False)
    outputs, bad = ran(own, rows)
    assert not bad.any()
    assert np.isnan(outputs["decision_function"][3]).all()


def test_a_factor_goes_into_the_weights_and_a_shift_does_not() -> None:
    """Differences of time stamps keep their digits: folded shifts lose seven of sixteen."""
    program = linear_program(held=True)
    rows = np.random.default_rng(1).normal(1e9, 1e-2, (500, 5))
    done = rewrite(program, "float64")
    kinds = [type(node.operator).__name__ for node in done.program.nodes]
    arithmetic = [node.operator.kind for node in done.program.nodes if isinstance(node.operator, Arithmetic)]
    assert arithmetic == ["subtract"], kinds
    before, after = ran(program, rows)[0], ran(done.program, rows)[0]
    np.testing.assert_allclose(after["decision_function"], before["decision_function"], rtol=1e-9)


def test_a_factor_stays_where_the_table_is_float32() -> None:
    program = linear_program(held=True, shift=3.0)
    own = rewrite(program, "float32").program
    assert [node.operator.kind for node in own.nodes if isinstance(node.operator, Arithmetic)] == ["subtract", "divide"]
    rows = np.random.default_rng(1).normal(3, 1, (50, 5)).astype(np.float32)
    before, after = ran(program, rows)[0], ran(own, rows)[0]
    np.testing.assert_array_equal(after["decision_function"], before["decision_function"])


def test_constants_are_folded_into_codes() -> None:
    build = Builder(2)
    found = build.add(matched([np.array([1.0, 2.0]), np.array([5.0])]), build.add(Cast("float64"), INPUT))
    codes = build.add(Cast("int64"), found)
    table = build.add(Recode(np.array([[0.1], [0.2], [np.nan], [7.0], [1e308]]), np.array([3, 2])), codes)
    table = build.add(Impute(np.array([0.3, 0.4]), np.nan), table)
    table = build.add(Arithmetic("subtract", np.array([0.05, 3.0])), table)
    table = build.add(Arithmetic("divide", np.array([0.7, 1e-9])), table)
    table = build.add(Finite("as given", nan=False, who="Model"), build.add(Cast("float64"), table))
    program = build.program({"transform": Output(table)})
    rows = np.array([[1, 5], [2, 5], [3, 5], [np.nan, 5], [1, 4], [1, np.nan]], float)
    own = check_same(program, rows)
    assert [type(node.operator) for node in own.nodes] == [CodeLookup, Cast, Recode, Finite]


@pytest.mark.parametrize("dtype", DTYPES)
def test_constants_are_folded_into_what_categories_become(dtype: str) -> None:
    """In the type of the result: a third is another number in float32."""
    build = Builder(2)
    tables = [{1.0: 0.1, 2.0: 1e300}, {5.0: np.nan}]
    table = build.add(CodeLookup.of_tables([1, 0], tables, [0.3, -0.0], missing=[np.nan, 7.0]), INPUT)
    table = build.add(Arithmetic("divide", np.array([3.0, 7.0])), table)
    table = build.add(Impute(np.array([0.1, 0.2]), np.nan), table)
    program = build.program({"transform": Output(build.add(Arithmetic("add", np.array([0.7, 1.0])), table))})
    rows = np.array([[5, 1], [5, 2], [4, 3], [np.nan, np.nan], [0.0, -0.0]], dtype)
    with np.errstate(over="ignore"):
        own = check_same(program, rows)
    assert [type(node.operator) for node in own.nodes] == [CodeLookup]


def test_common_parts_of_branches_run_once() -> None:
    """Checks of two members kept their scalers apart."""
    build = Builder(3)
    members = []
    for who in ("First", "Second"):
        rows = build.add(Finite("as given", nan=False, who=who), INPUT)
        rows = build.add(Arithmetic("multiply", np.array([2.0, 3.0, 4.0])), rows)
        members.append(build.add(Select(np.array([0, 2])), rows))
    mean = build.add(Average(np.zeros(0), 2.0), *members)
    program = build.program({"predict": Output(mean)})
    own = check_same(program, np.array([[1, 2, 3], [1, np.nan, 3], [np.inf, 0, 0]], float))
    assert sum(isinstance(node.operator, Arithmetic) for node in own.nodes) == 1
    assert any(one.kind == "shared" for one in rewrite(program, "float64").applied)


@pytest.mark.parametrize(("order", "norm"), [(2.0, 5.0), (float("inf"), 4.0)])
def test_rows_of_whole_numbers_are_divided_by_their_norm(order: float, norm: float) -> None:
    scaled = unit_rows(torch.tensor([[3, -4], [0, 0]]), order)
    np.testing.assert_allclose(scaled.numpy(), [[3 / norm, -4 / norm], [0.0, 0.0]])
