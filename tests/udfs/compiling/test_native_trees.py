"""Native code of trees against the same trees in torch: types, layouts, sizes, threads; nodes that cannot build it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.compiling import INPUT, WALKED_ROWS, Builder, Output, Trees
from udfs.compiling.torch import Engine, _compiler, _native_code
from udfs.compiling.torch._trees import TreesModule

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

FEATURES = 4


def drawn(
    seed: int, *, threshold: Any = np.float64, value: Any = np.float64, values: int = 1, missing: bool = True
) -> Trees:
    """Bushy trees, deep chains, and single leaves; thresholds that lie close to each other."""
    draw = np.random.default_rng(seed)
    rows: list[tuple[int, float, int, int]] = []

    def grow(left: int, chance: float) -> int:
        own = len(rows)
        rows.append((0, 0.0, -1, -1))
        if left and draw.random() < chance:
            cut = 1.0 + float(draw.integers(-3, 4)) * 2.0**-52
            limit = float(draw.choice([cut, -0.0, np.inf, 1e39, float(draw.normal())]))
            chain = chance == 1.0
            rows[own] = (
                int(draw.integers(FEATURES)),
                limit,
                grow(left - 1, chance),
                grow(0 if chain else left - 1, chance),
            )
        return own

    roots = [grow(*shape) for shape in ((0, 0.9), (7, 0.9), (45, 1.0), (3, 0.9), (9, 0.8))]
    columns = values if values > 1 else 2
    with np.errstate(over="ignore"):
        feature, limits, left, right = zip(*rows, strict=True)
        return Trees.of_nodes(
            feature=feature,
            threshold=np.array(limits).astype(threshold),
            left=left,
            right=right,
            missing_left=draw.random(len(rows)) < 0.5,
            value=draw.normal(size=(len(rows), values)).astype(value),
            root=roots,
            target=draw.integers(0, columns - values + 1, len(roots)),
            base=draw.normal(size=columns),
            divisor=3.0,
            features=FEATURES,
            missing=missing,
        )


def numbers(seed: int, rows: int, dtype: Any, *, missing: bool = True) -> NDArray[Any]:
    """Numbers at the thresholds, beside them, and beyond."""
    near = [1.0 + step * 2.0**-52 for step in range(-4, 5)]
    own = [*near, 0.0, -0.0, 5e-324, np.inf, -np.inf, 1e39, -1e39, 0.3, -2.0, *([np.nan] if missing else [])]
    with np.errstate(over="ignore"):
        return np.random.default_rng(seed).choice(own, (rows, FEATURES)).astype(dtype)


def both(trees: Trees, table: torch.Tensor) -> None:
    native, truth = TreesModule(trees, "native"), TreesModule(trees, "traversal")
    assert native.native is not None
    np.testing.assert_array_equal(native.leaves(table).numpy(), truth.leaves(table).numpy())
    np.testing.assert_array_equal(native(table).numpy(), truth(table).numpy())
    assert native(table).dtype == truth(table).dtype
    for rows in range(1, min(WALKED_ROWS, len(table)) + 1):
        walked = native.native.few(table[:rows].numpy())
        np.testing.assert_array_equal(walked, truth(table[:rows]).numpy())
        assert walked.dtype == native(table).numpy().dtype


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 2**16),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from([np.float32, np.float64]),
    st.integers(1, 3),
    st.integers(0, 70),
    st.booleans(),
)
def test_native_code_gives_the_leaves_and_the_bits_of_torch(
    seed: int, dtype: Any, threshold: Any, value: Any, values: int, rows: int, missing: bool
) -> None:
    trees = drawn(seed, threshold=threshold, value=value, values=values, missing=missing)
    both(trees, torch.from_numpy(numbers(seed, rows, dtype, missing=missing)))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("rows", [1, 16, 17, 64, 65, 1023, 1024, 1025, 5000])
def test_blocks_and_threads_make_no_difference(monkeypatch: pytest.MonkeyPatch, rows: int, threads: int) -> None:
    monkeypatch.setattr("udfs.compiling.torch._native_trees._WORTH", 1)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        both(drawn(1), torch.from_numpy(numbers(2, rows, np.float64)))
    finally:
        torch.set_num_threads(before)


def test_a_table_may_lie_in_memory_as_it_likes() -> None:
    table = torch.from_numpy(numbers(5, 200, np.float64))
    by_column = table.t().contiguous().t()
    sparse_rows, some = table[::3], torch.cat([table, table], dim=1)[:, 2 : 2 + FEATURES]
    for one in (by_column, sparse_rows, some, table[:1].expand(70, -1), table.flip(0)):
        both(drawn(5), one)


def test_whole_numbers_are_taken_as_what_the_thresholds_are() -> None:
    table = torch.arange(2**24 - 8, 2**24 + 8).reshape(-1, FEATURES)
    native = TreesModule(drawn(6), "native")
    np.testing.assert_array_equal(native(table).numpy(), native(table.double()).numpy())


@pytest.fixture
def _anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Look for a compiler, and build, as a new process on a new node does."""
    monkeypatch.setenv("CEREBRO_SPARK_CACHE", str(tmp_path))
    caches = (_compiler.compiler.cache_clear, _native_code._loaded.cache_clear)
    for clear in caches:
        clear()
    yield
    for clear in caches:
        clear()


@pytest.mark.usefixtures("_anew")
@pytest.mark.parametrize(
    ("named", "said"), [("no-such-compiler", "no C++ compiler"), ("false", "cannot be built by false")]
)
def test_a_node_that_cannot_build_it_says_so_once_and_runs_torch(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, named: str, said: str
) -> None:
    monkeypatch.setenv("CXX", named)
    build, table = Builder(FEATURES), numbers(7, 30, np.float64)
    program = build.program({"predict": Output(build.add(drawn(7), INPUT))})
    with caplog.at_level(logging.WARNING):
        engines = [Engine(program) for _ in range(2)]
    assert all("native" not in engine.plan.strategies.values() for engine in engines)
    assert sum(said in record.getMessage() for record in caplog.records) == 1
    found, truth = engines[0].run(table), Engine(program, "traversal").run(table)
    np.testing.assert_array_equal(found.outputs["predict"], truth.outputs["predict"])


@pytest.mark.usefixtures("_anew")
def test_the_code_is_built_once_in_a_folder_of_the_user_alone(tmp_path: Path) -> None:
    assert _native_code.has_native_code()
    (made,) = tmp_path.rglob("trees-*.so")
    assert made.parent.stat().st_mode & 0o077 == 0
    written = made.stat().st_mtime_ns
    _native_code._loaded.cache_clear()
    assert _native_code.has_native_code()
    assert made.stat().st_mtime_ns == written


@pytest.mark.usefixtures("_anew")
def test_a_damaged_library_is_not_run(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(_native_code, "_build", lambda _source, _named, partial: partial.write_bytes(b"no library"))
    with caplog.at_level(logging.WARNING):
        assert not _native_code.has_native_code()
    assert "trees run in torch" in "\n".join(caplog.messages)
