"""``EnsembleModel``: Spark ML Transformer of several trained networks."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from cerebro_spark.data import choose_features
from cerebro_spark.sequences import described_rows
from udfs.arrow import RowMap, RowPolicy
from udfs.driver import (
    NetworkModel,
    check_absent,
    map_rows,
    quoted,
)
from udfs.ensembles import Combination, EnsemblePrediction, Member
from udfs.inference import PortableNetwork
from udfs.sequences import Windows
from udfs.shards import TensorGroup
from udfs.training import Task

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    from pyspark.sql import DataFrame

__all__ = ["EnsembleModel", "MemberRecord"]


@dataclass(frozen=True, slots=True)
class MemberRecord:
    """Member of an ensemble with its scores.

    ``choices`` counts how often it was chosen; ``weight`` is the share of all its choices, and the weights of all
    members add up to 1. The scores are those of the member alone, on both parts of the held-out rows.
    """

    trial_id: str
    epoch: int
    params: Mapping[str, Any]
    choices: int
    weight: float
    selection_score: float
    report_score: float


class EnsembleModel(NetworkModel):
    """Transformer that predicts with several networks of a search in one pass; it does not need their code.

    Get one from :meth:`Selection.ensemble`, or load a saved one. The columns are those of :class:`TunedModel`:
    ``predictionCol`` (default ``"prediction"``) in the encoding of the labels, ``probabilityCol`` (default
    ``"probability"``), for classes and labels, with the weighted mean of the members' probabilities or the shares of
    their votes, and ``rawPredictionCol`` (default ``"rawPrediction"``) with the same times the number of choices, or
    the values of a regression. All are null if a value is null, an image cannot be decoded or a tensor has another
    size. Members that read :class:`Windows` predict for the longest windows among theirs, in rows as those of
    :class:`TunedModel`.

    Parameters
    ----------
    batchSize : int
        Rows per run of the networks. Default 256.

    Examples
    --------
    >>> EnsembleModel().getPredictionCol()
    'prediction'
    """

    __module__ = "cerebro_spark"  # the path that saved pipelines store, whichever file defines the class

    @classmethod
    def from_members(
        cls,
        members: Sequence[Member],
        records: Sequence[MemberRecord],
        combination: Combination,
        report: Mapping[str, Any] | None = None,
        windows: Mapping[str, Any] | None = None,
    ) -> EnsembleModel:
        """Build a model of members that are combined.

        Parameters
        ----------
        members : sequence of Member
            Networks with their weights.
        records : sequence of MemberRecord
            Rows of the table of members.
        combination : Combination
            Combination of their outputs.
        report : mapping, optional
            Plain data about the choice: ``metric``, ``scores``, ``steps`` and ``candidates``. By default none.
        windows : mapping, optional
            Windows that contain those of all members, as :func:`cerebro_spark.sequences.window_facts` describes them.
            By default the members read single rows.
        """
        facts = {
            "vote": combination.vote,
            "task": combination.task.to_dict(),
            "networks": [
                {
                    "framework": member.network.framework,
                    "bytes": len(member.network.data),
                    "inputs": [asdict(group) for group in member.inputs],
                    "task": member.task.to_dict(),
                    "weight": member.weight,
                    "choices": member.choices,
                    **({} if member.windows is None else {"windows": member.windows.to_dict()}),
                }
                for member in members
            ],
            "members": [{**asdict(record), "params": dict(record.params)} for record in records],
            **({} if windows is None else {"windows": dict(windows)}),
            **(report or {}),
        }
        return cls(b"".join(member.network.data for member in members), facts)

    @property
    def members(self) -> pd.DataFrame:
        """Table of the members: ``trial_id``, ``epoch``, params, ``choices``, ``weight`` and both scores of each alone.

        The scores are those of :attr:`metric` on the part of the held-out rows that chose the members
        (``selection_score``) and on the other part (``report_score``).
        """
        import pandas as pd

        records = [dict(record) for record in self._facts["members"]]
        return pd.DataFrame([{**record.pop("params"), **record} for record in records]).pipe(_with_ids_first)

    @property
    def candidates(self) -> pd.DataFrame:
        """Table of all candidates with both scores, and why a candidate could not be chosen (``reason``)."""
        import pandas as pd

        return pd.DataFrame(self._facts.get("candidates", []))

    @property
    def steps(self) -> pd.DataFrame:
        """Table of the choices in their order, with both scores of the ensemble after each.

        A smaller ``k`` gives the ensemble of the first ``k`` choices.
        """
        import pandas as pd

        return pd.DataFrame(self._facts.get("steps", []))

    @property
    def scores(self) -> dict[str, float]:
        """Scores of the ensemble and of the best single candidate, on both parts of the held-out rows."""
        return dict(self._facts.get("scores", {}))

    @property
    def metric(self) -> str:
        """Metric that decided the choices."""
        return str(self._facts.get("metric", ""))

    @property
    def vote(self) -> str:
        """Way in which the members are combined."""
        return str(self._facts["vote"])

    @property
    def task(self) -> Task:
        """Meaning of the labels and of the combined outputs."""
        return Task.from_dict(self._facts["task"])

    def explain(self) -> str:
        """Describe the members, their weights and the scores in words."""
        scores, count = self.scores, len(self._facts["members"])
        networks = f"{count} network{'' if count == 1 else 's'}"
        lines = [f"{self.vote} of {networks}, chosen by {self.metric or 'the user'}"]
        lines += [
            f"  {member['trial_id']}, epoch {member['epoch']}: weight {member['weight']:.3f}, "
            f"alone {member['selection_score']:.4f} and {member['report_score']:.4f}"
            for member in self._facts["members"]
        ]
        if scores:
            lines.append(
                f"  ensemble: {scores['selection']:.4f} on the rows that chose the members, {scores['report']:.4f} on "
                f"others; best network alone: {scores['best_selection']:.4f} and {scores['best_report']:.4f}"
            )
        return "\n".join(lines)

    def _transform(self, dataset: DataFrame) -> DataFrame:
        facts = self._facts.get("windows")
        if facts is None:
            return self._scored(dataset)
        names = [group["name"] for group in facts["inputs"]]
        return self._scored(described_rows(dataset, facts)).drop(*names)

    def _scored(self, dataset: DataFrame) -> DataFrame:
        raw, prediction = self.getRawPredictionCol(), self.getPredictionCol()
        has_probabilities = bool(self.getProbabilityCol()) and self.task.has_probabilities
        probability = self.getProbabilityCol() if has_probabilities else f"{self.uid}_probability"
        remedy = "set rawPredictionCol, probabilityCol or predictionCol, or drop it"
        check_absent(dataset, [raw, *([probability] if has_probabilities else []), prediction], remedy)
        members = self._members()
        combination = Combination(self.task, self.vote)
        groups = tuple(dict.fromkeys(group for member in members for group in member.inputs))
        sources = choose_features(dataset, groups)
        images = tuple(source.name for source in sources if source.kind == "image")
        function = EnsemblePrediction(members, combination, images, (raw, probability, prediction), self.getBatchSize())
        scored = map_rows(
            dataset,
            RowMap(function, tuple(dataset.columns), RowPolicy("null")),
            reads={source.name: source.encoded for source in sources},
            vectors={raw: combination.columns, probability: combination.columns},
            sends="either",
        )
        if self.task.is_vector:
            scored = scored.withColumn(prediction, F.col(quoted(prediction)).cast("array<double>"))
        return scored if has_probabilities else scored.drop(probability)

    def _members(self) -> tuple[Member, ...]:
        members, start = [], 0
        for described in self._facts["networks"]:
            end = start + described["bytes"]
            members.append(
                Member(
                    PortableNetwork(described["framework"], self._network[start:end]),
                    tuple(map(TensorGroup.from_dict, described["inputs"])),
                    Task.from_dict(described["task"]),
                    described["weight"],
                    described["choices"],
                    Windows.from_dict(described["windows"]) if "windows" in described else None,
                )
            )
            start = end
        return tuple(members)


def _with_ids_first(table: pd.DataFrame) -> pd.DataFrame:
    first = ["trial_id", "epoch"]
    return table[[*first, *(name for name in table.columns if name not in first)]]
