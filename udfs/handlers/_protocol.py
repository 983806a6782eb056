"""The protocol of a framework handler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from optimizer.errors import CerebroError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from optimizer.graph import LayerGraph
    from udfs.tensors import TensorSpec

__all__ = ["ChangedWeightsError", "Handler", "TracedModel", "UntraceableModelError"]


class ChangedWeightsError(CerebroError, RuntimeError):
    """A model whose weights changed as it was opened, because its own code writes to them; it must be built again."""


class UntraceableModelError(CerebroError, TypeError):
    """A model that cannot be opened into a graph; the message carries the tracer's reason and the usual ways out."""


@runtime_checkable
class TracedModel(Protocol):
    """A model opened into layers, ready to run any part of itself."""

    @property
    def graph(self) -> LayerGraph:
        """The layers, with shapes, FLOPs, bytes and fingerprints."""

    @property
    def output_keys(self) -> tuple[str | int, ...]:
        """Keys by which a caller of the model reads its outputs: ``()`` where it returns one tensor.

        Indices of a returned tuple or names of a returned dictionary, in the model's order.
        """

    def output_layer(self, key: str | int) -> str:
        """Find the layer whose tensor the model returns under a key.

        Raises
        ------
        UnknownOutputError
            No output has that key; the message lists those that there are.
        """

    def prepare(self, threads: int) -> TracedModel:
        """Make ready to run many batches: weights on the device, in the memory layout that runs fastest.

        Cheap if nothing changes, so that it may be called before each run. The user's model is not changed.

        Parameters
        ----------
        threads : int
            CPU threads that one run may use. Frameworks hold this for the whole process.

        Returns
        -------
        TracedModel
            Itself.
        """

    def layer(self, name: str) -> str:
        """Find the graph's layer for a layer name or a module path; the module's output where it is a path.

        Raises
        ------
        optimizer.errors.UnknownLayerError
            Neither is known.
        """

    def run(self, feeds: Mapping[str, NDArray[np.generic]], want: Sequence[str]) -> dict[str, NDArray[np.generic]]:
        """Compute ``want`` from the tensors in ``feeds``, running no layer that is not needed.

        Parameters
        ----------
        feeds : mapping of layer name to array
            Each of shape ``(batch, *layer.output_shape)``: the graph's inputs, or tensors of an earlier run.
        want : sequence of layer names
            Layers whose tensors are returned.

        Returns
        -------
        dict of layer name to array
            Each of shape ``(batch, *layer.output_shape)``.

        Raises
        ------
        optimizer.errors.GraphError
            ``want`` cannot be computed from ``feeds``.
        """


class Handler(Protocol):
    """A framework's side of the bargain; the contract is :mod:`udfs.testing`."""

    name: str

    def trace(self, model: object, inputs: Sequence[TensorSpec], *, device: str = "cpu") -> TracedModel:
        """Open a model in inference mode into a graph.

        Parameters
        ----------
        model : object
            The framework's model, built and in inference mode.
        inputs : sequence of TensorSpec
            One for each positional input.
        device : str
            The framework's name of the device to run on; ``"auto"`` takes an accelerator where there is one.

        Raises
        ------
        UntraceableModelError
            The model's Python cannot be turned into a graph.
        """
