"""``vista transfer``: the layer of a network that helps most, from files to a table, a picture and a model."""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.console import Console
from rich.table import Table as RichTable

from udfs.driver.command import Device, Master, OutFolder, choice, comma_separated, refused_before_spark
from vista_spark.cli._options import (
    BatchSize,
    Downstream,
    Features,
    Image,
    Images,
    Label,
    Layers,
    MaxPixels,
    Model,
    On,
    Plan,
    Pooling,
    RandomWeights,
    Table,
    Weights,
    downstream_factory,
    features_line,
    known_weights,
    opened_model,
    opened_weights,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.ml import PipelineModel

    from vista_spark.transfer import TransferPredictor, TransferResult

__all__ = ["transfer_command"]

_CONSOLE = Console()


def transfer_command(
    images: Images,
    table: Table,
    label: Label,
    model: Model,
    out: OutFolder,
    on: On = "id",
    weights: Weights = None,
    random_weights: RandomWeights = False,
    layers: Layers = "4",
    features: Features = None,
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
    master: Master = None,
    ship: Annotated[
        bool, typer.Option("--ship", help="Send these packages to workers whose Python has the third-party ones only.")
    ] = False,
) -> None:
    """Find the layer of a pre-trained network that helps most beside the structured features."""
    from pyspark.ml.feature import StringIndexer  # noqa: PLC0415 - `vista --help` is not to wait for Spark
    from pyspark.sql.types import StringType  # noqa: PLC0415

    from udfs.driver import check_present, is_here, track_into  # noqa: PLC0415
    from vista_spark.files import check_tables, numeric_columns, parse_layers, read_images, read_table  # noqa: PLC0415
    from vista_spark.mlp import MLPClassifier  # noqa: PLC0415
    from vista_spark.network import network, warn_of_random_weights  # noqa: PLC0415
    from vista_spark.sessions import session  # noqa: PLC0415
    from vista_spark.transfer import FeatureTransfer  # noqa: PLC0415

    named = comma_separated(features)
    with refused_before_spark():
        make_estimator, opened = downstream_factory(downstream), opened_model(model)
        check_tables(
            table if is_here(table, master) else None, images if is_here(images, master) else None,
            on=on, label=label, image=image, features=named,
        )  # fmt: skip
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
            experiment=experiment,
        )
        # Spark ML's own estimators cannot be made before Spark: ours takes their place while the rest is checked.
        make_transfer(downstream=MLPClassifier()).explain()
        net = network(opened, weights, seed)
        known_weights(net.card, net.weights, random_weights=random_weights)
    # Now, rather than beside the progress bar: there is still time to stop.
    warn_of_random_weights(net.card, net.weights, net.seed)

    with _CONSOLE.status("starting Spark"):
        spark = session(master, conf={"spark.log.level": "ERROR"}, ship=ship)
    structured = read_table(spark, table)
    check_present(structured, [on, label, *(named or ())], "--table")
    columns = named or numeric_columns(structured, [on, label])
    _CONSOLE.print(features_line(columns, on, label, chosen=named is None), highlight=False, soft_wrap=True)
    pictures = read_images(spark, images, on, image, structured)
    out.mkdir(parents=True, exist_ok=True)
    track_into(out, experiment)
    words: list[str] = []
    target = label
    if isinstance(structured.schema[label].dataType, StringType):
        target = f"{label}_index"
        indexer = StringIndexer(inputCol=label, outputCol=target, handleInvalid="skip").fit(structured)
        structured, words = indexer.transform(structured), list(indexer.labels)
    result = make_transfer(downstream=make_estimator()).run(
        structured,
        pictures,
        on=on,
        feature_columns=columns,
        label_column=target,
        image_column=image,
        on_plan=lambda chosen: typer.echo(chosen.explain()),
    )
    _write(result, _with_words(result.best_model, label, words), out)
    _show(result, out)
    spark.stop()


def _with_words(model: PipelineModel, label: str, words: list[str]) -> PipelineModel:
    """Make the model predict the label's own words, where the label was a string."""
    if not words:
        return model
    from pyspark.ml import PipelineModel  # noqa: PLC0415
    from pyspark.ml.feature import IndexToString  # noqa: PLC0415

    stage = IndexToString(inputCol="prediction", outputCol=f"predicted_{label}", labels=words)
    *before, predictor = model.stages
    return PipelineModel([*before, cast("TransferPredictor", predictor).followed_by(stage)])


def _write(result: TransferResult, model: PipelineModel, out: Path) -> None:
    from pyspark.sql import is_remote  # noqa: PLC0415

    result.to_pandas().to_csv(out / "layers.csv", index=False)
    result.plot().savefig(out / "layers.png", dpi=120)
    (out / "plan.txt").write_text(result.choice.explain() + "\n")
    final = out / "best_model"
    # It gets its name once it is complete; a Connect server writes where this process may not rename.
    partial_model = final if is_remote() else out / ".best_model"
    model.write().overwrite().save(str(partial_model))
    if partial_model != final:
        shutil.rmtree(final, ignore_errors=True)
        partial_model.rename(final)


def _show(result: TransferResult, out: Path) -> None:
    title = f"{result.plan.model}: {result.train_rows} rows to train on, {result.test_rows} held out"
    shares = any(len(stage.targets) > 1 for stage in result.plan.stages)
    caption = "layers of one pass share its inference seconds by FLOPs" if shares else None
    table = RichTable(title=title, caption=caption)
    table.add_column("features")
    for name in ("size", result.metric, "lift", "inference s", "training s"):
        table.add_column(name, justify="right")
    frame = result.to_pandas()
    for row, label, lift in zip(result.rows, frame["features"], frame["lift"], strict=True):
        table.add_row(
            label,
            str(row.size) if row.size else "",
            f"{row.score:.3f}",
            "" if row is result.baseline else f"{lift:+.3f}",
            f"{row.inference_seconds:.1f}",
            f"{row.training_seconds:.1f}",
            style="bold" if row is result.best else None,
        )
    _CONSOLE.print(table)
    for reason, count in result.dropped.items():
        _CONSOLE.print(f"left out: {reason} ({count} rows)", highlight=False)
    _CONSOLE.print(f"{result.verdict}.", highlight=False, soft_wrap=True)
    _CONSOLE.print(f"in {out}: layers.csv, layers.png, plan.txt, best_model, mlflow.db")
