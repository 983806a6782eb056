"""Public constructors and functions of both packages check the types of their arguments before anything else."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

import cerebro_spark
import vista_spark
from cerebro_spark import Selection, callbacks, data
from cerebro_spark.tune import run_tables
from optimizer.errors import InvalidArgumentError
from udfs.driver import UnknownKeywordError
from vista_spark import compiling, serving

if TYPE_CHECKING:
    from collections.abc import Callable

FRAME = pd.DataFrame({"words": ["a"]})


class Chat(serving.App):
    """An application without models."""

    def process(self, request: Any) -> Any:
        return request


def server(**options: Any) -> serving.Server:
    from pyspark.sql import SparkSession

    return serving.Server(SparkSession.active(), **options)


REFUSED: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], str]] = {
    "a master": (serving.Server, ("local[2]",), {}, r"spark must be a SparkSession, got 'local\[2\]'\. Start one with"),
    "no session": (serving.Server, (None,), {}, "spark must be a SparkSession, got None"),
    "threads": (server, (), {"threads": "2"}, r"threads must be an integer or None, got '2'\. Write 2 without quotes"),
    "epoch": (server, (), {"epoch_s": "30 s"}, "epoch_s must be a number, got '30 s'"),
    "store": (server, (), {"store": 3}, "store must be a text or a Store or None, got 3"),
    "parallel": (server, (), {"parallel": "False"}, "parallel must be True or False, got 'False'"),
    "a name": (serving.Session, (3, "resnet18"), {}, "name must be a text, got 3"),
    "a version": (serving.Session, ("f", "resnet18"), {"version": 2}, "version must be a text, got 2"),
    "a size": (serving.Session, ("f", "resnet18"), {"image_size": "96"}, "image_size must be an integer or None"),
    "weights": (serving.Session, ("f", "resnet18"), {"weights": 3}, "weights must be a text or a path or None, got 3"),
    "inputs": (serving.Session, ("f", print), {"inputs": "x"}, r"inputs must be a list, got 'x'\. Write \['x'\]"),
    "a profile": (
        serving.Session,
        ("f", print),
        {"profile": 5.0},
        "profile must be an optimizer.serving.BatchingProfile",
    ),
    "a class": (serving.Session, ("f", print), {"profile": dict}, "got the class dict"),
    "samples": (
        Chat,
        ("chat",),
        {"samples": "cat.jpg"},
        r"samples must be a list, got 'cat.jpg'\. Write \['cat.jpg'\]",
    ),
    "a models' store": (serving.ModelStore, (3,), {}, "store must be a text or a Store, got 3"),
    "a session's name": (
        serving.profile_batches,
        ("resnet18",),
        {},
        r"Write Session\('resnet18', model=",
    ),
    "compiling": (compiling.compile_pipeline, (None,), {"threads": 1.5}, "threads must be an integer or None, got 1.5"),
    "an option": (compiling.compile_pipeline, (None,), {"backend": 3}, "backend must be a text, got 3"),
    "a file": (compiling.read_model, (3,), {}, "path must be a text or a path, got 3"),
    "a replacement": (vista_spark.replace_stages, (None,), {"batch_size": "1"}, "batch_size must be an integer"),
    "a conf": (vista_spark.session, (), {"conf": "spark.x=1"}, "conf must be a dict or None, got 'spark.x=1'"),
    "a frame": (data.tokenize, (FRAME, "t"), {}, r"df must be a Spark DataFrame.*spark.createDataFrame\(frame\)"),
    "a url": (data.petastorm_frame, ("file:///x", "y"), {}, "spark must be a SparkSession, got 'file:///x'"),
    "a run's store": (run_tables, ("file:///s", "r"), {}, r"Write Store.from_uri\('file:///s'\)"),
    "a resumed run's store": (
        Selection.resume,
        ("file:///s", "r"),
        {"backend": None, "trainer_fn": print},
        r"store must be a Store, got 'file:///s'\. Write Store.from_uri",
    ),
    "a folder": (callbacks.TensorBoard, (3,), {}, "folder must be a text, got 3"),
    "a switch": (cerebro_spark.autolog, (), {"log_models": "yes"}, "log_models must be True or False, got 'yes'"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.usefixtures("spark")
def test_a_wrong_type_is_refused_by_name(name: str) -> None:
    function, arguments, keywords, message = REFUSED[name]
    with pytest.raises(InvalidArgumentError, match=message):
        function(*arguments, **keywords)


def test_deploying_something_else_is_refused(spark: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"session must be a Session or an App, got 'cats'\. Write Session"):
        serving.Server(spark).deploy("cats")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="limits must be HttpLimits or None, got 512"):
        serving.Server(spark).start(limits=512)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda: serving.Session("f", "resnet18", slo=3), r"Session\(\) has no parameter 'slo'; did you mean 'slo_ms'"),  # type: ignore[call-arg]
        (lambda: compiling.compile_pipeline(None, thread=1), "'thread'; did you mean 'threads'"),  # type: ignore[call-arg]
        (lambda: server(port=8080), r"Server\(\) has no parameter 'port': it is a parameter of start\(\)"),
        (lambda: server(backend=1), "'backend'; did you mean 'backends'"),
    ],
)
@pytest.mark.usefixtures("spark")
def test_a_wrong_keyword_is_hinted_at(function: Callable[[], Any], message: str) -> None:
    with pytest.raises(UnknownKeywordError, match=message):
        function()


def test_values_that_serve_pass(tmp_path: pathlib.Path, spark: Any) -> None:
    made = serving.Session("f", "resnet18", weights=pathlib.Path("w.pt"), slo_ms=250, image_size=None)
    assert (made.slo_ms, made.weights) == (250, pathlib.Path("w.pt"))
    assert Chat("chat", samples=("a", "b")).slo_ms == 500.0
    serving.Server(spark, (1, 1), 30, store=str(tmp_path), threads=1)
    serving.ModelStore(str(tmp_path))
