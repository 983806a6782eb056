"""Heat maps of plotly: what the pointer reads, and where the colours are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optimizer.occlusion import OcclusionGrid
from vista_spark.errors import InvalidArgumentError
from vista_spark.occlusion import Explanation

pytest.importorskip("plotly")


def explanation(**facts: Any) -> Explanation:
    grid = OcclusionGrid((64, 80), (16, 16), (8, 16))
    heat_map = np.full(grid.shape, 0.7, np.float32)
    heat_map[2, 1] = 0.2
    heat_map[0, 0] = np.nan
    image = np.zeros((64, 80, 3), np.uint8)
    return Explanation(heat_map, grid, 3, 3, 0.7, "exact", 2.0, 1.5, image, **facts)


def test_the_pointer_reads_the_patch_and_its_score() -> None:
    image, heat = explanation().interactive().data
    assert np.asarray(image.z).shape == (64, 80, 3)
    assert np.asarray(heat.z)[2][1] == pytest.approx(0.2)
    assert np.isnan(np.asarray(heat.z, float)[0][0])
    assert heat.customdata[2][1] == "rows 16 to 32, columns 16 to 32"
    assert (heat.zmin + heat.zmax) / 2 == pytest.approx(0.7), "the middle is the whole image's score"


def test_the_colours_lie_where_the_patches_were() -> None:
    """A cell has its patch's middle in its middle; plotly's first pixel reaches from -0.5 to 0.5."""
    heat = explanation().interactive().data[1]
    x, y = np.asarray(heat.x), np.asarray(heat.y)
    assert (len(x), len(y)) == (6, 8)
    assert (x[1] + x[2]) / 2 == 16 + 8 - 0.5
    assert (y[2] + y[3]) / 2 == 16 + 8 - 0.5


def test_random_weights_are_said_and_palettes_checked() -> None:
    assert "random weights" in explanation(has_random_weights=True).interactive().layout.title.text.lower()
    with pytest.raises(InvalidArgumentError, match=r"palette must be .* got 'RdBx'"):
        explanation().interactive("RdBx")
