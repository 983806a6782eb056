"""``vista``: feature transfer from the command line."""

from __future__ import annotations

import pkgutil
import shutil
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from pyspark.errors import AnalysisException
from rich.console import Console
from rich.table import Table

from optimizer.errors import CerebroError, nearest
from udfs.driver import track_into
from vista_spark import roster
from vista_spark.cli._explain import explain_command
from vista_spark.cli._plan import plan_command, profile_command
from vista_spark.sessions import write_packages

if TYPE_CHECKING:
    from pyspark.ml import PipelineModel

    from vista_spark.transfer import TransferResult

__all__ = ["app", "downstream_name", "downstream_of", "layers_of", "main"]

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
app.command("profile")(profile_command)
app.command("plan")(plan_command)
app.command("explain")(explain_command)

_CONSOLE = Console()

# The paper's downstream model is the first (Vista, Figure 8).
_DOWNSTREAM: dict[str, tuple[str, dict[str, Any]]] = {
    "logistic": (
        "pyspark.ml.classification:LogisticRegression",
        {"maxIter": 10, "regParam": 0.01, "elasticNetParam": 0.5},
    ),
    "forest": ("pyspark.ml.classification:RandomForestClassifier", {"seed": 0}),
    "linear": ("pyspark.ml.regression:LinearRegression", {"regParam": 0.01}),
    "mlp": ("vista_spark.mlp:MLPClassifier", {}),
    "forest-regression": ("pyspark.ml.regression:RandomForestRegressor", {"seed": 0}),
}


@app.callback()
def _vista() -> None:
    """Run deep-learning models over Spark DataFrames."""


@app.command()
def models() -> None:
    """List the models, and their layers counted from the top."""
    table = Table("model", "input", "parameters", "layers, from the top")
    for name in roster.names():
        card = roster.card(name)
        layers = ", ".join(f"{number} {layer.name}" for number, layer in enumerate(reversed(card.layers), 1))
        table.add_row(name, card.preprocessing.size, f"{card.parameters:,}", layers)
    _CONSOLE.print(table)


@app.command()
def package(
    out: Annotated[Path, typer.Option(help="Folder for the .zip and the script.")] = Path("dist"),
) -> None:
    """Write what spark-submit takes: these packages as a .zip, and vista.py, which runs this command from them."""
    archive = write_packages(out)
    script = out / "vista.py"
    script.write_bytes(pkgutil.get_data("vista_spark", "__main__.py") or b"")
    _CONSOLE.print(
        f"spark-submit --py-files {archive} {script} transfer ...", highlight=False, markup=False, soft_wrap=True
    )


@app.command()
def transfer(
    images: Annotated[
        str, typer.Option(help="Folder of image files (the name is the id), or a .parquet of images or texts.")
    ],
    table: Annotated[str, typer.Option(help="Structured data: a .csv with a header, or a .parquet.")],
    label: Annotated[str, typer.Option(help="The label's column; strings are indexed.")],
    model: Annotated[str, typer.Option(help="The network; `vista models` lists them.")],
    out: Annotated[
        Path, typer.Option(help="Folder for the table, the picture, the plan, the best model and MLflow's files.")
    ],
    on: Annotated[str, typer.Option(help="The id's column.")] = "id",
    weights: Annotated[str | None, typer.Option(help="Path or URI of a state dict; random weights without it.")] = None,
    layers: Annotated[
        str, typer.Option(help="Names or numbers from the top, with commas; a bare number k: the top k.")
    ] = "4",
    features: Annotated[
        str | None, typer.Option(help="Structured columns, with commas; every numeric one by default.")
    ] = None,
    image: Annotated[str, typer.Option(help="The column of images or texts, where --images is a .parquet.")] = "image",
    downstream: Annotated[
        str, typer.Option(help=f"{', '.join(_DOWNSTREAM)}, or package.module:callable that returns an estimator.")
    ] = "logistic",
    pooling: Annotated[
        str | None, typer.Option(help="max2x2 (default), avg or none; of a text encoder mean (default), cls or none.")
    ] = None,
    plan: Annotated[str, typer.Option(help="auto, or a logical plan by name; `vista plan` compares them.")] = "auto",
    errors: Annotated[str, typer.Option(help="Bad rows: drop or raise.")] = "drop",
    test_fraction: Annotated[float, typer.Option(help="Share of rows held out for the score.")] = 0.2,
    hog: Annotated[bool, typer.Option("--hog", help="Histograms of oriented gradients as a second baseline.")] = False,
    batch_size: Annotated[
        int | None, typer.Option(help="Images a run of the network; 32 by default, fewer where memory is short.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the split and of random weights.")] = 0,
    experiment: Annotated[str, typer.Option(help="MLflow experiment.")] = "feature-transfer",
    master: Annotated[
        str | None, typer.Option(help="local[*], spark://..., yarn, k8s://..., sc://... for Connect.")
    ] = None,
    ship: Annotated[
        bool, typer.Option("--ship", help="Send these packages to workers whose Python has the third-party ones only.")
    ] = False,
) -> None:
    """Find the layer of a pre-trained network that helps most beside the structured features."""
    # What is wrong with the words of the command is said before Spark takes its seconds to start.
    card = roster.card(model)
    wanted = layers_of(layers)
    card.resolve(wanted)
    estimator_of = downstream_of(downstream)

    from pyspark.ml.feature import StringIndexer  # noqa: PLC0415 - `vista --help` is not to wait for Spark
    from pyspark.sql.types import StringType  # noqa: PLC0415

    from udfs.driver import check_present  # noqa: PLC0415
    from vista_spark.cli._files import numeric_columns, read_images, read_table  # noqa: PLC0415
    from vista_spark.sessions import session  # noqa: PLC0415
    from vista_spark.transfer import FeatureTransfer  # noqa: PLC0415

    out.mkdir(parents=True, exist_ok=True)
    track_into(out, experiment)
    with _CONSOLE.status("starting Spark"):
        spark = session(master, conf={"spark.log.level": "ERROR"}, ship=ship)
    structured = read_table(spark, table)
    check_present(structured, [on, label, *(features.split(",") if features else [])], "--table")
    columns = features.split(",") if features else numeric_columns(structured, [on, label])
    pictures = read_images(spark, images, on, image, structured.schema[on].dataType)
    names: list[str] = []
    target = label
    if isinstance(structured.schema[label].dataType, StringType):
        target = f"{label}_index"
        indexer = StringIndexer(inputCol=label, outputCol=target, handleInvalid="skip").fit(structured)
        structured, names = indexer.transform(structured), list(indexer.labels)
    job = FeatureTransfer(
        model=model,
        weights=weights,
        layers=wanted,
        downstream=estimator_of(),
        pooling=pooling,
        plan=plan,
        test_fraction=test_fraction,
        errors=errors,
        hog=hog,
        batch_size=batch_size,
        seed=seed,
        experiment=experiment,
    )
    _CONSOLE.print(job.explain(), highlight=False, soft_wrap=True)
    result = job.run(structured, pictures, on=on, featuresCol=columns, labelCol=target, imageCol=image)
    _write(result, _named(result.best_model, label, names), out)
    _show(result, out)
    spark.stop()


def main() -> None:
    """Entry point: what is wrong with the words or the files is a message and exit code 2, never a traceback."""
    try:
        app()
    except CerebroError as error:
        _fail(type(error).__name__, str(error))
    except AnalysisException as error:  # a path that is not there, a file that is not Parquet
        _fail("Spark", str(error).split(" SQLSTATE", 1)[0])


def _fail(kind: str, message: str) -> NoReturn:
    Console(stderr=True).print(f"{kind}: {message}", style="red", highlight=False, markup=False, soft_wrap=True)
    raise SystemExit(2)


def layers_of(text: str) -> int | list[int | str]:
    """What ``--layers`` says, as :class:`vista_spark.FeatureTransfer` takes it."""
    if text.strip().isdigit():
        return int(text)
    return [int(item) if item.strip().isdigit() else item.strip() for item in text.split(",")]


def downstream_of(text: str) -> Any:
    """What ``--downstream`` says: a callable without arguments that makes the estimator."""
    target, settings = _DOWNSTREAM.get(text, (text, {}))
    attribute = downstream_name(text)
    module = target.partition(":")[0]
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise typer.BadParameter(f"{target!r}: {error}", param_hint="--downstream") from error
    return lambda: found(**settings)


def downstream_name(text: str) -> str:
    """The name within its module of what ``--downstream`` says."""
    target, _ = _DOWNSTREAM.get(text, (text, {}))
    attribute = target.partition(":")[2]
    if not attribute:
        raise typer.BadParameter(
            f"{text!r}{nearest(text, _DOWNSTREAM)}; one of {', '.join(_DOWNSTREAM)}, or package.module:callable",
            param_hint="--downstream",
        )
    return attribute


def _named(model: PipelineModel, label: str, names: list[str]) -> PipelineModel:
    """The model, with its predictions as the label's own words where the label was a string."""
    if not names:
        return model
    from pyspark.ml import PipelineModel  # noqa: PLC0415
    from pyspark.ml.feature import IndexToString  # noqa: PLC0415

    words = IndexToString(inputCol="prediction", outputCol=f"predicted_{label}", labels=names)
    return PipelineModel([*model.stages, words])


def _write(result: TransferResult, model: PipelineModel, out: Path) -> None:
    result.to_pandas().to_csv(out / "layers.csv", index=False)
    result.plot().savefig(out / "layers.png", dpi=120)
    (out / "plan.txt").write_text(result.choice.explain() + "\n")
    from pyspark.sql import is_remote  # noqa: PLC0415

    final = out / "best_model"
    # Under its own name only once it is whole; a Connect server writes where this process may not rename.
    partial = final if is_remote() else out / ".best_model"
    model.write().overwrite().save(str(partial))
    if partial != final:
        shutil.rmtree(final, ignore_errors=True)
        partial.rename(final)


def _show(result: TransferResult, out: Path) -> None:
    table = Table(title=f"{result.plan.model}: {result.train_rows} rows to train on, {result.test_rows} held out")
    table.add_column("features")
    for name in ("size", result.metric, "lift", "inference s", "training s"):
        table.add_column(name, justify="right")
    shown = result.to_pandas()
    for row, label, lift in zip(result.rows, shown["features"], shown["lift"], strict=True):
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
    _CONSOLE.print(f"best: {result.best.name}; in {out}: layers.csv, layers.png, plan.txt, best_model, mlflow.db")
