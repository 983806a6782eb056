"""Training by torch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from udfs.handlers._random import take_random
from udfs.handlers._steps import train_in_steps
from udfs.handlers.torch._adoption import adopt_state, adopt_weights, inherit_weights
from udfs.handlers.torch._attributes import Attributes
from udfs.handlers.torch._freezing import Freezing
from udfs.handlers.torch._loss_facts import LabelForms, Reading, loss_facts, network_ending
from udfs.handlers.torch._modes import set_training
from udfs.handlers.torch._steppers import follows_metric, takes_closure
from udfs.handlers.torch._weighted_loss import WeightedLoss
from udfs.metrics import merge_sums
from udfs.packing import StateError, pack, unpack
from udfs.training import BatchWeights, Diverged, TaskSums, TrainerError, batch_weights, check_losses

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from udfs.training import Ending, Rows, Trainer

__all__ = ["TorchSession", "as_array", "as_tensor", "listed"]

# Rows of a forward pass that keeps nothing for a backward one.
_EVALUATED = 256


class TorchSession:
    """A session of torch; see :class:`udfs.training.Session`."""

    def __init__(self, trainer: Trainer, device: str) -> None:
        if not isinstance(trainer.optimizer, torch.optim.Optimizer):
            raise TrainerError(
                f"optimizer is a {type(trainer.optimizer).__name__}: a model of torch takes a torch.optim.Optimizer "
                "over its parameters"
            )
        parameters = {id(parameter) for parameter in trainer.model.parameters()}
        optimized = [id(parameter) for group in trainer.optimizer.param_groups for parameter in group["params"]]
        if not parameters.issuperset(optimized):
            raise TrainerError("the optimizer holds parameters of another model: build it from model.parameters()")
        self._trainer = trainer
        self.epoch = 0  # epochs that are over
        self._freezing = Freezing(trainer)
        self._takes_closure = takes_closure(trainer.optimizer)
        self._follows_metric = follows_metric(trainer.scheduler)
        if self._follows_metric and trainer.scheduler_step == "batch":
            raise TrainerError(
                f"scheduler_step must be 'epoch' for {type(trainer.scheduler).__name__}, which steps with the metric "
                "of an epoch, got 'batch'"
            )
        self._device = torch.device(device)
        if self._device.type == "cuda" and self._device.index is not None:
            torch.cuda.set_device(self._device)  # what draws random numbers is the current GPU
        self.model = trainer.model.to(self._device)
        self._losses = trainer.loss if isinstance(trainer.loss, (list, tuple)) else [trainer.loss]
        self._weighted = [WeightedLoss(loss, self._one_loss) for loss in self._losses]
        self._label_forms = LabelForms()
        self.sums = TaskSums(trainer.metrics, loss_facts(self._losses[0]), trainer.task)
        self._attributes = Attributes(self.model, list(self._losses), trainer.optimizer)
        self.random = take_random()
        self.inherited = ""
        self.begin()

    @property
    def trainer(self) -> Trainer:
        """Trainer of the session."""
        return self._trainer

    @property
    def has_attribute_state(self) -> bool:
        """True if plain attributes of the modules differ from those of the model as it was built."""
        return bool(self._attributes.state())

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        return self._device

    @property
    def metric_mode(self) -> str | None:
        """Direction in which the scheduler follows a metric, ``"min"`` or ``"max"``; ``None`` if it states none."""
        mode = getattr(self._trainer.scheduler, "mode", None) if self._follows_metric else None
        return mode if mode in {"min", "max"} else None

    @property
    def losses(self) -> Sequence[Any]:
        """A loss for each output that training reads."""
        return self._losses

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights and buffers."""
        tensors = [*self.model.parameters(), *self.model.buffers()]
        return sum(tensor.nbytes for tensor in tensors)

    def attribute_marks(self) -> dict[str, bytes]:
        """Pickle each attribute that a checkpoint leaves out, by its place."""
        return self._attributes.marks()

    def saved_tensors(self) -> dict[str, Any]:
        """Name the tensors that a checkpoint holds of the model."""
        return dict(self.model.state_dict())

    def load(self, saved: Mapping[str, Any]) -> None:
        """Take the model's tensors from a checkpoint's state; RuntimeError where they do not fit."""
        self.model.load_state_dict(saved["model"])

    def checkpoint(self) -> bytes:
        """Write everything that training needs to continue elsewhere."""
        return pack(self.state(), as_array)

    def state(self) -> dict[str, Any]:
        """Collect what a checkpoint holds."""
        return {
            "model": self.saved_tensors(),
            "optimizer": self._trainer.optimizer.state_dict(),
            "optimizer_class": type(self._trainer.optimizer).__name__,
            "scheduler": self._trainer.scheduler.state_dict() if self._trainer.scheduler is not None else None,
            "random": self.random,
            "epoch": self.epoch,
            **({"attributes": attributes} if (attributes := self._attributes.state()) else {}),
        }

    def unpacked(self, state: bytes) -> dict[Any, Any]:
        """Read a checkpoint."""
        return unpack(state, as_tensor)

    def restore(self, state: bytes) -> None:
        """Continue from a checkpoint."""
        saved = self.unpacked(state)
        try:
            self.load(saved)
            self._trainer.optimizer.load_state_dict(saved["optimizer"])
            if self._trainer.scheduler is not None:
                self._trainer.scheduler.load_state_dict(saved["scheduler"])
            self._attributes.load(saved.get("attributes", {}))
        except (KeyError, RuntimeError, ValueError, TypeError) as error:
            raise StateError(f"a checkpoint of another model: {error}") from error
        self.random, self.epoch = saved["random"], saved.get("epoch", 0)

    def adopt(self, state: bytes, *, optimizer: bool = True) -> None:
        """Begin from the checkpoint of another configuration."""
        saved = self.unpacked(state)
        try:
            if optimizer:
                adopt_state(self._trainer, saved, self.saved_tensors(), self.load)
            else:
                adopt_weights(self._trainer, saved, self.saved_tensors(), self.load)
        except (KeyError, RuntimeError, ValueError, TypeError) as error:
            if isinstance(error, StateError):
                raise
            raise StateError(f"a checkpoint of another model: {error}") from error
        self._attributes.load(saved.get("attributes", {}) if optimizer else {})
        # A schedule of freezing goes on with a clone, and begins anew with weights alone.
        self.epoch = saved.get("epoch", 0) if optimizer else 0

    def inherit(self, state: bytes) -> None:
        """Begin with those weights of another configuration that fit."""
        saved = self.unpacked(state)
        try:
            self.inherited = inherit_weights(self._trainer, saved, self.saved_tensors(), self.load)
        except (AttributeError, KeyError, RuntimeError, ValueError, TypeError) as error:
            raise StateError(f"a checkpoint of another framework: {error}") from error

    def train(self, data: Rows, order: NDArray[np.int64], *, ends_epoch: bool) -> dict[str, NDArray[np.float64]]:
        """Run one training unit."""
        size, drop_last = self._trainer.batch_size, self._trainer.drop_last
        return train_in_steps(self, data, order, size, ends_epoch=ends_epoch, drop_last=drop_last)

    def begin(self) -> None:
        """Begin a unit that is trained step by step."""
        self._loss_sum, self._rows, self._total = 0.0, 0, 0.0
        self._freezing.end()
        # What is frozen may have changed since the last unit.
        self._modes_are_set = False

    def step(self, inputs: tuple[NDArray[Any], ...], labels: tuple[NDArray[Any], ...], weights: BatchWeights) -> None:
        """Take one step."""
        trainer = self._trainer
        truth = [torch.from_numpy(array).to(self._device) for array in labels]
        losses: list[float] = []

        def closure() -> torch.Tensor:
            trainer.optimizer.zero_grad(set_to_none=True)
            loss = self._loss(listed(self.forward(inputs, training=True)), truth, weights)
            loss.backward()  # type: ignore[no-untyped-call]
            losses.append(float(loss.detach()))
            return loss.detach()

        if self._takes_closure:
            trainer.optimizer.step(closure)
        else:
            closure()
            trainer.optimizer.step()
        if trainer.scheduler is not None and trainer.scheduler_step == "batch":
            trainer.scheduler.step()
        value = losses[0]
        if not math.isfinite(value):
            raise Diverged(f"the loss became {value} after {self._rows} rows of the shard")
        self._loss_sum += value * weights.total
        self._rows += len(inputs[0])
        self._total += weights.total

    def end(self, *, ends_epoch: bool) -> dict[str, NDArray[np.float64]]:
        """Close the unit."""
        scheduler = self._trainer.scheduler
        by_epoch = self._trainer.scheduler_step == "epoch" and not self._follows_metric
        if scheduler is not None and by_epoch and ends_epoch:
            scheduler.step()
        self.epoch += ends_epoch
        self._freezing.end()
        return {"loss": np.array([self._loss_sum, self._total], np.float64)}

    def follow_metric(self, value: float) -> None:
        """Step a scheduler that takes a metric."""
        if self._follows_metric:
            self._trainer.scheduler.step(value)

    def evaluate(self, data: Rows) -> dict[str, NDArray[np.float64]]:
        """Compute the loss and the metrics over a shard."""
        contributions: dict[str, NDArray[np.float64]] = {}
        with torch.inference_mode():
            for inputs, labels, weights in self.batches(data):
                outputs = listed(self.forward(inputs, training=False))
                contributions = merge_sums(contributions, self.batch_sums(outputs, labels, weights))
        return contributions

    def batch_sums(
        self, outputs: list[torch.Tensor], labels: list[torch.Tensor], weights: BatchWeights
    ) -> dict[str, NDArray[np.float64]]:
        """Compute the contributions of a batch to the loss and the metrics, from the outputs of the network."""
        loss = float(self._loss(outputs, labels, weights)) * weights.total
        part = {"loss": np.array([loss, weights.total], np.float64)}
        first, truth = outputs[0].float().cpu().numpy(), labels[0].cpu().numpy()
        return part | self.sums.contributions(first, truth, weights.own)

    def scored(self, outputs: list[torch.Tensor], data: Rows) -> dict[str, NDArray[np.float64]]:
        """Compute the loss and the metrics of outputs that are known, as :meth:`evaluate` does for its own."""
        with torch.inference_mode():
            labels = [torch.from_numpy(np.ascontiguousarray(array)).to(self._device) for array in data.labels]
            return self.batch_sums(outputs, labels, batch_weights(data, slice(0, data.rows), data.rows))

    def predict(self, inputs: tuple[NDArray[Any], ...]) -> tuple[NDArray[np.float32], ...]:
        """Run the network in inference mode."""
        with torch.inference_mode():
            outputs = self.forward(inputs, training=False)
        return tuple(output.float().cpu().numpy() for output in listed(outputs))

    def ending(self, inputs: tuple[NDArray[Any], ...]) -> Ending:
        """Return the last operation of the network, on a batch."""
        with torch.enable_grad():
            output = listed(self.forward([array[:2] for array in inputs], training=False))[0]
        ending: Ending = network_ending(output)
        return ending

    def unused_inputs(self, inputs: tuple[NDArray[Any], ...]) -> tuple[int, ...]:
        """List the places of the inputs that the network does not read, on a batch."""
        tensors = [self._tensor(array[:2]) for array in inputs]
        self.model.eval()
        self._modes_are_set = False
        with torch.no_grad(), Reading(tensors) as reading:
            self.model(*tensors)
        unread: tuple[int, ...] = reading.unread
        return unread

    def loss_of(self, output: float, label: float) -> float:
        """Compute the first loss of a single output."""
        rows = torch.ones((2, 1), device=self._device)
        with torch.no_grad():
            return float(self._one_loss(self._losses[0], output * rows, label * rows[:, 0]).mean())

    def read(self, inputs: tuple[NDArray[Any], ...]) -> list[NDArray[Any]]:
        """Convert inputs to what the model itself takes."""
        return [self._tensor(array).cpu().numpy() for array in inputs]

    def forward(self, inputs: Sequence[NDArray[Any]], *, training: bool) -> Any:
        """Run the model on a batch: frozen modules are in inference mode, and the others with ``training`` are not."""
        if not training:
            self.model.eval()
        else:
            self.set_modes(inputs)
        self._modes_are_set = training
        return self.model(*(self._tensor(array) for array in inputs))

    def set_modes(self, inputs: Sequence[NDArray[Any]]) -> None:
        """Freeze what does not learn in the epoch, and put the rest into training mode, once in a unit."""
        if not self._modes_are_set:
            self._freezing.begin(self.epoch, lambda: self.forward([array[:1] for array in inputs], training=False))
            set_training(self.model)
        self._modes_are_set = True

    def batches(self, data: Rows) -> Iterator[tuple[list[NDArray[Any]], list[torch.Tensor], BatchWeights]]:
        """Yield inputs, labels and weights of the batches of an evaluation."""
        for start in range(0, data.rows, _EVALUATED):
            picked = slice(start, min(start + _EVALUATED, data.rows))
            yield (
                [array[picked] for array in data.inputs],
                [torch.from_numpy(array[picked]).to(self._device) for array in data.labels],
                batch_weights(data, picked, picked.stop - start),
            )

    def as_input(self, tensor: torch.Tensor) -> torch.Tensor:
        """Move inputs to the device, and divide pixels of eight bits by 255."""
        tensor = tensor.to(self._device)
        return tensor if tensor.is_floating_point() or tensor.dtype != torch.uint8 else tensor.float() / 255.0

    def as_target(self, place: int, output: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Convert the labels of many rows to what a loss takes; ``output`` is that of any batch of rows."""
        like = output[:1].expand(len(labels), *output.shape[1:])
        return self._label_forms(self._losses[place], like, labels.to(self._device))

    def mean_loss(
        self,
        outputs: list[torch.Tensor],
        labels: list[torch.Tensor],
        relative: torch.Tensor | None,
        *,
        weighted: bool,
    ) -> torch.Tensor:
        """Compute the loss of a batch, the sum over outputs.

        Parameters
        ----------
        outputs, labels : list of torch.Tensor, each of shape (rows, ...)
            Outputs of the network, and a label for each loss.
        relative : torch.Tensor, shape (rows,), optional
            Weights of the rows relative to their mean; ``None`` if all are equal.
        weighted : bool
            Whether the rows have weights.
        """
        check_losses(len(self._losses), len(outputs), len(labels))
        parts = []
        for place, label in enumerate(labels):
            if weighted:
                parts.append(self._weighted[place](outputs[place], label, relative))
            else:
                parts.append(self._one_loss(self._losses[place], outputs[place], label))
        return parts[0] if len(parts) == 1 else torch.stack(parts).sum()

    def _tensor(self, array: NDArray[Any]) -> torch.Tensor:
        return self.as_input(torch.from_numpy(np.ascontiguousarray(array)))

    def _loss(self, outputs: list[torch.Tensor], labels: list[torch.Tensor], weights: BatchWeights) -> torch.Tensor:
        relative = None if weights.relative is None else torch.from_numpy(weights.relative).to(self._device)
        return self.mean_loss(outputs, labels, relative, weighted=weights.own is not None)

    def _one_loss(self, loss: Any, output: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        value: torch.Tensor = loss(output, self._label_forms(loss, output, label))
        return value


def as_array(value: Any) -> tuple[NDArray[np.generic], str] | None:
    """A tensor, or an array, as :func:`udfs.training.pack` takes it."""
    if isinstance(value, np.ndarray):
        return value, "numpy"
    if not isinstance(value, torch.Tensor):
        return None
    whole = value.detach().cpu().contiguous()
    kind = str(whole.dtype).removeprefix("torch.")
    # numpy has no bfloat16 and no float8: their bytes travel, and the type beside them.
    try:
        return whole.numpy(), kind
    except TypeError:
        return whole.reshape(*whole.shape, 1).view(torch.uint8).numpy(), f"raw {kind}"


def as_tensor(array: NDArray[np.generic], kind: str) -> Any:
    """Convert an array back to a tensor with its own memory."""
    if kind == "numpy":
        return array.copy()
    tensor = torch.from_numpy(np.array(array))
    if kind.startswith("raw "):
        return tensor.view(getattr(torch, kind.removeprefix("raw "))).squeeze(-1)
    return tensor


def listed(outputs: Any) -> list[torch.Tensor]:
    """List the outputs of a network."""
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
