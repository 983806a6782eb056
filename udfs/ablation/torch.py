"""Removal of parts from networks of torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from udfs.ablation._random_places import random_places
from udfs.training import TrainerError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from udfs.handlers import ModelTrainer
    from udfs.tensors import TensorSpec

__all__ = ["TorchNetwork"]

_MASK = "_ablation_mask_{}"

# By the number of axes of the places of a map.
_CONVOLUTIONS = (
    (nn.Conv1d, nn.AdaptiveAvgPool1d),
    (nn.Conv2d, nn.AdaptiveAvgPool2d),
    (nn.Conv3d, nn.AdaptiveAvgPool3d),
)

# Rows of a trial run.
_ROWS = 2

_REMEDY = 'Name it in params= instead, and build the network without it where params["without"] names it'


@dataclass(frozen=True)
class TorchNetwork:
    """Network of a trainer, from which parts are removed.

    Parameters
    ----------
    trainer : ModelTrainer
        Trainer, changed in place.
    inputs : sequence of TensorSpec
        Inputs of the network.
    """

    trainer: ModelTrainer
    inputs: Sequence[TensorSpec]

    def paths(self) -> list[str]:
        """List the paths of the modules."""
        return [path for path, _ in self.trainer.model.named_modules() if path]

    def mask_inputs(self, masks: Sequence[NDArray[np.bool_] | None]) -> ModelTrainer:
        """Set values of the inputs to zero before the network reads them, in training and in prediction.

        Parameters
        ----------
        masks : sequence of array of bool, or None
            True at the values to remove, in the shape of a row, for each input.
        """
        model = self.trainer.model
        for place, mask in enumerate(masks):
            if mask is not None:
                model.register_buffer(_MASK.format(place), torch.from_numpy(mask), persistent=False)
        model.register_forward_pre_hook(_Masking(tuple(n for n, mask in enumerate(masks) if mask is not None)))
        return self.trainer

    def replace_modules(self, paths: Sequence[str]) -> tuple[ModelTrainer, dict[str, str]]:
        """Replace modules by identities, or by adapters where their outputs have other shapes than their inputs.

        Returns
        -------
        (ModelTrainer, dict of str to str)
            The trainer, and a description of each replacement by path.

        Raises
        ------
        TrainerError
            A module does not run, does not map one tensor of numbers to one tensor, or the network is disconnected
            without the modules.
        """
        model = self.trainer.model
        before = {id(parameter) for parameter in model.parameters()}
        read = self._reached()[0]
        shapes = self._shapes(paths)
        described = {}
        for path in paths:
            module = model.get_submodule(path)
            replacement, described[path] = _replacement(*shapes[path], is_linear=isinstance(module, nn.Linear))
            like = next(iter(model.parameters()), None)
            model.set_submodule(path, replacement if like is None else replacement.to(like.device, like.dtype))
        self._optimize(before)
        self._check_connected(read, paths)
        return self.trainer, described

    def zero_parameters(self, paths: Sequence[str], seed: int) -> ModelTrainer:
        """Set random parameters of the network to zero, as many as modules have, and keep them there in training."""
        model = self.trainer.model
        learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
        counted = {
            id(parameter): parameter.numel()
            for path in paths
            for parameter in model.get_submodule(path).parameters()
            if parameter.requires_grad
        }
        drawn = random_places([parameter.numel() for parameter in learned], sum(counted.values()), seed)
        for parameter, marked in zip(learned, drawn, strict=True):
            removed = torch.from_numpy(marked).reshape(parameter.shape)
            with torch.no_grad():
                parameter.masked_fill_(removed.to(parameter.device), 0)
            parameter.register_hook(_ZeroGradient(removed))
        return self.trainer

    def _shapes(self, paths: Sequence[str]) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
        """Return the shapes of a row of the input and the output of modules, by a run on zeros."""
        seen: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {}

        def hook(path: str) -> Callable[[nn.Module, tuple[Any, ...], Any], None]:
            def record(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
                first = next((each for each in inputs if isinstance(each, torch.Tensor)), None)
                if first is None or not isinstance(output, torch.Tensor):
                    got = type(output).__name__ if first is not None else "no tensor to read"
                    raise TrainerError(
                        f"modules must map a tensor to one tensor, got {path!r} ({type(module).__name__}) with {got}. "
                        f"{_REMEDY}"
                    )
                if not first.is_floating_point():
                    raise TrainerError(
                        f"modules must read numbers that later modules can read as well, got {path!r} "
                        f"({type(module).__name__}), which reads {first.dtype}: without it the network is "
                        "disconnected from its input. Remove the feature instead, with features="
                    )
                shapes = tuple(first.shape[1:]), tuple(output.shape[1:])
                if seen.setdefault(path, shapes) != shapes:
                    raise TrainerError(
                        f"modules must give tensors of one shape, got {path!r}, which the network calls with several. "
                        f"{_REMEDY}"
                    )

            return record

        handles = [self.trainer.model.get_submodule(path).register_forward_hook(hook(path)) for path in paths]
        try:
            self._run()
        finally:
            for handle in handles:
                handle.remove()
        silent = next((path for path in paths if path not in seen), None)
        if silent is not None:
            raise TrainerError(
                f"modules must run when the network does, got {silent!r}, which it never calls. {_REMEDY}"
            )
        return seen

    def _run(self, *, learning: bool = False) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Run the network on zeros in evaluation mode, and return inputs and outputs."""
        model = self.trainer.model
        device = next((each.device for each in model.parameters()), torch.device("cpu"))
        inputs = [
            torch.zeros((_ROWS, *spec.shape), dtype=getattr(torch, spec.dtype), device=device) for spec in self.inputs
        ]
        for tensor in inputs:
            tensor.requires_grad_(learning and tensor.is_floating_point())
        modes = {module: module.training for module in model.modules()}
        model.eval()
        try:
            with torch.set_grad_enabled(learning):
                outputs = model(*inputs)
        finally:
            for module, training in modes.items():
                module.training = training
        return inputs, list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]

    def _reached(self) -> tuple[set[int], bool]:
        """Return the places of the inputs on which the output depends, and whether it depends on any parameter."""
        inputs, outputs = self._run(learning=True)
        total = sum(output.sum() for output in outputs if output.requires_grad)
        sources = {place: tensor for place, tensor in enumerate(inputs) if tensor.requires_grad}
        learned = [parameter for parameter in self.trainer.model.parameters() if parameter.requires_grad]
        if not isinstance(total, torch.Tensor):
            return set(), False
        gradients = torch.autograd.grad(total, [*sources.values(), *learned], allow_unused=True)
        reached = {place for place, gradient in zip(sources, gradients, strict=False) if gradient is not None}
        return reached, any(gradient is not None for gradient in gradients[len(sources) :])

    def _optimize(self, before: set[int]) -> None:
        """Let the optimizer train the parameters of adapters in place of those that were removed."""
        parameters = list(self.trainer.model.parameters())
        kept = {id(parameter) for parameter in parameters}
        added = [parameter for parameter in parameters if id(parameter) not in before]
        groups = self.trainer.optimizer.param_groups
        place = next((n for n, group in enumerate(groups) if any(id(each) not in kept for each in group["params"])), 0)
        for number, group in enumerate(groups):
            names = group.get("param_names", [""] * len(group["params"]))
            pairs = [pair for pair in zip(group["params"], names, strict=True) if id(pair[0]) in kept]
            pairs += [(each, f"adapter {n}") for n, each in enumerate(added)] if number == place else []
            # In place: some optimizers keep the list itself.
            group["params"][:] = [parameter for parameter, _ in pairs]
            if "param_names" in group:
                group["param_names"][:] = [name for _, name in pairs]

    def _check_connected(self, read: set[int], paths: Sequence[str]) -> None:
        """Refuse a network that does not run, reads less than before, or learns nothing without the modules."""
        named = ", ".join(paths)
        try:
            reached, learns = self._reached()
        except Exception as error:
            raise TrainerError(
                f"modules must leave a network that runs, got {named}: {type(error).__name__}: {error}. {_REMEDY}"
            ) from error
        if read - reached:
            raise TrainerError(
                f"modules must leave the network connected, got {named}: without it no number of input "
                f"{min(read - reached)} reaches the output. {_REMEDY}"
            )
        if not learns:
            raise TrainerError(
                f"modules must leave a parameter to train, got {named}, which has all that the output depends on. "
                "Remove a smaller part"
            )


@dataclass(frozen=True)
class _Masking:
    """Hook that sets values of a network's inputs to zero, where the network's buffers are true."""

    places: tuple[int, ...]

    def __call__(self, module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        masked = list(inputs)
        for place in self.places:
            masked[place] = inputs[place].masked_fill(module.get_buffer(_MASK.format(place)), 0)
        return tuple(masked)


@dataclass(frozen=True)
class _ZeroGradient:
    """Hook by which removed parameters stay zero."""

    removed: torch.Tensor

    def __call__(self, gradient: torch.Tensor) -> torch.Tensor:
        return gradient.masked_fill(self.removed.to(gradient.device), 0)


class _First(nn.Module):
    """Module that maps the first of its inputs by another module, and ignores the others."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, first: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        """Return the output of the inner module."""
        output: torch.Tensor = self.inner(first)
        return output


def _replacement(before: Sequence[int], after: Sequence[int], *, is_linear: bool) -> tuple[nn.Module, str]:
    """Make a module that maps a row of one shape to a row of another, and describe it."""
    if before == after:
        return _First(nn.Identity()), "identity"
    rank = len(before)
    if rank == len(after) and before[:-1] == after[:-1] and (is_linear or rank <= 2):
        linear = nn.Linear(before[-1], after[-1])
        return _First(linear), f"linear projection of {before[-1]} to {after[-1]}{_size(linear)}"
    if rank == len(after) and rank - 2 in range(len(_CONVOLUTIONS)):
        convolution, pooling = _CONVOLUTIONS[rank - 2]
        places = "x".join(map(str, after[1:]))
        pooled = before[1:] != after[1:]
        if before[0] == after[0]:
            return _First(pooling(tuple(after[1:]))), f"average to {places}"
        mixing = convolution(before[0], after[0], 1)
        inner = nn.Sequential(pooling(tuple(after[1:])), mixing) if pooled else mixing
        averaged = f", averaged to {places}" if pooled else ""
        return _First(inner), f"1x1 adapter of {before[0]} to {after[0]} channels{averaged}{_size(inner)}"
    if math.prod(before) == math.prod(after):
        return _First(nn.Sequential(nn.Flatten(), nn.Unflatten(1, tuple(after)))), "reshape"
    linear = nn.Linear(math.prod(before), math.prod(after))
    flat = nn.Sequential(nn.Flatten(), linear, nn.Unflatten(1, tuple(after)))
    return _First(flat), f"linear projection of {linear.in_features} to {linear.out_features}{_size(linear)}"


def _size(module: nn.Module) -> str:
    return f" ({sum(parameter.numel() for parameter in module.parameters()):,} parameters)"
