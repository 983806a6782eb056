from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from photographs import crops, encode, photograph
from PIL import Image
from places import IMPORTS
from pyspark.errors import PySparkException
from pyspark.ml.feature import VectorAssembler
from pyspark.sql import functions as F
from real_inputs import foolbox_images, mobilenet_v2_weights

torch = pytest.importorskip("torch")

from optimizer.errors import UnknownLayerError
from udfs import images
from udfs.images import IMAGE_REASONS, Preprocessing, Preprocessings
from udfs.inference import POOLINGS, pool
from udfs.weights import WeightsError
from vista_spark import CNNFeaturizer, roster
from vista_spark.errors import ColumnError, InvalidArgumentError, UnknownModelError
from vista_spark.roster import FeatureLayer, ModelCard

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame, SparkSession

    Watch = Callable[[], AbstractContextManager[None]]

SMALL = roster.card("squeezenet1_1").preprocessing.with_size(64)


def plain(model: torch.nn.Module, layers: Sequence[str], inputs: np.ndarray) -> list[np.ndarray]:
    """Outputs of modules in one ordinary forward pass: hooks, and nothing of this project's.

    Channels last and one thread, as a worker has it: other orders of summation grow to 1e-4 over fifty layers.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    model = model.to(memory_format=torch.channels_last)
    seen: dict[str, np.ndarray] = {}
    hooks = [
        model.get_submodule(path).register_forward_hook(
            # Cloned: a later layer may write over it in place.
            lambda _module, _inputs, output, path=path: seen.__setitem__(path, output.clone().contiguous().numpy())
        )
        for path in layers
    ]
    with torch.inference_mode():
        model(torch.from_numpy(inputs).contiguous(memory_format=torch.channels_last))
    torch.set_num_threads(threads)
    for hook in hooks:
        hook.remove()
    return [seen[path] for path in layers]


def assert_close(found: Any, expected: np.ndarray, what: str = "") -> None:
    """Equal to 1e-5 of the largest number: float32 has seven digits, and batches of other sizes sum in other orders."""
    found = np.asarray(found)
    assert found.shape == expected.shape, what
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * max(1.0, np.abs(expected).max()), err_msg=what)


def decoded(values: Sequence[Any], preprocessing: Preprocessing) -> np.ndarray:
    return np.stack([images.decode(value, preprocessing) for value in values])


def features(df: DataFrame, column: str) -> dict[int, np.ndarray | None]:
    found = {row["id"]: row[column] for row in df.select("id", column).collect()}
    return {key: None if value is None else np.asarray(value, np.float32) for key, value in found.items()}


def table(spark: SparkSession, values: Sequence[Any], kind: str = "binary", partitions: int = 2) -> DataFrame:
    rows = list(enumerate(values))
    return spark.createDataFrame(rows, f"id long, image {kind}").repartition(partitions)


@pytest.fixture(scope="module")
def files() -> list[bytes]:
    return [encode(picture) for _, _, _, picture in crops(7)]


@pytest.fixture(scope="module")
def expected(files: list[bytes]) -> np.ndarray:
    """Compute ``fire9`` of the files at 64 pixels, with the weights of seed 0."""
    return plain(roster.load("squeezenet1_1"), ["features.12"], decoded(files, SMALL))[0]


def fire9(**params: Any) -> CNNFeaturizer:
    settings = {"model": "squeezenet1_1", "layers": ["fire9"], "outputCols": ["f"], "imageSize": 64, "pooling": "none"}
    return CNNFeaturizer(**settings | params)


# ---- the numbers


@pytest.mark.parametrize("pooling", POOLINGS)
def test_features_are_those_of_a_plain_forward_pass(pooling: str, spark: SparkSession, files: list[bytes]) -> None:
    layers = {"conv1": "features.0", "block3": "features.3", "conv18": "features.18", "fc": "classifier.1"}
    outputs = plain(roster.load("mobilenet_v2", seed=3), list(layers.values()), decoded(files, SMALL.with_size(96)))
    featurizer = CNNFeaturizer(
        model="mobilenet_v2", layers=list(layers), pooling=pooling, imageSize=96, batchSize=3, seed=3
    )
    found = featurizer.transform(table(spark, files)).cache()
    assert featurizer.getOutputCols() == [f"mobilenet_v2_{name}" for name in layers]
    for column, output in zip(featurizer.getOutputCols(), outputs, strict=True):
        rows = features(found, column)
        assert sorted(rows) == list(range(7))
        assert_close(np.stack([rows[number] for number in range(7)]), pool(output, pooling), column)
    found.unpersist()


def test_real_weights_recognise_real_photographs(spark: SparkSession) -> None:
    weights = str(mobilenet_v2_weights())
    pictures = foolbox_images()
    featurizer = CNNFeaturizer(model="mobilenet_v2", weights=weights, layers="fc", outputCols=["logits"], batchSize=8)
    logits = features(featurizer.transform(table(spark, [str(path) for path, _ in pictures], "string")), "logits")
    right = [logits[number].argmax() == label for number, (_, label) in enumerate(pictures)]
    assert sum(right) >= 17
    network = roster.load("mobilenet_v2", weights)
    inputs = decoded([path.read_bytes() for path, _ in pictures[:2]], roster.card("mobilenet_v2").preprocessing)
    reference = plain(network, ["classifier.1"], inputs)[0]
    assert_close(np.stack([logits[0], logits[1]]), reference)


def test_layers_come_from_the_bottom_up_and_by_number(spark: SparkSession, files: list[bytes]) -> None:
    featurizer = CNNFeaturizer(model="resnet18", layers=["fc6", "conv2_1", 2, "layer3.0.conv1"], imageSize=64)
    assert featurizer.getOutputCols() == [
        "resnet18_conv2_1",
        "resnet18_layer3_0_conv1",
        "resnet18_pool5",
        "resnet18_fc6",
    ]
    row = featurizer.transform(table(spark, files[:1])).first()
    assert [len(row[name]) for name in featurizer.getOutputCols()] == [64 * 4, 256 * 4, 512, 1000]


@pytest.mark.parametrize("output", ["vector", "array"])
def test_output_formats(output: str, spark: SparkSession, files: list[bytes], expected: np.ndarray) -> None:
    found = fire9(outputFormat=output).transform(table(spark, files))
    types = {"vector": "vector", "array": "array<float>"}
    assert found.schema["f"].dataType.simpleString() == types[output]
    rows = features(found, "f")
    for number in range(7):
        assert_close(rows[number], expected[number].reshape(-1))


def test_spark_ml_knows_the_size_without_a_job(
    spark: SparkSession, no_job: Watch, files: list[bytes], expected: np.ndarray
) -> None:
    df = table(spark, files)
    with no_job():
        found = VectorAssembler(inputCols=["f"], outputCol="all").transform(fire9().transform(df))
    assert found.schema["f"].metadata["ml_attr"]["num_attrs"] == expected[0].size
    assert_close(found.where("id = 3").first()["all"], expected[3].reshape(-1))


def test_the_seed_makes_the_random_weights(spark: SparkSession, files: list[bytes]) -> None:
    df = table(spark, files[:1])
    one, same, other = (features(fire9(seed=seed).transform(df), "f")[0] for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert np.abs(one - other).max() > 0.01


# ---- kinds of input


@pytest.mark.parametrize(("kind", "options"), [("PNG", {}), ("WEBP", {"lossless": True}), ("BMP", {})])
def test_encodings_without_loss_agree(
    kind: str, options: dict[str, Any], spark: SparkSession, expected: np.ndarray, files: list[bytes]
) -> None:
    again = [encode(images.open_rgb(file), kind, **options) for file in files]
    rows = features(fire9().transform(table(spark, again)), "f")
    for number in range(7):
        assert_close(rows[number], expected[number].reshape(-1))


def test_sparks_image_source(spark: SparkSession, tmp_path: Path, files: list[bytes], expected: np.ndarray) -> None:
    for number, file in enumerate(files):
        (tmp_path / f"{number}.png").write_bytes(encode(images.open_rgb(file), "PNG"))
    (tmp_path / "7.png").write_bytes(files[0][:300])
    df = spark.read.format("image").load(str(tmp_path))
    df = df.withColumn("id", F.regexp_extract("image.origin", r"(\d+)\.png", 1).cast("long"))
    found = fire9().transform(df).cache()
    rows = features(found, "f")
    for number in range(7):
        assert_close(rows[number], expected[number].reshape(-1))
    assert rows[7] is None
    assert "Spark could not decode" in found.where("id = 7").first()["image_error"]
    found.unpersist()


@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
def test_paths(prefix: str, spark: SparkSession, tmp_path: Path, files: list[bytes], expected: np.ndarray) -> None:
    for number, file in enumerate(files):
        (tmp_path / f"{number} é.jpg").write_bytes(file)
    paths = [f"{prefix}{tmp_path}/{number} é.jpg" for number in range(8)]
    found = fire9(errorDetailCol="why").transform(table(spark, paths, "string")).cache()
    rows = features(found, "f")
    for number in range(7):
        assert_close(rows[number], expected[number].reshape(-1))
    assert rows[7] is None
    missing = found.where("id = 7").first()
    assert missing["image_error"] == "no such file"
    assert missing["why"] == paths[7]
    found.unpersist()


@pytest.mark.parametrize("kind", ["array<float>", "array<double>", "array<array<array<float>>>"])
def test_preprocessed_tensors(kind: str, spark: SparkSession, files: list[bytes], expected: np.ndarray) -> None:
    tensors = decoded(files, SMALL).astype(np.float64)
    good = [tensor.tolist() if "<array" in kind else tensor.reshape(-1).tolist() for tensor in tensors]
    nested = "<array" in kind
    hole = tensors[0].copy()
    hole[0, 0, 0] = np.nan
    bad = [
        good[0][:-1],
        [],
        None,
        hole.tolist() if nested else hole.reshape(-1).tolist(),
        # As many numbers, but height, width, channels: not the order that a network reads.
        tensors[0].transpose(1, 2, 0).tolist() if nested else [None, *good[0][1:]],
    ]
    found = fire9().transform(table(spark, [*good, *bad], kind)).cache()
    rows = features(found, "f")
    for number in range(7):
        assert_close(rows[number], expected[number].reshape(-1))
    assert [rows[number] for number in range(7, 12)] == [None] * 5
    reasons = {row["id"]: row["image_error"] for row in found.collect()}
    assert all(reasons[number] is None for number in range(7))
    assert "shape" in reasons[7]
    assert reasons[9] == "null"
    assert "finite" in reasons[10]
    assert "shape" in reasons[11]
    found.unpersist()


# ---- batches and passes


@pytest.mark.parametrize(("arrow", "batch"), [(1, 4), (3, 2), (10_000, 5), (2, 100)])
def test_batches_are_the_models_not_arrows(
    arrow: int, batch: int, spark: SparkSession, files: list[bytes], expected: np.ndarray, tmp_path: Path, request: Any
) -> None:
    log = tmp_path / "batches"
    log.mkdir()
    key = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(key)
    request.addfinalizer(lambda: spark.conf.set(key, before))
    spark.conf.set(key, str(arrow))
    card = counting_card(log)
    roster.register(card)
    request.addfinalizer(lambda: roster.unregister(card.name))
    featurizer = CNNFeaturizer(model=card.name, layers=["twice", "total"], batchSize=batch, outputFormat="array")
    tensors = [np.full(48, number + 1.0).tolist() for number in range(9)]
    out = featurizer.transform(table(spark, tensors, "array<float>", partitions=1))
    for path in log.iterdir():  # of the driver, which looks whether records see each other
        path.unlink()
    found = out.collect()
    assert {row["id"]: row[f"{card.name}_total"] for row in found} == {n: [96.0 * (n + 1)] for n in range(9)}
    assert {row["id"]: set(row[f"{card.name}_twice"]) for row in found} == {n: {2.0 * (n + 1)} for n in range(9)}
    sizes = sorted((json.loads(path.read_text()) for path in log.iterdir()), reverse=True)
    whole, rest = divmod(9, batch)
    # One run a batch, however many layers are named.
    assert sizes == [batch] * whole + [rest] * (rest > 0)
    rows = features(fire9(batchSize=batch).transform(table(spark, files, partitions=1)), "f")
    for number in range(7):
        assert_close(rows[number], expected[number].reshape(-1))


def counting_card(log: Path) -> roster.ModelCard:
    """A user's own model, which notes the size of every batch that it runs on."""
    # Defined in here, as in a notebook: a worker cannot import it and gets it by value.
    import uuid

    from torch import nn

    folder = str(log)

    def note(_module: nn.Module, inputs: tuple[torch.Tensor]) -> None:
        # What traces a network runs it on zeros, or on tensors without values.
        if type(inputs[0]) is torch.Tensor and inputs[0].device.type == "cpu" and inputs[0].any():
            Path(folder, uuid.uuid4().hex).write_text(str(len(inputs[0])))

    class Double(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.same = nn.Identity()
            self.same.register_forward_pre_hook(note)

        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            return self.same(batch) * 2

    class Sum(nn.Module):
        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            return batch.sum(dim=(1, 2, 3)).unsqueeze(1)

    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.twice = Double()
            self.total = Sum()

        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            return self.total(self.twice(batch))

    layers = (roster.FeatureLayer("twice", "twice"), roster.FeatureLayer("total", "total"))
    return roster.ModelCard("counting", Counting, Preprocessing(4), layers, 0, "none")


@pytest.mark.extended
def test_a_model_of_main_runs_in_the_workers(tmp_path: Path) -> None:
    """A script's own network, as a user writes it: everything in ``__main__``."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import sys
            sys.path[:0] = {IMPORTS!r}
            import torch
            from sessions import new_session
            from udfs.images import Preprocessing
            from vista_spark import CNNFeaturizer, roster

            SCALE = 3.0

            class Net(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.flat = torch.nn.Flatten()
                    self.last = torch.nn.Linear(12, 1)
                    torch.nn.init.ones_(self.last.weight)
                    torch.nn.init.zeros_(self.last.bias)

                def forward(self, image):
                    return self.last(self.flat(image)) * SCALE

            roster.register(roster.ModelCard(
                "mine", Net, Preprocessing(2), (roster.FeatureLayer("last", "last"),), 13, "none"))
            df = new_session().createDataFrame([(i, [float(i)] * 12) for i in range(3)], "id long, image array<float>")
            out = CNNFeaturizer(model="mine", outputFormat="array", errors="raise").transform(df)
            print(sorted(row["mine_last"][0] for row in out.collect()))
            """
        )
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split("\n")[0] == "[0.0, 12.0, 24.0]"


# ---- bad input


def sixteen_bit() -> bytes:
    grey = np.asarray(photograph("china").convert("L").crop((0, 0, 96, 96)), np.uint16)
    return encode(Image.fromarray(grey * 257), "PNG")


def good_and_bad() -> tuple[dict[str, bytes | None], dict[str, tuple[bytes | None, str]]]:
    picture = photograph("china").crop((0, 0, 96, 96))
    opaque = picture.copy()
    opaque.putalpha(255)
    jpeg, png = encode(picture), encode(picture, "PNG")
    good = {
        "rgb": jpeg,
        "grey": encode(picture.convert("L")),
        "rgba": encode(opaque, "PNG"),
        "cmyk": encode(picture.convert("CMYK")),
        "palette": encode(picture.convert("P"), "PNG"),
        "16 bit": sixteen_bit(),
        "1x1": encode(picture.resize((1, 1)), "PNG"),
        "20 megapixels": encode(picture.resize((5000, 4000)), "JPEG"),
    }
    scrambled = bytearray(png)
    scrambled[60:400] = bytes(340)
    bad = {
        "truncated JPEG": (jpeg[: len(jpeg) // 2], "truncated or corrupt JPEG"),
        "truncated PNG": (png[:-200], "truncated or corrupt PNG"),
        "corrupt PNG": (bytes(scrambled), "truncated or corrupt PNG"),
        "empty": (b"", "empty file"),
        "null": (None, "null"),
        "text": (b"%PDF-1.7 this is no image", "not a JPEG, PNG"),
        "magic alone": (b"\xff\xd8\xff", "truncated or corrupt JPEG"),
    }
    return good, bad


@pytest.fixture(scope="module")
def mixed(spark: SparkSession) -> DataFrame:
    """Good and bad rows in turn, so that every batch has both."""
    good, bad = good_and_bad()
    rows: list[tuple[str, bytes | None]] = [(name, value) for name, (value, _) in bad.items()]
    for place, item in enumerate(good.items()):
        rows.insert(2 * place, item)
    return spark.createDataFrame(rows, "id string, image binary").coalesce(1).cache()


def test_bad_images_become_nulls_and_say_why(mixed: DataFrame) -> None:
    good, bad = good_and_bad()
    inputs = decoded(list(good.values()), SMALL)
    reference = plain(roster.load("squeezenet1_1"), ["features.12"], inputs)[0]
    found = {row["id"]: row for row in fire9(batchSize=4, errorDetailCol="detail").transform(mixed).collect()}
    assert found.keys() == good.keys() | bad.keys()
    for name, expected in zip(good, reference, strict=True):
        assert found[name]["image_error"] is None
        assert_close(found[name]["f"], expected.reshape(-1))
    for name, (value, reason) in bad.items():
        assert found[name]["f"] is None
        assert found[name]["image_error"].startswith(reason)
        assert found[name]["image_error"] in IMAGE_REASONS
        assert found[name]["image"] == value, "the row itself is kept"


def test_a_limit_of_pixels(spark: SparkSession) -> None:
    """A larger image is a bad one; the limit is of the image, not of the network's input."""
    small, large = (encode(Image.new("RGB", size, "red"), "PNG") for size in ((40, 30), (41, 30)))
    out = fire9(maxPixels=1200, errorDetailCol="detail").transform(table(spark, [small, large]))
    good, bad = sorted(out.collect(), key=lambda row: row["id"])
    assert (good["image_error"], good["f"] is None) == (None, False)
    assert (bad["image_error"], bad["f"]) == ("too many pixels", None)
    assert bad["detail"] == "41 x 30 is more than 1200"


def fire9_of(file: bytes | None) -> np.ndarray:
    return plain(roster.load("squeezenet1_1"), ["features.12"], decoded([file], SMALL))[0].reshape(-1)


def test_bad_images_can_be_dropped(mixed: DataFrame) -> None:
    good, _ = good_and_bad()
    out = fire9(errors="drop", batchSize=4).transform(mixed)
    assert out.columns == ["id", "image", "f"]
    found = {row["id"]: row["f"] for row in out.collect()}
    assert found.keys() == good.keys()
    for name, file in good.items():
        assert_close(found[name], fire9_of(file), name)


def test_a_bad_image_can_fail_the_job(spark: SparkSession, mixed: DataFrame) -> None:
    good, bad = good_and_bad()
    rows = [*good.items(), ("empty", bad["empty"][0])]
    df = spark.createDataFrame(rows, "id string, image binary").coalesce(1)
    out = fire9(errors="raise", batchSize=3).transform(df)
    assert out.columns == ["id", "image", "f"]
    with pytest.raises(PySparkException, match=r"empty file.*row 8 of partition 0, column 'image'.*errors=\"null\""):
        out.collect()
    assert fire9(errors="raise").transform(mixed.where("id = 'rgb'")).count() == 1


def test_only_bad_images(spark: SparkSession) -> None:
    df = table(spark, [b"", None, b"no"])
    assert [row["f"] for row in fire9().transform(df).collect()] == [None] * 3
    assert fire9(errors="drop").transform(df).collect() == []


# ---- errors before a job


def test_what_is_wrong_is_said_before_a_job(
    spark: SparkSession, no_job: Watch, tmp_path: Path, files: list[bytes]
) -> None:
    df = table(spark, files[:2])
    state = roster.load("squeezenet1_1").state_dict()
    state["classifier.1.weights"] = state.pop("classifier.1.weight")
    torch.save(state, tmp_path / "renamed.pth")
    torch.save(roster.load("resnet18").state_dict(), tmp_path / "resnet18.pth")
    (tmp_path / "noise.pth").write_bytes(b"noise")
    numbers = spark.createDataFrame([(1, 2, [1])], "id long, image long, list array<long>")
    wrong: list[tuple[dict[str, Any], DataFrame, type[Exception], str]] = [
        ({"layers": ["fire99"]}, df, UnknownLayerError, r"no layer 'fire99'.*did you mean 'fire9'.*conv1, fire2"),
        ({"layers": [99]}, df, UnknownLayerError, r"no layer '99'.*counts 1 to 11"),
        (
            {"model": "squeezenet"},
            df,
            UnknownModelError,
            r"no model 'squeezenet'.*did you mean 'squeezenet1_1'.*alexnet",
        ),
        ({"weights": str(tmp_path / "renamed.pth")}, df, WeightsError, r"classifier\.1\.weight"),
        ({"weights": str(tmp_path / "resnet18.pth")}, df, WeightsError, r"squeezenet1_1"),
        ({"weights": str(tmp_path / "none.pth")}, df, WeightsError, r"none\.pth"),
        ({"weights": str(tmp_path / "noise.pth")}, df, WeightsError, r"noise\.pth"),
        ({"outputCols": ["a", "b"]}, df, ColumnError, r"2 outputCols for 1 layers \(fire9\)"),
        ({"layers": 2, "outputCols": ["a", "a"]}, df, ColumnError, r"'a' exists already"),
        ({"outputCols": ["image_error"]}, df, ColumnError, r"'image_error' exists already"),
        ({}, numbers, ColumnError, r"must be an image: binary.*string.*struct.*array of float.*got bigint"),
        ({"inputCol": "list"}, numbers, ColumnError, r"'list' of CNNFeaturizer must be an image.*got array<bigint>"),
        ({"inputCol": "img"}, df, ColumnError, r"no column 'img'.*did you mean 'image'"),
    ]
    with no_job():
        for params, data, kind, message in wrong:
            with pytest.raises(kind, match=message):
                fire9(**params).transform(data)
        with pytest.raises(InvalidArgumentError, match=r"own, or set one of alexnet"):
            CNNFeaturizer().transform(df)
        # Nor does the right thing run before it is asked for.
        fire9().transform(df)


def test_a_job_would_have_been_seen(spark: SparkSession, no_job: Watch) -> None:
    with pytest.raises(AssertionError, match="a Spark job ran"), no_job():
        spark.range(3).repartition(2).count()


def test_changed_weights_are_read_again(spark: SparkSession, tmp_path: Path, files: list[bytes]) -> None:
    df = table(spark, files[:1])
    found = []
    for seed in (1, 2):
        torch.save(roster.load("squeezenet1_1", seed=seed).state_dict(), tmp_path / "weights.pth")
        found.append(features(fire9(weights=str(tmp_path / "weights.pth")).transform(df), "f")[0])
        np.testing.assert_array_equal(found[-1], features(fire9(seed=seed).transform(df), "f")[0])
    assert np.abs(found[0] - found[1]).max() > 0.01


# ---- networks of several inputs


def test_a_network_of_two_inputs_reads_two_columns(spark: SparkSession, files: list[bytes]) -> None:
    def build() -> torch.nn.Module:
        class Both(torch.nn.Module):
            def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
                # Tells its inputs apart, by their sizes and by what it does with them.
                return x.mean((2, 3)) - 2 * y.amax((2, 3))

        class Pair(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.both = Both()

            def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
                return self.both(x, y)

        return Pair()

    card = ModelCard(
        name="pair",
        builder=build,
        preprocessing=Preprocessings((SMALL.with_size(32), SMALL.with_size(16))),
        layers=(FeatureLayer("both", "both"),),
        parameters=0,
        reference="of this test",
    )
    roster.register(card, overwrite=True)
    df = spark.createDataFrame([(n, files[n], files[6 - n]) for n in range(3)], "id long, left binary, right binary")
    df = df.unionByName(spark.createDataFrame([(3, files[0], b"no image")], df.schema))
    made = CNNFeaturizer(model="pair", inputCols=["left", "right"], outputCols=["f"], pooling="none", batchSize=2)
    rows = {row["id"]: row for row in made.transform(df).collect()}
    network = roster.load("pair")
    for number in range(3):
        left, right = decoded([files[number]], SMALL.with_size(32)), decoded([files[6 - number]], SMALL.with_size(16))
        with torch.inference_mode():
            expected = network(torch.from_numpy(left), torch.from_numpy(right)).numpy()[0]
        assert_close(rows[number]["f"].toArray(), expected.astype(np.float64))
    assert rows[3]["f"] is None
    assert rows[3]["image_error"]
    with pytest.raises(ColumnError, match="pair reads 2 columns, and is given 1: left"):
        CNNFeaturizer(model="pair", inputCol="left").transform(df)
    with pytest.raises(ColumnError, match="no column 'middle'"):
        CNNFeaturizer(model="pair", inputCols=["left", "middle"]).transform(df)
    roster.unregister("pair")
