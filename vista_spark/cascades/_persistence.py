"""Saving and loading of cascades with their models."""

from __future__ import annotations

import os
from typing import Any

from pyspark.ml import PipelineModel
from pyspark.ml.util import DefaultParamsWriter, MLWritable

from udfs.driver import StageReader
from vista_spark.errors import InvalidArgumentError

__all__ = ["CascadeReader", "CascadeWriter"]

_FACTS, _COLUMNS = "cascade", "columns"


class CascadeWriter(DefaultParamsWriter):
    """Writer of a cascade's Params and facts (JSON), and of its models by their own writers.

    Parameters
    ----------
    stage : Cascade or CascadeModel
        Stage to save.
    facts : dict
        Plain data beside the Params.
    members : list of models
        Models; names of columns are part of the facts.
    """

    def __init__(self, stage: Any, facts: dict[str, Any], members: list[Any]) -> None:
        super().__init__(stage)
        self._facts, self._members = facts, members
        for member in members:
            if member is not None and not isinstance(member, str | MLWritable):
                raise InvalidArgumentError(
                    f"models of a saved cascade must be Spark ML stages or fitted models, got {type(member).__name__}, "
                    "whose code no file holds. Save the other models, and make the cascade anew with it."
                )

    def saveImpl(self, path: str) -> None:
        """Save to a path that does not exist yet."""
        stage: Any = self.instance
        columns = [member if isinstance(member, str) else None for member in self._members]
        facts = self._facts | {_COLUMNS: columns, "set": [member is not None for member in self._members]}
        self.saveMetadata(stage, path, self.sparkSession, extraMetadata={_FACTS: facts})
        for place, member in enumerate(self._members):
            if isinstance(member, MLWritable):
                # A pipeline saves models of all kinds.
                PipelineModel([member]).save(_place(path, place))  # type: ignore[list-item]


class CascadeReader(StageReader):
    """Reader of what :class:`CascadeWriter` wrote."""

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
        return self._with_params(self.cls._loaded(facts, members), metadata)  # type: ignore[attr-defined]  # noqa: SLF001


def _place(path: str, place: int) -> str:
    return os.path.join(path, "models", str(place))  # noqa: PTH118 - may be a URI
