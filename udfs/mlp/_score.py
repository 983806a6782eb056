"""A trained perceptron over Arrow batches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from optimizer.errors import CerebroError
from udfs.arrow import VECTOR, NewColumns, to_lists
from udfs.mlp._rows import dense

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from numpy.typing import NDArray

    from udfs.mlp.network import Perceptron

__all__ = ["PerceptronError", "Scoring"]


class PerceptronError(CerebroError, ValueError):
    """Rows that a perceptron cannot take, whatever the policy: they have another number of features."""


@dataclass(frozen=True, slots=True)
class Scoring:
    """Predictions of a perceptron for a batch of features. A :class:`udfs.arrow.BatchFunction`.

    A row is bad where its features are null, or NaN or infinite in part. ``network`` is in the serialized form of the
    training. ``raw`` and ``probability`` are columns to add for the logits and the probabilities of the classes, both
    ``None`` for a regression; ``prediction`` is the class with the greatest probability, or else the network's output.
    Raise PerceptronError if a row has another number of features than the network.
    """

    network: bytes
    features: str
    raw: str | None
    probability: str | None
    prediction: str
    device: str
    batch_size: int = 4096

    @property
    def reads(self) -> tuple[str, ...]:
        """The column of features."""
        return (self.features,)

    @property
    def adds(self) -> tuple[pa.Field, ...]:
        """Logits and probabilities, where there are some, and the prediction."""
        names = (self.raw, self.probability)
        vectors = (pa.field(name, VECTOR) for name in names if name is not None)
        return (*vectors, pa.field(self.prediction, pa.float64()))

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        """Open the network."""
        import torch  # an optional extra

        from udfs.mlp.network import choose_device, from_bytes  # (imports torch)

        torch.set_num_threads(threads)
        device = choose_device(self.device)
        return partial(self._score, from_bytes(self.network).to(device), device)

    def _score(self, network: Perceptron, device: torch.device, batch: pa.RecordBatch) -> NewColumns:
        column, size = batch.column(self.features), network.sizes[0]
        features, valid, (shortest, longest) = dense(column)
        if column.null_count < len(column) and (shortest, longest) != (size, size):
            raise PerceptronError(f"rows of {shortest} to {longest} features for a network that was trained on {size}")
        outputs, shares = self._outputs(network, features, device) if len(features) else (np.empty((0, 1)),) * 2
        best = outputs[:, 0] if self.probability is None else outputs.argmax(axis=1).astype(np.float64)
        prediction = np.zeros(len(valid))
        prediction[valid] = best
        vectors = [rows for name, rows in ((self.raw, outputs), (self.probability, shares)) if name is not None]
        columns = [to_lists(rows.astype(np.float32), valid) for rows in vectors]
        columns.append(pa.array(prediction, mask=~valid))
        return NewColumns(columns, _reasons(column, valid))

    def _outputs(
        self, network: Perceptron, features: NDArray[np.float32], device: torch.device
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the network's outputs, and the probabilities made of them."""
        import torch  # an optional extra

        with torch.inference_mode():
            # Arrow's memory is read-only, which no tensor of torch can be: a copy.
            outputs = network(torch.tensor(features, device=device)).cpu()
        return outputs.numpy(), outputs.softmax(dim=1).numpy()


def _reasons(column: pa.Array, valid: NDArray[np.bool_]) -> list[str | None]:
    reasons: list[str | None] = [None] * len(valid)
    present = column.is_valid().to_numpy(zero_copy_only=False)
    for row in np.flatnonzero(~valid).tolist():
        reasons[row] = "NaN or infinite feature" if present[row] else "null"
    return reasons
