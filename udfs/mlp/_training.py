"""Training of a perceptron in a barrier stage: rows in, one row with the network out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import add
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import pyarrow as pa
from pyspark import TaskContext

from udfs.gang import gang
from udfs.mlp._rows import Census, read_rows
from udfs.mlp._settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Fault", "Training"]


class Fault(NamedTuple):
    """A defect of the data that rules out training; the kind ``"step"`` is a loss that became NaN."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Training(Settings):
    """Training of a multi-layer perceptron by the tasks of a barrier stage. Call it with ``mapInArrow``.

    Every task reads its partition into memory, as float32, and takes the same steps. Gradients are means over the
    global batch, whatever the sizes of the partitions. The input has lists of numbers, labels and perhaps weights; the
    output, of :attr:`schema`, has one row, from the first task: the network in safetensors (null where there is a
    fault), and a report in JSON with ``losses``, ``rows``, ``sizes`` and ``tasks``, or with ``fault``. Its fields are
    those of :class:`udfs.mlp._settings.Settings`.
    """

    schema: ClassVar[str] = "network binary, report string"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run in one task of a barrier stage."""
        import torch  # an optional extra

        from udfs.mlp.fit import fit  # (imports torch)
        from udfs.mlp.network import to_bytes

        context = TaskContext.get()
        torch.set_num_threads(context.cpus() if context else 1)
        rows = read_rows(batches)
        network, report = None, {}
        with gang(backend=self.backend) as tasks:
            tables = [
                Census(**json.loads(text)) for text in tasks.all_gather(json.dumps(rows.census.to_dict()).encode())
            ]
            census = reduce(add, tables)
            fault = self.fault(census)
            if fault is None:
                sizes = [census.longest, *self.hidden, self._outputs(census)]
                fitted = fit(tasks, rows, self, sizes, [table.rows for table in tables])
                if len(fitted.losses) < self.epochs:
                    fault = self._diverged(len(fitted.losses) + 1)
                network = to_bytes(fitted.network)
                report = {"losses": fitted.losses, "rows": census.rows, "sizes": sizes, "tasks": tasks.size}
        if fault is not None:
            network, report = None, {"fault": fault}
        if tasks.rank == 0:
            yield pa.RecordBatch.from_pydict(
                {"network": pa.array([network], pa.binary()), "report": pa.array([json.dumps(report)])}
            )

    def fault(self, census: Census) -> Fault | None:
        """Return the first defect of the rows of all tasks, if there is one."""
        checks = (
            self._empty,
            self._bad_features,
            self._bad_labels,
            self._bad_weights,
            self._bad_classes,
            self._too_large,
        )
        return next(filter(None, (check(census) for check in checks)), None)

    def _outputs(self, census: Census) -> int:
        return 1 if self.regression else self.classes or int(census.most) + 1

    def _empty(self, census: Census) -> Fault | None:
        return None if census.rows else Fault("empty", "no rows to train on")

    def _bad_features(self, census: Census) -> Fault | None:
        column, rows = self.features, f"of {census.rows} rows"
        if census.null_features:
            return Fault("features", f"column {column!r} is null in {census.null_features} {rows}: drop or fill them")
        if census.shortest != census.longest:
            return Fault(
                "features", f"column {column!r} has rows of {census.shortest} to {census.longest} numbers: one length"
            )
        if census.odd_features:
            return Fault(
                "features",
                f"column {column!r} has NaN, infinity or null among the numbers of {census.odd_features} {rows}: "
                "drop or impute them",
            )
        if not census.longest:
            return Fault("features", f"column {column!r} holds no numbers: its vectors are of length 0")
        return None

    def _bad_labels(self, census: Census) -> Fault | None:
        column, rows = self.label, f"of {census.rows} rows"
        if census.null_labels:
            return Fault("label", f"label {column!r} is null or NaN in {census.null_labels} {rows}: drop or fill them")
        if census.odd_labels:
            return Fault("label", f"label {column!r} is infinite in {census.odd_labels} {rows}")
        return None

    def _bad_weights(self, census: Census) -> Fault | None:
        column, rows = self.weight, f"of {census.rows} rows"
        if census.null_weights:
            return Fault("features", f"weight {column!r} is null or NaN in {census.null_weights} {rows}: fill them")
        if census.odd_weights:
            return Fault("features", f"weight {column!r} is negative or infinite in {census.odd_weights} {rows}")
        if self.weight is not None and not census.weight:
            return Fault("features", f"weight {column!r} is 0 in all {census.rows} rows: nothing is left to train on")
        return None

    def _bad_classes(self, census: Census) -> Fault | None:
        column, rows = self.label, f"of {census.rows} rows"
        if self.regression:
            return None
        if census.fractional:
            return Fault(
                "label",
                f"label {column!r} is no whole number from 0 on in {census.fractional} {rows} ({census.least:g} to "
                f"{census.most:g}): make classes of them with StringIndexer",
            )
        if census.least == census.most:
            return Fault(
                "label", f"the {census.rows} rows to train on are all of class {census.least:g}: two are needed"
            )
        if census.most >= (self.classes or max(census.rows, 2)):
            known = f"its metadata knows {self.classes} classes" if self.classes else f"there are {census.rows} rows"
            return Fault(
                "label", f"label {column!r} goes up to {census.most:g}, but {known}: number classes from 0 on, in order"
            )
        return None

    def _too_large(self, census: Census) -> Fault | None:
        sizes = [census.longest, *self.hidden, self._outputs(census)]
        weights = 4 * sum((before + 1) * after for before, after in pairwise(sizes))
        if weights <= self.largest:
            return None
        return Fault(
            "size",
            f"layers {sizes} have {weights:,} bytes of weights, and {self.largest:,} is the most that goes to the "
            "workers with a query: use smaller layers or fewer features",
        )

    def _diverged(self, epoch: int) -> Fault:
        return Fault("step", f"the loss is not a number any more in epoch {epoch}: lower stepSize={self.step_size:g}")
