"""``build_catalog``: make, train and measure the variants of a network."""

from __future__ import annotations

import json
import logging
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.pandas.types import from_arrow_schema

from optimizer.variants import FULL, Transformation, Tuning, plan_recipes
from udfs.driver import is_local, validate_arguments
from udfs.store import Store
from udfs.variants import BUILT, TRAIN, VALID, WEIGHTS, BuildTask
from vista_spark import roster
from vista_spark.errors import EmptyInputError, InvalidArgumentError
from vista_spark.network import describe_preprocessing, network
from vista_spark.variants._files import card_from, read_catalog, write_catalog
from vista_spark.variants._inputs import LabelledTables, only_preprocessing
from vista_spark.variants._measure import measure_cards

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from optimizer.variants import Recipe
    from udfs.images import Preprocessing
    from vista_spark.network import Network
    from vista_spark.variants._catalog import Catalog

__all__ = ["build_catalog"]

_LOG = logging.getLogger(__name__)

# Batch sizes that are timed: an image as it comes, and enough for the throughput of a processor.
_BATCH_SIZES = (1, 16)


@validate_arguments
def build_catalog(  # noqa: PLR0913 - options by name
    model: Any,
    *,
    train: DataFrame,
    valid: DataFrame,
    apply: Sequence[Transformation],
    weights: str | os.PathLike[str] | None = None,
    labelCol: str = "label",
    imageCol: str = "image",
    path: str | os.PathLike[str] | None = None,
    image_size: int | None = None,
    tuning: Tuning | None = None,
    depth: int = 2,
    task: str | None = None,
) -> Catalog:
    """Build a catalog of variants of a network: transformed, fine-tuned, evaluated and measured.

    The network gets a new head if it has another number of outputs than there are classes. The head is trained on the
    network's features; nothing else of the full network changes. Each combination of transformations starts from its
    weights and learns from the labels and from the scores of the full network. Variants train in parallel in the tasks
    of the session. In the end one task measures the costs of all of them, on one thread.

    Parameters
    ----------
    model : str, ModelCard or torch.nn.Module
        Network of one image, as for :class:`vista_spark.CNNFeaturizer`.
    train, valid : DataFrame
        Images with labels, for training and for the accuracies. A task holds the encoded images of a table in memory.
    apply : sequence of Transformation
        Transformations that are combined, such as ``[Factorize(0.5), Quantize(8)]``.
    weights : str or path, optional
        Pre-trained weights of the network. Default: the model's own.
    labelCol, imageCol : str
        Names of the columns. Labels are strings or numbers. Default ``"label"`` and ``"image"``.
    path : str or path, optional
        New folder of the catalog, which workers reach too. Default: a temporary folder, for a local session.
    image_size : int, optional
        Height and width of the images of the full network. Default: the network's.
    tuning : Tuning, optional
        Settings of the training. Default: ``Tuning()``.
    depth : int
        Largest number of transformations that need training in a variant. Default 2.
    task : str, optional
        Name of the task. Default: the name of the network.

    Returns
    -------
    Catalog
        The full network and its variants. Variants that cannot be built are left out; ``failures`` has the reasons.

    Raises
    ------
    InvalidArgumentError
        The network is of another kind, the folder exists, or a transformation is not valid.
    vista_spark.errors.ColumnError, vista_spark.errors.LabelError, vista_spark.errors.EmptyInputError
        The tables do not have images with labels.

    Examples
    --------
    >>> from vista_spark.variants import Narrow, Quantize, build_catalog
    >>> catalog = build_catalog(
    ...     "mobilenet_v2", weights="mobilenet_v2.pth", train=train, valid=valid, apply=[Quantize(8), Narrow(0.5)]
    ... )  # doctest: +SKIP
    >>> print(catalog.explain())  # doctest: +SKIP
    """
    tuning = Tuning() if tuning is None else tuning
    recipes = plan_recipes(apply, depth)
    tables = LabelledTables(train, valid, labelCol, imageCol)
    net = network(model, weights, tuning.seed, image_size)
    preprocessing = only_preprocessing(net)
    net.check()
    spark = train.sparkSession
    store = _new_store(spark, path)
    classes = tables.classes()
    base = _Base(net, preprocessing, store)
    with _working_folders(store):
        tables.write(classes, store)
        built = base.build(spark, recipes, len(classes), tuning)
        failures = {entry["name"]: entry["error"] for entry in built if "error" in entry}
        good = [entry for entry in built if "error" not in entry]
        if not good or good[0]["name"] != FULL:
            raise InvalidArgumentError(f"model must be a network that trains, got {net.card.name!r}: {failures[FULL]}")
        if not good[0]["rows"]:
            raise EmptyInputError("valid must have images that can be decoded, got none.")
        costs = base.measure(spark, good)
    if good[0]["skipped"]:
        _LOG.warning("%d images of train and valid cannot be decoded, and are left out", good[0]["skipped"])
    for name, reason in failures.items():
        _LOG.warning("the variant %s is not in the catalog: %s", name, reason)
    measured_on = {cost.pop("measured_on") for cost in costs}.pop()
    document = base.document | {
        "task": net.card.name if task is None else task,
        "classes": list(classes),
        "measured_on": measured_on,
        "failures": failures,
        "variants": [entry | cost for entry, cost in zip(good, costs, strict=True)],
    }
    write_catalog(document, store)
    return read_catalog(store.uri)


def _new_store(spark: SparkSession, path: str | os.PathLike[str] | None) -> Store:
    if path is None:
        if not is_local(spark):
            raise InvalidArgumentError("path must be a folder that all workers reach, got None on a cluster.")
        path = tempfile.mkdtemp(prefix="catalog-")
    store = Store.from_uri(str(path))
    if store.list():
        raise InvalidArgumentError(f"path must be a new or empty folder, got {str(path)!r}. Choose another one.")
    store.check_writable()
    return store


@contextmanager
def _working_folders(store: Store) -> Iterator[None]:
    """Delete the images at the end, and after an error also the weights: the folder is empty for another attempt."""
    try:
        yield
    except BaseException:
        store.delete(WEIGHTS)
        raise
    finally:
        for part in (TRAIN, VALID):
            store.delete(part)


def _run(spark: SparkSession, task: BuildTask, numbers: range) -> list[dict[str, Any]]:
    if not numbers:
        return []
    rows = spark.range(numbers.start, numbers.stop, 1, len(numbers)).mapInArrow(task, from_arrow_schema(BUILT))
    return [json.loads(row[0]) for row in rows.collect()]


@dataclass(frozen=True, slots=True)
class _Base:
    """The network of which variants are made, and the folder for them."""

    net: Network
    preprocessing: Preprocessing
    store: Store

    @property
    def is_program(self) -> bool:
        """True if variants are exported programs, because the network is none of the roster's."""
        card = self.net.card
        return not roster.is_shipped(card.name) or card.builder != roster.card(card.name).builder

    def build(
        self, spark: SparkSession, recipes: Sequence[Recipe], classes: int, tuning: Tuning
    ) -> list[dict[str, Any]]:
        """Build all variants; return their documents in the order of the recipes."""
        groups: dict[Recipe, list[Recipe]] = {}
        for recipe in recipes:
            groups.setdefault(recipe.trained, []).append(recipe)
        full = recipes[0]
        items: list[tuple[Recipe, ...]] = [(full,)]
        items += [tuple(recipe for recipe in group if recipe is not full) for group in groups.values()]
        task = BuildTask(
            base=self.net.shipped(spark).source.build,
            preprocessing=self.preprocessing,
            classes=classes,
            items=tuple(item for item in items if item),
            store=self.store,
            tuning=tuning,
            as_program=self.is_program,
        )
        built = _run(spark, task, range(1))
        if "error" not in built[0]:
            built += _run(spark, task, range(1, len(task.items)))
        order = [recipe.name for recipe in recipes]
        return sorted(built, key=lambda entry: order.index(entry["name"]))

    def measure(self, spark: SparkSession, built: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Measure the costs of variants in one task."""
        cards = [card_from(self.document, entry, self.store) for entry in built]
        return measure_cards(spark, cards, _BATCH_SIZES)

    @property
    def document(self) -> dict[str, Any]:
        """The part of the catalog's document that describes the network."""
        return {
            "network": self.net.card.name,
            "is_program": self.is_program,
            "preprocessing": describe_preprocessing(self.preprocessing),
        }
