"""A trained perceptron over Arrow batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from optimizer.errors import CerebroError
from udfs.arrow import to_lists
from udfs.mlp._rows import dense

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

__all__ = ["PerceptronError", "Scoring"]

_CHUNK = 4096


class PerceptronError(CerebroError, ValueError):
    """Rows that a perceptron cannot take, whatever its policy: they have another number of features."""


@dataclass(frozen=True, slots=True)
class Scoring:
    """Predictions for the last column of each batch, added after the others. Call it with ``mapInArrow``.

    The last column, a list of numbers, is dropped. A row whose numbers are null, or NaN or infinite in part, gets null.

    Parameters
    ----------
    network : bytes
        As the training gave it.
    names : tuple of str
        Of the output: the columns that stay, the probabilities (``list<float>``) where there are some, the prediction.
    probabilities : bool
        Whether they are delivered.
    regression : bool
        Whether the prediction is the network's output, not its greatest.
    device : str

    Raises
    ------
    PerceptronError
        A row has another number of features than the network.
    """

    network: bytes
    names: tuple[str, ...]
    probabilities: bool
    regression: bool
    device: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run over the batches of one partition; an empty partition opens no network."""
        batches = (batch for batch in batches if batch.num_rows)
        first = next(batches, None)
        if first is None:
            return
        import torch  # noqa: PLC0415  (an optional extra)

        from udfs.mlp.network import choose_device, from_bytes  # noqa: PLC0415  (imports torch)

        context = TaskContext.get()
        torch.set_num_threads(context.cpus() if context else 1)
        device = choose_device(self.device)
        network = from_bytes(self.network).to(device)

        def outputs(features: NDArray[np.float32]) -> NDArray[np.float64]:
            starts = range(0, len(features), _CHUNK)
            with torch.inference_mode():
                # Arrow's memory is not to be written to, and torch knows no tensors of which that is true: a copy.
                parts = (torch.tensor(features[start : start + _CHUNK], device=device) for start in starts)
                found = torch.cat([network(part).cpu() for part in parts])
                return (found if self.regression else found.softmax(dim=1)).numpy()

        yield self._scored(first, outputs, network.sizes[0])
        for batch in batches:
            yield self._scored(batch, outputs, network.sizes[0])

    def _scored(
        self, batch: pa.RecordBatch, outputs: Callable[[NDArray[np.float32]], NDArray[np.float64]], size: int
    ) -> pa.RecordBatch:
        *kept, column = batch.columns
        features, valid, (shortest, longest) = dense(column)
        if column.null_count < len(column) and (shortest, longest) != (size, size):
            raise PerceptronError(f"rows of {shortest} to {longest} features for a network that was trained on {size}")
        found = outputs(features) if len(features) else np.empty((0, 1))
        best = found[:, 0] if self.regression else found.argmax(axis=1).astype(np.float64)
        prediction = np.zeros(len(valid))
        prediction[valid] = best
        if self.probabilities:
            kept.append(to_lists(found.astype(np.float32), valid))
        kept.append(pa.array(prediction, mask=~valid))
        return pa.RecordBatch.from_arrays(kept, names=list(self.names))
