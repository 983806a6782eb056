"""A search whose messages are encrypted trains the same models, and does so where Spark encrypts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pyspark.errors import PySparkException

torch = pytest.importorskip("torch")

from searches import adult, search, states

from cerebro_spark import SparkBackend, Store
from cerebro_spark.errors import InvalidArgumentError
from cerebro_spark.hopper import _pool

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from udfs.rpc import Credentials


@pytest.mark.extended
def test_an_encrypted_search_trains_the_same_models(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit; the second one hops, beats and reports over TLS alone, for a plain caller would be refused."""
    drawn: list[Credentials] = []
    draw = _pool.new_credentials

    def noted(*, encrypted: bool) -> Credentials:
        drawn.append(draw(encrypted=encrypted))
        return drawn[-1]

    monkeypatch.setattr(_pool, "new_credentials", noted)
    table = adult(spark, 400)
    weights = []
    for encrypt in (None, True):
        found = search(
            spark,
            Store.from_uri(str(tmp_path / str(encrypt))),
            backend=SparkBackend(spark, num_workers=2, threads=1, encrypt=encrypt),
            search_space={"lr": [0.01, 0.001], "hidden": [8]},
            schedule="fixed",
            num_epochs=1,
        ).fit(table)
        assert found.outcome.refused == 0
        weights.append(states(found))
    assert [each.encrypted for each in drawn] == [False, True]
    plain, encrypted = weights
    assert plain.keys() == encrypted.keys()
    for trial, state in plain.items():
        for name, values in state.items():
            np.testing.assert_array_equal(values, encrypted[trial][name])


def session_of(conf: object) -> object:
    """Make a Spark session that has settings and nothing else."""
    return type("SparkSession", (), {"conf": conf})()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, False),
        ({"spark.network.crypto.enabled": "true"}, True),
        ({"spark.network.crypto.enabled": "false", "spark.io.encryption.enabled": "true"}, False),
        ({"spark.ssl.enabled": "TRUE"}, True),
        ({"spark.ssl.rpc.enabled": "true"}, True),
        ({"spark.ssl.rpc.protocol": "true", "spark.ssl.historyServer.enabled": "false"}, False),
        ({"spark.network.crypto.enabled": "true", "spark.ssl.rpc.enabled": "false"}, True),
    ],
)
def test_messages_are_encrypted_where_sparks_are(settings: dict[str, str], expected: bool) -> None:
    spark: Any = session_of(SimpleNamespace(getAll=settings))
    assert SparkBackend(spark, num_workers=1).encrypts is expected
    for forced in (True, False):
        assert SparkBackend(spark, num_workers=1, encrypt=forced).encrypts is forced


def test_a_server_that_does_not_tell_its_settings_counts_as_one_that_does_not_encrypt(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Silent:
        @property
        def getAll(self) -> dict[str, str]:
            raise PySparkException("not allowed here")

    spark: Any = session_of(Silent())
    assert not SparkBackend(spark, num_workers=1).encrypts
    assert "does not tell whether Spark encrypts" in "\n".join(caplog.messages)


def test_what_is_no_truth_value_is_refused(spark: SparkSession) -> None:
    with pytest.raises(InvalidArgumentError, match="encrypt must be True, False or None, got 'yes'"):
        SparkBackend(spark, num_workers=1, encrypt="yes")  # type: ignore[arg-type]
