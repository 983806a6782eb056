"""SQL functions and streams through Spark Connect, in a process of its own."""

from __future__ import annotations

import pytest
from places import ROOT
from sessions import CONNECT, pytest_on_connect

pytestmark = [
    pytest.mark.connect,
    pytest.mark.extended,
    pytest.mark.skipif(CONNECT, reason="this is the Connect run already"),
]

SUITES = {
    "vista_spark/sql/test_network_functions.py": "test_a_query_gives_the_rows or test_a_bad_row",
    "cerebro_spark/sql/test_predict_tuned.py": "test_a_query_gives_the_rows",
    "streams/test_streams.py": "test_files_arrive or test_a_wrong_column",
}


@pytest.mark.parametrize("suite", SUITES)
def test_a_suite_on_spark_connect(suite: str, pytestconfig: pytest.Config) -> None:
    assert " passed" in pytest_on_connect(ROOT / "tests" / suite, SUITES[suite], pytestconfig.inipath)
