"""``log_model`` and ``save_model``: a featurizer in MLflow's Python-function flavour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from udfs.driver import Pyfunc, pyfunc_signature
from vista_spark.errors import InvalidArgumentError
from vista_spark.features import CNNFeaturizer, TextFeaturizer
from vista_spark.mlflow._load import ERROR
from vista_spark.network import warn_of_random_weights, write_folder

if TYPE_CHECKING:
    from pathlib import Path

    Stage = CNNFeaturizer | TextFeaturizer

__all__ = ["log_model", "save_model"]

_EXTRAS = {"torch": "torch", "keras": "tensorflow"}


def save_model(stage: Stage, path: str | Path, *, signature: Any = None, input_example: Any = None) -> None:
    """Save a featurizer with its network as a folder that ``mlflow.pyfunc.load_model`` loads, without Spark.

    The model reads a pandas DataFrame with the stage's input column, and gives one with a column of ``list<float>`` per
    layer and ``error``, the reason where they are null. As ``mlflow.pyfunc.spark_udf(spark, uri, env_manager="local")``
    it runs in Spark's workers. A stage with ``errors="raise"`` fails there too.

    Parameters
    ----------
    stage : CNNFeaturizer or TextFeaturizer
    path : str or Path
        A folder that does not exist yet, or is empty.
    signature : mlflow.models.ModelSignature, optional
        By default: encoded images as ``binary``, texts as ``string``. Give one with ``string`` for paths of images.
    input_example : pandas.DataFrame, optional
        Stored with the model.

    Raises
    ------
    InvalidArgumentError
        It is another stage, or has ``errors="drop"``: a model gives a row for each row.
    vista_spark.errors.UnknownModelError, optimizer.errors.UnknownLayerError, udfs.weights.WeightsError
        As the stage raises them.

    Examples
    --------
    >>> import mlflow, tempfile
    >>> from vista_spark import CNNFeaturizer
    >>> folder = tempfile.mkdtemp() + "/features"
    >>> save_model(CNNFeaturizer(model="squeezenet1_1", layers="pool10"), folder)
    >>> mlflow.pyfunc.load_model(folder).metadata.get_output_schema().input_names()
    ['squeezenet1_1_pool10', 'error']
    """
    _pyfunc(stage).save(path, signature=signature, input_example=input_example)


def log_model(
    stage: Stage,
    name: str,
    *,
    registered_model_name: str | None = None,
    signature: Any = None,
    input_example: Any = None,
    **options: Any,
) -> Any:
    """Log a featurizer with its network to MLflow's active run, as :func:`save_model` saves it.

    Parameters
    ----------
    stage : CNNFeaturizer or TextFeaturizer
    name : str
        Of the model in the run.
    registered_model_name : str, optional
        Register a new version under this name; ``MlflowClient().set_registered_model_alias`` gives it an alias, by
        which ``models:/name@alias`` is loaded.
    signature, input_example
        As for :func:`save_model`.
    **options
        More of ``mlflow.pyfunc.log_model``: ``tags``, ``metadata``, ...

    Returns
    -------
    mlflow.models.model.ModelInfo

    Examples
    --------
    >>> import mlflow
    >>> from vista_spark import CNNFeaturizer
    >>> with mlflow.start_run():
    ...     info = log_model(CNNFeaturizer(model="squeezenet1_1"), "features", registered_model_name="photo_features")
    """
    return _pyfunc(stage).log(
        name,
        registered_model_name=registered_model_name,
        signature=signature,
        input_example=input_example,
        **options,
    )


def _pyfunc(stage: Stage) -> Pyfunc:
    if not isinstance(stage, CNNFeaturizer | TextFeaturizer):
        raise InvalidArgumentError(
            f"{type(stage).__name__} has no Python-function flavour: log a CNNFeaturizer or TextFeaturizer, and tuned "
            "models by cerebro_spark.mlflow"
        )
    if stage.getErrors() == "drop":
        raise InvalidArgumentError('errors="drop": a model of MLflow gives a row for each row; take "null"')
    net = stage.open_network()
    if net.reads.columns != 1:
        raise InvalidArgumentError(f"{net.card.name} reads {net.reads.columns} columns, and MLflow's model one")
    warn_of_random_weights(net.card, net.weights, net.seed)
    net.check()
    net.layers(stage.getLayers())
    kind = {"image": "binary", "text": "string", "tensor": "double[]"}[net.reads.kind]
    outputs = [(name, "float[]") for name in stage.getOutputCols()]
    signature = pyfunc_signature([(stage.getInputCol(), kind)], [*outputs, (ERROR, "string")])
    extra = _EXTRAS.get(net.card.framework, "torch")
    return Pyfunc("vista_spark.mlflow", lambda folder: write_folder(stage, folder), signature, extra)
