"""Low-rank factorisation of trained layers by singular value decomposition."""

from __future__ import annotations

import copy

import torch
from torch import nn

from optimizer.errors import InvalidArgumentError
from udfs.variants._structure import LayerChange, Structure
from udfs.variants.torch._factored_layers import factored_layer, is_factorable
from udfs.variants.torch._layers import plain_layers, replace_module

__all__ = ["factorize"]

# Share of a weight's energy that the rounding of its numbers may move.
_ROUNDING = 1e-10


def factorize(module: nn.Module, keep: float) -> tuple[nn.Module, Structure]:
    """Replace linear layers and convolutions by pairs of smaller ones.

    A weight of ``m`` outputs and ``n`` inputs becomes the product of ``m x k`` and ``k x n`` with the least squared
    error, ``k = keep * min(m, n)``. A convolution becomes one to ``k`` channels with a 1x1 convolution, or a vertical
    and a horizontal one if those have fewer weights at no larger error. Layers for which no pair has fewer weights,
    grouped convolutions and tied layers stay.

    Parameters
    ----------
    module : torch.nn.Module
        Trained network, which is not changed.
    keep : float
        Share of the rank to keep, above 0 and up to 1; MCDNN uses 1/2 to 1/8.

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
    Kim et al., *Compression of deep convolutional neural networks for fast and low power mobile applications*, ICLR
    2016; Jaderberg et al., *Speeding up convolutional neural networks with low rank expansions*, BMVC 2014 (scheme 2).

    Examples
    --------
    >>> smaller, structure = factorize(nn.Sequential(nn.Linear(64, 32)), keep=0.25)
    >>> structure.changes
    (LayerChange(path='0', kind='bottleneck', sizes=(8,)),)
    """
    if not 0 < keep <= 1:
        raise InvalidArgumentError(f"keep must be above 0 and at most 1, got {keep}.")
    made, changes = copy.deepcopy(module), []
    for path, layer in plain_layers(made, nn.Linear, nn.Conv2d):
        if not is_factorable(layer):
            continue
        factored = _factored(path, layer, keep)
        if factored is not None:
            changes.append(factored[0])
            made = replace_module(made, layer, factored[1])
    return made, Structure(tuple(changes))


def _factored(path: str, layer: nn.Module, keep: float) -> tuple[LayerChange, nn.Module] | None:
    """Choose the pair with fewest weights; ``None`` if the layer has fewer."""
    weight = layer.weight
    assert isinstance(weight, torch.Tensor)  # of a linear layer or a convolution
    matrix = weight.detach().double().flatten(1)
    if not bool(matrix.isfinite().all()):
        raise InvalidArgumentError(f"module must have finite weights, got others in layer {path!r}.")
    rank = max(1, round(keep * min(matrix.shape)))
    energies, basis = _components(matrix)
    change = LayerChange(path, "bottleneck", (rank,))
    count = rank * sum(matrix.shape)
    if weight.dim() == 4 and min(weight.shape[2:]) > 1:
        across = weight.detach().double().permute(1, 2, 0, 3).flatten(2).flatten(0, 1)
        energies_across, basis_across = _components(across)
        lost = energies[rank:].sum() + _ROUNDING * energies.sum()
        tail = energies_across.flip(0).cumsum(0).flip(0)
        enough = max(1, int((tail > lost).sum()))
        if enough * sum(across.shape) < count:
            change, count = LayerChange(path, "separable", (enough,)), enough * sum(across.shape)
            matrix, energies, basis = across, energies_across, basis_across
    if count >= weight.numel():
        return None
    pair = factored_layer(layer, change, "meta")
    assert pair is not None  # the layer is factorable
    (rank,) = change.sizes
    left, right = _product(matrix, energies[:rank], basis[:, :rank])
    if change.kind == "separable":
        left, right = right.reshape(rank, weight.shape[0], weight.shape[3]).transpose(0, 1), left.T
    for inner, values in zip(pair, (right, left), strict=True):
        shaped = values.reshape(inner.get_parameter("weight").shape).to(weight.dtype).contiguous()
        inner.weight = nn.Parameter(shaped, requires_grad=weight.requires_grad)
    pair[1].bias = layer.bias
    return change, pair.train(layer.training)


def _components(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the squared singular values, largest first, and the singular vectors of the shorter side."""
    short = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    energies, basis = torch.linalg.eigh(short @ short.T)
    return energies.flip(0).clamp_min(0), basis.flip(1)


def _product(matrix: torch.Tensor, energies: torch.Tensor, basis: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Project a matrix on singular vectors of its shorter side, as a product of two factors of equal norm."""
    scale = energies.clamp_min(torch.finfo(energies.dtype).tiny) ** 0.25
    if matrix.shape[0] <= matrix.shape[1]:
        return basis * scale, (basis / scale).T @ matrix
    return matrix @ (basis / scale), (basis * scale).T
