"""Low-rank factorisation of trained layers by singular value decomposition."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from optimizer.arguments import real
from udfs.handlers.torch import trace_fx
from udfs.variants._structure import LayerChange, Structure
from udfs.variants.torch._factored_layers import factored_layer, is_factorable
from udfs.variants.torch._layers import check_finite, layers_read_by_code, plain_layers, replace_module
from udfs.variants.torch._runs import output_of

__all__ = ["factorize"]

# Share of a weight's energy that the rounding of its numbers may move.
_ROUNDING = 1e-10


def factorize(module: nn.Module, keep: float, example: torch.Tensor | None = None) -> tuple[nn.Module, Structure]:
    """Replace linear layers and convolutions by pairs of smaller ones.

    A weight of ``m`` outputs and ``n`` inputs becomes the product of ``m x k`` and ``k x n`` with the least squared
    error, ``k = keep * min(m, n)``. A convolution becomes one to ``k`` channels with a 1x1 convolution, or a vertical
    and a horizontal one if those have fewer weights at no larger error. Layers for which no pair has fewer weights,
    grouped convolutions, tied layers, and layers whose weight other code reads (where ``torch.fx`` can trace the
    network), stay.

    Parameters
    ----------
    module : torch.nn.Module
        Trained network, which is not changed.
    keep : float
        Share of the rank to keep, above 0 and up to 1.
    example : torch.Tensor, optional
        Batch of real records, shape ``(records, channels, ...)``. With them the squared error of each layer's outputs
        is the least, instead of that of its weights, and convolutions get a 1x1 convolution.

    Returns
    -------
    torch.nn.Module
        Copy of the network with the pairs.
    Structure
        Its changes.

    Raises
    ------
    InvalidArgumentError
        ``keep`` is out of range, or a weight is not finite.

    Notes
    -----
    Shen, *System for Serving Deep Neural Networks Efficiently*, section 4.3.1, which keeps 1/2 to 1/8 of the rank;
    Kim et al., *Compression of deep convolutional neural networks for fast and low power mobile applications*, ICLR
    2016; Zhang et al., *Accelerating very deep convolutional networks for classification and detection*, TPAMI 2016,
    section 3.1, for outputs; Jaderberg et al., *Speeding up convolutional neural networks with low rank expansions*,
    BMVC 2014, scheme 2, for a vertical and a horizontal convolution.

    Examples
    --------
    >>> smaller, structure = factorize(nn.Sequential(nn.Linear(64, 32)), keep=0.25)
    >>> structure.changes
    (LayerChange(path='0', kind='bottleneck', sizes=(8,)),)
    """
    keep = real("keep", keep, 0, 1, above=True)
    responses = {} if example is None else _responses(module, example)
    made, changes, kept = copy.deepcopy(module), [], _layers_to_keep(module)
    for path, layer in plain_layers(made, nn.Linear, nn.Conv2d):
        if path in kept or not is_factorable(layer):
            continue
        factored = _factored(path, layer, keep, responses.get(path))
        if factored is not None:
            changes.append(factored[0])
            made = replace_module(made, layer, factored[1])
    return made, Structure(tuple(changes))


def _layers_to_keep(module: nn.Module) -> set[str]:
    """Return paths of layers whose weight other code reads; none for a network that torch.fx cannot trace."""
    try:
        return layers_read_by_code(trace_fx(module))
    except Exception:  # noqa: BLE001 - the network's forward may raise anything
        return set()


def _factored(
    path: str, layer: nn.Module, keep: float, responses: torch.Tensor | None
) -> tuple[LayerChange, nn.Module] | None:
    """Choose the pair with fewest weights; ``None`` if the layer has fewer."""
    check_finite(layer, path)
    weight = layer.get_parameter("weight")
    matrix = weight.detach().double().flatten(1)
    rank = max(1, round(keep * min(matrix.shape)))
    change, count = LayerChange(path, "bottleneck", (rank,)), rank * sum(matrix.shape)
    if responses is not None:
        left = torch.linalg.eigh(responses)[1].flip(1)[:, :rank]
        left, right = _balanced(left, left.T @ matrix)
    else:
        energies, left, right = _decomposed(matrix, rank)
        if weight.dim() == 4 and min(weight.shape[2:]) > 1:
            lost = energies[rank:].sum() + _ROUNDING * energies.sum()
            across = weight.detach().double().permute(1, 2, 0, 3).flatten(2).flatten(0, 1)
            rank = int((_decomposed(across, 1)[0].flip(0).cumsum(0) > lost).sum())
            if 0 < rank * sum(across.shape) < count:
                change, count = LayerChange(path, "separable", (rank,)), rank * sum(across.shape)
                _, right, left = _decomposed(across, rank)
                left, right = left.reshape(rank, weight.shape[0], weight.shape[3]).transpose(0, 1), right.T
    if count >= weight.numel():
        return None
    pair = factored_layer(layer, change, "meta")
    assert pair is not None  # the layer is factorable
    for inner, values in zip(pair, (right, left), strict=True):
        shaped = values.reshape(inner.get_parameter("weight").shape).to(weight.dtype).contiguous()
        inner.weight = nn.Parameter(shaped, requires_grad=weight.requires_grad)
    pair[1].bias = layer.bias
    return change, pair.train(layer.training)


def _decomposed(matrix: torch.Tensor, rank: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the squared singular values, largest first, and two factors of the best approximation of a rank."""
    if matrix.shape[0] > matrix.shape[1]:
        energies, left, right = _decomposed(matrix.T, rank)
        return energies, right.T, left.T
    energies, basis = torch.linalg.eigh(matrix @ matrix.T)
    left = basis.flip(1)[:, :rank]
    return energies.flip(0).clamp_min(0), *_balanced(left, left.T @ matrix)


def _balanced(left: torch.Tensor, right: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Scale the parts of a product to equal norms, so that both learn at the same rate when they are trained."""
    tiny = torch.finfo(right.dtype).tiny
    scale = (right.norm(dim=1).clamp_min(tiny) / left.norm(dim=0).clamp_min(tiny)).sqrt()
    return left * scale, right / scale[:, None]


def _responses(module: nn.Module, example: torch.Tensor) -> dict[str, torch.Tensor]:
    """Sum the products of the outputs, without biases, of layers that can be factored, over records and places."""
    probe, sums = copy.deepcopy(module).eval(), dict[str, torch.Tensor]()

    def hook(path: str) -> Any:
        def add(layer: Any, _inputs: object, output: torch.Tensor) -> None:
            rows = (output if isinstance(layer, nn.Linear) else output.movedim(1, -1)).flatten(0, -2).double()
            rows = rows if layer.bias is None else rows - layer.bias.double()
            sums[path] = sums.get(path, 0) + rows.T @ rows

        return add

    for path, layer in plain_layers(probe, nn.Linear, nn.Conv2d):
        layer.register_forward_hook(hook(path))
    output_of(probe, example)
    return sums
