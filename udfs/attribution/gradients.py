"""Attributions by gradients of PyTorch networks, computed by captum: integrated gradients and Grad-CAM."""

from __future__ import annotations

import copy
import math
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from optimizer.errors import InvalidArgumentError, nearest
from udfs.attribution._scored_inputs import Importance, check_positive
from udfs.handlers import LAYOUTS, LayerLayout, keyed_outputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    Layouts = Callable[[str, tuple[int, ...]], LayerLayout | None]

__all__ = ["Gradients", "grad_cam", "integrated_gradients", "score_of_torch"]

_ROUNDING = 1e-4
_VECTOR = 2  # axes of vectors: inputs, channels


@dataclass(frozen=True)
class Gradients:
    """PyTorch network and the score of its outputs whose gradients captum computes."""

    network: nn.Module  # network, which stays unchanged: gradients use a copy without in-place operations
    # Function from an output of the network for a batch to one number per record.
    score: Callable[[torch.Tensor], torch.Tensor]
    inputs: Sequence[NDArray[Any]]  # inputs without the axis of records
    place: int = 0  # index of the input whose elements get the attribution
    head: str | int | None = None  # output of a network that returns several

    def scored(self, returned: Any) -> torch.Tensor:
        """Score the network's return value."""
        keyed = keyed_outputs(returned, torch.Tensor)
        if not keyed:
            return self.score(returned)
        key = self.head if self.head in keyed else list(keyed)[int(self.head or 0)]
        return self.score(keyed[key])


def integrated_gradients(
    gradients: Gradients, baseline: NDArray[Any], *, steps: int = 50, batch_size: int = 32
) -> Importance:
    """Integrate the gradients on the line from a baseline to the input (captum's ``IntegratedGradients``).

    Sundararajan, Taly and Yan, *Axiomatic attribution for deep networks*, ICML 2017, section 3.

    Parameters
    ----------
    baseline : array
        Start of the line, in the input's shape.
    steps : int
        Steps of the integral. Default 50.
    batch_size : int
        Steps per batch. Default 32.

    Returns
    -------
    Importance
        One array of the input's shape. ``measures["gap"]`` is the sum of the values minus the score's fall from the
        input to the baseline: 0 for infinitely many steps.

    Raises
    ------
    InvalidArgumentError
        The input is of integers, which have no gradient; or no gradient flows through the network.
    ImportError
        captum is not installed.

    Examples
    --------
    >>> linear = nn.Linear(2, 1, bias=False)
    >>> _ = nn.init.constant_(linear.weight, 3.0)
    >>> gradients = Gradients(linear, lambda outputs: outputs[:, 0], [np.array([1.0, 2.0], np.float32)])
    >>> integrated_gradients(gradients, np.zeros(2, np.float32)).values[0].round(4).tolist()
    [3.0, 6.0]
    """
    attr = _captum()
    check_positive("steps", steps)
    check_positive("batch_size", batch_size)
    tensors, place = _tensors(gradients), gradients.place
    network = _differentiable(gradients.network)

    def forward(changing: torch.Tensor) -> torch.Tensor:
        arguments = [
            changing if number == place else tensor.expand(len(changing), *tensor.shape[1:])
            for number, tensor in enumerate(tensors)
        ]
        return gradients.scored(network(*arguments))

    start = torch.from_numpy(np.ascontiguousarray(baseline))[None]
    with _explained_errors():
        values = attr.IntegratedGradients(forward).attribute(
            tensors[place], start, n_steps=steps, internal_batch_size=min(batch_size, steps)
        )
    with torch.no_grad():
        whole, least = (float(forward(tensor)[0]) for tensor in (tensors[place], start))
    array = values[0].detach().numpy().astype(np.float64)
    return Importance((array,), whole, steps + 2, measures={"gap": float(array.sum() - (whole - least))})


def grad_cam(
    gradients: Gradients, layouts: Layouts, layer: str | None = None
) -> tuple[NDArray[np.float64], str, float]:
    """Weight a layer's feature maps by the mean gradient of the score (captum's ``LayerGradCam``).

    Selvaraju et al., *Grad-CAM: visual explanations from deep networks via gradient-based localization*, ICCV 2017,
    section 3, equations 1 and 2; without the last ReLU, so that the sign stays.

    Parameters
    ----------
    gradients : Gradients
        Network, score and inputs; the input with the attribution is an image.
    layouts : callable
        Function from a module's path and the shape of its output per record to a
        :class:`udfs.handlers.LayerLayout`, or ``None`` if the layout is ambiguous.
    layer : str, optional
        Path of a module that returns a map, with the channels first or last, or the tokens of one. Default: the last
        one with several rows or columns.

    Returns
    -------
    values : array of float64, of shape (height, width)
        Importance, enlarged bilinearly to the image.
    layer : str
        Path of the module.
    whole : float
        Score of the image.

    Raises
    ------
    InvalidArgumentError
        The module does not exist, returns no feature maps or has an ambiguous layout, or no gradient flows through the
        network.
    ImportError
        captum is not installed.
    """
    attr = _captum()
    tensors, network = _tensors(gradients), _differentiable(gradients.network)
    known, shapes = dict(network.named_modules()), _shapes(network, tensors)
    recognised = {name: layouts(name, shape) for name, shape in shapes.items()}
    maps = {name: layout for name, layout in recognised.items() if layout is not None and _is_map(layout, shapes[name])}
    if layer is not None and layer not in known:
        raise InvalidArgumentError(
            f"layer must be a module's path such as {_examples(maps)}, got {layer!r}{nearest(layer, tuple(known))}"
        )
    if layer is not None and layer in recognised and recognised[layer] is None:
        raise InvalidArgumentError(
            f"layout must be stated for layer {layer!r}, because its output of shape {shapes[layer]} may have its "
            f"channels on any axis, got None. Pass layout= with one of {', '.join(LAYOUTS)}"
        )
    if not shapes:
        raise InvalidArgumentError(
            "the network must have modules that run for Grad-CAM, got a program whose graph is flat; use ablation, "
            "rise or integrated_gradients, or the module that it was exported from"
        )
    chosen = layer if layer is not None else next(reversed(maps), None)
    if chosen is None or chosen not in maps:
        raise InvalidArgumentError(
            f"layer must return maps of several rows or columns, got {layer!r}; use {_examples(maps)}"
        )
    height, width = tensors[gradients.place].shape[-2:]
    places = _as_channels_first(known[chosen], maps[chosen])
    cam = attr.LayerGradCam(lambda *arguments: gradients.scored(network(*arguments)), places)
    with _explained_errors():
        values = cam.attribute(tuple(tensors))
    large = attr.LayerAttribution.interpolate(values, (height, width), "bilinear")
    with torch.no_grad():
        whole = float(gradients.scored(network(*tensors))[0])
    return large[0, 0].detach().numpy().astype(np.float64), chosen, whole


@contextmanager
def _explained_errors() -> Iterator[None]:
    """Replace an error of autograd by one that names the remedy."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        remedy = "use ablation, lime or rise"
        if "inplace" in reason:
            remedy = f"replace in-place operations, such as x += 1, by ones that return a new tensor, or {remedy}"
        raise InvalidArgumentError(f"the network must be differentiable, got {reason!r}: {remedy}") from error


def score_of_torch(
    form: str, target: int, expected: float, outputs: NDArray[Any]
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a differentiable score, and check that it equals the one of numpy.

    Parameters
    ----------
    form : str
        Name of the function of :class:`udfs.occlusion.SettledScore`.
    target : int
        Element of the score.
    expected : float
        Score that numpy computes from `outputs`.
    outputs : array of shape (1, ...)
        Output of the network.

    Raises
    ------
    InvalidArgumentError
        There is no such function for tensors, or its score differs.
    """
    function = _FORMS.get(form.lstrip("_"))
    if function is None:
        raise InvalidArgumentError(
            'output must be "probability", "logit", "log_odds" or "value" for gradients, got a function of arrays'
        )

    def score(tensor: torch.Tensor) -> torch.Tensor:
        return function(tensor.flatten(1))[:, target]

    computed = float(score(torch.from_numpy(np.array(outputs, np.float64)))[0])
    if abs(computed - expected) > _ROUNDING * max(1.0, abs(expected)):
        raise InvalidArgumentError(
            f"the differentiable score must equal {expected:.6f}, got {computed:.6f}; please report this"
        )
    return score


def _log_odds_of_logits(logits: torch.Tensor) -> torch.Tensor:
    """Compute each logit minus the logsumexp of the others."""
    count = logits.shape[1]
    others = logits[:, None, :].expand(-1, count, -1).masked_fill(torch.eye(count, dtype=torch.bool), -torch.inf)
    return logits - others.logsumexp(dim=2)


_FORMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "as_is": lambda flat: flat,
    "exp": torch.exp,
    "softmax": lambda flat: flat.softmax(dim=1),
    "sigmoid": torch.sigmoid,
    "odds_of_each": lambda flat: torch.log(flat) - torch.log1p(-flat),
    "odds_of_logs": lambda flat: flat - torch.log(-torch.expm1(flat)),
    "odds_of_shares": lambda flat: _log_odds_of_logits(flat.log()),
    "odds_of_logits": _log_odds_of_logits,
}


def _captum() -> Any:
    """Import captum's attributions.

    Raises
    ------
    ImportError
        captum is not installed.
    """
    try:
        from captum import attr
    except ImportError:
        raise ImportError('gradients need captum: pip install "cerebro-spark[explain]"') from None
    return attr


def _tensors(gradients: Gradients) -> list[torch.Tensor]:
    """Add an axis of records to the inputs, and check that the attributed one has a gradient."""
    dtype = gradients.inputs[gradients.place].dtype
    if not np.issubdtype(dtype, np.floating):
        raise InvalidArgumentError(
            f"input {gradients.place} must be floats to have a gradient, got {dtype}; use ablation or lime"
        )
    return [torch.from_numpy(np.ascontiguousarray(array))[None] for array in gradients.inputs]


def _differentiable(network: nn.Module) -> nn.Module:
    """Copy a network without in-place activations, which would overwrite tensors that captum's hooks keep.

    A network of half or double precision becomes float32 in the copy, which is precise enough and fast.
    """
    copied = copy.deepcopy(network).eval()
    if len({tensor.dtype for tensor in copied.parameters() if tensor.is_floating_point()}) == 1:
        copied = copied.float()
    for module in copied.modules():
        if getattr(module, "inplace", False) is True:
            module.inplace = False  # type: ignore[assignment]  # of activations alone
    return copied


def _shapes(network: nn.Module, tensors: Sequence[torch.Tensor]) -> dict[str, tuple[int, ...]]:
    """Return what modules return by its shape per record, in the order in which they run; a container follows parts."""
    shapes: dict[str, tuple[int, ...]] = {}

    def keep(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(module: nn.Module, arguments: Any, result: Any) -> None:
            del module, arguments
            if isinstance(result, torch.Tensor) and result.dim() > _VECTOR:
                shapes.pop(name, None)
                shapes[name] = tuple(result.shape[1:])

        return hook

    hooks = [module.register_forward_hook(keep(name)) for name, module in network.named_modules() if name]
    try:
        with torch.no_grad():
            network(*tensors)
    finally:
        for handle in hooks:
            handle.remove()
    return shapes


def _is_map(layout: LayerLayout, shape: tuple[int, ...]) -> bool:
    """Return whether a layout has several places in rows and columns."""
    if layout.grid is not None:
        return math.prod(layout.grid) > 1
    return layout.has_grid and math.prod(shape[axis] for axis in layout.places) > 1


def _as_channels_first(module: nn.Module, layout: LayerLayout) -> nn.Module:
    """Pass a module's output through a new module that has it as a map with the channels first, and return that."""
    if layout == LayerLayout((1, 2)):
        return module
    places = nn.Identity()
    axes = [axis + 1 for axis in layout.places]
    last = list(range(-len(axes), 0))

    def through(module: nn.Module, arguments: Any, output: torch.Tensor) -> torch.Tensor:
        del module, arguments
        moved = output.movedim(axes, last)
        channels = moved.shape[1 : -len(axes)]
        ends = [layout.leading, moved.shape[-1] - layout.leading - layout.trailing, layout.trailing]
        before, inner, after = (
            torch.split(moved, ends, -1) if layout.grid is not None else (moved[..., :0], moved, moved[..., :0])
        )
        extents = layout.grid or inner.shape[-len(axes) :]
        again = places(inner.reshape(len(moved), -1, *extents)).reshape(
            len(moved), *channels, *inner.shape[-len(axes) :]
        )
        return torch.cat([before, again, after], -1).movedim(last, axes)

    module.register_forward_hook(through)
    return places


def _examples(maps: Mapping[str, object]) -> str:
    """Name the last few modules that return feature maps."""
    return ", ".join(list(maps)[-3:]) or "a network with a convolution"
