"""Removal of parts from networks of Keras."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from udfs.ablation._random_places import random_places
from udfs.training import TrainerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from udfs.handlers import ModelTrainer
    from udfs.tensors import TensorSpec

__all__ = ["KerasNetwork"]

_REMEDY = 'Name it in params= instead, and build the network without it where params["without"] names it'

# By the number of axes of the places of a map, whose last axis has the channels.
_POOLING = (keras.layers.AveragePooling1D, keras.layers.AveragePooling2D, keras.layers.AveragePooling3D)


@dataclass(frozen=True)
class KerasNetwork:
    """Network of a trainer, from which parts are removed.

    Parameters
    ----------
    trainer : ModelTrainer
        Trainer of a functional or a sequential model.
    inputs : sequence of TensorSpec
        Inputs of the network.
    """

    trainer: ModelTrainer
    inputs: Sequence[TensorSpec]

    def paths(self) -> list[str]:
        """List the paths of the layers; a layer within a model has the name of the model before its own."""
        return [path for path, _ in _layers(self.trainer.model)]

    def mask_inputs(self, masks: Sequence[NDArray[np.bool_] | None]) -> ModelTrainer:
        """Set values of the inputs to zero before the network reads them, in training and in prediction.

        Parameters
        ----------
        masks : sequence of array of bool, or None
            True at the values to remove, in the shape of a row, for each input.

        Raises
        ------
        TrainerError
            The model is neither functional nor sequential.
        """
        model = self._checked()
        layers = [
            None if mask is None else _mask(mask, spec.dtype, place)
            for place, (mask, spec) in enumerate(zip(masks, self.inputs, strict=True))
        ]
        if isinstance(model, keras.Sequential):
            first = keras.Input(self.inputs[0].shape, dtype=self.inputs[0].dtype)
            return self._with(keras.Sequential([first, layers[0], *model.layers], name=model.name))
        masked: dict[int, Any] = {}

        def call(layer: Any, *arguments: Any, **keywords: Any) -> Any:
            return layer(*keras.tree.map_structure(read, arguments), **keras.tree.map_structure(read, keywords))

        def read(tensor: Any) -> Any:
            operation = getattr(getattr(tensor, "_keras_history", None), "operation", None)
            if not isinstance(operation, keras.layers.InputLayer):
                return tensor
            layer = layers[places[operation.name]]
            if id(operation) not in masked:
                masked[id(operation)] = tensor if layer is None else layer(tensor)
            return masked[id(operation)]

        places = {tensor.name: place for place, tensor in enumerate(model.inputs)}
        return self._with(keras.models.clone_model(model, clone_function=_same, call_function=call))

    def replace_modules(self, paths: Sequence[str]) -> tuple[ModelTrainer, dict[str, str]]:
        """Replace layers by identities, or by adapters where their outputs have other shapes than their inputs.

        Returns
        -------
        (ModelTrainer, dict of str to str)
            The trainer, and a description of each replacement by path.

        Raises
        ------
        TrainerError
            A layer does not map one tensor of numbers to one tensor, or the network learns nothing without the layers.
        """
        model = self._checked()
        layers = dict(_layers(model))
        replacements: dict[int, Any] = {}
        described = {}
        for path in paths:
            before, after = _shapes(path, layers[path])
            replacements[id(layers[path])], described[path] = _replacement(before, after, layers[path].name)
        rebuilt = keras.models.clone_model(
            model,
            clone_function=lambda layer: replacements.get(id(layer), layer),
            **({"recursive": True} if any("/" in path for path in paths) else {}),
        )
        if not rebuilt.trainable_variables:
            raise TrainerError(
                f"modules must leave a parameter to train, got {', '.join(paths)}, which has all of them. "
                "Remove a smaller part"
            )
        return self._with(rebuilt), described

    def zero_parameters(self, paths: Sequence[str], seed: int) -> ModelTrainer:
        """Set random parameters of the network to zero, as many as layers have, and keep them there in training."""
        model = self.trainer.model
        layers = dict(_layers(model))
        counted = {
            id(variable): math.prod(variable.shape) for path in paths for variable in layers[path].trainable_variables
        }
        learned = model.trainable_variables
        drawn = random_places([math.prod(each.shape) for each in learned], sum(counted.values()), seed)
        for variable, marked in zip(learned, drawn, strict=True):
            kept = np.where(marked.reshape(variable.shape), 0, 1).astype(variable.dtype)
            variable.assign(variable * kept)
            variable.constraint = _KeepZeros(kept, variable.constraint)
        return self.trainer

    def _checked(self) -> Any:
        """Return the model if its layers can be called one by one."""
        model = self.trainer.model
        if isinstance(model, keras.Sequential) or type(model).__name__ == "Functional":
            return model
        raise TrainerError(
            f"model must be a functional or a sequential model of Keras for an ablation of features or modules, got a "
            f"{type(model).__name__}. {_REMEDY}"
        )

    def _with(self, model: Any) -> ModelTrainer:
        return replace(self.trainer, model=model)


@dataclass(frozen=True)
class _KeepZeros:
    """Constraint by which removed parameters stay zero after each step."""

    kept: NDArray[Any]
    other: Callable[[Any], Any] | None

    def __call__(self, value: Any) -> Any:
        return (value if self.other is None else self.other(value)) * self.kept


def _same(layer: Any) -> Any:
    """Return the layer itself, so that a clone of a model has its weights."""
    return layer


def _layers(model: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the layers of a model with their paths."""
    for layer in model.layers:
        if isinstance(layer, keras.layers.InputLayer):
            continue
        yield f"{above}{layer.name}", layer
        if isinstance(layer, keras.Model):
            yield from _layers(layer, f"{above}{layer.name}/")


def _mask(mask: NDArray[np.bool_], dtype: str, place: int) -> Any:
    """Make a layer that multiplies the removed values by zero."""
    scale = 0.0 if mask.all() else np.where(mask, 0.0, 1.0).tolist()
    return keras.layers.Rescaling(scale, dtype=dtype, name=f"ablation_mask_{place}")


def _shapes(path: str, layer: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shapes of a row of the input and the output of a layer."""
    try:
        before, after = layer.input, layer.output
    except AttributeError as error:
        raise TrainerError(f"modules must be called once, got {path!r}, which is not. {_REMEDY}") from error
    if not all(isinstance(tensor, keras.KerasTensor) for tensor in (before, after)):
        raise TrainerError(
            f"modules must map a tensor to one tensor, got {path!r} ({type(layer).__name__}) with several. {_REMEDY}"
        )
    if isinstance(layer, keras.layers.Embedding) or not keras.backend.is_float_dtype(before.dtype):
        raise TrainerError(
            f"modules must read numbers that later modules can read as well, got {path!r} ({type(layer).__name__}), "
            f"which reads {before.dtype}: without it the network is disconnected from its input. Remove the feature "
            "instead, with features="
        )
    shapes = tuple(before.shape[1:]), tuple(after.shape[1:])
    if shapes[0] != shapes[1] and None in (*shapes[0], *shapes[1]):
        raise TrainerError(f"modules must have known shapes, got {path!r} with {before.shape} and {after.shape}.")
    return shapes


def _replacement(before: tuple[int, ...], after: tuple[int, ...], name: str) -> tuple[Any, str]:
    """Make a layer that maps a row of one shape to a row of another, and describe it."""
    if before == after:
        return keras.layers.Identity(name=name), "identity"
    if math.prod(before) == math.prod(after):
        return keras.layers.Reshape(after, name=name), "reshape"
    rank = len(before)
    projection = [] if before[-1] == after[-1] else [keras.layers.Dense(after[-1])]
    if rank == len(after) and before[:-1] == after[:-1]:
        layers, words = projection, f"{before[-1]} to {after[-1]}{' channels' if rank > 1 else ''}"
        words = f"{'1x1 adapter' if rank > 1 else 'linear projection'} of {words}"
    elif rank == len(after) and rank - 2 in range(len(_POOLING)) and not any(map(int.__mod__, before[:-1], after[:-1])):
        places = "x".join(map(str, after[:-1]))
        pool = tuple(map(int.__floordiv__, before[:-1], after[:-1]))
        layers = [_POOLING[rank - 2](pool), *projection]
        words = f"1x1 adapter of {before[-1]} to {after[-1]} channels, averaged to {places}"
        words = words if projection else f"average to {places}"
    else:
        layers = [keras.layers.Flatten(), keras.layers.Dense(math.prod(after)), keras.layers.Reshape(after)]
        words = f"linear projection of {math.prod(before)} to {math.prod(after)}"
    adapter = keras.Sequential([keras.Input(before), *layers], name=name)
    count = sum(math.prod(variable.shape) for variable in adapter.trainable_variables)
    return adapter, f"{words} ({count:,} parameters)" if count else words
