"""Occlusion heat maps of other tensors than photographs: time series, volumes, an image beside a text."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from udfs.driver import hint_keywords
from udfs.handlers import TensorSpec, framework_of
from udfs.occlusion import TargetError, open_occluder
from vista_spark.errors import InvalidArgumentError
from vista_spark.occlusion._arguments import (
    as_inputs,
    check_callable,
    finite,
    real_number,
    whole_number,
    whole_numbers,
)
from vista_spark.occlusion._base import notes_of
from vista_spark.occlusion._checks import one_record
from vista_spark.occlusion._options import OcclusionOptions
from vista_spark.occlusion._picture import PALETTE, plot_tensor
from vista_spark.occlusion._record import Recorded
from vista_spark.roster import fitting_class_names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from udfs.occlusion import Output
    from vista_spark.occlusion._options import Content
    from vista_spark.roster import ClassNames

__all__ = ["TensorExplanation", "explain_tensor"]

# A channel and one axis to three.
_RANKS = range(2, 5)


@dataclass(frozen=True)
class TensorExplanation(Recorded):
    """How much a network's answer depends on each part of a tensor. Made by :func:`explain_tensor`.

    Has the attributes of :class:`vista_spark.Explanation`, with a tensor for the image.

    Attributes
    ----------
    tensor : array of float32, of shape (channels, ...)
        Channels first for networks of all frameworks.
    """

    tensor: NDArray[np.float32]

    def plot(self, palette: str = PALETTE) -> Figure:
        """Draw the channels of a series, and below them the heat map; or the heat map of a plane.

        Parameters
        ----------
        palette : str
            Of a plane, as for :meth:`vista_spark.Explanation.plot`.

        Raises
        ------
        InvalidArgumentError
            A heat map of three axes.
        """
        return plot_tensor(self, self.tensor, palette)


@hint_keywords
def explain_tensor(  # noqa: PLR0913 - every option by its name
    network: Any,
    inputs: NDArray[Any] | torch.Tensor | Sequence[NDArray[Any] | torch.Tensor],
    *,
    patch: int | Sequence[int],
    stride: int | Sequence[int],
    of: int = 0,
    target: int | None = None,
    output: Output | None = None,
    head: str | int | None = None,
    perturbation: Content = "mean",
    value: float | Sequence[float] | None = None,
    region: Sequence[tuple[int, int]] | None = None,
    mode: str = "exact",
    target_ssim: float | None = None,
    tau: float | None = None,
    precision: str | None = None,
    batch_size: int = 32,
    on_update: Callable[[NDArray[np.float32]], object] | None = None,
    verify: int | None = None,
    seed: int = 0,
    class_names: ClassNames | None = None,
) -> TensorExplanation:
    """Lay a patch on every place of a tensor and see what a network predicts then (Krypton, equations 6.1 to 6.6).

    As :func:`vista_spark.explain_image` does for photographs and the networks of the roster, but for any network of
    PyTorch or Keras that can be traced, and any tensor: a time series (one axis), an image (two), a volume (three).
    Channels come first for PyTorch, last for Keras, whose networks are computed in full for each place.
    Other inputs of the network, as the text beside an image, stay as they are, and what depends on them alone
    is computed once.

    Parameters
    ----------
    network : torch.nn.Module or keras.Model
        Of a framework of :func:`udfs.handlers.frameworks`; in inference mode.
    inputs : array or tensor, or a list of them
        In the order of ``forward``, without the axis of records.
    patch, stride : int or sequence of int
        Of the patch, in elements; an entry per axis, or one for all. The stride is at most the patch.
    of : int
        Which input the patch is laid on; of shape (channels, ...). Default the first.
    target, output, head
        As for :func:`vista_spark.explain_image`: the element of the score that is mapped, the score, and the output of
        a network that returns several.
    perturbation : {"mean", "blur", "color"}, array or callable
        What the patch holds: the tensor's mean, per channel (default); the tensor blurred, each element the mean of as
        large a neighbourhood as the patch; `value`; what an array of the tensor's shape has at that place; or what such
        an array has that a function makes of the tensor.
    value : float or sequence of float, optional
        With ``perturbation="color"`` alone: for all channels, or an entry per channel. Default 0.
    region : sequence of pairs of int, optional
        That the patch stays in, half-open, a pair per axis; everything by default.
    mode : {"exact", "approximate", "naive"}
        As for :func:`vista_spark.explain_image`; the approximate mode is without drill-down.
    target_ssim : float, optional
        In the approximate mode alone, instead of `tau`: likeness to reach, as for :func:`vista_spark.explain_image`. Of
        a series it is estimated less well: by 0.05 too high in the mean, over 14 windows of accelerometers.
    tau : float, optional
        In the approximate mode alone: at most this fraction of each axis is kept up to date around a patch. Default
        0.8, unless `target_ssim` is given.
    precision : {"float32", "bfloat16"}, optional
        As for :func:`vista_spark.explain_image`.
    batch_size : int
        Places at a time. Default 32.
    on_update : callable, optional
        Called after each batch with the heat map so far.
    verify, seed, class_names
        As for :func:`vista_spark.explain_image`.

    Returns
    -------
    TensorExplanation

    Raises
    ------
    InvalidArgumentError
        An unknown mode, perturbation, precision or output; a target that the score does not have; a stride or input
        that does not do; an input that is not finite; a network of several outputs without `head`.
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
    own = framework_of(network)
    if own is None:
        raise InvalidArgumentError(
            f"a network of type {type(network).__name__}: no framework knows it; a torch.nn.Module, a keras.Model, or "
            "a model of a framework that udfs.handlers.register_framework was given"
        )
    arrays = as_inputs(inputs)
    for number, array in enumerate(arrays):
        finite(f"input {number}", array)
    laid_on = whole_number("of", of, 0)
    if laid_on >= len(arrays):
        raise InvalidArgumentError(f"of={of}: there are {len(arrays)} inputs, counted from 0")
    check_callable("on_update", on_update, "the heat map so far")
    tensor = arrays[laid_on]
    with one_record(own, network, arrays):
        if tensor.ndim not in _RANKS or not np.issubdtype(tensor.dtype, np.floating):
            layout = "(..., channels)" if own.channels_last else "(channels, ...)"
            raise InvalidArgumentError(
                f"input {of} is {tensor.dtype} of shape {tensor.shape}: a patch is laid on floats of shape {layout} "
                "with one to three axes"
            )
        extents, channels = tensor.shape[1:], tensor.shape[0]
        if own.channels_last:
            extents, channels = tensor.shape[:-1], tensor.shape[-1]
        options = OcclusionOptions(
            patch=_by_axis("patch", patch, len(extents)),
            stride=_by_axis("stride", stride, len(extents)),
            region=cast("Any", region),
            perturbation=perturbation,
            mode=mode,
            target_ssim=target_ssim,
            tau=tau,
            target_speedup=1.0 if mode == "approximate" and target_ssim is None else None,  # no drill-down
            precision=precision,
            batch_size=batch_size,
            output=output,
            head=head,
            verify=verify,
            seed=seed,
        )
        options.grid(extents)
        if mode == "approximate" and not own.incremental:
            raise InvalidArgumentError(
                f'a {own.name} network is not run in parts, as the approximate mode does: take mode="exact"'
            )
        fill = _fill(value, perturbation, channels)
        wanted = None if target is None else whole_number("target", target)

        arrays[laid_on] = tensor = np.ascontiguousarray(tensor, np.float32)
        options = options.over(tensor, range(len(extents)) if own.channels_last else range(1, tensor.ndim))
        traced = own.trace(network, [TensorSpec(array.shape, str(array.dtype)) for array in arrays])
        occlusion = options.occlusion(traced, extents, fill, incremental=own.incremental)
    names = traced.graph.inputs
    occluder = open_occluder(own, traced.prepare(own.threads()), occlusion, names[laid_on])
    others = {name: array for name, array in zip(names, arrays, strict=True) if name != names[laid_on]}
    started = time.perf_counter()
    try:
        opened = occluder.opened(tensor, others)
        named = fitting_class_names(class_names, None, occluder.settle(opened).size)
        heat = occluder.heat_map(opened, wanted, on_update)
    except TargetError as error:
        raise InvalidArgumentError(f"target={target!r}: {error}") from None
    return TensorExplanation(
        heat.values, occlusion.grid, heat.target, heat.predicted, heat.probability, mode,
        occluder.theoretical_speedup, time.perf_counter() - started,
        np.moveaxis(tensor, -1, 0) if own.channels_last else tensor, score=heat.score, verified=heat.verified,
        difference=heat.difference, likeness=heat.likeness, computed=heat.computed,
        notes=notes_of(own, mode, occluder), top=heat.top, class_names=named,
        model=type(network).__name__,
    )  # fmt: skip


def _by_axis(name: str, given: Any, axes: int) -> tuple[int, ...]:
    """Read a number for each axis, or one for all."""
    single = isinstance(given, str) or not hasattr(given, "__len__")
    extents = (whole_number(name, given, 1),) * axes if single else whole_numbers(name, given, 1)
    if len(extents) != axes:
        raise InvalidArgumentError(f"{name}={given!r}: the tensor has {axes} axes beside its channels")
    return extents


def _fill(value: Any, perturbation: Content, channels: int) -> tuple[float, ...]:
    """Read what a patch of one value per channel holds."""
    if value is None:
        return (0.0,) * channels
    if not isinstance(perturbation, str) or perturbation != "color":
        other = repr(perturbation) if isinstance(perturbation, str) else "an array or function"
        raise InvalidArgumentError(
            f'value={value!r}: the patch holds it with perturbation="color" alone, not with {other}'
        )
    single = isinstance(value, str) or not hasattr(value, "__len__")
    fill = (real_number("value", value),) * channels if single else tuple(real_number("value", each) for each in value)
    if len(fill) != channels:
        raise InvalidArgumentError(f"value={value!r}: one number, or one for each of {channels} channels")
    return fill
