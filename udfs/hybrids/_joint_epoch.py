"""Epoch of one configuration that several workers train together."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.hybrids import interleave_rows
from udfs.handlers import apply_random, framework_of, take_random
from udfs.hybrids._shard_rows import gather_rows
from udfs.metrics import merge_sums
from udfs.tensors import TensorSpec
from udfs.training import TrainerError, batch_weights, initial_seed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from optimizer.hybrids import Measured
    from udfs.gang import Gang
    from udfs.hybrids._shard_rows import ShardRows

    Sums = dict[str, NDArray[np.float64]]

__all__ = ["JointEpoch"]


class JointEpoch:
    """Share of one worker in an epoch that several workers train together (Cerebro, section 4.3.2).

    All members of the gang call the same methods, with sessions at the same checkpoint. Afterwards the session of rank
    0 has the state of the configuration; those of the other ranks have its weights, and random numbers of their own.

    Parameters
    ----------
    session : TorchSession
        Session for which :func:`unshareable_reason` is ``None``.
    gang : Gang
        The workers.
    shards : sequence of ShardRows
        Rows of this worker, at least one shard. Each shard of the epoch belongs to one worker.
    check : callable, optional
        Function that is called before each step, and raises :class:`udfs.gang.GangError` if another worker is gone.
    seed : int
        Seed of the random numbers of all ranks but the first, which continues with those of the session. Default 0.

    Examples
    --------
    >>> import torch
    >>> from udfs.gang import Gang
    >>> from udfs.handlers import ModelTrainer, open_session
    >>> from udfs.hybrids import ShardRows
    >>> from udfs.shards import Tensors
    >>> net = torch.nn.Linear(3, 1)
    >>> optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    >>> trainer = ModelTrainer(model=net, optimizer=optimizer, loss=torch.nn.MSELoss(), batch_size=4)
    >>> rows = Tensors((np.ones((8, 3), np.float32),), (np.ones((8, 1), np.float32),), 8)
    >>> session = open_session(lambda _: trainer, {}, 0)
    >>> epoch = JointEpoch(session, Gang(0, 1), [ShardRows(0, rows, np.arange(8))])
    >>> epoch.all_reduce()["loss"].shape
    (2,)
    """

    def __init__(
        self,
        session: Any,
        gang: Gang,
        shards: Sequence[ShardRows],
        *,
        check: Callable[[], None] = lambda: None,
        seed: int = 0,
    ) -> None:
        self._session = session
        self._trainer = session.trainer
        self._gang = gang
        self._shards = shards
        self._check = check
        self._seed = seed
        self._weight = 0.0
        self._total: float | None = None
        self._parameters: list[Any] = []
        self.sent_bytes = 0.0
        """Bytes that this worker has sent to others, if the exchanges use the ring algorithm."""

    def all_reduce(self) -> Sums:
        """Train the epoch with gradients that are averaged over the workers in each step.

        A step is that of one worker on the rows of all: the mean of the gradients is weighted by the rows' weights.
        Each step has ``batch_size`` rows, in an order that depends on the shards alone (see
        :func:`optimizer.hybrids.interleave_rows`). Floating-point buffers, such as the statistics of batch norm, follow
        the rows of each worker in the epoch, and are averaged at its end.

        Returns
        -------
        dict of str to array
            Contributions to the loss, over the rows of all workers.

        Raises
        ------
        TrainerError
            A parameter that learns gets no gradient, the model does not train on one row and a step has a single row of
            a worker, or the workers ended with different weights.
        Diverged
            The loss of this worker's rows is not a number any more.
        GangError
            Another worker is gone.
        """
        session, trainer = self._session, self._trainer
        shares, mine = self._shares_of_steps()
        reason = self._first_reason(self._one_row_refusal(mine))
        if reason:
            raise TrainerError(
                f"hybrid must be 'off', 'auto' or 'averaging' for this configuration, got 'all_reduce': {reason}"
            )
        ends = np.cumsum(mine, axis=0)
        weighted = self._shards[0].rows.weights is not None
        self._begin()
        hook = trainer.optimizer.register_step_pre_hook(self._exchange)
        # Hooks of the user, such as one that clips, get the mean of all gradients, as in training on one worker.
        trainer.optimizer._optimizer_step_pre_hooks.move_to_end(hook.id, last=False)  # noqa: SLF001 - no public order
        try:
            for step, batch in enumerate(shares):
                self._check()
                picked = [
                    shard.order[end - count : end]
                    for shard, end, count in zip(self._shards, ends[step], mine[step], strict=True)
                ]
                rows = gather_rows(self._shards, picked)
                self._total = None if weighted else float(batch.sum())
                self._step(rows)
        finally:
            hook.remove()
        sums = self._end()
        self._average(list(self._floating(session.model.buffers())), float(ends[-1].sum()) if len(ends) else 0.0)
        self._check_equal()
        return self._merged(sums)

    def averaging(self) -> Sums:
        """Train the rows of this worker, then average the weights of all workers, weighted by their rows.

        Floating-point buffers and moments of the optimizer are averaged like the weights; counts of steps, schedules
        and random numbers are those of rank 0.

        Returns
        -------
        dict of str to array
            Contributions to the loss, over the rows of all workers.

        Raises
        ------
        TrainerError
            The optimizers of the workers hold different tensors.
        Diverged
            The loss of this worker's rows is not a number any more.
        GangError
            Another worker is gone.
        """
        session, last = self._session, len(self._shards) - 1
        self._apply_random()
        session.random = take_random()
        hook = self._trainer.optimizer.register_step_pre_hook(lambda *_: self._check())
        sums: Sums = {}
        try:
            for place, shard in enumerate(self._shards):
                sums = merge_sums(sums, session.train(shard.rows, shard.order, ends_epoch=place == last))
        finally:
            hook.remove()
        tensors = self._state_tensors()
        layouts = self._gather([[list(each.shape), str(each.dtype)] for each in tensors])
        if any(layout != layouts[0] for layout in layouts):
            raise TrainerError(
                "optimizer must hold the same tensors on all workers, got different ones after the epoch, as when a "
                "shard has no whole batch. Set drop_last=False or hybrid='all_reduce'"
            )
        self._average(tensors, float(sums["loss"][1]))
        return self._merged(sums)

    def measure(self) -> Measured:
        """Measure steps of the session and exchanges with the other workers; the session is as before afterwards."""
        from udfs.hybrids._measurement import measure  # imports torch

        return measure(self._session, self._gang, self._shards)

    def all_reduce_refusal(self) -> str:
        """Return the reason why the workers cannot all-reduce, after :meth:`measure`; empty if they can."""
        _, mine = self._shares_of_steps()
        learning = ((name, each) for name, each in self._session.model.named_parameters() if each.requires_grad)
        name = next((name for name, each in learning if each.grad is None or each.grad.is_sparse), "")
        reason = f"{name} gets no dense gradient in a step, which an all-reduce requires" if name else ""
        return self._first_reason(reason or self._one_row_refusal(mine))

    def _shares_of_steps(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows of each shard in each step, and those of this worker's shards."""
        trainer = self._trainer
        counts = {part: rows for message in self._gather(self._counts()) for part, rows in message}
        names = sorted(counts)
        shares = interleave_rows([counts[name] for name in names], trainer.batch_size, drop_last=trainer.drop_last)
        return shares, shares[:, [names.index(shard.partition) for shard in self._shards]]

    def _one_row_refusal(self, mine: NDArray[np.int64]) -> str:
        """Return the reason why the model does not train on one row if a step of this worker has one; else ``""``."""
        backend = framework_of(self._session.model)
        if backend is None or not (mine.sum(axis=1) == 1).any():
            return ""
        inputs = [TensorSpec(array.shape[1:], str(array.dtype)) for array in self._shards[0].rows.inputs]
        refusal = backend.refusal_of_one_row(self._session.model, inputs)
        return (
            f"a worker has one row of a batch, and the model does not train on one row ({refusal})" if refusal else ""
        )

    def _first_reason(self, reason: str) -> str:
        """Return the reason of the first worker that has one; ``""`` if none has."""
        return next(filter(None, self._gather(reason)), "")

    def _counts(self) -> list[tuple[int, int]]:
        return [(shard.partition, len(shard.order)) for shard in self._shards]

    def _gather(self, message: Any) -> list[Any]:
        return [json.loads(text) for text in self._gang.all_gather(json.dumps(message).encode())]

    def _apply_random(self) -> None:
        apply_random(self._session.random)
        if self._gang.rank:
            from udfs.handlers.torch import seed_generators  # a large package

            seed_generators(initial_seed(self._seed, f"rank {self._gang.rank}"))

    def _begin(self) -> None:
        session = self._session
        self._apply_random()
        session.begin()
        session.set_modes(gather_rows(self._shards[:1], [self._shards[0].order[:1]]).inputs)
        groups = self._trainer.optimizer.param_groups
        self._parameters = [each for group in groups for each in group["params"] if each.requires_grad]

    def _end(self) -> Sums:
        sums: Sums = self._session.end(ends_epoch=True)
        self._session.random = take_random()
        return sums

    def _step(self, rows: Any) -> None:
        trainer = self._trainer
        if rows.rows:
            weights = batch_weights(rows, slice(0, rows.rows), rows.rows)
            self._weight = weights.total
            self._session.step(rows.inputs, rows.labels, weights)
            return
        # A step without rows of this worker: it takes the gradients of the others.
        self._weight = 0.0
        for parameter in self._parameters:
            parameter.grad = parameter.new_zeros(parameter.shape)
        trainer.optimizer.step()
        if trainer.scheduler is not None and trainer.scheduler_step == "batch":
            trainer.scheduler.step()

    def _exchange(self, *_: Any) -> None:
        """Average the gradients over the workers, before the optimizer reads them."""
        gradients = [parameter.grad for parameter in self._parameters]
        for parameter, gradient in zip(self._parameters, gradients, strict=True):
            if gradient is None or gradient.is_sparse:
                raise TrainerError(
                    f"parameters that learn must all get dense gradients in an all-reduce, got "
                    f"{'none' if gradient is None else 'sparse ones'} for {self._name_of(parameter)}. Use it in the "
                    "loss, set requires_grad=False for it, or set hybrid='off'"
                )
        self._gang.mean_(gradients, self._weight, total=self._total)
        self._count_sent(gradients)

    def _name_of(self, parameter: Any) -> str:
        return str(next(name for name, each in self._session.model.named_parameters() if each is parameter))

    def _average(self, tensors: list[Any], weight: float) -> None:
        self._gang.mean_(tensors, weight)
        self._count_sent(tensors)

    def _count_sent(self, tensors: Sequence[Any]) -> None:
        size = self._gang.size
        self.sent_bytes += 2 * (size - 1) / size * sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    @staticmethod
    def _floating(tensors: Any) -> Any:
        return (tensor for tensor in tensors if tensor.is_floating_point())

    def _state_tensors(self) -> list[Any]:
        """List the tensors to average: weights, buffers and moments, in the same order on each worker."""
        optimizer = self._trainer.optimizer
        moments = [
            value
            for group in optimizer.param_groups
            for parameter in group["params"]
            for _, value in sorted(optimizer.state.get(parameter, {}).items())
            if hasattr(value, "is_floating_point") and value.dim()
        ]
        return list(self._floating([*self._session.saved_tensors().values(), *moments]))

    def _check_equal(self) -> None:
        """Refuse weights that differ between workers: each of them should have taken the same steps."""
        import torch  # an optional extra

        digest = hashlib.blake2b(digest_size=16)
        for parameter in self._session.model.parameters():
            digest.update(parameter.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
        if len(set(self._gather(digest.hexdigest()))) > 1:
            raise TrainerError(
                "the steps of the workers must lead to equal weights, got different ones: the model or the optimizer "
                "draws random numbers outside the forward pass. Set hybrid='off'"
            )

    def _merged(self, sums: Sums) -> Sums:
        """Merge the contributions of all workers, in the order of their ranks."""
        merged: Sums = {}
        for part in self._gather({name: value.tolist() for name, value in sums.items()}):
            merged = merge_sums(merged, {name: np.array(value, np.float64) for name, value in part.items()})
        return merged
