"""Plans for machines and inside sessions: the command, the session, the profile."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from places import ROOT
from pyspark.ml.classification import LogisticRegression, OneVsRest, RandomForestClassifier
from sessions import CONNECT
from typer.testing import CliRunner

from optimizer.memory import OS_MEMORY, ClusterSpec, Downstream, Envelope, InfeasiblePlanError
from udfs.inference.profiling import ProfilingError
from udfs.node import CACHE_VARIABLE, memory_limit, task_device
from vista_spark import plan_feature_transfer, profile
from vista_spark.cli import app
from vista_spark.sessions import _envelope, envelope, not_set
from vista_spark.transfer import memory_figure
from vista_spark.transfer._columns import Columns
from vista_spark.transfer._inputs import match
from vista_spark.transfer._planning import Decisions, downstream_size, in_session, named_size

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from optimizer.transfer import Choice

GIB = 2**30


def planned(**changes: object) -> Choice:
    wanted = {
        "rows": 10_000,
        "structured_features": 10,
        "image_bytes": 20_000,
        "layers": 3,
        "batch_size": 2,
        "image_size": 64,
        **changes,
    }
    cluster = wanted.pop("cluster", ClusterSpec(2, 4, 32 * GIB))
    return plan_feature_transfer("squeezenet1_1", cluster, **wanted)


def test_a_profile_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    found = profile("squeezenet1_1", image_size=64, batch_size=2)
    (file,) = (tmp_path / "profiles").iterdir()
    assert profile("squeezenet1_1", image_size=64, batch_size=2) == found
    # What is remembered is what is answered.
    file.write_text(json.dumps(found.to_dict() | {"runtime_bytes": 10**10}))
    assert profile("squeezenet1_1", image_size=64, batch_size=2).runtime_bytes == 10**10
    again = profile("squeezenet1_1", image_size=64, batch_size=2, fresh=True)
    assert again.runtime_bytes < 10**10
    # torch alone is a hundred million bytes; SqueezeNet's weights are mapped and among the shared ones.
    assert 50_000_000 < again.runtime_bytes - again.shared_bytes < 2_000_000_000
    assert again.shared_bytes > 20_000_000
    assert again.serialized_bytes == 4 * 1_235_496
    depths = [flops for flops, _ in again.seconds]
    assert depths == sorted(depths)
    assert all(seconds > 0 for _, seconds in again.seconds)


def test_a_larger_batch_takes_more() -> None:
    few, many = (profile("squeezenet1_1", image_size=64, batch_size=size) for size in (2, 128))
    # Three maps of 64 channels, 31 x 31, for each of 126 records more.
    assert many.runtime_bytes - few.runtime_bytes > 126 * 64 * 31 * 31 * 4


def test_a_model_that_needs_more_than_there_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setenv("PYTHONMALLOC", "no such allocator")
    with pytest.raises(ProfilingError, match="the process that measures squeezenet1_1 ended with"):
        profile("squeezenet1_1", image_size=64, batch_size=2)


def test_a_plan_for_machines() -> None:
    choice = planned()
    assert choice.physical.cluster == ClusterSpec(2, 4, 32 * GIB)
    assert choice.physical.cores == 4
    assert choice.physical.workload.model.batch_size == 2
    assert choice.physical.workload.structured_rows == 10_000
    sizes = [(layer.name, layer.features) for layer in choice.physical.workload.layers]
    assert sizes == [("fire9", 4 * 512), ("conv10", 4 * 1000), ("pool10", 1000)]
    with pytest.raises(InfeasiblePlanError, match="the smallest that will do"):
        planned(cluster=ClusterSpec(1, 1, GIB))


def test_a_limit_of_pixels_is_counted_for_each_worker() -> None:
    """Decoding takes up to 18 bytes a pixel: 10 million pixels are 180 MB in each worker."""
    plain, limited = planned().physical.workload.model, planned(max_pixels=10_000_000).physical.workload.model
    assert limited.resident_bytes(4) - plain.resident_bytes(4) == 4 * 180_000_000
    with pytest.raises(InfeasiblePlanError, match="the smallest that will do"):
        planned(max_pixels=2_000_000_000)


def test_a_small_machine_gets_a_smaller_batch() -> None:
    wide = planned(batch_size=None, image_size=None, cluster=ClusterSpec(1, 2, 64 * GIB))
    assert wide.physical.workload.model.batch_size == 32
    with pytest.raises(InfeasiblePlanError) as caught:
        planned(batch_size=32, image_size=None, cluster=ClusterSpec(1, 1, GIB))
    for more in range(0, 2 * GIB, 64 * 2**20):
        cluster = ClusterSpec(1, 2, caught.value.smallest_memory_bytes + more)
        small = planned(batch_size=None, image_size=None, cluster=cluster).physical
        if small.cores == 2:
            break
    assert small.workload.model.batch_size < 32
    assert planned(batch_size=32, image_size=None, cluster=cluster).physical.cores == 1


def test_the_envelope_of_this_session(spark: SparkSession) -> None:
    found = envelope(spark)
    assert (found.executors, found.slots, found.local) == (1, 2, True)
    assert found.heap_bytes == 2 * GIB
    assert 0 < found.beside_bytes < memory_limit()[0]
    assert envelope(spark) is found


def test_the_operating_system_is_left_what_the_plan_left_it(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, str] = {}
    monkeypatch.setattr(_envelope, "_get", lambda _spark, name, default: settings.get(name, default))
    machine = 8 * GIB
    plan = planned(cluster=ClusterSpec(1, 2, machine, local=True)).physical
    # By default the two agree; a container's limit is Spark's alone.
    assert _envelope._reserved(spark, machine, contained=False) == plan.os_bytes == machine // 10
    assert _envelope._reserved(spark, machine, contained=True) == 0
    # To the MiB that the setting is written in.
    settings |= plan.to_spark_conf()
    assert _envelope._reserved(spark, machine, contained=True) >> 20 == plan.os_bytes >> 20
    settings[OS_MEMORY] = "2g"
    assert _envelope._reserved(spark, machine, contained=False) == 2 * GIB


def test_executors_that_were_asked_for_are_waited_for(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan made in the second after a session has started is for all of the cluster."""
    settings = {"spark.executor.instances": "3", "spark.executor.cores": "4", "spark.task.cpus": "2"}
    waited: list[int] = []

    def slots_in_the_end(_spark: SparkSession, *, wanted: int) -> int:
        waited.append(wanted)
        return wanted

    monkeypatch.setattr(_envelope, "_get", lambda _spark, name, default: settings.get(name, default))
    monkeypatch.setattr(_envelope, "task_slots", slots_in_the_end)
    found = _envelope._cluster(spark)
    assert waited == [6]
    assert (found.executors, found.slots) == (3, 2)


def test_what_a_running_session_cannot_take(spark: SparkSession) -> None:
    plan = planned(cluster=ClusterSpec(1, 1, 16 * GIB, local=True)).physical
    missed = not_set(spark, plan)
    assert missed["spark.master"] == ("local[2]", "local[1]")
    assert missed["spark.driver.memory"][0] == "2g"
    assert not [name for name in missed if name.startswith("spark.sql.")]


def test_a_plan_by_name_runs_with_a_warning_where_memory_is_short(caplog: pytest.LogCaptureFixture) -> None:
    workload = planned().physical.workload
    narrow = Envelope(1, 2, heap_bytes=GIB // 2, beside_bytes=GIB, local=True)
    with pytest.raises(InfeasiblePlanError):
        in_session(narrow, Decisions())(workload, "staged")
    with caplog.at_level(logging.WARNING):
        plan = in_session(narrow, Decisions(plan="lazy"))(workload, "lazy")
    assert (plan.logical, plan.cores) == ("lazy", 2)
    said = 'plan="lazy" was asked for and may run out of memory: the session\'s JVM has a heap of 512'
    assert said in "\n".join(caplog.messages)


@pytest.mark.skipif(CONNECT, reason="Spark ML's own estimators are made by a JVM here")
@pytest.mark.usefixtures("spark")
def test_the_size_of_a_downstream_model() -> None:
    assert downstream_size(LogisticRegression(), 3).bytes_per_feature == 2 * 3 * 8
    forest = downstream_size(OneVsRest(classifier=RandomForestClassifier()), 2)
    # One against all others, whatever the classes; Spark counts a bin's rows beside the weights of its classes.
    assert (forest.name, forest.bytes_per_feature) == ("RandomForestClassifier", 32 * 32 * 3 * 8)
    assert downstream_size(OneVsRest(classifier=RandomForestClassifier()), 50) == forest
    assert named_size("MLPClassifier", 2) == Downstream.mlp((1024, 1024, 1024), 2)
    assert named_size("MLPClassifier", 5, [16]) == Downstream.mlp([16], 5)


@pytest.mark.parametrize(
    "kind",
    ["RandomForestRegressor", "GBTRegressor", "DecisionTreeRegressor", "LinearRegression", "MLPRegressor"],
)
def test_a_price_has_no_classes(kind: str) -> None:
    few, many = (named_size(kind, classes) for classes in (2, 20_000))
    assert few == many
    workload = replace(planned().physical.workload, structured_rows=20_000, downstream=many)
    session = Envelope(1, 2, heap_bytes=4 * GIB, beside_bytes=8 * GIB, local=True)
    assert in_session(session, Decisions())(workload, "staged").cores == 2


def test_labels_that_no_row_has_are_classes_too(spark: SparkSession) -> None:
    structured = spark.createDataFrame([(1, 0.5, 0), (2, 1.5, 7), (3, None, 9)], "id int, f double, label int")
    images = spark.createDataFrame([(1, b"x"), (2, b"y"), (3, b"z")], "id int, image binary")
    matched = match(structured, images, Columns("id", ("f",), "label", "image"), "drop", classification=True)
    assert (matched.rows, matched.classes) == (2, 8)


def test_classes_are_counted_as_spark_does() -> None:
    forest = named_size("RandomForestClassifier", 10)
    assert forest.bytes_per_feature == 32 * 32 * 11 * 8
    # Nodes that do not fit into maxMemoryInMB wait, but one is always split.
    assert forest.memory_bytes(1000) == 1000 * forest.bytes_per_feature
    assert forest.memory_bytes(62_720) == 256 * 2**20
    assert forest.memory_bytes(10**6) == 10**6 * 32 * 11 * 8
    # Boosted trees fit residuals: sums of 1, y and y * y, and a count.
    assert named_size("GBTClassifier", 2).bytes_per_feature == named_size("GBTRegressor", 0).bytes_per_feature
    assert named_size("LogisticRegression", 10).bytes_per_feature == 10 * 2 * 8


_PLANNED = """
import sys
from optimizer.memory import ClusterSpec
from vista_spark import plan_feature_transfer, session

choice = plan_feature_transfer("squeezenet1_1", ClusterSpec(1, 1, 16 << 30, local=True), rows=1000, layers=2,
    structured_features=2, image_bytes=1000, batch_size=2, image_size=64)
spark = session(plan=choice.physical, conf={"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "3"})
for name, value in choice.physical.to_spark_conf().items():
    found = spark.conf.get(name)
    assert found == ("3" if name == "spark.sql.shuffle.partitions" else value), (name, found, value)
print(spark.conf.get("spark.master"), spark.conf.get("spark.driver.memory"))
"""


def test_a_session_takes_its_settings_from_a_plan(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PLANNED],
        cwd=tmp_path,
        env={**__import__("os").environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("local[1] ")


def _photos(tmp_path: Path) -> list[str]:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "1.jpg").write_bytes(b"x" * 20_000)
    (tmp_path / "table.csv").write_text("id,price,label\n1,2.5,a\n2,3.5,b\n")
    return ["--images", str(tmp_path / "images"), "--table", str(tmp_path / "table.csv"), "--label", "label"]


def test_vista_plan(tmp_path: Path) -> None:
    model = ["--model", "squeezenet1_1", "--layers", "2", "--batch-size", "2"]
    machines = ["--nodes", "3", "--cores", "4", "--memory", "32g", "--os-memory", "1g", "--rows", "50000"]
    files = ["--defaults", str(tmp_path / "spark-defaults.conf"), "--picture", str(tmp_path / "memory.png")]
    done = CliRunner().invoke(app, ["plan", *_photos(tmp_path), *model, *machines, *files])
    assert done.exit_code == 0, done.output
    assert "plans compared, by predicted seconds of inference:" in done.output
    assert "structured features: price (every numeric column but id and label" in done.output
    assert "4 cores a worker: the most that 4 cores allow" in done.output
    assert "--conf spark.executor.instances=3 \\" in done.output
    settings = dict(line.split() for line in (tmp_path / "spark-defaults.conf").read_text().splitlines())
    assert settings["spark.cores.max"] == "12"
    assert settings[OS_MEMORY] == "1024m"
    assert "1.0 GiB  operating system" in done.output
    assert f"--conf spark.executor.memory={settings['spark.executor.memory']}" in done.output
    assert (tmp_path / "memory.png").read_bytes().startswith(b"\x89PNG")


def test_vista_plan_for_machines_that_are_too_small(tmp_path: Path) -> None:
    model = ["--model", "squeezenet1_1", "--layers", "2", "--batch-size", "2"]
    done = CliRunner().invoke(app, ["plan", *_photos(tmp_path), *model, "--nodes", "1", "--memory", "1g"])
    assert isinstance(done.exception, InfeasiblePlanError)
    assert done.exception.smallest_memory_bytes is not None


def test_vista_profile() -> None:
    done = CliRunner().invoke(app, ["profile", "squeezenet1_1", "--batch-size", "2"])
    assert done.exit_code == 0, done.output
    assert "squeezenet1_1 on auto, batches of 2, 1 thread" in done.output
    told = json.loads(CliRunner().invoke(app, ["profile", "squeezenet1_1", "--batch-size", "2", "--json"]).stdout)
    assert (told["model"], told["batch_size"]) == ("squeezenet1_1", 2)
    assert told["runtime_bytes"] > 0


def test_the_picture_has_every_region() -> None:
    plan = planned().physical
    figure = memory_figure(plan)
    (axes,) = figure.axes
    drawn = sum(patch.get_width() for patch in axes.patches) * GIB
    assert drawn == pytest.approx(plan.system_bytes)
    assert "spark.executor.memoryOverhead" in {text.get_text() for text in axes.texts}
    local = memory_figure(planned(cluster=ClusterSpec(1, 2, 16 * GIB, local=True)).physical)
    assert "spark.driver.memory" in {text.get_text() for text in local.axes[0].texts}


def test_the_device_of_a_task_without_resources() -> None:
    assert [task_device(name) for name in ("auto", "cpu", "cuda:1")] == ["auto", "cpu", "cuda:1"]


def test_a_plan_is_the_same_whatever_it_is_asked_with() -> None:
    choice = planned(plan="pre-materialised", downstream=replace(Downstream(), name="nothing"))
    assert choice.logical.logical == choice.physical.logical == "pre-materialised"
    assert choice.considered == ()
