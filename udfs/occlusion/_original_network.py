"""Original torch module, and its comparison with the traced and the incremental network."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from optimizer.graph import LayerGraph
from udfs.handlers import keyed_outputs
from udfs.incremental import IncrementalNetwork
from udfs.occlusion._score import output_layer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray
    from torch import nn

    from optimizer.occlusion import OcclusionGrid
    from udfs.handlers.torch import TorchModel

__all__ = ["OriginalNetwork", "layers_in_parts"]

# Rounding difference between two ways to compute a layer, relative to its largest value.
_ROUNDING = 2e-5


class OriginalNetwork:
    """User's own module, run for one record at a time, and search for the first layer that differs from it."""

    def __init__(self, model: TorchModel, head: str | int | None) -> None:
        self._model, self._module = model, model.original
        layer = output_layer(model, head)
        self._key = next((key for key in model.output_keys if model.output_layer(key) == layer), None)

    def output(self, tensors: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """Run the module for one record per input, and return its output of shape (1, ...)."""
        return self._run(self._module, tensors, None)

    def precise(self, tensors: Mapping[str, NDArray[Any]]) -> NDArray[Any] | None:
        """Run a copy of the module in float64; ``None`` where it does not run in it."""
        try:
            return self._run(copy.deepcopy(self._module).double(), tensors, torch.float64)
        except Exception:  # noqa: BLE001 - the user's own forward, in a precision that its author may not have tried
            return None

    def rounding_unit(self, tensors: Mapping[str, NDArray[Any]]) -> float:
        """Return the largest rounding unit of the floating-point types that operations of the module return."""
        with _Precisions() as seen:
            self._run(self._module, tensors, None)
        return max((torch.finfo(kind).eps for kind in seen.kinds), default=0.0)

    def first_difference(self, tensors: Mapping[str, NDArray[Any]], partial: Mapping[str, NDArray[Any]]) -> str | None:
        """Return the first layer where the traced or incremental network differs from the module, at one place.

        Parameters
        ----------
        tensors : mapping of str to array
            Inputs with the patch.
        partial : mapping of str to array of shape (1, ...)
            Results of :func:`layers_in_parts` by layer.

        Returns
        -------
        str or None
            Description of the layer; ``None`` where all layers agree.
        """
        graph = self._model.graph
        layers = [layer for layer in graph if layer.op != "input"]
        feeds = {name: array[None] for name, array in tensors.items()}
        names = [layer.name for layer in layers]
        lent = {name: self._model.lent(name, array) for name, array in feeds.items()}
        traced = {name: _array(tensor) for name, tensor in self._model.tensors(lent, names).items()}
        expected = self._outputs_of_modules(tensors)
        for layer in layers:
            tensor = traced[layer.name]
            original = expected.get(layer.name)
            if original is not None and original.shape == tensor.shape and not _close(tensor, original):
                return f"{layer.name!r} ({layer.op}), as it was traced from the module"
            if layer.name in partial and not _close(partial[layer.name], tensor):
                return f"{layer.name!r} ({layer.op}), as it is computed in parts"
        return None

    def _run(self, module: nn.Module, tensors: Mapping[str, NDArray[Any]], dtype: torch.dtype | None) -> NDArray[Any]:
        device = next((tensor.device for tensor in module.parameters()), torch.device("cpu"))
        kinds = {tensor.dtype for tensor in module.parameters() if tensor.is_floating_point()}
        if dtype is None and len(kinds) == 1:
            (dtype,) = kinds  # a network of half or double precision reads it
        inputs = [torch.from_numpy(np.array(tensors[name]))[None].to(device) for name in self._model.graph.inputs]
        with torch.inference_mode():
            returned = module(*(tensor.to(dtype) if tensor.is_floating_point() else tensor for tensor in inputs))
        keyed = keyed_outputs(returned, torch.Tensor)
        tensor = (keyed[self._key] if self._key is not None else next(iter(keyed.values()))) if keyed else returned
        return _array(tensor)

    def _outputs_of_modules(self, tensors: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return the output of each module that is called once, by its path."""
        returned: dict[str, list[Any]] = {}

        def listener(path: str) -> Callable[..., None]:
            def listen(_module: nn.Module, _inputs: Any, output: Any) -> None:
                # A copy: an activation may overwrite its input afterwards.
                kept = _array(output).copy() if isinstance(output, torch.Tensor) else None
                returned.setdefault(path, []).append(kept)

            return listen

        handles = [
            module.register_forward_hook(listener(path)) for path, module in self._module.named_modules() if path
        ]
        try:
            self._run(self._module, tensors, None)
        finally:
            for handle in handles:
                handle.remove()
        return {path: calls[0] for path, calls in returned.items() if len(calls) == 1 and calls[0] is not None}


class _Precisions(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch's own is untyped
    """Watches the floating-point types of what the operations within a ``with`` block return."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kinds: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, and keep the types of its results."""
        del types
        returned = func(*args, **(kwargs or {}))
        tensors = (value for value in tree_leaves(returned) if isinstance(value, torch.Tensor))
        self.kinds.update(tensor.dtype for tensor in tensors if tensor.is_floating_point())
        return returned


class _EveryLayer:
    """Network whose outputs are all its layers."""

    def __init__(self, model: TorchModel) -> None:
        self._model = model
        layers = tuple(model.graph)
        self.graph = LayerGraph(layers, tuple(layer.name for layer in layers if layer.op != "input"))

    def fused(self) -> _EveryLayer:
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def layers_in_parts(
    model: TorchModel,
    grid: OcclusionGrid,
    source: str,
    whole: torch.Tensor,
    fill: torch.Tensor,
    others: Mapping[str, torch.Tensor],
    place: tuple[int, ...],
) -> dict[str, NDArray[Any]]:
    """Compute all layers of the unfused network incrementally for one place of the patch."""
    every: Any = _EveryLayer(model)
    network = IncrementalNetwork(every, grid, source=source)
    only = np.zeros(grid.shape, np.bool_)
    only[place] = True
    ((_, tensors),) = network.outputs(network.materialise(whole, others), fill, batch_size=1, places=only)
    return {name: _array(tensor) for name, tensor in tensors.items()}


def _array(tensor: torch.Tensor) -> NDArray[Any]:
    """Convert a tensor to numpy, which has no bfloat16."""
    precise = tensor.float() if tensor.dtype == torch.bfloat16 else tensor
    array: NDArray[Any] = precise.numpy(force=True)
    return array


def _close(first: NDArray[Any], second: NDArray[Any]) -> bool:
    first, second = (each.reshape(-1).astype(np.float64) for each in (first, second))
    if first.shape != second.shape:
        return False
    scale = max(float(np.abs(second).max(initial=0)), 1e-30)
    return bool((np.abs(first - second) <= _ROUNDING * scale).all())
