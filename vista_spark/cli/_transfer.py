"""``vista transfer``: the layer of a network that helps most, from files to a table, a picture and a model."""

from __future__ import annotations

import math
import os
import shutil
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.console import Console
from rich.table import Table as RichTable

from udfs.driver.command import (
    Device,
    Json,
    Master,
    OutPlace,
    TableFormat,
    choice,
    comma_separated,
    print_json,
    refused_before_spark,
)
from vista_spark.cli._options import (
    BatchSize,
    Categories,
    Downstream,
    Features,
    Image,
    Images,
    Label,
    Layers,
    MaxPixels,
    MaybeTable,
    Model,
    On,
    Plan,
    Pooling,
    RandomWeights,
    Weights,
    downstream_factory,
    features_line,
    is_regression,
    known_weights,
    opened_model,
    opened_weights,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.ml import PipelineModel

    from vista_spark.files import Loaded
    from vista_spark.transfer import TransferPredictor, TransferResult

__all__ = ["transfer_command"]

_BEST = "best_model"


def transfer_command(
    model: Model,
    out: OutPlace,
    images: Images = None,
    table: MaybeTable = None,
    label: Label = None,
    on: On = "id",
    weights: Weights = None,
    random_weights: RandomWeights = False,
    layers: Layers = "4",
    features: Features = None,
    categories: Categories = None,
    table_format: TableFormat = None,
    image: Image = "image",
    downstream: Downstream = "logistic",
    pooling: Pooling = None,
    image_aggregation: Annotated[
        str,
        typer.Option(help="One vector of several images: mean or max.", parser=choice("mean", "max"), metavar="NAME"),
    ] = "mean",
    plan: Plan = "auto",
    errors: Annotated[
        str, typer.Option(help="Bad rows: drop or raise.", parser=choice("drop", "raise"), metavar="ERRORS")
    ] = "drop",
    test_fraction: Annotated[float, typer.Option(help="Share of rows held out for the score.")] = 0.2,
    hog: Annotated[bool, typer.Option("--hog", help="Histograms of oriented gradients as a second baseline.")] = False,
    batch_size: BatchSize = None,
    max_pixels: MaxPixels = None,
    device: Device = "auto",
    seed: Annotated[int, typer.Option(help="Of the split and of random weights.")] = 0,
    experiment: Annotated[str, typer.Option(help="MLflow experiment.")] = "feature-transfer",
    as_json: Json = False,
    master: Master = None,
    ship: Annotated[
        bool, typer.Option("--ship", help="Send these packages to workers whose Python has the third-party ones only.")
    ] = False,
) -> None:
    """Find the layer of a pre-trained network that helps most beside the structured features."""
    from udfs.driver import (  # `vista --help` is not to wait for Spark
        check_place,
        check_spark_writes,
        is_uri,
        results_at,
        track_into,
    )
    from vista_spark.files import Source, parse_layers
    from vista_spark.mlp import MLPClassifier
    from vista_spark.network import network, warn_of_random_weights
    from vista_spark.sessions import session
    from vista_spark.transfer import FeatureTransfer, is_classification

    console = Console(stderr=as_json)
    with refused_before_spark():
        make_estimator, opened = downstream_factory(downstream), opened_model(model)
        source = Source(
            images=images,
            table=table,
            on=on,
            label=label,
            image=image,
            features=comma_separated(features),
            categories=comma_separated(categories) or (),
            table_format=table_format,
        )
        source.check(master, classification=not is_regression(downstream))
        check_place(out)
        weights = opened_weights(weights, model)
        make_transfer = partial(
            FeatureTransfer,
            model=opened,
            weights=weights,
            layers=parse_layers(layers),
            pooling=pooling,
            image_aggregation=image_aggregation,
            plan=plan,
            test_fraction=test_fraction,
            errors=errors,
            hog=hog,
            batch_size=batch_size,
            max_pixels=max_pixels,
            device=device,
            seed=seed,
            # MLflow's files cannot be moved: of a URI the runs go to a server alone.
            experiment=None if is_uri(out) and "MLFLOW_TRACKING_URI" not in os.environ else experiment,
        )
        # Spark ML's own estimators cannot be made before Spark: ours takes their place while the rest is checked.
        make_transfer(downstream=MLPClassifier()).explain()
        net = network(opened, weights, seed)
        known_weights(net.card, net.weights, random_weights=random_weights)
    # Now, rather than beside the progress bar: there is still time to stop.
    warn_of_random_weights(net.card, net.weights, net.seed)

    with console.status("starting Spark"):
        spark = session(master, conf={"spark.log.level": "ERROR"}, ship=ship)
    check_spark_writes(spark, out)
    estimator = make_estimator()
    data = source.load(spark, classification=is_classification(estimator))
    line = features_line(data.features, on, source.learned, chosen=source.features is None)
    console.print(line, highlight=False, soft_wrap=True)
    with results_at(out) as folder:
        if not is_uri(out):
            track_into(folder, experiment)
        result = make_transfer(downstream=estimator).run(
            data.structured,
            data.images,
            on=on,
            feature_columns=data.features,
            label_column=data.target,
            image_column=image,
            on_plan=lambda chosen: typer.echo(chosen.explain(), err=as_json),
        )
        best_model = _complete(result.best_model, source.learned, data)
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
    from pyspark.ml import PipelineModel
    from pyspark.ml.feature import IndexToString

    *before, last = model.stages
    predictor = cast("TransferPredictor", last)
    if data.words:
        stage = IndexToString(inputCol="prediction", outputCol=f"predicted_{label}", labels=list(data.words))
        predictor = predictor.followed_by(stage)
    return PipelineModel([*data.stages, *before, predictor])


def _facts(result: TransferResult, out: str) -> dict[str, Any]:
    """What a scheduler may want of a result; what is not a number is null."""
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
    from pyspark.sql import is_remote

    final = folder / _BEST
    # It gets its name once it is complete; a Connect server writes where this process may not rename.
    partial_model = final if is_remote() else folder / f".{_BEST}"
    model.write().overwrite().save(str(partial_model))
    if partial_model != final:
        shutil.rmtree(final, ignore_errors=True)
        partial_model.rename(final)


def _show(result: TransferResult, out: str, console: Console) -> None:
    from udfs.driver import is_uri

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
    console.print(table)
    for reason, count in result.dropped.items():
        console.print(f"left out: {reason} ({count} rows)", highlight=False)
    console.print(f"{result.verdict}.", highlight=False, soft_wrap=True)
    console.print(f"in {out}: layers.csv, layers.png, plan.txt, best_model{'' if is_uri(out) else ', mlflow.db'}")
