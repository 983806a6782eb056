"""Theoretical speed-ups of the roster's networks: figure 6.3 of the Krypton chapter."""

from __future__ import annotations

import pytest

from optimizer.occlusion import OcclusionGrid, PatchError, update_patches
from udfs.handlers import framework
from vista_spark.roster import card

pytest.importorskip("torch")


# Patch 16, stride 4; over all positions and in the middle. Counted by another program before this one was written.
@pytest.mark.parametrize(("model", "mean", "centre"), [("vgg16", 9.78, 6.84), ("resnet18", 2.84, 2.19)])
def test_theoretical_speedup(model: str, mean: float, centre: float) -> None:
    found = card(model)
    graph = framework("torch").trace(found.skeleton(), list(found.preprocessing.inputs)).graph
    patches = update_patches(graph, OcclusionGrid((224, 224), (16, 16), (4, 4)))
    assert patches.speedup == pytest.approx(mean, abs=0.005)
    assert patches.centre_speedup == pytest.approx(centre, abs=0.005)
    assert 1 < patches.uniform_speedup <= patches.centre_speedup
    assert 1 < patches.overall_speedup <= patches.speedup
    with pytest.raises(PatchError, match="images of"):
        update_patches(graph, OcclusionGrid((224, 225), (16, 16), (4, 4)))
