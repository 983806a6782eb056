"""Architecture search: aging evolution, with and without inherited weights, against random search at equal epochs.

All three searches train the same number of configurations of one nested space for the same number of epochs, on two
data sets: scikit-learn's digits, and Fashion-MNIST at 14 x 14 pixels. A seed sets the samples, the mutations, the
initial weights and the split of the rows. The best model by validation accuracy is then evaluated on test rows that no
search has seen. One process trains one configuration after the other, with the sessions that Spark's workers use, so
the figures are those of ``concurrency=1``, and time is not compared.

``--seeds 10`` is the run of ``docs/benchmarks.md``; the default of two takes a few minutes.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import demo_data
import numpy as np
import search_data
import torch
from PIL import Image

from benchmarks.harness.report import Report, load_average
from optimizer.procedures import AgingEvolution, EpochResult, RandomSampler, Sequential, Start
from optimizer.space import Space, choice, repeat
from udfs.handlers import ModelTrainer, open_session
from udfs.shards import Tensors
from udfs.training import decide_session_task, initial_seed, row_order

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from optimizer.procedures import Procedure, Source
    from udfs.training import Session

_CLASSES = 10
_POPULATION, _SAMPLE = 8, 4
_ROWS = {"digits": (700, 350), "fashion": (1000, 500)}
_KINDS = ("random", "evolution", "inheriting")
_MOST_POOLS = 2


def _fits(params: Mapping[str, Any]) -> bool:
    """Return True if the pictures are large enough for the pooling layers."""
    return sum(layer["pool"] for layer in params["convolutions"]) <= _MOST_POOLS


SPACE = Space(
    {
        "lr": [1e-3, 3e-3, 1e-2],
        "activation": ["relu", "tanh"],
        "norm": [True, False],
        "convolutions": repeat({"channels": [4, 8, 16, 32], "kernel": [1, 3, 5], "pool": [True, False]}, 0, 3),
        "dense": repeat({"width": [16, 32, 64, 128], "dropout": choice([0.0, 0.3])}, 0, 2),
    },
    where=_fits,
)


def trainer_fn(params: dict[str, Any]) -> ModelTrainer:
    """Build a network of an architecture, whose modules have the names of their places."""
    modules: OrderedDict[str, torch.nn.Module] = OrderedDict()
    activation = {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh}[params["activation"]]
    channels, side = 1, params["side"]
    for place, layer in enumerate(params["convolutions"]):
        modules[f"conv{place}"] = torch.nn.Conv2d(channels, layer["channels"], layer["kernel"], padding="same")
        channels = layer["channels"]
        if params["norm"]:
            modules[f"norm{place}"] = torch.nn.BatchNorm2d(channels)
        modules[f"active{place}"] = activation()
        if layer["pool"]:
            modules[f"pool{place}"] = torch.nn.MaxPool2d(2)
            side //= 2
    modules["flat"] = torch.nn.Flatten()
    width = channels * side * side
    for place, layer in enumerate(params["dense"]):
        modules[f"dense{place}"] = torch.nn.Linear(width, layer["width"])
        modules[f"dense_active{place}"] = activation()
        modules[f"dropout{place}"] = torch.nn.Dropout(layer["dropout"])
        width = layer["width"]
    modules["head"] = torch.nn.Linear(width, _CLASSES)
    net = torch.nn.Sequential(modules)
    optimizer = torch.optim.Adam(net.parameters(), lr=params["lr"])
    return ModelTrainer(
        model=net, optimizer=optimizer, loss=torch.nn.CrossEntropyLoss(), metrics=["accuracy"], batch_size=32
    )


@dataclass
class Laboratory:
    """Data of a seed, and the states of trained configurations.

    Results of configurations with new weights are kept, because the searches begin with the same ones.
    """

    train: Tensors
    validation: Tensors
    test: Tensors
    seed: int
    epochs: int
    known: dict[str, tuple[float, bytes]] = field(default_factory=dict)

    def search(self, procedure: Procedure) -> tuple[float, float]:
        """Run a procedure; return the validation and test accuracy of its best configuration."""
        states: dict[str, bytes] = {}
        decisions = procedure.ask()
        while not procedure.done:
            (start,) = [decision for decision in decisions if isinstance(decision, Start)]
            accuracy, states[start.trial_id] = self.trained(start, states)
            epochs = range(1, start.epochs + 1)
            decisions = procedure.ask([EpochResult(start.trial_id, each, {"accuracy": accuracy}) for each in epochs])
        best = procedure.best
        assert best is not None
        session = self.opened(best.params, best.trial_id)
        session.restore(states[best.trial_id])
        return best.best_score, session.sums.results(session.evaluate(self.test))["accuracy"]

    def trained(self, start: Start, states: Mapping[str, bytes]) -> tuple[float, bytes]:
        """Train a configuration; return its validation accuracy and its state."""
        name = f"{start.trial_id} {dict(start.params)}"
        if start.source is None and name in self.known:
            return self.known[name]
        session = self.opened(start.params, start.trial_id)
        source: Source | None = start.source
        if source is not None:
            session.inherit(states[source.trial_id])
        for epoch in range(self.epochs):
            order = row_order(self.seed, start.trial_id, epoch, 0, self.train.rows)
            session.train(self.train, order, ends_epoch=True)
        result = session.sums.results(session.evaluate(self.validation))["accuracy"], session.checkpoint()
        if source is None:
            self.known[name] = result
        return result

    def opened(self, params: Mapping[str, Any], trial_id: str) -> Session:
        """Open a configuration with the seed of its trial."""
        side = self.train.inputs[0].shape[-1]
        session = open_session(trainer_fn, {**params, "side": side}, initial_seed(self.seed, trial_id))
        decide_session_task(session, self.validation, ["label"])
        return session


def _pictures(name: str) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Read the pictures, from 0 to 1 and of shape (rows, 1, side, side), and their classes."""
    if name == "digits":
        from sklearn.datasets import load_digits

        pixels, labels = load_digits(return_X_y=True)
        return (pixels / 16).astype(np.float32).reshape(-1, 1, 8, 8), labels.astype(np.int64)
    table = search_data.fashion(6_000, demo_data.cache_folder(None))
    whole = np.stack([np.asarray(Image.open(io.BytesIO(each)), np.float32) for each in table["image"]]) / 255
    small = whole.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4), keepdims=False)
    return small[:, None].astype(np.float32), table["label"].to_numpy()


def _laboratory(name: str, seed: int, epochs: int) -> Laboratory:
    pixels, labels = _pictures(name)
    order = np.random.default_rng(seed).permutation(len(labels))
    train, validation = _ROWS[name]

    def part(places: NDArray[np.int64]) -> Tensors:
        return Tensors((pixels[places],), (labels[places],), len(places))

    return Laboratory(
        part(order[:train]),
        part(order[train : train + validation]),
        part(order[train + validation :]),
        seed,
        epochs,
    )


def _procedure(kind: str, seed: int, configurations: int, epochs: int) -> Procedure:
    settings: dict[str, Any] = {
        "configurations": configurations,
        "epochs": epochs,
        "concurrency": 1,
        "metric": "accuracy",
        "mode": "max",
    }
    if kind == "random":
        return Sequential(RandomSampler(SPACE, seed), **settings)
    return AgingEvolution(
        SPACE, population=_POPULATION, sample=_SAMPLE, inherit_weights=kind == "inheriting", seed=seed, **settings
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Search, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--configurations", type=int, default=30)
    parser.add_argument("--epochs", type=int, default=2, help="of each configuration")
    parser.add_argument("--data", nargs="*", choices=list(_ROWS), default=list(_ROWS))
    parser.add_argument("--json", action="store_true", help='the last line is {"ratios": {name: number, ...}}')
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    load = load_average()
    report = Report("Architecture search: aging evolution against random search at equal epochs")
    for name in options.data:
        _compare(report, name, options)
    total = options.configurations * options.epochs
    report.note(f"{total} epochs per search, {options.configurations} configurations; load {load}")
    report.show(as_json=options.json)


def _compare(report: Report, name: str, options: argparse.Namespace) -> None:
    accuracies: dict[str, list[tuple[float, float]]] = {kind: [] for kind in _KINDS}
    for seed in range(options.seeds):
        laboratory = _laboratory(name, seed, options.epochs)
        for kind in _KINDS:
            procedure = _procedure(kind, seed, options.configurations, options.epochs)
            accuracies[kind].append(laboratory.search(procedure))
            validation, test = accuracies[kind][-1]
            print(f"{name}, seed {seed}, {kind}: validation {validation:.4f}, test {test:.4f}", file=sys.stderr)
    rows = []
    baseline = np.array(accuracies["random"])
    for kind, pairs in accuracies.items():
        measured = np.array(pairs)
        better = (measured > baseline).sum(axis=0)
        cells = [
            f"{part.mean():.4f} ({part.min():.4f} to {part.max():.4f})" for part in (measured[:, 1], measured[:, 0])
        ]
        rows.append([kind, *cells, f"{better[1]}, {better[0]} of {options.seeds}"])
        if kind != "random":
            report.ratio(
                f"{name}.{kind}_better",
                float(better[1]) / options.seeds,
                "share of seeds with a better test accuracy",
                0.8,
            )
    columns = ["search", "test accuracy", "validation accuracy", "better in seeds: test, validation"]
    report.table(f"{name}: mean over seeds (smallest to largest)", columns, rows)


if __name__ == "__main__":
    main()
