"""Saving and loading of stages that have models, such as cascades."""

from __future__ import annotations

import os
from typing import Any

from pyspark.ml import PipelineModel
from pyspark.ml.util import DefaultParamsWriter, MLWritable

from udfs.driver import StageReader
from vista_spark.errors import InvalidArgumentError

__all__ = ["MembersReader", "MembersWriter"]

_FACTS, _COLUMNS, _DATA, _HAS_DATA = "cascade", "columns", "data", "has_data"


class MembersWriter(DefaultParamsWriter):
    """Writer of a stage's Params and facts (JSON), of its models by their own writers, and of bytes.

    Parameters
    ----------
    stage : stage of Spark ML
        Stage to save.
    facts : dict
        Plain data beside the Params.
    members : list of models
        Models; names of columns are part of the facts.
    data : bytes, optional
        Further data, which the reader adds to the facts as ``"data"``.
    """

    def __init__(self, stage: Any, facts: dict[str, Any], members: list[Any], data: bytes | None = None) -> None:
        super().__init__(stage)
        self._facts, self._members, self._data = facts, members, data
        for member in members:
            if member is not None and not isinstance(member, str | MLWritable):
                raise InvalidArgumentError(
                    f"models of a saved {type(stage).__name__} must be Spark ML stages or fitted models, got "
                    f"{type(member).__name__}, whose code no file holds. Save the other models, and "
                    "make the stage anew with it."
                )

    def saveImpl(self, path: str) -> None:
        """Save to a path that does not exist yet."""
        stage: Any = self.instance
        columns = [member if isinstance(member, str) else None for member in self._members]
        facts = self._facts | {_COLUMNS: columns, "set": [member is not None for member in self._members]}
        facts[_HAS_DATA] = self._data is not None
        self.saveMetadata(stage, path, self.sparkSession, extraMetadata={_FACTS: facts})
        for place, member in enumerate(self._members):
            if isinstance(member, MLWritable):
                # A pipeline saves models of all kinds.
                PipelineModel([member]).save(_place(path, place))  # type: ignore[list-item]
        if self._data is not None:
            table = self.sparkSession.createDataFrame([(bytearray(self._data),)], f"{_DATA} binary")
            table.coalesce(1).write.parquet(os.path.join(path, _DATA))  # noqa: PTH118 - may be a URI


class MembersReader(StageReader):
    """Reader of what :class:`MembersWriter` wrote."""

    def load(self, path: str) -> Any:
        """Load from a path.

        Raises
        ------
        optimizer.errors.InvalidArgumentError
            The path holds a stage of another class.
        """
        metadata = self._metadata(path)
        facts = metadata[_FACTS]
        members = []
        for place, (column, is_set) in enumerate(zip(facts[_COLUMNS], facts["set"], strict=True)):
            stored = column is None and is_set
            members.append(PipelineModel.load(_place(path, place)).stages[0] if stored else column)
        if facts.get(_HAS_DATA):
            row = self.sparkSession.read.parquet(os.path.join(path, _DATA)).first()  # noqa: PTH118
            assert row is not None  # the writer's one row
            facts = facts | {_DATA: bytes(row[_DATA])}
        return self._with_params(self.cls._loaded(facts, members), metadata)  # type: ignore[attr-defined]  # noqa: SLF001


def _place(path: str, place: int) -> str:
    return os.path.join(path, "models", str(place))  # noqa: PTH118 - may be a URI
