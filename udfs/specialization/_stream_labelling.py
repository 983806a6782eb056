"""Labels of the frames of a stream: models run ahead in batches, decisions are made frame by frame."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from optimizer.specialization import OTHER, SpecializationState, WindowedGreedy
from udfs.cascades import OpenMember
from udfs.specialization._expert_head import ReweightedExpert
from udfs.specialization._expert_training import ExpertTraining
from udfs.specialization._linear_scores import features_of
from udfs.specialization._repetition import find_references
from udfs.specialization._spec import LATE, ORACLE, REPEAT
from udfs.specialization._training_rows import read_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from optimizer.specialization import Expert, Need
    from udfs.arrow import NewColumns
    from udfs.specialization._expert_head import Expertise, TrainedExpert
    from udfs.specialization._spec import SpecializationSpec
    from udfs.video import Thumbnail

__all__ = ["FrameLabel", "OpenModels", "StreamLabelling", "StreamMemory"]


class FrameLabel(NamedTuple):
    """Answer of a frame: class (``OTHER`` without one), model, phase, confidence, and the reason of a bad frame."""

    label: int
    model: str | None
    phase: str | None
    confidence: float | None
    reason: str | None = None


@dataclass(slots=True)
class StreamMemory:
    """Memory of a stream between two batches of frames.

    Parameters
    ----------
    state : SpecializationState
        State of the algorithm.
    heads : dict of str to TrainedExpert
        Experts that were trained, by name.
    time : float, optional
        Order of the last frame; ``None`` before the first.
    answered : dict of int to FrameLabel
        Frames of that order, by a hash of their content.
    reference : array of float32, optional
        Thumbnail of the last frame that repeats no other, if repetitions are detected.
    reference_label : FrameLabel, optional
        Its answer.
    repetitions : int
        Frames that have repeated it.
    """

    state: SpecializationState = field(default_factory=SpecializationState)
    heads: dict[str, TrainedExpert] = field(default_factory=dict)
    time: float | None = None
    answered: dict[int, FrameLabel] = field(default_factory=dict)
    reference: Thumbnail | None = None
    reference_label: FrameLabel | None = None
    repetitions: int = 0


class OpenModels:
    """Models of a specialised classifier that are open in this process.

    Parameters
    ----------
    spec : SpecializationSpec
        Models and settings.
    threads : int
        Threads that the models may use.
    """

    def __init__(self, spec: SpecializationSpec, threads: int) -> None:
        self.spec, self._threads = spec, threads
        self.training = ExpertTraining(spec)
        self._oracle = OpenMember(spec.oracle, len(spec.labels), "", threads)
        self._networks: dict[int, Callable[[pa.RecordBatch], NewColumns]] = {}

    def ask_oracle(self, frames: pa.RecordBatch) -> list[FrameLabel]:
        """Return the answers of the oracle; the phase is not set."""
        names = list(self.spec.oracle.function.reads)
        scores = self._oracle.scores(pa.RecordBatch.from_arrays([frames.column(name) for name in names], names=names))
        labels = []
        for values, reason in zip(scores.values, scores.reasons, strict=True):
            if reason is not None or not np.isfinite(values).all():
                labels.append(FrameLabel(OTHER, None, None, None, reason or "no answer"))
            else:
                place = int(values.argmax())
                labels.append(FrameLabel(place, ORACLE, None, float(values[place])))
        return labels

    def reweighted(self, expert: Expert) -> ReweightedExpert:
        """Return an expert that needs no training."""
        compact = self.spec.compacts[expert.compact]
        head = read_parts(self.spec.parts).heads[compact.network]
        return ReweightedExpert(head, expert.dominant, compact.skew, expert.frequencies)

    def features(self, network: int, frames: pa.RecordBatch) -> tuple[list[NDArray[np.float32] | None], list[str]]:
        """Return the features of each frame, ``None`` for bad ones, and the reasons."""
        function = self.spec.networks[network]
        if network not in self._networks:
            self._networks[network] = function.open(self._threads)
        names = list(function.reads)
        new = self._networks[network](pa.RecordBatch.from_arrays([frames.column(name) for name in names], names=names))
        good = iter(features_of(new))
        return [next(good) if reason is None else None for reason in new.reasons], [each or "" for each in new.reasons]


class StreamLabelling:
    """Labels of a stream, a batch of frames after the other.

    Answers do not depend on the division of a stream into batches: models answer frames before they are needed, and
    answers that turn out not to be needed are ignored.

    Parameters
    ----------
    models : OpenModels
        Models, which several streams share.
    stream : str
        Name of the stream.
    memory : StreamMemory
        Memory of the stream, which changes.
    """

    def __init__(self, models: OpenModels, stream: str, memory: StreamMemory) -> None:
        self._models, self._memory = models, memory
        self._algorithm = WindowedGreedy(models.spec.policy, memory.state, stream)

    def label(self, frames: pa.RecordBatch, times: NDArray[np.float64], digests: NDArray[np.int64]) -> list[FrameLabel]:
        """Return the answers of frames, which are sorted by time and digest.

        Frames before the last one of an earlier call are late: the oracle answers them, and nothing else changes. A
        frame with the time and the digest of another is a duplicate, and has the same answer.

        Parameters
        ----------
        frames : RecordBatch
            Columns that the models read.
        times : array of shape (rows,)
            Order of the frames; NaN for frames without one, which are bad.
        digests : array of shape (rows,)
            Hashes of the frames' content.
        """
        memory = self._memory
        before = memory.answered
        labels: list[FrameLabel | None] = [None] * frames.num_rows
        late, live, duplicates = [], [], []
        for row, (time, digest) in enumerate(zip(times.tolist(), digests.tolist(), strict=True)):
            if np.isnan(time):
                labels[row] = FrameLabel(OTHER, None, None, None, "no time")
            elif memory.time is not None and time < memory.time:
                late.append(row)
            elif time == memory.time and digest in memory.answered:
                duplicates.append(row)
            else:
                if time != memory.time:
                    memory.time, memory.answered = time, {}
                memory.answered[digest] = FrameLabel(OTHER, None, None, None)  # replaced by its answer
                live.append(row)
        if late:
            for row, answer in zip(late, self._models.ask_oracle(frames.take(pa.array(late))), strict=True):
                labels[row] = answer._replace(phase=None if answer.reason else LATE)
        for row, answer in zip(live, self._distinct(frames.take(pa.array(live, pa.int64()))), strict=True):
            labels[row] = answer
        self._answer_duplicates(labels, times, digests, live, duplicates, before)
        return [label for label in labels if label is not None]

    def _answer_duplicates(
        self,
        labels: list[FrameLabel | None],
        times: NDArray[np.float64],
        digests: NDArray[np.int64],
        live: Sequence[int],
        duplicates: Sequence[int],
        before: dict[int, FrameLabel],
    ) -> None:
        memory = self._memory
        known = {(times[row], digests[row]): labels[row] for row in live}
        for row in duplicates:
            # Without a frame in this batch, the duplicate is of the last order of the batch before.
            labels[row] = known.get((times[row], digests[row]), before.get(int(digests[row])))
        for row in live:
            answer = labels[row]
            if times[row] == memory.time and answer is not None:
                memory.answered[int(digests[row])] = answer

    def _distinct(self, frames: pa.RecordBatch) -> list[FrameLabel]:
        """Answer frames in their order; those that repeat another have its answer."""
        spec, memory = self._models.spec, self._memory
        if spec.difference is None:
            return self._live(frames)
        # The oracle may read scores or features, the networks read the frames.
        images = frames.column(spec.networks[0].reads[0]).to_pylist()
        places, memory.reference, memory.repetitions = find_references(
            spec.difference, images, memory.reference, memory.repetitions
        )
        distinct = [row for row, place in enumerate(places) if place is None]
        answers = dict(zip(distinct, self._live(frames.take(pa.array(distinct, pa.int64()))), strict=True))
        labels = []
        for row, place in enumerate(places):
            answer = answers[row] if place is None else answers.get(place, memory.reference_label)
            assert answer is not None
            labels.append(answer if place is None or answer.reason else answer._replace(phase=REPEAT))
        if distinct:
            memory.reference_label = answers[distinct[-1]]
        return labels

    def _live(self, frames: pa.RecordBatch) -> list[FrameLabel]:
        """Answer frames in their order."""
        answers = _Answers(self._models, frames)
        labels: list[FrameLabel] = []
        while len(labels) < frames.num_rows:
            self._run_ahead(answers, len(labels))
            row = len(labels)
            while row < frames.num_rows and (label := self._decide(answers, row)) is not None:
                labels.append(label)
                row += 1
        heads = self._memory.heads
        kept = {expert.name for expert in self._memory.state.experts}
        for name in set(heads) - kept:
            del heads[name]
        return labels

    def _run_ahead(self, answers: _Answers, row: int) -> None:
        """Run the models that the next frames need, as far as this is known."""
        algorithm, spec = self._algorithm, self._models.spec
        need = self._need()
        certain = algorithm.certain()
        rows = range(row, min(answers.rows, row + min(certain, spec.batch_size)))
        if need.expert is not None:
            answers.run_network(need.expert, rows)
        if need.expert is None or algorithm.state.phase == "trial":
            answers.run_oracle(rows)
            return
        wanted, ahead = [], 0
        for each, answer in zip(rows, answers.classify(need.expert, self._head(need.expert), rows), strict=True):
            if answer.reason is None:
                if answer.label == OTHER or algorithm.need(ahead).oracle:
                    wanted.append(each)
                ahead += 1
        answers.run_oracle(wanted)

    def _decide(self, answers: _Answers, row: int) -> FrameLabel | None:
        """Answer a frame; return ``None`` if a model has to run before."""
        need = self._need()
        compact = None
        if need.expert is not None:
            if not answers.has_features(need.expert, row):
                return None
            (compact,) = answers.classify(need.expert, self._head(need.expert), [row])
            if compact.reason is not None:
                return compact
        asks = compact is None or need.oracle or compact.label == OTHER
        oracle = answers.oracle.get(row) if asks else None
        if asks and oracle is None:
            return None
        if oracle is not None and oracle.reason is not None:
            return oracle
        decision = self._algorithm.observe(
            None if oracle is None else oracle.label, None if compact is None else compact.label
        )
        state = self._memory.state
        if state.phase == "train" and state.expert is not None and self._models.spec.trains:
            self._models.training.start(state.expert)
        answer = oracle or compact
        assert answer is not None
        return answer._replace(label=decision.label, phase=decision.phase)

    def _need(self) -> Need:
        """Return the models for the next frame; wait for an expert that is still in training."""
        need = self._algorithm.need()
        if self._models.spec.trains and need.expert is not None and need.expert.name not in self._memory.heads:
            head = self._models.training.result(need.expert)
            if head is None:
                self._algorithm.fail_training()
                return self._algorithm.need()
            self._memory.heads[need.expert.name] = head
        return need

    def _head(self, expert: Expert) -> Expertise:
        return self._memory.heads[expert.name] if self._models.spec.trains else self._models.reweighted(expert)


class _Answers:
    """Answers of the models for some frames, as far as they have run."""

    def __init__(self, models: OpenModels, frames: pa.RecordBatch) -> None:
        self._models, self._frames = models, frames
        self.rows = frames.num_rows
        self.oracle: dict[int, FrameLabel] = {}
        self._features: dict[int, dict[int, NDArray[np.float32] | str]] = {}
        self._classified: dict[tuple[str, int], FrameLabel] = {}

    def run_oracle(self, rows: Sequence[int]) -> None:
        wanted = [row for row in rows if row not in self.oracle]
        if wanted:
            answers = self._models.ask_oracle(self._frames.take(pa.array(wanted)))
            self.oracle.update(zip(wanted, answers, strict=True))

    def has_features(self, expert: Expert, row: int) -> bool:
        return row in self._features.get(self._network(expert), {})

    def run_network(self, expert: Expert, rows: Sequence[int]) -> None:
        network = self._network(expert)
        known = self._features.setdefault(network, {})
        wanted = [row for row in rows if row not in known]
        if wanted:
            features, reasons = self._models.features(network, self._frames.take(pa.array(wanted)))
            for row, values, reason in zip(wanted, features, reasons, strict=True):
                known[row] = reason if values is None else values

    def classify(self, expert: Expert, head: Expertise, rows: Sequence[int]) -> list[FrameLabel]:
        wanted = [row for row in rows if (expert.name, row) not in self._classified]
        values = {row: self._features[self._network(expert)][row] for row in wanted}
        good = {row: each for row, each in values.items() if not isinstance(each, str)}
        if good:
            result = head.answers(np.stack(list(good.values())))
            for row, label, confidence in zip(good, result.labels.tolist(), result.confidence.tolist(), strict=True):
                self._classified[expert.name, row] = FrameLabel(label, expert.name, None, confidence)
        for row, each in values.items():
            if isinstance(each, str):
                self._classified[expert.name, row] = FrameLabel(OTHER, None, None, None, each)
        return [self._classified[expert.name, row] for row in rows]

    def _network(self, expert: Expert) -> int:
        return self._models.spec.compacts[expert.compact].network
