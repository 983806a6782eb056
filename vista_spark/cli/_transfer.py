"""``vista transfer``: the layer of a network that helps most, from files to a table, a picture and a model."""

from __future__ import annotations

import math
import os
import shutil
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from pyspark.ml import PipelineModel
from pyspark.ml.feature import IndexToString
from pyspark.sql import is_remote
from rich.console import Console
from rich.table import Table as RichTable

from udfs.cli import Json, Master, OptionGroup, OutPlace, print_json, print_table, refused_before_spark, with_options
from udfs.driver import check_place, check_spark_writes, is_uri, results_at, track_into
from vista_spark.cli._options import (
    OVERRIDES,
    PLANNED,
    SOURCE,
    Downstream,
    Model,
    RandomWeights,
    Weights,
    downstream_factory,
    features_lines,
    is_regression,
    known_weights,
    opened_model,
    opened_weights,
    start_spark,
)
from vista_spark.files import Source, check_source
from vista_spark.mlp import MLPClassifier
from vista_spark.network import network, warn_of_random_weights
from vista_spark.transfer import FeatureTransfer, is_classification

if TYPE_CHECKING:
    from pathlib import Path

    from vista_spark.files import Loaded
    from vista_spark.transfer import TransferPredictor, TransferResult

__all__ = ["transfer_command"]

_BEST = "best_model"


@with_options(
    source=SOURCE,
    settings=OptionGroup(
        FeatureTransfer,
        [*PLANNED, "image_aggregation", "errors", "test_fraction", "hog", "seed", "experiment"],
        overrides=OVERRIDES,
        defaults={"experiment": "feature-transfer"},
    ),
)
def transfer_command(
    model: Model,
    out: OutPlace,
    source: dict[str, Any],
    settings: dict[str, Any],
    weights: Weights = None,
    random_weights: RandomWeights = False,
    downstream: Downstream = "logistic",
    as_json: Json = False,
    master: Master = None,
    ship: Annotated[
        bool, typer.Option("--ship", help="Send these packages to workers whose Python has the third-party ones only.")
    ] = False,
) -> None:
    """Find the layer of a pre-trained network that helps most beside the structured features."""
    console = Console(stderr=as_json)
    with refused_before_spark():
        make_estimator, opened = downstream_factory(downstream), opened_model(model)
        data_source = Source(**source)
        check_source(data_source, master, classification=not is_regression(downstream))
        check_place(out)
        weights = opened_weights(weights, model)
        experiment = settings["experiment"]
        if is_uri(out) and "MLFLOW_TRACKING_URI" not in os.environ:
            # MLflow's files cannot be moved to a URI: only a server keeps these runs.
            settings["experiment"] = None
        make_transfer = partial(FeatureTransfer, model=opened, weights=weights, **settings)
        # Spark ML's estimators need a session: MLPClassifier takes their place while the rest is checked.
        make_transfer(downstream=MLPClassifier()).explain()
        net = network(opened, weights, settings["seed"])
        known_weights(net.card, net.weights, random_weights=random_weights)
    # Warn before the progress bar starts: there is still time to stop.
    warn_of_random_weights(net.card, net.weights, net.seed)

    spark = start_spark(master, console, ship=ship)
    check_spark_writes(spark, out)
    estimator = make_estimator()
    data = data_source.load(spark, classification=is_classification(estimator))
    console.print(features_lines(data_source, data.features, data.notes), highlight=False, soft_wrap=True)
    with results_at(out) as folder:
        if not is_uri(out):
            track_into(folder, experiment)
        result = make_transfer(downstream=estimator).run(
            data.structured,
            data.images,
            on=data_source.on,
            feature_columns=data.features,
            label_column=data.target,
            image_column=data_source.image,
            on_plan=lambda chosen: typer.echo(chosen.explain(), err=as_json),
        )
        best_model = _complete(result.best_model, data_source.learned, data)
        _write(result, folder)
        if is_uri(out):
            best_model.write().overwrite().save(f"{out.rstrip('/')}/{_BEST}")
        else:
            _save(best_model, folder)
    if as_json:
        print_json(_facts(result, out))
    else:
        _show(result, out, console)
    spark.stop()


def _complete(model: PipelineModel, label: str, data: Loaded) -> PipelineModel:
    """Make the model take the user's own columns, and predict the label's own words."""
    *before, last = model.stages
    predictor = cast("TransferPredictor", last)
    if data.words:
        stage = IndexToString(inputCol="prediction", outputCol=f"predicted_{label}", labels=list(data.words))
        predictor = predictor.followed_by(stage)
    return PipelineModel([*data.stages, *before, predictor])


def _facts(result: TransferResult, out: str) -> dict[str, Any]:
    """Return the facts of a result for ``--json``; a value that is not a number is null."""
    frame = result.to_pandas().rename(columns={result.metric: "score"}).astype(object)
    return {
        "model": result.plan.model,
        "best_layer": result.best_layer,
        "metric": result.metric,
        "larger_is_better": result.larger_is_better,
        "best_score": _number(result.best.score),
        "baseline_score": _number(result.baseline.score),
        "layers": [{str(name): _number(value) for name, value in row.items()} for row in frame.to_dict("records")],
        "train_rows": result.train_rows,
        "test_rows": result.test_rows,
        "dropped": dict(result.dropped),
        "random_weights": result.random_weights,
        "verdict": result.verdict,
        "out": out,
    }


def _number(value: Any) -> Any:
    """A word, or a number that JSON holds."""
    if isinstance(value, str):
        return value
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return value


def _write(result: TransferResult, folder: Path) -> None:
    result.to_pandas().to_csv(folder / "layers.csv", index=False)
    result.plot().savefig(folder / "layers.png", dpi=120)
    (folder / "plan.txt").write_text(result.choice.explain() + "\n")


def _save(model: PipelineModel, folder: Path) -> None:
    final = folder / _BEST
    # It gets its name once it is complete; a Connect server writes where this process may not rename.
    partial_model = final if is_remote() else folder / f".{_BEST}"
    model.write().overwrite().save(str(partial_model))
    if partial_model != final:
        shutil.rmtree(final, ignore_errors=True)
        partial_model.rename(final)


def _show(result: TransferResult, out: str, console: Console) -> None:
    title = f"{result.plan.model}: {result.train_rows} rows to train on, {result.test_rows} held out"
    shares = any(len(stage.targets) > 1 for stage in result.plan.stages)
    caption = "layers of one pass share its inference seconds by FLOPs" if shares else None
    table = RichTable(title=title, caption=caption)
    table.add_column("features")
    for name in ("size", result.metric, "95 %", "lift", "inference s", "training s"):
        table.add_column(name, justify="right")
    frame = result.to_pandas()
    for row, label, lift in zip(result.rows, frame["features"], frame["lift"], strict=True):
        table.add_row(
            label,
            str(row.size) if row.size else "",
            f"{row.score:.3f}",
            "" if row.interval is None else f"{row.interval[0]:.3f}-{row.interval[1]:.3f}",
            "" if row is result.baseline else f"{lift:+.3f}",
            f"{row.inference_seconds:.1f}",
            f"{row.training_seconds:.1f}",
            style="bold" if row is result.best else None,
        )
    print_table(table, console, wrapped=True)
    for reason, count in result.dropped.items():
        console.print(f"left out: {reason} ({count} rows)", highlight=False)
    console.print(f"{result.verdict}.", highlight=False, soft_wrap=True)
    console.print(f"in {out}: layers.csv, layers.png, plan.txt, best_model{'' if is_uri(out) else ', mlflow.db'}")
