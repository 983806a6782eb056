"""Glimpse: a day of a wearable camera within its battery. The application of section 4.4.3 of Shen's thesis.

``python examples/glimpse.py --data .cache/demo --out glimpse.png`` (docs/glimpse.md) serves two tasks for ten hours:
a category each 10 s (photographs of ``examples/stamps.py``), and an object each 8 s (emoji of a vendor that no
network was trained on). The answers are those of MobileNetV2 at two image sizes. Energy and money follow the cost card
of the thesis. There is no link in three of the hours.
"""

from __future__ import annotations

import argparse
import csv
import io
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import demo_data
import numpy as np
import vendor_emoji
import weights
from matplotlib.figure import Figure
from panorama import show
from PIL import Image

from optimizer.approximate import POLICIES, Budget, CostCard, Scheduler, Task, Variant
from optimizer.specialization import OTHER, CompactProfile, Confusion, ConfusionCurve, Policy, WindowedGreedy
from udfs.specialization import LinearHead, ReweightedExpert, train_linear
from vista_spark import CNNFeaturizer, session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    from optimizer.approximate import Option

__all__ = ["Classifier", "Served", "draw_day", "serve"]

SIZES = (224, 64)
"""Heights and widths of the networks' inputs; the first is that of the full network."""

HOURS = ("home", "street", "office", "office", "office", "street", "office", "office", "shop", "home")
NO_LINK = (3, 4, 8)
# Dominant classes and their share at each place, for scenes and for objects; 0 for all classes alike.
PLACES = {
    "home": ((2, 0.95), (4, 0.95)),
    "street": ((0, 0.0), (0, 0.0)),
    "office": ((1, 0.9), (8, 0.9)),
    "shop": ((1, 0.9), (0, 0.0)),
}
PERIODS = {"scene": 10.0, "object": 8.0}
BUDGET = Budget(joules=900, memory_bytes=64_000_000, dollars=0.002)
_GFLOP, _SKEW, _DRAWS, _CURVE, _FRAME = 0.6, 0.8, 8, (1, 2, 4, 8, 12), (128, 96)
_PHOTOGRAPH = (160, 160)
_TRAINED, _SHOWN = ("facebook", "google", "twitter"), "apple"


class Served(NamedTuple):
    """Answer of a request: its time, correctness, what ran where, and the energy that remains."""

    now: float
    task: str
    right: bool
    ran: str
    joules: float


class Classifier:
    """Networks of a task: their heads, their answers to the pictures of the day, and their costs."""

    def __init__(
        self,
        name: str,
        features: dict[int, NDArray[np.float32]],
        labels: NDArray[np.int64],
        is_shown: NDArray[np.bool_],
    ) -> None:
        self.name, self.labels, self.classes = name, labels[is_shown], int(labels.max()) + 1
        counts = np.bincount(labels[~is_shown], minlength=self.classes)
        balance = (1 / counts[labels[~is_shown]]).astype(np.float32)
        self.heads: dict[int, LinearHead] = {}
        self.features = {size: values[is_shown] for size, values in features.items()}
        for size, values in features.items():
            self.heads[size] = train_linear(values[~is_shown], labels[~is_shown], self.classes, balance)
        self.answers = {size: head.scores(self.features[size]).argmax(axis=1) for size, head in self.heads.items()}
        self.accuracy = {size: float((answers == self.labels).mean()) for size, answers in self.answers.items()}

    def variants(self, card: CostCard, memory_bytes: int, sent_bytes: int) -> tuple[Variant, ...]:
        """Price the networks that know all classes; each can run on the device, and the full one in the cloud."""
        return tuple(
            card.variant(
                f"{size} px",
                accuracy=self.accuracy[size],
                gflop=_GFLOP * (size / SIZES[0]) ** 2,
                memory_bytes=memory_bytes,
                sent_bytes=sent_bytes if size == SIZES[0] else None,
            )
            for size in SIZES
        )

    def policy(self, variants: Sequence[Variant], draw: np.random.Generator) -> Policy:
        """Measure experts for random dominant classes; the costs of the policy are joules."""
        profiles = []
        for size, variant in zip(SIZES[1:], variants[1:], strict=True):
            counts = [count for count in _CURVE if count < self.classes]
            curve = ConfusionCurve(counts, [self._confusion(size, count, draw) for count in counts])
            profiles.append(CompactProfile(str(size), variant.run_joules, curve))
        full = variants[0]
        return Policy(classes=self.classes, accuracy=full.accuracy, seconds=full.run_joules, compacts=profiles)

    def _confusion(self, size: int, count: int, draw: np.random.Generator) -> Confusion:
        shares = []
        for _ in range(_DRAWS):
            dominant = tuple(sorted(draw.choice(self.classes, count, replace=False).tolist()))
            answers = ReweightedExpert(self.heads[size], dominant, _SKEW).answers(self.features[size]).labels
            inside = np.isin(self.labels, dominant)
            others = (answers == OTHER)[~inside]
            shares.append([(answers == self.labels)[inside].mean(), (answers == OTHER)[inside].mean(), others.mean()])
        return Confusion(*np.mean(shares, axis=0).tolist())

    def ask_expert(self, expert: Any, picture: int) -> int:
        """Return the answer of an expert to a picture."""
        size = SIZES[1 + expert.compact]
        specialised = ReweightedExpert(self.heads[size], expert.dominant, _SKEW, expert.frequencies)
        return int(specialised.answers(self.features[size][picture : picture + 1]).labels[0])


def draw_day(
    classifiers: Sequence[Classifier], hours: float, draw: np.random.Generator
) -> list[tuple[float, int, int]]:
    """Return the requests of a day: time, task, and picture. Each place has its dominant classes all day."""
    requests = []
    for task, classifier in enumerate(classifiers):
        orders = {place: draw.permutation(classifier.classes) for place in PLACES}
        for number in range(int(hours * 3600 / PERIODS[classifier.name])):
            now = (number + 0.3 + 0.3 * task) * PERIODS[classifier.name]
            place = HOURS[int(now / (hours * 3600) * len(HOURS))]
            (count, share), order = PLACES[place][task], orders[place]
            others = order[count:] if len(order) > count else order
            label = draw.choice(order[:count] if draw.random() < share else others)
            requests.append((now, task, int(draw.choice(np.flatnonzero(classifier.labels == label)))))
    return sorted(requests)


def serve(
    requests: Sequence[tuple[float, int, int]],
    classifiers: Sequence[Classifier],
    scheduler: Scheduler,
    policies: Sequence[Policy] | None,
    seconds: float,
) -> list[Served]:
    """Serve a day: the scheduler chooses network and place; with policies, experts answer where they pay."""
    streams = [
        WindowedGreedy(policy, stream=each.name) for policy, each in zip(policies or (), classifiers, strict=False)
    ]
    served = []
    for now, task, picture in requests:
        classifier, connected = classifiers[task], int(now / seconds * len(HOURS)) not in NO_LINK

        def ask(name: str, now: float = now, connected: bool = connected) -> Option | None:
            return scheduler.decide(name, now=now, connected=connected).option

        need = streams[task].need() if policies else None
        label = compact = general = None
        ran = "not served"
        if need and need.expert and ask(f"{classifier.name} expert {SIZES[1 + need.expert.compact]}"):
            compact = classifier.ask_expert(need.expert, picture)
            label, ran = compact, "expert, device"
        if need is None or need.oracle or compact in (None, OTHER):
            option = (ask(f"{classifier.name} again") if need else None) or ask(classifier.name)
            if option:
                general = int(classifier.answers[int(option.variant.split()[0])][picture])
                label, ran = general, f"{option.variant}, {option.place}"
            elif compact == OTHER:
                label, ran = None, "not served"
        if need and (compact is not None or not need.expert):
            # Experts are chosen by answers of the full network only; a check by a smaller one says little too.
            is_known = compact not in (None, OTHER) and not need.oracle
            if is_known or (general is not None and (ran.startswith(f"{SIZES[0]} px") or not need.oracle)):
                streams[task].observe(general, compact)
        right = label is not None and label == classifier.labels[picture]
        served.append(Served(now, classifier.name, bool(right), ran, scheduler.state.joules))
    return served


def compare(
    classifiers: Sequence[Classifier],
    requests: Sequence[tuple[float, int, int]],
    catalogs: Sequence[tuple[Variant, ...]],
    budget: Budget,
    draw: np.random.Generator,
) -> dict[str, list[Served]]:
    """Serve the same day in four ways."""
    pairs = list(zip(classifiers, catalogs, strict=True))
    cloud = [Task(each.name, (replace(variants[0], on_device=False),)) for each, variants in pairs]
    full = [Task(each.name, (replace(variants[0], cloud_dollars=None),)) for each, variants in pairs]
    general = [Task(each.name, variants) for each, variants in pairs]
    experts = [
        Task(f"{each.name} expert {size}", (replace(variant, name=f"expert {size}"),))
        for each, variants in pairs
        for size, variant in zip(SIZES[1:], variants[1:], strict=True)
    ]
    again = [Task(f"{each.name} again", variants[:1]) for each, variants in pairs]
    policies = [each.policy(variants, draw) for each, variants in pairs]
    setups: dict[str, tuple[list[Task], str, Any]] = {
        "always the cloud": (cloud, "server-first", None),
        "full network on the device": (full, "original", None),
        "scheduled": (general, "mcdnn", None),
        "scheduled, with experts": (general + experts + again, "mcdnn", policies),
    }
    return {
        name: serve(requests, classifiers, Scheduler(tasks, budget, POLICIES[policy]()), chosen, budget.seconds)
        for name, (tasks, policy, chosen) in setups.items()
    }


def pictures(data: Path, classes: int, views: int, seed: int) -> dict[str, tuple[list[bytes], list[int], list[bool]]]:
    """Return pictures, classes and marks of the pictures of the day, for scenes and objects."""
    with (data / "table.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    names = sorted({row["label"] for row in rows})
    contents = [_photograph(data / "images" / f"{row['id']}.png") for row in rows]
    is_shown = np.random.default_rng([seed, 1]).random(len(rows)) < 0.5
    scenes = contents, [names.index(row["label"]) for row in rows], is_shown.tolist()
    folder = vendor_emoji.fetch(demo_data.cache_folder(None))
    files = vendor_emoji.classes(folder)
    objects: tuple[list[bytes], list[int], list[bool]] = ([], [], [])
    for label, name in enumerate(np.random.default_rng(seed).permutation(list(files)).tolist()[:classes]):
        for vendor in (*_TRAINED, _SHOWN):
            with Image.open(folder / vendor / files[name]) as picture:
                source = picture.convert("RGBA")
            for view in range(views * (2 if vendor == _SHOWN else 1)):
                content = io.BytesIO()
                frame = show(source, _FRAME, np.random.default_rng([seed, label, len(vendor), view]))
                frame.save(content, "JPEG", quality=90)
                for values, value in zip(objects, (content.getvalue(), label, vendor == _SHOWN), strict=True):
                    values.append(value)  # type: ignore[arg-type]
    return {"scene": scenes, "object": objects}


def _photograph(path: Path) -> bytes:
    """Return a photograph on white, as a camera sends it."""
    content = io.BytesIO()
    with Image.open(path) as file:
        picture = file.convert("RGBA")
    picture.thumbnail(_PHOTOGRAPH)
    white = Image.new("RGBA", picture.size, "white")
    Image.alpha_composite(white, picture).convert("RGB").save(content, "JPEG", quality=85)
    return content.getvalue()


def extract(spark: SparkSession, contents: Sequence[bytes], sizes: Sequence[int]) -> dict[int, NDArray[np.float32]]:
    """Return the features of MobileNetV2 at each image size."""
    frame = spark.createDataFrame(list(enumerate(map(bytearray, contents))), "n int, image binary").repartition(4)
    settings: dict[str, Any] = {"model": "mobilenet_v2", "weights": str(weights.mobilenet_v2()), "layers": ["pool"]}
    for size in sizes:
        stage = CNNFeaturizer(
            **settings, imageSize=size, outputCols=[f"at{size}"], errors="raise", outputFormat="array"
        )
        frame = stage.transform(frame)
    rows = frame.drop("image").orderBy("n").collect()
    return {size: np.array([row[f"at{size}"] for row in rows], np.float32) for size in sizes}


def draw_picture(days: dict[str, list[Served]], budget: Budget) -> Figure:
    """Draw accuracy, energy, and what ran where with experts, hour by hour."""
    figure = Figure(figsize=(10, 8), dpi=100, layout="constrained")
    top, middle, bottom = figure.subplots(3, 1, sharex=True)
    count = len(HOURS)
    for place, (name, served) in enumerate(days.items()):
        hours = [int(each.now / budget.seconds * count) for each in served]
        right = [
            np.mean([each.right for each, hour in zip(served, hours, strict=True) if hour == now])
            for now in range(count)
        ]
        top.plot(np.arange(count) + 0.5, right, "o-", color=f"C{place}", label=name)
        middle.plot(
            [each.now / budget.seconds * count for each in served], [each.joules for each in served], color=f"C{place}"
        )
    ran = [each.ran for each in served]
    base = np.zeros(count)
    for place, kind in enumerate(sorted(set(ran))):
        shares = np.array(
            [
                np.mean([each == kind for each, hour in zip(ran, hours, strict=True) if hour == now])
                for now in range(count)
            ]
        )
        bottom.bar(np.arange(count) + 0.5, shares, 0.9, base, label=kind, color=f"C{place + 4}")
        base += shares
    for axes in (top, middle):
        for hour in NO_LINK:
            axes.axvspan(hour, hour + 1, color="0.9", linewidth=0)
    top.set(ylabel="accuracy over all requests", ylim=(0, 1))
    middle.set(ylabel="energy that remains (J)", ylim=(0, budget.joules))
    bottom.set(ylabel="requests, with experts", xlabel="hour; no link in the grey ones", xlim=(0, count), ylim=(0, 1))
    bottom.set_xticks(np.arange(count) + 0.5, [f"{hour}: {place}" for hour, place in enumerate(HOURS)], fontsize=8)
    for axes in (top, bottom):
        axes.legend(frameon=False, fontsize=8, ncols=5, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure


def main(arguments: Sequence[str] | None = None) -> None:
    """Extract features, serve the day, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(".cache/demo"), help="folder of examples/stamps.py")
    parser.add_argument("--classes", type=int, default=60, help="number of emoji")
    parser.add_argument("--views", type=int, default=2, help="training pictures of each emoji and vendor")
    parser.add_argument("--hours", type=float, default=10, help="length of the day; budgets are in proportion")
    parser.add_argument("--seed", type=int, default=0, help="seed of pictures and requests")
    parser.add_argument("--out", type=Path, help="picture to write")
    options = parser.parse_args(arguments)
    begun, draw = time.perf_counter(), np.random.default_rng([options.seed, 2])
    share = options.hours / 10
    budget = Budget(BUDGET.joules * share, BUDGET.memory_bytes, BUDGET.dollars * share, options.hours * 3600)
    spark = session("local[2]", conf={"spark.log.level": "ERROR", "spark.ui.enabled": "false"})
    classifiers, catalogs = [], []
    for name, (contents, labels, is_shown) in pictures(
        options.data, options.classes, options.views, options.seed
    ).items():
        features = extract(spark, contents, SIZES)
        classifiers.append(Classifier(name, features, np.array(labels), np.array(is_shown)))
        sent = round(np.mean([len(content) for content in contents]))
        catalogs.append(classifiers[-1].variants(CostCard(), weights.mobilenet_v2().stat().st_size, sent))
        print(
            f"{name}: {classifiers[-1].classes} classes; "
            + "; ".join(
                f"{each.name}: accuracy {each.accuracy:.3f}, {1e3 * each.run_joules:.0f} mJ" for each in catalogs[-1]
            )
            + f"; {1e3 * catalogs[-1][0].send_joules:.0f} mJ to send"
        )
    names = [each.name for each in classifiers]
    requests = draw_day(classifiers, options.hours, draw)
    days = compare(classifiers, requests, catalogs, budget, draw)
    print(f"{len(requests):,} requests, {budget.joules:g} J, ${budget.dollars:g}")
    for name, served in days.items():
        ran = [each.ran for each in served]
        shares = ", ".join(f"{kind} {ran.count(kind) / len(ran):.0%}" for kind in sorted(set(ran)))
        tasks = ", ".join(
            f"{task} {np.mean([each.right for each in served if each.task == task]):.3f}" for task in names
        )
        right, left = np.mean([each.right for each in served]), served[-1].joules
        print(f"{name}: accuracy {right:.3f} ({tasks}), {budget.joules - left:.0f} J; {shares}")
    if options.out:
        draw_picture(days, budget).savefig(options.out)
    print(f"{time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
