"""Occlusion heat maps of other tensors than photographs: time series, volumes, an image beside a text."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from udfs.driver import hint_keywords
from udfs.handlers import TensorSpec, framework
from udfs.occlusion import TargetError
from vista_spark.errors import InvalidArgumentError
from vista_spark.occlusion._base import Explained
from vista_spark.occlusion._options import OcclusionOptions
from vista_spark.occlusion._picture import plot_tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.figure import Figure
    from numpy.typing import NDArray
    from torch import nn

__all__ = ["TensorExplanation", "explain_tensor"]

# A channel and one axis to three.
_RANKS = range(2, 5)


@dataclass(frozen=True)
class TensorExplanation(Explained):
    """How much a network's answer depends on each part of a tensor. Made by :func:`explain_tensor`.

    Has the attributes of :class:`vista_spark.Explanation`, with a tensor for the image.

    Attributes
    ----------
    tensor : array of float32, of shape (channels, ...)
    """

    tensor: NDArray[np.float32]

    def plot(self) -> Figure:
        """Draw the channels of a series, and below them the heat map; or the heat map of a plane.

        Raises
        ------
        InvalidArgumentError
            A heat map of three axes.
        """
        return plot_tensor(self, self.tensor)


@hint_keywords
def explain_tensor(  # noqa: PLR0913 - every option by its name
    network: nn.Module,
    inputs: NDArray[Any] | Sequence[NDArray[Any]],
    *,
    patch: int | Sequence[int],
    stride: int | Sequence[int],
    of: int = 0,
    target: int | None = None,
    perturbation: str = "mean",
    value: float | Sequence[float] = 0.0,
    region: Sequence[tuple[int, int]] | None = None,
    mode: str = "exact",
    tau: float = 0.8,
    precision: str = "float32",
    batch_size: int = 32,
    on_update: Callable[[NDArray[np.float32]], object] | None = None,
) -> TensorExplanation:
    """Lay a patch on every place of a tensor and see what a network predicts then (Krypton, equations 6.1 to 6.6).

    As :func:`vista_spark.explain_image` does for photographs and the networks of the roster, but for any network of
    PyTorch that can be traced, and any tensor with channels first: a time series (one axis), an image (two), a volume
    (three).
    Other inputs of the network, as the text beside an image, stay as they are, and what depends on them alone
    is computed once.

    Parameters
    ----------
    network : torch.nn.Module
        In inference mode, of one output.
    inputs : array, or a sequence of arrays
        In the order of ``forward``, without the axis of records.
    patch, stride : int or sequence of int
        Of the patch, in elements; an entry per axis, or one for all. The stride is at most the patch.
    of : int
        Which input the patch is laid on; of shape (channels, ...). Default the first.
    target : int, optional
        The class whose probability counts; the predicted one by default.
    perturbation : {"mean", "blur", "color"}
        What the patch holds: the tensor's mean, per channel (default); the tensor blurred, each element the mean of as
        large a neighbourhood as the patch; or `value`.
    value : float or sequence of float
        For all channels, or an entry per channel. Default 0.
    region : sequence of pairs of int, optional
        That the patch stays in, half-open, a pair per axis; everything by default.
    mode : {"exact", "approximate", "naive"}
        As for :func:`vista_spark.explain_image`; the approximate mode is without drill-down.
    tau : float
        In the approximate mode: at most this fraction of each axis is kept up to date around a patch. Default 0.8.
    precision : {"float32", "bfloat16"}
        As for :func:`vista_spark.explain_image`.
    batch_size : int
        Places at a time. Default 32.
    on_update : callable, optional
        Called after each batch with the heat map so far.

    Returns
    -------
    TensorExplanation

    Raises
    ------
    InvalidArgumentError
        An unknown mode, class, perturbation or precision; a stride or input that does not do; a network of several
        outputs.
    optimizer.occlusion.PatchError
        A patch that does not fit, a region outside of the tensor, a tau that is no fraction; a network that cannot be
        run in bfloat16.
    udfs.handlers.UntraceableModelError
        The network cannot be opened into layers.

    Examples
    --------
    >>> import numpy as np
    >>> from torch import nn
    >>> network = nn.Sequential(
    ...     nn.Conv1d(6, 8, 5, padding=2), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(8, 4)
    ... ).eval()
    >>> walking = np.random.default_rng(0).normal(size=(6, 100)).astype("float32")
    >>> explain_tensor(network, walking, patch=10, stride=5).heat_map.shape
    (19,)
    """
    arrays = [np.asarray(array) for array in ([inputs] if isinstance(inputs, np.ndarray) else inputs)]
    if not 0 <= of < len(arrays):
        raise InvalidArgumentError(f"of={of}: there are {len(arrays)} inputs, counted from 0")
    tensor = arrays[of]
    if tensor.ndim not in _RANKS or not np.issubdtype(tensor.dtype, np.floating):
        raise InvalidArgumentError(
            f"input {of} is {tensor.dtype} of shape {tensor.shape}: a patch is laid on floats of shape (channels, ...) "
            "with one to three axes"
        )
    axes = tensor.ndim - 1
    options = OcclusionOptions(
        patch=_by_axis("patch", patch, axes),
        stride=_by_axis("stride", stride, axes),
        region=None if region is None else tuple(region),
        perturbation=perturbation,
        mode=mode,
        tau=tau,
        precision=precision,
        batch_size=batch_size,
    )
    options.grid(tensor.shape[1:])
    fill = (float(value),) * len(tensor) if isinstance(value, int | float) else tuple(map(float, value))
    if len(fill) != len(tensor):
        raise InvalidArgumentError(f"value={value!r}: one number, or one for each of {len(tensor)} channels")

    import torch  # noqa: PLC0415 - an optional package

    from udfs.occlusion.occluder import Occluder  # noqa: PLC0415 - needs torch

    arrays[of] = tensor = np.ascontiguousarray(tensor, np.float32)
    traced: Any = framework("torch").trace(network, [TensorSpec(array.shape, str(array.dtype)) for array in arrays])
    occlusion = options.occlusion(traced.graph, tensor.shape[1:], fill)
    names = traced.graph.inputs
    occluder = Occluder(traced.prepare(torch.get_num_threads()), occlusion, names[of])
    others = {name: array for name, array in zip(names, arrays, strict=True) if name != names[of]}
    started = time.perf_counter()
    try:
        heat = occluder.heat_map(occluder.opened(tensor, others), target, on_update)
    except TargetError as error:
        raise InvalidArgumentError(f"target={target!r}: {error}") from None
    return TensorExplanation(
        heat.values, occlusion.grid, heat.target, heat.predicted, heat.probability, mode,
        occluder.patches.overall_speed_up, time.perf_counter() - started, tensor,
    )  # fmt: skip


def _by_axis(name: str, given: int | Sequence[int], axes: int) -> tuple[int, ...]:
    extents = (given,) * axes if isinstance(given, int) else tuple(given)
    if len(extents) != axes:
        raise InvalidArgumentError(f"{name}={given!r}: the tensor has {axes} axes beside its channels")
    return extents
