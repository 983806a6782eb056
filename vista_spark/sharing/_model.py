"""``SharedModel``: one trunk and an upper part per attribute."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pyspark.ml import Transformer

from optimizer.errors import nearest
from udfs.arrow import RowMap, RowPolicy
from udfs.driver import check_absent, map_rows
from udfs.inference import files_of_this_process
from udfs.serving import AttributeScoring, Head
from vista_spark.errors import InvalidArgumentError
from vista_spark.serving import Session, profile_batches
from vista_spark.sharing._files import read_shared, write_shared
from vista_spark.sharing._parts import TRUNK, SharedPart, save_head

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from vista_spark.features import CNNFeaturizer
    from vista_spark.sharing._attributes import SharedAttribute

__all__ = ["SharedModel"]


class SharedModel(Transformer):
    """A trunk that runs once per image, and a linear upper part per attribute; made by :func:`share` or :meth:`load`.

    As a Transformer it adds a column ``<attribute>_prediction`` per attribute, of the type of its labels, and
    ``image_error`` with the reason why a row has none.

    Parameters
    ----------
    trunk : CNNFeaturizer
        Network with its weights and the layer that the upper parts read.
    head : Head
        Upper parts of all attributes, one below the other.
    attributes : sequence of SharedAttribute
        Attributes in the order of the upper parts.

    Attributes
    ----------
    trunk : CNNFeaturizer
        Stage that computes the outputs of the trunk.
    attributes : tuple of SharedAttribute
        Classes, rows and accuracy of each attribute.
    parts : tuple of SharedPart
        The trunk, then the upper part of each attribute.
    """

    def __init__(self, trunk: CNNFeaturizer, head: Head, attributes: Sequence[SharedAttribute]) -> None:
        super().__init__()
        self.trunk, self._head = trunk, head
        self.attributes = tuple(attributes)
        net = trunk.open_network()
        below = net.graph.ancestors([net.layer(net.layers(trunk.getLayers())[0])])
        parts = [SharedPart(TRUNK, (), net.graph.param_bytes(below), net.graph.flops(below))]
        for each in self.attributes:
            size = len(each.classes)
            parts.append(SharedPart(each.name, (TRUNK,), 4 * size * (head.features + 1), 2 * size * head.features))
        self.parts = tuple(parts)

    @property
    def outputCols(self) -> list[str]:
        """Columns that :meth:`transform` adds, one per attribute."""
        return [f"{attribute.name}_prediction" for attribute in self.attributes]

    def __getitem__(self, name: str) -> SharedAttribute:
        """Return the attribute of a name."""
        for attribute in self.attributes:
            if attribute.name == name:
                return attribute
        names = [attribute.name for attribute in self.attributes]
        raise InvalidArgumentError(f"name must be an attribute, got {name!r}{nearest(str(name), names)}.")

    def __call__(self, df: DataFrame) -> DataFrame:
        """Predict all attributes; for ``df.transform(shared)``."""
        return self.transform(df)

    def _transform(self, dataset: DataFrame) -> DataFrame:
        trunk, columns = self.trunk, self.outputCols
        net, column = trunk.open_network(), trunk.getInputCol()
        net.reads.check(dataset, column, type(self).__name__)
        policy = RowPolicy("null", trunk.getErrorCol(), net.reads.error)
        check_absent(dataset, [*columns, trunk.getErrorCol()], "drop it first")
        inference = trunk.inference(net.shipped(dataset.sparkSession), reads=[column], outputs=["features"])
        scoring = AttributeScoring(
            inference,
            self._head,
            tuple(columns),
            tuple(attribute.classes for attribute in self.attributes),
            tuple(attribute.kind for attribute in self.attributes),
        )
        return map_rows(dataset, RowMap(scoring, tuple(dataset.columns), policy), sends="either")

    def head(self, name: str) -> Head:
        """Return the upper part of an attribute: weights of shape (classes, features), biases of shape (classes,)."""
        place = self.attributes.index(self[name])
        ends = np.cumsum([0, *(len(attribute.classes) for attribute in self.attributes)]).tolist()
        part = slice(*list(pairwise(ends))[place])
        return Head(self._head.weight[part], self._head.bias[part])

    def sessions(self, *, slo_ms: float = 500.0, rate: float = 1.0, threads: int = 1) -> list[Session]:
        """Return a session per attribute, named after it, for a server, which runs their trunk once per image.

        Their batches are measured once, in this process, because they differ only in their upper parts.

        Parameters
        ----------
        slo_ms : float
            Milliseconds from a request to its answer. Default 500.
        rate : float
            Expected images per second, each sent to all sessions. Default 1. For the first plan a session's rate is its
            part of them, because an image passes the trunk once for all. Later plans count one request per attribute.
        threads : int
            CPU threads of a batch, those of the server. Default 1.

        Returns
        -------
        list of Session
            Sessions whose output has the scores of the attribute's classes.
        """
        net = self.trunk.open_network()
        folder = Path(tempfile.mkdtemp(dir=files_of_this_process()))
        sessions = [
            Session(
                attribute.name,
                model=net.card,
                weights=net.weights,
                head=save_head(self.head(attribute.name), folder / f"{place}.safetensors"),
                slo_ms=slo_ms,
                rate=rate / len(self.attributes),
                layer=str(self.trunk.getLayers()),
                image_size=self.trunk.getImageSize(),
                seed=self.trunk.getSeed(),
            )
            for place, attribute in enumerate(self.attributes)
        ]
        profile = profile_batches(sessions[0], threads=threads)
        return [replace(session, profile=profile) for session in sessions]

    def explain(self) -> str:
        """Describe the parts, their costs, the accuracy of each attribute, and what all cost against one."""
        trunk, *heads = self.parts
        total, single = sum(part.flops for part in self.parts), trunk.flops + heads[0].flops
        share = f"{trunk.flops / 1e9:.3f} GFLOP and {trunk.nbytes / 1e6:.1f} MB, {trunk.flops / total:.2%} of all FLOPs"
        lines = [f"{len(heads)} attributes share {self.trunk.getModel()} up to {self.trunk.getLayers()}: {share}"]
        for part, attribute in zip(heads, self.attributes, strict=True):
            low, high = attribute.interval
            lines.append(
                f"  {part.name} <- {part.reads[0]}: accuracy {attribute.accuracy:.3f} [{low:.3f}, {high:.3f}] on "
                f"{attribute.valid_rows:,} rows, always {attribute.majority!r} {attribute.baseline:.3f}; "
                f"{part.nbytes / 1e3:.1f} kB, {len(attribute.classes)} classes"
            )
        separate = sum(trunk.flops + part.flops for part in heads)
        lines.append(
            f"cost of all against one: {total / single:.4f} shared, {separate / single:.2f} as separate networks"
        )
        return "\n".join(lines)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write parts, dependencies and accuracies as JSON, and weights as safetensors, to a new folder.

        Parameters
        ----------
        folder : str or path
            Folder of this machine, which must not exist.

        Raises
        ------
        ExistingFileError
            The folder exists.
        """
        heads = [self.head(attribute.name) for attribute in self.attributes]
        write_shared(Path(folder), self.trunk, self.parts, self.attributes, heads)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> SharedModel:
        """Read what :meth:`save` wrote.

        Raises
        ------
        InvalidArgumentError
            A file is missing or changed, or a newer version wrote the folder.
        """
        return cls(*read_shared(Path(folder)))
