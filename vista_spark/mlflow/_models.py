"""``log_model`` and ``save_model``: features, explainers and transfers in MLflow's Python-function flavour."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from udfs.driver import Pyfunc, pyfunc_signature, validate_arguments
from vista_spark.compiling import compile_pipeline
from vista_spark.errors import InvalidArgumentError
from vista_spark.features import CNNFeaturizer, TextFeaturizer
from vista_spark.mlflow._load import DETAILS, DOWNSTREAM, ERROR, FEATURES, INPUTS
from vista_spark.network import warn_of_random_weights, write_folder
from vista_spark.occlusion import OcclusionExplainerModel
from vista_spark.transfer import FeatureTransferModel, TransferPredictor, TransferResult

if TYPE_CHECKING:
    from pathlib import Path

    from vista_spark.network import Network

__all__ = ["log_model", "save_model"]

_EXTRAS = {"torch": "torch", "keras": "tensorflow"}
_READS = {"image": "binary", "text": "string", "tensor": "double[]"}


@validate_arguments
def save_model(model: Any, path: str | Path, *, signature: Any = None, input_example: Any = None) -> None:
    """Save a model with its network as a folder that ``mlflow.pyfunc.load_model`` loads, without Spark.

    The saved model reads a pandas DataFrame with the columns that the stage reads, and gives one with a row for each
    row. As ``mlflow.pyfunc.spark_udf(spark, uri, env_manager="local")`` it runs in Spark's workers. Beside its results
    it gives ``error``: the reason for which they are null, and ``""`` for a good row. A stage with ``errors="raise"``
    fails at a bad row there too.

    Parameters
    ----------
    model : stage or TransferResult
        * Of a CNNFeaturizer or a TextFeaturizer a column of ``list<float>`` per layer, named as its ``outputCols``.
        * Of an OcclusionExplainerModel the heat map under its ``outputCol``, and ``target``, ``predicted``,
          ``probability``, ``rows`` and ``columns`` of its details.
        * Of a TransferResult, its ``best_model`` or a FeatureTransferModel ``prediction``, and ``probability`` of a
          classifier. The downstream model is compiled (:func:`vista_spark.compile_pipeline`), and needs no Spark.
    path : str or Path
        A folder that does not exist yet, or is empty.
    signature : mlflow.models.ModelSignature, optional
        By default: encoded images as ``binary``, texts as ``string``, structured numbers as ``double``. Give one with
        ``string`` for paths of images.
    input_example : pandas.DataFrame, optional
        Stored with the model, and tried. By default a row made of the signature, where the shapes of all arrays
        are known and small.

    Raises
    ------
    InvalidArgumentError
        It is something else, reads several columns where one is read here, or has ``errors="drop"``: a model gives a
        row for each row. An OcclusionExplainer has to be fitted first.
    optimizer.compiling.UnsupportedOperatorError
        The downstream model of the transfer has no translation.
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
    _pyfunc(model).save(path, signature=signature, input_example=input_example)


def log_model(
    model: Any,
    name: str,
    *,
    registered_model_name: str | None = None,
    signature: Any = None,
    input_example: Any = None,
    **options: Any,
) -> Any:
    """Log a model with its network to MLflow's active run, as :func:`save_model` saves it.

    Parameters
    ----------
    model : stage or TransferResult
        See :func:`save_model`.
    name : str
        Name of the model in the run.
    registered_model_name : str, optional
        Register a new version under this name; ``MlflowClient().set_registered_model_alias`` gives it an alias, by
        which ``models:/name@alias`` is loaded.
    signature, input_example
        See :func:`save_model`.
    **options
        More of ``mlflow.pyfunc.log_model``: ``tags``, ``metadata``, ...

    Raises
    ------
    InvalidArgumentError
        As :func:`save_model`.

    Examples
    --------
    >>> import mlflow
    >>> from vista_spark import CNNFeaturizer
    >>> with mlflow.start_run():
    ...     info = log_model(CNNFeaturizer(model="squeezenet1_1"), "features", registered_model_name="photo_features")
    """
    return _pyfunc(model).log(
        name,
        registered_model_name=registered_model_name,
        signature=signature,
        input_example=input_example,
        **options,
    )


def _pyfunc(model: Any) -> Pyfunc:
    if isinstance(model, CNNFeaturizer | TextFeaturizer):
        return _of_featurizer(model)
    if isinstance(model, OcclusionExplainerModel):
        return _of_explainer(model)
    if isinstance(model, FeatureTransferModel | TransferResult):
        model = model.best_model
    stages = getattr(model, "stages", None)
    if stages and isinstance(stages[-1], TransferPredictor):
        return _of_transfer(list(stages))
    raise InvalidArgumentError(
        f"{type(model).__name__} has no Python-function flavour here: log a featurizer, a fitted OcclusionExplainer "
        "or a transfer's best model, and tuned models by cerebro_spark.mlflow"
    )


def _of_featurizer(stage: CNNFeaturizer | TextFeaturizer) -> Pyfunc:
    net = _checked(stage)
    outputs = [(name, "float[]") for name in stage.getOutputCols()]
    signature = pyfunc_signature([(stage.getInputCol(), _READS[net.reads.kind])], [*outputs, (ERROR, "string")])
    return Pyfunc("vista_spark.mlflow", lambda folder: write_folder(stage, folder), signature, _extra(net))


def _of_explainer(stage: OcclusionExplainerModel) -> Pyfunc:
    _refuse_drop(stage)
    stage.open_explainer()
    target = stage.getTargetCol()
    inputs = [(stage.getInputCol(), "binary"), *([(target, "long")] if target else [])]
    outputs = [(stage.getOutputCol(), "float[]"), *((name, "double") for name in DETAILS), (ERROR, "string")]
    signature = pyfunc_signature(inputs, outputs)
    return Pyfunc("vista_spark.mlflow", lambda folder: write_folder(stage, folder), signature, "torch")


def _of_transfer(stages: list[Any]) -> Pyfunc:
    predictor: TransferPredictor = stages.pop()
    inputs = predictor.inputs
    _refuse_drop(predictor)
    if inputs.carried or inputs.label is not None:
        read = ", ".join(map(repr, inputs.carried)) or repr(inputs.label)
        raise InvalidArgumentError(
            f"the transfer's downstream pipeline reads columns by name ({read}), which needs Spark: log the best model "
            "by mlflow.spark.log_model"
        )
    featurizer = stages[0] if stages else None
    net = None if featurizer is None else _checked(featurizer)
    downstream = compile_pipeline(predictor.model)
    structured = "double[]" if inputs.structured_size > len(inputs.structured) else "double"
    reads = [(name, structured) for name in inputs.structured]
    if featurizer is not None and net is not None:
        reads.append((featurizer.getInputCol(), _READS[net.reads.kind]))
    odds = [("probability", "double[]")] if "predict_proba" in downstream.outputs else []

    def write(folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / INPUTS).write_text(json.dumps(asdict(inputs)))
        downstream.save(folder / DOWNSTREAM)
        if featurizer is not None:
            write_folder(featurizer, folder / FEATURES)

    signature = pyfunc_signature(reads, [("prediction", "double"), *odds, (ERROR, "string")])
    shapes = {inputs.structured[0]: (inputs.structured_size,)} if len(inputs.structured) == 1 else {}
    return Pyfunc("vista_spark.mlflow", write, signature, "torch" if net is None else _extra(net), shapes)


def _checked(stage: CNNFeaturizer | TextFeaturizer) -> Network:
    _refuse_drop(stage)
    net = stage.open_network()
    if net.reads.columns != 1:
        raise InvalidArgumentError(f"{net.card.name} reads {net.reads.columns} columns, and MLflow's model one")
    warn_of_random_weights(net.card, net.weights, net.seed)
    net.check()
    net.layers(stage.getLayers())
    return net


def _refuse_drop(stage: Any) -> None:
    if stage.getErrors() == "drop":
        raise InvalidArgumentError(
            'errors must be "null" or "raise" in a model of MLflow, which predicts every row, got "drop".'
        )


def _extra(net: Network) -> str:
    return _EXTRAS.get(net.card.framework, "torch")
