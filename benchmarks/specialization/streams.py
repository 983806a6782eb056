"""Speed and accuracy of sequential specialization on streams of real pictures, against the oracle on every frame.

``python -m benchmarks.specialization.streams`` draws the streams of Table 5.2 from emoji of a vendor that no model was
trained on, and labels them with the code that runs in tasks of Spark. The answers are those of real networks, computed
once per picture and kept in the cache; the time of a stream is the number of calls of each network times its measured
seconds, both in batches, so that other programs on the machine do not change the ratios.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.harness.report import Report, load_average
from benchmarks.specialization._models import extract_features, time_bodies
from benchmarks.specialization._pictures import emoji_pictures
from benchmarks.specialization._streams import draw_scenes, scene_labels, stream
from benchmarks.specialization._thesis import CHANGES, TABLE_52
from optimizer.specialization import Policy, Segment
from udfs.arrow import NewColumns, to_lists
from udfs.cascades import ClassScores
from udfs.specialization import (
    CompactModel,
    LabelColumns,
    LearnedParts,
    LinearScores,
    OpenModels,
    SpecializationSpec,
    StreamLabelling,
    StreamMemory,
    TrainingRows,
    parts_to_bytes,
    train_linear,
)
from vista_spark.specialization._measurements import FeatureRows, balanced_head, measure_compact

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from benchmarks.specialization._pictures import Pictures

_ORACLE = "mobilenet_v2:224"
_COMPACTS = "mobilenet_v2:96"
_SKEWS = (0.5, 0.8)
_SIZES = (1, 2, 5, 10, 20)
_DRAWS = 5
_CHUNK = 256

# Segments of Table 5.2: dominant classes and skew.
_STREAMS: tuple[tuple[tuple[int, float], ...], ...] = (
    ((5, 0.8),),
    ((5, 0.9),),
    ((10, 0.8),),
    ((10, 0.9),),
    ((15, 0.9),),
    ((0, 0.0),),
    ((5, 0.9), (0, 0.0)),
    ((10, 0.9), (10, 0.8)),
)
_FACES = {row.segments: row.speedup for row in TABLE_52 if row.task == "faces"}


@dataclass(frozen=True, slots=True)
class StoredFeatures:
    """Features of pictures that were computed before, by their numbers."""

    values: NDArray[np.float32] = field(repr=False)
    batch_size: int = 32
    reads: tuple[str, ...] = ("picture",)
    adds: tuple[pa.Field, ...] = (pa.field("features", pa.list_(pa.float32())),)

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        """Return a function of batches."""
        del threads
        return partial(_look_up, self.values)


def _look_up(values: NDArray[np.float32], batch: pa.RecordBatch) -> NewColumns:
    rows = values[batch.column(0).to_numpy()]
    return NewColumns([to_lists(rows, np.ones(len(rows), np.bool_))], [None] * len(rows))


class Result(NamedTuple):
    """Result of a stream: the speed-up over the oracle on every frame, its bound, and shares of the frames."""

    speedup: float
    bound: float
    accuracy: float
    oracle_accuracy: float
    special_rate: float
    cascade_rate: float
    experts: int


@dataclass(frozen=True)
class Setting:
    """Networks with their heads and costs, and the oracle's answers to all pictures."""

    spec: SpecializationSpec
    answers: NDArray[np.int64]

    def run(self, labels: NDArray[np.int64], shown: NDArray[np.int64]) -> Result:
        """Label a stream of the pictures with the numbers `shown`."""
        models, memory = OpenModels(self.spec, 1), StreamMemory()
        labelling = StreamLabelling(models, "stream", memory)
        frames = pa.RecordBatch.from_pydict({"picture": shown})
        times, digests = np.arange(len(shown), dtype=float), np.arange(len(shown))
        results: list[Any] = []
        for start in range(0, len(shown), _CHUNK):
            part = slice(start, start + _CHUNK)
            results += labelling.label(frames.slice(start, _CHUNK), times[part], digests[part])
        policy = self.spec.policy
        asked = np.array([each.model == "oracle" for each in results])
        special = np.array([each.phase == "specialized" for each in results])
        names = {profile.name: profile for profile in policy.compacts}
        ran = [names[each.model.rsplit(" ", 1)[0]].seconds for each in results if each.model != "oracle"]
        compact = float(np.mean(ran)) if ran else policy.compacts[0].seconds
        trials = sum(each.phase == "trial" for each in results)
        seconds = asked.sum() * policy.seconds + (special.sum() + trials) * compact
        seconds += memory.state.trained * max(profile.training_seconds for profile in policy.compacts)
        share, cascade = special.mean(), asked[special].mean() if special.any() else 0.0
        bound = 1 / (1 - share + share * (compact / policy.seconds + cascade))
        answers = np.array([each.label for each in results])
        return Result(
            speedup=len(shown) * policy.seconds / seconds,
            bound=float(bound),
            accuracy=float((answers == labels).mean()),
            oracle_accuracy=float((self.answers[shown] == labels).mean()),
            special_rate=float(share),
            cascade_rate=float(cascade),
            experts=memory.state.trained,
        )


def prepare(
    pictures: Pictures,
    oracle: str,
    compacts: Sequence[str],
    folder: Path,
    *,
    trains: bool = False,
    margin: float = -0.01,
) -> Setting:
    """Train heads, measure accuracies and times, and describe the classifier."""
    models = [tuple(each.split(":")) for each in (oracle, *compacts)]
    seconds = time_bodies(pictures, [(body, int(size)) for body, size in models])
    features = [extract_features(pictures, body, int(size)) for body, size in models]
    classes = len(pictures.names)
    train = np.flatnonzero(~pictures.is_test)
    # Accuracies are measured on a picture per class of the vendor that the stream shows.
    valid = np.array([pictures.of_class(label)[0] for label in range(classes)])
    parts = []
    for each, cost in zip(features, seconds, strict=True):
        learned, checked = (TrainingRows(each[rows], pictures.labels[rows]) for rows in (train, valid))
        parts.append(FeatureRows(learned, checked, cost))
    head = train_linear(*parts[0].train, classes)
    accuracy = float((head.scores(parts[0].valid.features).argmax(1) == parts[0].valid.labels).mean())
    small, profiles = [], []
    for network, (name, part) in enumerate(zip(compacts, parts[1:], strict=True)):
        weighted = None if trains else balanced_head(part.train, classes)
        for skew in _SKEWS:
            small.append(CompactModel(f"{name} at {skew:g}", network, skew))
            profiles.append(
                measure_compact(small[-1].name, part, weighted, sizes=_SIZES, draws=_DRAWS, skew=skew, seed=0)
            )
    learned = LearnedParts(
        tuple(balanced_head(each.train, classes) for each in parts[1:]),
        tuple(each.train for each in parts[1:]) if trains else (),
        head,
    )
    file = folder / f"parts-{trains}.npz"
    file.write_bytes(parts_to_bytes(learned))
    scores = LinearScores(StoredFeatures(features[0]), head)
    answers = head.scores(features[0]).argmax(1)
    spec = SpecializationSpec(
        oracle=ClassScores(scores, {}, tuple(pictures.names)).member("oracle", pictures.names),
        networks=tuple(StoredFeatures(each) for each in features[1:]),
        compacts=tuple(small),
        parts=str(file),
        policy=Policy(classes=classes, accuracy=accuracy, seconds=seconds[0], compacts=profiles, margin=margin),
        labels=tuple(pictures.names),
        label_type=pa.string(),
        columns=LabelColumns("label", "model", "phase", "confidence", "error"),
        trains=trains,
        training_timeout=60.0,
        batch_size=32,
    )
    return Setting(spec, answers)


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw streams, label them, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oracle", default=_ORACLE, help="NETWORK:PIXELS of the oracle")
    parser.add_argument("--compacts", default=_COMPACTS, help="NETWORK:PIXELS of compact models, separated by commas")
    parser.add_argument("--classes", type=int, default=300, help="number of emoji")
    parser.add_argument("--train", type=int, default=6, help="pictures per class to train on")
    parser.add_argument("--seeds", type=int, default=3, help="streams of each kind")
    parser.add_argument("--retrain", action="store_true", help="train the top of each expert, as the thesis does")
    parser.add_argument("--margin", type=float, default=-0.01, help="least expected accuracy relative to the oracle's")
    parser.add_argument("--json", action="store_true", help='the last line is {"ratios": {name: number, ...}}')
    options = parser.parse_args(arguments)
    started, load = time.perf_counter(), load_average()
    pictures = emoji_pictures(options.classes, options.train)
    report = Report(f"Sequential specialization: streams of {options.classes} emoji, {options.seeds} seeds")
    with TemporaryDirectory() as folder:
        setting = prepare(
            pictures,
            options.oracle,
            options.compacts.split(","),
            Path(folder),
            trains=options.retrain,
            margin=options.margin,
        )
        policy = setting.spec.policy
        report.fact("policy", {"accuracy": policy.accuracy, "seconds": policy.seconds, "window": policy.window})
        rows = []

        def add(name: str, key: str, results: list[Result], thesis: float | None) -> None:
            result = Result(*np.mean(results, axis=0).tolist())
            report.ratio(f"speed_{key}", result.speedup, f"time of the oracle / time of {name}")
            report.ratio(
                f"bound_{key}", result.speedup / result.bound, f"speed-up of {name} / bound with its own s and c"
            )
            report.ratio(f"accuracy_{key}", result.accuracy - result.oracle_accuracy, f"accuracy of {name} - oracle's")
            rows.append(
                [
                    name,
                    f"{result.speedup:.2f}",
                    "-" if thesis is None else f"{thesis:.2f}",
                    f"{result.speedup / result.bound:.2f}",
                    f"{100 * result.oracle_accuracy:.1f}",
                    f"{100 * result.accuracy:.1f}",
                    f"{100 * result.special_rate:.0f}",
                    f"{100 * result.cascade_rate:.0f}",
                    f"{result.experts:.1f}",
                ]
            )

        def run_streams(segments: list[Segment]) -> list[Result]:
            drawn = [stream(segments, pictures, seed=seed) for seed in range(options.seeds)]
            return [setting.run(each.labels, each.pictures) for each in drawn]

        for pairs in _STREAMS:
            name = " + ".join(f"(n={n}, p={p:g})".replace("0.", ".") if n else "(random)" for n, p in pairs)
            key = "+".join(f"n{n}p{100 * p:.0f}" if n else "random" for n, p in pairs)
            add(name, key, run_streams([Segment(*each) for each in pairs]), _FACES.get(pairs))
        for seconds, thesis in CHANGES:
            segments = [Segment(5, 0.9, seconds / 60)] * round(300 / seconds)
            add(f"changes every {seconds} s", f"every{seconds}", run_streams(segments), thesis)
        scenes = []
        for seed in range(options.seeds):
            _, labels = scene_labels(draw_scenes(pictures, 10, pool=12, seed=seed))
            draw = np.random.default_rng([seed, 5])
            scenes.append(setting.run(labels, np.array([draw.choice(pictures.of_class(label)) for label in labels])))
        add("scenes of 5 to 60 s", "scenes", scenes, None)
    report.table(
        f"{options.oracle} and {options.compacts}",
        ["stream", "speed-up", "thesis", "of the bound", "oracle %", "accuracy %", "s %", "c %", "experts"],
        rows,
    )
    costs = ", ".join(f"{each.name} {1e3 * each.seconds:.1f}" for each in policy.compacts[:: len(_SKEWS)])
    report.note(f"Milliseconds a frame: oracle {1e3 * policy.seconds:.1f}, {costs}.")
    report.note(f"Took {time.perf_counter() - started:.0f} s; load average before {load}, after {load_average()}.")
    report.show(as_json=options.json)


if __name__ == "__main__":
    main()
