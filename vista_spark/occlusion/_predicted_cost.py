"""Predicted cost of approximate heat maps, so that none takes longer than the exact one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from optimizer.occlusion import PatchError, update_patches
from udfs.occlusion import COMPARABLE, Lattice, spread_places

if TYPE_CHECKING:
    from optimizer.graph import LayerGraph
    from udfs.handlers import TracedModel
    from udfs.occlusion import Occlusion

__all__ = ["fastest"]

# FLOPs of an exact heat map from which on a measurement and another mode are worth it: about half a second.
_WORTH_MEASURING = 2e10

# Cost relative to an exact heat map from which on the exact one is computed; costs by FLOPs are not more precise.
_SLOWER = 1.05

# Ratio of seconds below which bfloat16 pays: it costs precision.
_PAYS = 0.8


def fastest(occlusion: Occlusion, model: TracedModel, precision: str) -> Occlusion:
    """Settle the precision of approximate heat maps, and compute exact ones if those are as fast.

    Parameters
    ----------
    occlusion : Occlusion
        Settings in the approximate mode.
    model : TracedModel
        Network of torch.
    precision : {"auto", "float32", "bfloat16"}
        Wanted precision. ``"auto"`` is bfloat16 only if a measurement of one layer shows that it pays, and if places
        need not be exact, as they need for a target of the likeness. An exact heat map of less than about half a second
        is not worth a measurement: ``"auto"`` is float32 then, and the mode stays.

    Returns
    -------
    Occlusion
        Settings to use; their ``note`` describes a change of the mode or the precision.
    """
    needs_exact_places = occlusion.target_ssim is not None
    settled = replace(occlusion, precision="float32" if precision == "auto" else precision)  # type: ignore[arg-type]
    try:
        exact_flops = _flops(model.graph, occlusion, 1.0)
    except PatchError:  # a network of several inputs, or one that the occluder refuses in its own words
        return settled
    if exact_flops * occlusion.grid.count < _WORTH_MEASURING:
        return settled
    slowdown = 1.0
    if precision == "bfloat16" or (precision == "auto" and not needs_exact_places):
        from udfs.occlusion.bfloat16_pace import bfloat16_slowdown  # imports torch, an optional extra

        traced: Any = model
        slowdown = bfloat16_slowdown(traced)
        if precision == "auto":
            settled = replace(settled, precision="bfloat16" if slowdown < _PAYS else "float32")
    lean = settled.precision == "bfloat16"
    if needs_exact_places:
        if not lean or slowdown <= 1:
            return settled
        note = f"float32 instead of bfloat16, which takes {slowdown:.1f} times as long on this device"
        return replace(settled, precision="float32", note=note)
    cost = _share(settled, model.graph, exact_flops) * (slowdown if lean else 1.0) + _sample(settled)
    if cost <= _SLOWER:
        return settled
    why = f" (bfloat16 takes {slowdown:.1f} times as long as float32 on this device)" if lean and slowdown > 1 else ""
    note = f"exact instead of approximate, which would take about {cost:.1f} times as long{why}"
    return replace(settled, mode="exact", precision="float32", tau=1.0, step=1, note=note)


def _flops(graph: LayerGraph, occlusion: Occlusion, tau: float) -> float:
    patches = update_patches(graph, occlusion.grid, threshold=tau)
    return float(patches.mean_flops + patches.whole_flops)


def _share(occlusion: Occlusion, graph: LayerGraph, exact_flops: float) -> float:
    """Return the FLOPs of the places in those of an exact heat map."""
    count = occlusion.grid.count
    places = Lattice(occlusion.grid, occlusion.step).places(occlusion.fraction) if occlusion.step > 1 else count
    relative = _flops(graph, occlusion, occlusion.tau) / exact_flops if exact_flops else 1.0
    return places / count * relative


def _sample(occlusion: Occlusion) -> float:
    """Return the share of the places that are computed exactly as well, to estimate the likeness."""
    is_exact = occlusion.tau == 1 and occlusion.precision == "float32"
    if is_exact or min(occlusion.grid.shape) < COMPARABLE:
        return 0.0
    return float(spread_places(occlusion.grid.shape).sum()) / occlusion.grid.count
