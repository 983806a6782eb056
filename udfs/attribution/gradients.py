"""Attributions by gradients, which captum computes: integrated gradients and Grad-CAM of networks of PyTorch."""

from __future__ import annotations

import copy
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from optimizer.errors import InvalidArgumentError, nearest
from udfs.attribution._scoring import positive
from udfs.handlers import keyed_outputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

__all__ = ["Gradients", "IntegratedGradients", "grad_cam", "integrated_gradients", "score_of_torch"]

_ROUNDING = 1e-4
_MAP = 4  # axes of feature maps: inputs, channels, height, width


@dataclass(frozen=True)
class Gradients:
    """A network of PyTorch and a score of its outputs, whose gradients captum takes.

    Parameters
    ----------
    network : torch.nn.Module
        It stays as it is: a copy without operations in place is made.
    score : callable
        From an output of the network, of a batch, to one number for each input.
    inputs : sequence of array
        Without the axis of records.
    of : int
        Which input is attributed to. Default the first.
    head : str or int, optional
        Which output, of a network that returns several.
    """

    network: nn.Module
    score: Callable[[torch.Tensor], torch.Tensor]
    inputs: Sequence[NDArray[Any]]
    of: int = 0
    head: str | int | None = None

    def scored(self, returned: Any) -> torch.Tensor:
        """Score what the network returned."""
        keyed = keyed_outputs(returned, torch.Tensor)
        if not keyed:
            return self.score(returned)
        key = self.head if self.head in keyed else list(keyed)[int(self.head or 0)]
        return self.score(keyed[key])


@dataclass(frozen=True, slots=True)
class IntegratedGradients:
    """Made by :func:`integrated_gradients`.

    Attributes
    ----------
    values : array of float64, of the input's shape
    gap : float
        The values' sum less the score's fall from the input to the baseline. It is 0 for infinitely many steps: as
        much of the score as the values leave out.
    whole : float
        Score of the input.
    evaluations : int
    """

    values: NDArray[np.float64]
    gap: float
    whole: float
    evaluations: int


def integrated_gradients(
    of: Gradients, baseline: NDArray[Any], *, steps: int = 50, batch_size: int = 32
) -> IntegratedGradients:
    """Integrate the gradients on the line from a baseline to the input (captum's ``IntegratedGradients``).

    Sundararajan, Taly and Yan, *Axiomatic attribution for deep networks*, ICML 2017, section 3.

    Parameters
    ----------
    of : Gradients
    baseline : array, of the input's shape
    steps : int
        Default 50.
    batch_size : int
        Steps at a time. Default 32.

    Raises
    ------
    InvalidArgumentError
        The input is of whole numbers, which have no gradient; or none goes through the network.
    ImportError
        captum is not installed.

    Examples
    --------
    >>> linear = nn.Linear(2, 1, bias=False)
    >>> _ = nn.init.constant_(linear.weight, 3.0)
    >>> asked = Gradients(linear, lambda outputs: outputs[:, 0], [np.array([1.0, 2.0], np.float32)])
    >>> integrated_gradients(asked, np.zeros(2, np.float32)).values.round(4).tolist()
    [3.0, 6.0]
    """
    attr = _captum()
    positive("steps", steps)
    positive("batch_size", batch_size)
    tensors, own = _tensors(of), of.of
    network = _differentiable(of.network)

    def forward(changing: torch.Tensor) -> torch.Tensor:
        arguments = [
            changing if number == own else tensor.expand(len(changing), *tensor.shape[1:])
            for number, tensor in enumerate(tensors)
        ]
        return of.scored(network(*arguments))

    start = torch.from_numpy(np.ascontiguousarray(baseline))[None]
    with _in_words():
        values = attr.IntegratedGradients(forward).attribute(
            tensors[own], start, n_steps=steps, internal_batch_size=min(batch_size, steps)
        )
    with torch.no_grad():
        whole, none = (float(forward(tensor)[0]) for tensor in (tensors[own], start))
    array = values[0].detach().numpy().astype(np.float64)
    return IntegratedGradients(array, float(array.sum() - (whole - none)), whole, steps + 2)


def grad_cam(of: Gradients, layer: str | None = None) -> tuple[NDArray[np.float64], str, float]:
    """Weigh a layer's feature maps by the mean gradient of the score (captum's ``LayerGradCam``).

    Selvaraju et al., *Grad-CAM: visual explanations from deep networks via gradient-based localization*, ICCV 2017,
    section 3, equations 1 and 2; without the last ReLU, so that the sign stays.

    Parameters
    ----------
    of : Gradients
        Of an image.
    layer : str, optional
        Module that gives feature maps; by default the last one that gives them of more than one row and column.

    Returns
    -------
    values : array of float64, of shape (height, width)
        Enlarged bilinearly to the image.
    layer : str
    whole : float
        Score of the image.

    Raises
    ------
    InvalidArgumentError
        There is no such module, or it does not give feature maps; or no gradient goes through the network.
    ImportError
        captum is not installed.
    """
    attr = _captum()
    tensors, network = _tensors(of), _differentiable(of.network)
    maps, known = _feature_maps(network, tensors), dict(network.named_modules())
    if layer is not None and layer not in known:
        raise InvalidArgumentError(f"layer={layer!r}{nearest(layer, tuple(known))}; a module's path, as {_some(maps)}")
    chosen = layer if layer is not None else next(reversed(maps), None)
    if chosen not in maps:
        raise InvalidArgumentError(f"layer={layer!r} gives no maps of several rows or columns; try {_some(maps)}")
    height, width = tensors[of.of].shape[-2:]
    cam = attr.LayerGradCam(lambda *arguments: of.scored(network(*arguments)), known[chosen])
    with _in_words():
        values = cam.attribute(tuple(tensors))
    large = attr.LayerAttribution.interpolate(values, (height, width), "bilinear")
    with torch.no_grad():
        whole = float(of.scored(network(*tensors))[0])
    return large[0, 0].detach().numpy().astype(np.float64), chosen, whole


@contextmanager
def _in_words() -> Iterator[None]:
    """Say why no gradient goes through a network."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        way_out = "take ablation, lime or rise"
        if "inplace" in reason:
            way_out = f"write what changes a tensor in place, as x += 1, in a line that makes another one, or {way_out}"
        raise InvalidArgumentError(f"no gradient goes through the network ({reason}): {way_out}") from error


def score_of_torch(
    form: str, target: int, expected: float, outputs: NDArray[Any]
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Make a score that gradients go through, and check that it is the one of numpy.

    Parameters
    ----------
    form : str
        Name of the function of :class:`udfs.occlusion.SettledScore`.
    target : int
    expected : float
        The score of numpy, of `outputs`.
    outputs : array of shape (1, ...)

    Raises
    ------
    InvalidArgumentError
        There is no such function for tensors, or it gives another score.
    """
    function = _FORMS.get(form.lstrip("_"))
    if function is None:
        raise InvalidArgumentError(
            "gradients go through the scores that have a name, not through a function of arrays: give output="
            '"probability", "logit", "log_odds" or "value"'
        )

    def score(given: torch.Tensor) -> torch.Tensor:
        return function(given.flatten(1))[:, target]

    same = float(score(torch.from_numpy(np.array(outputs, np.float64)))[0])
    if abs(same - expected) > _ROUNDING * max(1.0, abs(expected)):
        raise InvalidArgumentError(
            f"the score's gradient is of {same:.6f} and not of {expected:.6f}: please report this"
        )
    return score


def _log_odds_of_logits(logits: torch.Tensor) -> torch.Tensor:
    """Each logit less the logsumexp of the others."""
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
        It is not installed; the message says how to install it.
    """
    try:
        from captum import attr  # an optional package
    except ImportError:
        raise ImportError('captum takes the gradients: pip install "cerebro-spark[explain]"') from None
    return attr


def _tensors(of: Gradients) -> list[torch.Tensor]:
    """Give the inputs an axis of records, and check that the one of interest has a gradient."""
    if not np.issubdtype(of.inputs[of.of].dtype, np.floating):
        raise InvalidArgumentError(
            f"input {of.of} is of {of.inputs[of.of].dtype}, which has no gradient: take ablation or lime"
        )
    return [torch.from_numpy(np.ascontiguousarray(array))[None] for array in of.inputs]


def _differentiable(network: nn.Module) -> nn.Module:
    """Copy a network with its activations out of place, for captum's hooks keep what they would overwrite.

    One of half or double precision has float32 weights in the copy: gradients are precise enough so, and fast.
    """
    copied = copy.deepcopy(network).eval()
    if len({tensor.dtype for tensor in copied.parameters() if tensor.is_floating_point()}) == 1:
        copied = copied.float()
    for module in copied.modules():
        if getattr(module, "inplace", False) is True:
            module.inplace = False  # type: ignore[assignment]  # of activations alone
    return copied


def _feature_maps(network: nn.Module, tensors: Sequence[torch.Tensor]) -> dict[str, tuple[int, ...]]:
    """Find the modules that give feature maps, in the order in which they run; a container comes after its parts."""
    maps: dict[str, tuple[int, ...]] = {}

    def keep(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(module: nn.Module, arguments: Any, result: Any) -> None:
            del module, arguments
            if isinstance(result, torch.Tensor) and result.dim() == _MAP and result.shape[2] * result.shape[3] > 1:
                maps.pop(name, None)
                maps[name] = tuple(result.shape[1:])

        return hook

    hooks = [module.register_forward_hook(keep(name)) for name, module in network.named_modules() if name]
    try:
        with torch.no_grad():
            network(*tensors)
    finally:
        for handle in hooks:
            handle.remove()
    return maps


def _some(maps: dict[str, tuple[int, ...]]) -> str:
    """Name the last few modules that give feature maps."""
    return ", ".join(list(maps)[-3:]) or "a network with a convolution"
