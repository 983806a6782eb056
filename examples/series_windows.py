"""Search over windows of real sensor data: the picture of docs/sequences.md.

``python examples/series_windows.py --out sequences.png`` compares window lengths and downsampling on BasicMotions, 80
recordings of a smart watch of 10 s at 10 Hz with four activities (``pip install --no-deps aeon==1.6.0``). Shards are
written once; the validation recordings are those of the data set's test file.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from cerebro_spark import GridSearch, ModelTrainer, Series, SparkBackend, Store, Windows
from vista_spark import session

if TYPE_CHECKING:
    from cerebro_spark import Selection

CHANNELS = ["acc_x", "acc_y", "acc_z", "gyro_x", "gyro_y", "gyro_z"]
ACTIVITIES = ["Standing", "Running", "Walking", "Badminton"]
SPACE = {"length": [10, 20, 50, 100], "downsample": [1, 5]}
HERTZ = 10


def recordings() -> pd.DataFrame:
    """Read BasicMotions: a row for each recording and tenth of a second."""
    package = importlib.util.find_spec("aeon")
    if package is None or not package.submodule_search_locations:
        raise SystemExit('aeon must be installed for the data set BasicMotions: pip install --no-deps "aeon==1.6.0"')
    folder = Path(package.submodule_search_locations[0]) / "datasets" / "data" / "BasicMotions"
    parts = []
    for file, is_test in (("BasicMotions_TRAIN.ts", False), ("BasicMotions_TEST.ts", True)):
        cases = (folder / file).read_text().partition("@data\n")[2].split()
        for number, case in enumerate(cases):
            *channels, activity = case.split(":")
            values = np.array([[float(value) for value in channel.split(",")] for channel in channels])
            rows = pd.DataFrame(values.T, columns=CHANNELS)
            rows["case"] = f"{'test' if is_test else 'train'} {number}"
            rows["time"], rows["label"], rows["is_test"] = rows.index / HERTZ, ACTIVITIES.index(activity), is_test
            parts.append(rows)
    return pd.concat(parts, ignore_index=True)


def trainer_fn(params: dict[str, Any]) -> ModelTrainer:
    """Build a convolutional network over windows of the configuration's length."""
    view = Windows(params["length"], stride=5, downsample=params["downsample"], label="majority")
    net = torch.nn.Sequential(
        _Channels(),
        torch.nn.Conv1d(len(CHANNELS), 16, 3, padding="same"),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool1d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(16, len(ACTIVITIES)),
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    return ModelTrainer(
        model=net,
        optimizer=optimizer,
        loss=torch.nn.CrossEntropyLoss(),
        metrics=["accuracy"],
        batch_size=16,
        view=view,
    )


class _Channels(torch.nn.Module):
    """Move the channels before the time, where torch's convolutions read them."""

    def forward(self, windows: torch.Tensor) -> torch.Tensor:
        """Transpose ``(batch, time, channels)``."""
        return windows.transpose(1, 2)


def search(folder: str, epochs: int) -> Selection:
    """Train all windows of :data:`SPACE` on one copy of the recordings."""
    spark = session("local[2]", conf={"spark.log.level": "ERROR", "spark.ui.enabled": "false"})
    return GridSearch(
        backend=SparkBackend(spark, num_workers=2, threads=1),
        store=Store.from_uri(folder),
        trainer_fn=trainer_fn,
        search_space=SPACE,
        num_epochs=epochs,
        feature_columns=CHANNELS,
        label_columns=["label"],
        series=Series(["case"], order_by="time", validation_column="is_test"),
        metric="accuracy",
        progress=False,
        seed=1,
    ).fit(spark.createDataFrame(recordings()))


def draw(selection: Selection) -> Figure:
    """Draw the accuracy by window length, and the predictions of one model for some test recordings."""
    figure = Figure(figsize=(9, 3.2), dpi=100, layout="constrained")
    left, right = figure.subplots(1, 2)
    for downsample in SPACE["downsample"]:
        trials = [trial for trial in selection.trials if trial.params["downsample"] == downsample]
        points = sorted((trial.params["length"] / HERTZ, trial.history[-1]["val_accuracy"]) for trial in trials)
        name = "every row" if downsample == 1 else f"mean of {downsample} rows"
        left.plot(*zip(*points, strict=True), marker="o", label=name)
    left.set(xlabel="window (s)", ylabel="validation accuracy of windows")
    left.legend(frameon=False)
    spark, frame = session("local[2]"), recordings()
    chosen = [f"test {number}" for number in range(0, 40, 5)]
    shortest = next(trial for trial in selection.trials if trial.params == {"length": 10, "downsample": 5})
    scored = (
        selection.model(shortest.trial_id)
        .transform(spark.createDataFrame(frame[frame["case"].isin(chosen)]))
        .toPandas()
    )
    for row, case in enumerate(chosen):
        for window in scored[scored["case"] == case].itertuples():
            middle = (window.window_start + window.window_end) / 2
            colour = f"C{int(window.prediction)}"
            marker = "s" if window.prediction == window.label else "x"
            right.plot(middle, row, marker, color=colour, markersize=6)
    right.set(xlabel="middle of the window (s)", yticks=range(len(chosen)))
    truth = frame.groupby("case")["label"].first()
    right.set_yticklabels([ACTIVITIES[truth[case]] for case in chosen])
    right.set_title("windows of 1 s, mean of 5 rows (x: wrong)", fontsize=9)
    return figure


def main() -> None:
    """Run the search and draw it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="picture to write")
    parser.add_argument("--epochs", type=int, default=20, help="passes over the data")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        selection = search(folder, arguments.epochs)
        print(selection.to_pandas().groupby(["length", "downsample"])[["val_loss", "val_accuracy"]].last())
        print(selection.prepared.explain())
        draw(selection).savefig(arguments.out)


if __name__ == "__main__":
    main()
