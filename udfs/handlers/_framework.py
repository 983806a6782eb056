"""The protocol of a framework: everything that the project asks of torch, of Keras, or of one that you add."""

from __future__ import annotations

import hashlib
import os
import pickle
import random
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from udfs.handlers._adapted_trainer import trained_whole
from udfs.handlers._pickling import dumped
from udfs.handlers._protocol import Handler, UntraceableModelError
from udfs.node import DeviceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from numpy.typing import NDArray

    from udfs.handlers._adapted_trainer import Adapted
    from udfs.tensors import TensorSpec
    from udfs.training import Session, Trainer

    Builder = Callable[..., Any]
    Exported = Callable[[Sequence[NDArray[Any]]], tuple[NDArray[np.float32], ...]]
    Reloadable = tuple[Callable[[bytes], None], Exported]

__all__ = ["Framework"]


class Framework(Handler, Protocol):
    """Deep learning framework. Subclass it and implement what has no default; :mod:`udfs.testing` tests the result.

    Attributes
    ----------
    name : str
        Key in the registry. Where a Python package of that name exists, it is the framework's own: models are
        recognised, and seeds set, only once it is imported.
    suffix : str
        Ending of the file that :meth:`export` writes.
    incremental : bool
        Whether a traced model computes parts of tensors, as :class:`udfs.incremental.IncrementalNetwork` needs for
        exact and approximate heat maps. Without it exact ones are computed by the whole network.
    channels_last : bool
        Whether its networks usually read images with the channels as the last axis.
    sample_weights : bool
        Whether its sessions train and evaluate rows with weights. Without it such rows are refused.
    freezing_schedules : bool
        Whether its sessions follow ``freeze_until``. Without it a trainer that has one is refused.
    disk_offload : bool
        Whether its sessions follow ``offload``. Without it a trainer that has one is refused.
    """

    name: str
    suffix: str = ".network"
    incremental: bool = False
    channels_last: bool = False
    sample_weights: bool = False
    freezing_schedules: bool = False
    disk_offload: bool = False

    def recognises(self, model: object) -> bool:
        """Return whether an object is a model of this framework."""

    # --- devices and random numbers

    def device(self, wanted: str) -> str:
        """Resolve a device to the framework's own name; the default knows the CPU alone.

        Parameters
        ----------
        wanted : str
            ``"auto"`` takes an accelerator where there is one; ``"cpu"``, ``"cuda"`` or ``"cuda:1"`` name one.

        Raises
        ------
        DeviceError
            This process has no such device.
        """
        if wanted not in {"auto", "cpu"}:
            raise DeviceError(f"device must be 'cpu' or 'auto' for {self.name}, got {wanted!r}")
        return "cpu"

    def device_of(self, model: Any) -> str | None:  # a default for frameworks of the CPU
        """Name the accelerator that a model's author put it on; ``None`` for the CPU."""
        return None

    def on(self, device: str) -> AbstractContextManager[None]:  # a default for models that have a device
        """Run a block's operations on a device, where the framework does not take the device of the model."""
        return nullcontext()

    def seed(self, seed: int) -> None:
        """Seed the framework's own generators; Python's and numpy's are seeded by the caller."""
        return

    def take_random(self) -> Any:
        """Copy the state of the framework's own generators as plain data; ``None`` where it has none."""
        return None

    def apply_random(self, state: Any) -> None:
        """Set the framework's own generators to a state of :meth:`take_random`."""
        return

    def take_settings(self) -> dict[str, Any]:
        """Read the framework's process-wide settings that a user's function may change; by default none."""
        return {}

    def apply_settings(self, settings: Mapping[str, Any]) -> None:
        """Set some of the settings that :meth:`take_settings` names."""
        return

    def threads(self) -> int:
        """Count the CPU threads that an operation uses now."""
        return os.cpu_count() or 1

    def accelerator_bytes(self) -> int:
        """Measure the most accelerator memory that this process has reserved."""
        return 0

    # --- training

    def open_training(self, trainer: Trainer, device: str) -> Session:
        """Open a model for training on a device, which is one that :meth:`device` or :meth:`device_of` gave.

        Raises
        ------
        udfs.training.TrainerError
            The trainer's optimizer, loss or scheduler does not fit the framework.
        """

    def build_variables(self, model: Any, inputs: Sequence[TensorSpec]) -> None:  # a default for built models
        """Build the variables that a model creates at its first call, from the shapes of its inputs.

        They are drawn from the generators as they are, which the caller has seeded. By default, do nothing.
        """
        return

    def refusal_of_one_row(self, model: Any, inputs: Sequence[TensorSpec]) -> str:  # a default for models that take it
        """Return the reason why a model does not train on a batch of one row, without changing it; else ``""``."""
        return ""

    def check_mini_batches(self, optimizer: Any) -> None:  # a default: most train on batches
        """Raise TrainerError if an optimizer needs all rows in one batch."""
        return

    def open_adapted(
        self, trainer: Trainer, inputs: Sequence[TensorSpec], columns: Sequence[str], device: str
    ) -> Adapted:
        """Open a trainer where its frozen layers end; by default it trains whole, and says so.

        Parameters
        ----------
        trainer : Trainer
            New: nothing has been trained with it.
        inputs : sequence of TensorSpec
            Tensors in the columns, one for each input of the model.
        columns : sequence of str
            Name of what each input reads: equal names mean equal values.
        device : str
            One that :meth:`device` or :meth:`device_of` gave.

        Raises
        ------
        udfs.training.TrainerError
            See :meth:`open_training`; also if no parameter of the model is trainable.
        """
        why = f"models of {self.name} are not opened for adaptation"
        return trained_whole(self.open_training(trainer, device), trainer, inputs, columns, why)

    def frozen(self, model: Any) -> AbstractContextManager[None]:  # a default for models that stay
        """Keep a model in inference mode, with parameters that cannot learn, for a ``with`` block."""
        return nullcontext()

    # --- trained networks without their author's code

    def export(self, model: Any, inputs: Sequence[NDArray[Any]]) -> bytes:
        """Write a network so that it opens without its author's code.

        Parameters
        ----------
        model : object
            On any device, in any mode; it is left as it is.
        inputs : sequence of array, each of shape (rows, ...)
            A few rows of what it reads.
        """

    def open_export(self, data: bytes) -> Exported:
        """Open what :meth:`export` wrote: a function from one array per input to one array per output."""

    def open_reloadable(self, data: bytes) -> Reloadable:
        """Open what :meth:`export` wrote, for models of equal structure: a function that loads weights, and one to run.

        The weights are packed by :func:`udfs.packing.pack`: ``"model"`` has those of a session's checkpoint.

        Raises
        ------
        UntraceableModelError
            Weights are not exchanged; the default of the protocol.
        """
        raise UntraceableModelError(
            f"{self.name} does not exchange the weights of a network (Framework.open_reloadable)"
        )

    def open_features(self, data: bytes) -> Exported:
        """Open what :meth:`export` wrote, up to its last layer with parameters: the output is what that layer reads.

        The output has the shape ``(rows, channels)``.

        Raises
        ------
        UntraceableModelError
            There is no such layer; the default knows none.
        """
        raise UntraceableModelError(f"{self.name} opens no features of a network (Framework.open_features)")

    # --- networks that a user gave, on their way to workers and into saved stages

    def fingerprint(self, model: Any) -> str:
        """Hash a model's code and the values of its weights: it changes when the model is trained further."""
        return hashlib.blake2b(dumped(model), digest_size=16).hexdigest()

    def is_exported(self, model: Any) -> bool:
        """Return whether a model needs none of its author's code, and travels as :meth:`write_network` writes it."""
        return False

    def image_shape(self, model: Any) -> tuple[int, ...] | None:
        """Return the shape of the one image that a model states to read; ``None`` if it states none."""
        return None

    def pack(self, model: Any, inputs: Sequence[TensorSpec], path: Path) -> bytes:  # for Keras
        """Write a model's weights to a file, and return the rest of it for one of Spark's closures.

        Parameters
        ----------
        model : object
            Left as it is.
        inputs : sequence of TensorSpec
            Inputs of the model.
        path : Path
            Path of the file; by default it stays empty, and the closure has the weights.

        Raises
        ------
        UntraceableModelError
            The model cannot be sent to another process; the message says why.
        """
        path.touch()
        return dumped(model)

    def unpack(self, code: bytes, path: Path) -> Any:  # a default for models whose code has the weights
        """Open what :meth:`pack` wrote, in inference mode."""
        return pickle.loads(code)  # noqa: S301 - in one of Spark's closures, never in a file

    def write_network(self, model: Any, inputs: Sequence[TensorSpec], path: Path) -> None:
        """Write a model, weights included, as a file that :meth:`open_network` opens without its author's code.

        Unlike :meth:`export` it keeps the paths of the layers.

        Raises
        ------
        UntraceableModelError
            It needs its author's code; the message says for what.
        """
        raise UntraceableModelError(
            f"{self.name} has no form of a {type(model).__name__} without its author's code (Framework.write_network)"
        )

    def open_network(self, path: Path) -> Any:
        """Open what :meth:`write_network` wrote: a model that can be traced, its layers under the paths they had."""
        raise UntraceableModelError(f"{self.name} opens no network without its author's code: {path}")

    # --- networks that a function builds, as the roster's cards name them

    def parameters(self, network: Any) -> int:
        """Count the scalars of a network's parameters."""

    def build(self, builder: Builder, inputs: Sequence[TensorSpec], seed: int) -> Any:  # Keras needs inputs
        """Build a network with the weights that its builder draws from a seed; global generators are put back.

        Parameters
        ----------
        builder : callable
            Makes the network.
        inputs : sequence of TensorSpec
            Inputs of the network.
        seed : int
            Seed of the weights.
        """
        with seeded_generators(seed):
            return builder()

    def skeleton(self, builder: Builder, inputs: Sequence[TensorSpec]) -> Any:
        """Build a network for its structure alone: without memory, where the framework can."""
        return self.build(builder, inputs, 0)

    def load(
        self,
        builder: Builder,
        inputs: Sequence[TensorSpec],
        weights: str | os.PathLike[str] | Mapping[str, Any],
        seed: int,
        name: str,
    ) -> Any:
        """Build a network and read weights into it.

        Parameters
        ----------
        builder, inputs, seed
            See :meth:`build`.
        weights : str, path or mapping
            A file of the framework's own formats, or what was read of one.
        name : str
            The network's, for messages.

        Raises
        ------
        udfs.weights.WeightsError
            The weights cannot be read, or do not fit.
        """

    def share(self, key: str, build: Callable[[], Any], skeleton: Callable[[], Any]) -> Any:
        """Open a network whose weights the processes of a node share, where the framework can.

        Parameters
        ----------
        key : str
            Networks of one key have equal weights.
        build, skeleton : callable
            Make the network with its weights, and for its structure alone.
        """
        return build()

    def paths(self, network: Any, inputs: Sequence[TensorSpec]) -> list[str]:
        """Name the layers that a card may name; the graph's own names by default."""
        graph = self.trace(network, inputs).graph
        return [name for name in graph.names if name not in graph.inputs]

    def run_order(self, builder: Builder, inputs: Sequence[TensorSpec]) -> list[str]:
        """Name the layers that give a tensor at inference, in the order in which they give it."""
        return self.paths(self.skeleton(builder, inputs), inputs)


@contextmanager
def seeded_generators(seed: int) -> Iterator[None]:
    """Seed Python's and numpy's generators for a block, and put them back."""
    before, numpys = random.getstate(), np.random.get_state()  # the generator of users' initialisers
    try:
        random.seed(seed)
        np.random.seed(seed)
        yield
    finally:
        random.setstate(before)
        np.random.set_state(numpys)
