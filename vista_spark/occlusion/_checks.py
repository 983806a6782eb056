"""What the explanation of one image and of a DataFrame's share: a network and a patch, checked before anything runs."""

from __future__ import annotations

import hashlib
import json
import platform
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer._version import __version__
from optimizer.errors import nearest
from optimizer.occlusion import OcclusionGrid, PatchError, stage_one_step
from udfs.node import node_folder, written_once
from udfs.occlusion import MODES, PERTURBATIONS, PRECISIONS, CostModel, Occlusion
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from optimizer.graph import LayerGraph
    from udfs.handlers import TracedModel
    from udfs.images import Preprocessing
    from vista_spark.roster import ModelCard

__all__ = [
    "check_color",
    "check_explainable",
    "check_network",
    "check_occlusion",
    "check_patch",
    "cost_model",
    "first_step",
    "occlusion_of",
]


def check_explainable(card: ModelCard) -> None:
    """Raise ``InvalidArgumentError`` unless a model of the roster is a network of PyTorch for images."""
    if card.framework != "torch" or card.kind != "image":
        raise InvalidArgumentError(
            f"model {card.name!r} is one of {card.framework} for {card.kind}s: explanations are for images and PyTorch"
        )


def check_color(color: tuple[int, ...], name: str) -> None:
    """Raise ``InvalidArgumentError`` unless these are red, green and blue."""
    if len(color) != 3 or not all(0 <= value <= 255 for value in color):  # noqa: PLR2004 - RGB, 8 bits
        raise InvalidArgumentError(f"{name}={color!r}: three numbers from 0 to 255")


def check_patch(mode: str, perturbation: str, precision: str, patch: tuple[int, ...], stride: tuple[int, ...]) -> None:
    """Raise ``InvalidArgumentError`` for a mode, perturbation or precision that is none, or a stride with gaps."""
    choices = (
        ("mode", mode, MODES), ("perturbation", perturbation, PERTURBATIONS), ("precision", precision, PRECISIONS)
    )  # fmt: skip
    for name, given, known in choices:
        if given not in known:
            raise InvalidArgumentError(f"{name}={given!r}{nearest(given, known)}; one of: {', '.join(known)}")
    for step, extent in zip(stride, patch, strict=True):
        if step > extent:
            raise InvalidArgumentError(
                f"stride {step} is larger than the patch of {extent}: what lies between places would never be covered"
            )


def check_occlusion(
    preprocessing: Preprocessing,
    *,
    patch_size: int,
    stride: int,
    patch_color: tuple[int, ...],
    region: tuple[tuple[int, int], ...] | None,
    mode: str,
    perturbation: str,
    precision: str,
) -> OcclusionGrid:
    """What is wrong with a patch for images of a size, whatever the network.

    Parameters
    ----------
    preprocessing : Preprocessing
    patch_size, stride, patch_color, region, mode, perturbation, precision
        As for :func:`vista_spark.explain`.

    Raises
    ------
    InvalidArgumentError
        A mode, perturbation, precision or colour that is none; a stride that leaves pixels between two places.
    optimizer.occlusion.PatchError
        A patch that does not fit, a region outside of the image.
    """
    check_patch(mode, perturbation, precision, (patch_size,), (stride,))
    check_color(patch_color, "patch_color")
    return OcclusionGrid((preprocessing.crop,) * 2, (patch_size,) * 2, (stride,) * 2, region)


def occlusion_of(traced: TracedModel, preprocessing: Preprocessing, *, batch_size: int, **options: Any) -> Occlusion:
    """What to lay on a network's images, in the network's own terms.

    Parameters
    ----------
    traced : TracedModel
    preprocessing : Preprocessing
    batch_size : int
    **options
        As for :func:`check_occlusion`.

    Raises
    ------
    InvalidArgumentError
        Also a network of several outputs, or without a layer that could be computed in parts.
    """
    grid = check_occlusion(preprocessing, **options)
    check_network(traced.graph, options["mode"])
    fill = tuple(float(value) for value in _normalised(options["patch_color"], preprocessing))
    taken = {name: options[name] for name in ("mode", "perturbation", "precision")}
    return Occlusion(grid, fill, batch_size=batch_size, **taken)


def check_network(graph: LayerGraph, mode: str) -> None:
    """Raise ``InvalidArgumentError`` for several outputs, or without a layer that could be computed in parts."""
    if len(graph.outputs) != 1:
        raise InvalidArgumentError(f"a network that gives {', '.join(graph.outputs)}: an explanation is of one output")
    if mode != "naive" and not any(layer.window is not None for layer in graph):
        raise InvalidArgumentError(
            'a network without a convolution or pooling has nothing to compute in parts: take mode="naive"'
        )


def first_step(grid: OcclusionGrid, target_speed_up: float, fraction: float) -> int:
    """As :func:`optimizer.occlusion.stage_one_step`.

    Parameters
    ----------
    grid : OcclusionGrid
    target_speed_up, fraction : float

    Raises
    ------
    InvalidArgumentError
        No stride gives that much.
    """
    try:
        return stage_one_step(grid, target_speed_up, fraction)
    except PatchError as error:
        raise InvalidArgumentError(str(error)) from None


def cost_model(measure: Callable[[], CostModel], key: tuple[object, ...]) -> CostModel:
    """Measured once on this machine for a key, and remembered.

    Parameters
    ----------
    measure : callable
    key : tuple
        The network, the patch and its places, the mode, and what computes them.
    """
    of = (*key, __version__, platform.processor(), platform.machine())
    path = node_folder("explanations") / f"{hashlib.sha256(repr(of).encode()).hexdigest()}.json"
    if path.is_file():
        return CostModel(**json.loads(path.read_text()))
    found = measure()
    with written_once(path) as partial:
        partial.write_text(json.dumps(asdict(found)))
    return found


def _normalised(color: tuple[int, ...], preprocessing: Preprocessing) -> NDArray[np.float32]:
    channels = color if preprocessing.channels == "RGB" else color[::-1]
    found = (np.array(channels) * preprocessing.scale - np.array(preprocessing.mean)) / np.array(preprocessing.std)
    normalised: NDArray[np.float32] = found.astype(np.float32)
    return normalised
