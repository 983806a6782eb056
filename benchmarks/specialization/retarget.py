"""Time to specialise a network for 10 of 300 classes in four ways (Table 4.2 of the thesis).

``python -m benchmarks.specialization.retarget`` trains MobileNetV2 with ImageNet's weights, at 96 pixels, for 10 emoji
and "other": all layers; the top alone, with the lower layers run forward in each epoch; the top alone over stored
features, as ``SpecializedClassifier(method="retrain")`` does; and by weights on a classifier of all classes
(``method="reweight"``), for which nothing is trained. Batches of the first two take turns, and their time is multiplied
by the number of batches and epochs. Times are CPU seconds of one thread.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.harness.report import Report, load_average
from benchmarks.specialization._models import extract_features, mobilenet_body
from benchmarks.specialization._pictures import emoji_pictures
from optimizer.specialization import OTHER
from udfs.images import decode
from udfs.specialization import ReweightedExpert, TrainingRows, train_expert
from vista_spark import roster
from vista_spark.specialization._measurements import balanced_head

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from benchmarks.specialization._pictures import Pictures
    from udfs.specialization import Expertise

_SIZE, _BATCH, _FEATURES = 96, 32, 1280
_SKEWS = (0.5, 0.8)
_REPEATS = 3
_SECONDS, _TIMES = 5.0, 30.0


def main(arguments: Sequence[str] | None = None) -> None:
    """Train in four ways, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classes", type=int, default=300, help="number of emoji")
    parser.add_argument("--dominant", type=int, default=10, help="number of dominant classes")
    parser.add_argument("--train", type=int, default=6, help="pictures per class to train on")
    parser.add_argument("--epochs", type=int, default=10, help="epochs of full training and of retargeting")
    parser.add_argument("--batches", type=int, default=8, help="batches of 32 that are timed, of an epoch")
    parser.add_argument("--json", action="store_true", help='the last line is {"ratios": {name: number, ...}}')
    options = parser.parse_args(arguments)
    started, load = time.perf_counter(), load_average()
    torch.set_num_threads(1)
    pictures = emoji_pictures(options.classes, options.train)
    report = Report(f"Specialise MobileNetV2 at {_SIZE} pixels for {options.dominant} of {options.classes} emoji")
    dominant = tuple(
        np.sort(np.random.default_rng(0).choice(options.classes, options.dominant, replace=False)).tolist()
    )
    rows = np.flatnonzero(~pictures.is_test)
    images, targets = _batches(pictures, rows, dominant, options.batches)
    full, retarget = _epoch_seconds(images, targets, len(rows), options.dominant + 1)
    features = extract_features(pictures, "mobilenet_v2", _SIZE)
    known = TrainingRows(features[rows], pictures.labels[rows])
    head = balanced_head(known, options.classes)
    preforward = _fewest_seconds(lambda: train_expert(*known, dominant, _SKEWS[-1]))
    batch = features[:_BATCH]
    weighting = _fewest_seconds(lambda: ReweightedExpert(head, dominant, _SKEWS[-1]).answers(batch))
    seconds = {
        "full training": options.epochs * full,
        "retarget: the top, lower layers run in each epoch": options.epochs * retarget,
        "pre-forward: the top, over stored features": preforward,
        "weighting: answers of a batch, as nothing is trained": weighting,
    }
    rows_of_times = [[name, f"{each:.3g}", f"{options.epochs * full / each:,.0f}"] for name, each in seconds.items()]
    report.table("Seconds", ["way", "s", "times as fast as full training"], rows_of_times)
    answers = []
    for skew in _SKEWS:
        experts: dict[str, Expertise] = {
            "pre-forward": train_expert(*known, dominant, skew),
            "weighting": ReweightedExpert(head, dominant, skew),
        }
        for name, expert in experts.items():
            shares = _shares(expert, features, pictures, dominant)
            answers.append([f"{name}, skew {skew:g}", *(f"{share:.2f}" for share in shares)])
            report.fact(f"{name}_{skew:g}", shares)
    report.table(
        "Shares of held-out pictures", ["expert", "dominant: right", 'dominant: "other"', 'others: "other"'], answers
    )
    report.ratio("retarget", full / retarget, "full training / retarget")
    report.ratio("preforward", options.epochs * full / preforward, "full training / pre-forward", _TIMES)
    report.ratio("weighting", options.epochs * full / weighting, "full training / weighting")
    report.fact("seconds", seconds)
    report.note(
        f"{len(rows):,} pictures, {options.epochs} epochs of which {options.batches} batches were timed; features take "
        f"about {retarget:.1f} s once. Target of pre-forward: at most {_SECONDS:g} s."
    )
    report.note(f"Took {time.perf_counter() - started:.0f} s; load average before {load}, after {load_average()}.")
    report.show(as_json=options.json)


def _batches(
    pictures: Pictures, rows: NDArray[np.int64], dominant: Sequence[int], count: int
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Decode batches of pictures, with their dominant classes by place; "other" is last."""
    card: Any = roster.card("mobilenet_v2")
    preprocessing = card.preprocessing.with_size(_SIZE)
    places = {label: place for place, label in enumerate(dominant)}
    drawn = np.random.default_rng(1).permutation(rows)[: _BATCH * count].reshape(-1, _BATCH)
    images = [
        torch.from_numpy(np.stack([decode(pictures.jpegs[row], preprocessing) for row in part])) for part in drawn
    ]
    labels = [[places.get(label, len(places)) for label in pictures.labels[part].tolist()] for part in drawn]
    return images, [torch.tensor(each) for each in labels]


def _epoch_seconds(
    images: Sequence[torch.Tensor], targets: Sequence[torch.Tensor], rows: int, outputs: int
) -> tuple[float, float]:
    """Return the seconds of an epoch of full training and of retargeting, whose batches take turns."""
    steps = [_step(outputs, trains_all=trains_all) for trains_all in (True, False)]
    for step in steps:
        step(images[0], targets[0])  # the first batch allocates
    seconds = np.zeros(2)
    for batch, target in zip(images, targets, strict=True):
        for place, step in enumerate(steps):
            begun = time.process_time()
            step(batch, target)
            seconds[place] += time.process_time() - begun
    full, retarget = (seconds * rows / (_BATCH * len(images))).tolist()
    return full, retarget


def _step(outputs: int, *, trains_all: bool) -> Callable[[torch.Tensor, torch.Tensor], None]:
    """Return a function that trains on a batch."""
    body, top = mobilenet_body(), nn.Linear(_FEATURES, outputs)
    body.train(trains_all).requires_grad_(trains_all)
    weights = [each for module in (body, top) for each in module.parameters() if each.requires_grad]
    optimizer = torch.optim.SGD(weights, lr=0.01, momentum=0.9)

    def step(batch: torch.Tensor, target: torch.Tensor) -> None:
        optimizer.zero_grad()
        with torch.set_grad_enabled(trains_all):
            features = body(batch)
        functional.cross_entropy(top(features), target).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def _fewest_seconds(make: Callable[[], object]) -> float:
    """Return the fewest CPU seconds of some calls."""
    seconds = []
    for _ in range(_REPEATS):
        begun = time.process_time()
        make()
        seconds.append(time.process_time() - begun)
    return min(seconds)


def _shares(
    expert: Expertise, features: NDArray[np.float32], pictures: Pictures, dominant: Sequence[int]
) -> tuple[float, float, float]:
    """Return shares of held-out pictures: dominant ones that are right and "other", and others that are "other"."""
    labels = pictures.labels[pictures.is_test]
    answers = expert.answers(features[pictures.is_test]).labels
    inside = np.isin(labels, dominant)
    right, refused = (answers == labels)[inside].mean(), (answers == OTHER)[inside].mean()
    return float(right), float(refused), float((answers == OTHER)[~inside].mean())


if __name__ == "__main__":
    main()
