"""The list of points that may be nearest, against the distances to all points."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from udfs.compiling.torch._neighbors import Shortlist

SIZE = 12


def table(rows: int, columns: int, *, seed: int, scale: float = 1.0, offset: float = 0.0) -> torch.Tensor:
    drawn = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return drawn * scale + offset


@pytest.mark.parametrize("columns", [1, 3, 30])
@pytest.mark.parametrize(
    ("scale", "offset"),
    [
        *((1, offset) for offset in (0, 1e3, 1e9, 1e13)),
        *((scale, 0) for scale in (1e-200, 1e-25, 1e-8, 1e15, 1e25, 1e200)),
        (1e-3, 1e6),
        (0, 1),
    ],
)
@pytest.mark.parametrize("count", [256, 999])
def test_no_point_that_is_not_listed_is_nearer_than_said(count: int, columns: int, scale: float, offset: float) -> None:
    points = table(count, columns, seed=1, scale=scale, offset=offset)
    rows = torch.cat([table(50, columns, seed=2, scale=scale, offset=offset), points[:5]])
    distance, places, least = Shortlist(points, SIZE)(rows)
    assert places.shape == distance.shape == (55, SIZE)
    true = torch.cdist(rows, points, compute_mode="donot_use_mm_for_euclid_dist")
    torch.testing.assert_close(distance, true.gather(1, places), rtol=1e-12, atol=0)
    others = true.scatter(1, places, float("inf")).amin(dim=1)
    assert bool((torch.logical_not(least > others)).all()), "what is not known is not promised"


def test_it_lists_each_point_once_and_is_sure_of_ordinary_rows() -> None:
    points, rows = table(999, 20, seed=1), table(200, 20, seed=2)
    distance, places, least = Shortlist(points, SIZE)(rows)
    assert all(len(set(own)) == SIZE for own in places.tolist())
    assert bool((distance.sort(dim=1).values[:, 5] < least).all())


def test_a_row_with_nan_lists_some_points_and_is_sure_of_nothing() -> None:
    points, rows = table(300, 4, seed=1), table(3, 4, seed=2)
    rows[1, 2] = float("nan")
    rows[2, 0] = float("inf")
    _, places, least = Shortlist(points, SIZE)(rows)
    assert int(places.max()) < len(points)
    assert not bool((least[1:] > 0).any())
