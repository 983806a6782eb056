"""The table of compiled classes: every class is in it, with a parser or a reason, and the document is of today."""

from __future__ import annotations

import pytest
from places import ROOT
from sklearn.cluster import DBSCAN

from optimizer.compiling import UnsupportedOperatorError
from vista_spark import compile_pipeline
from vista_spark.compiling._coverage import between_marks, sklearn_rows, spark_rows, table
from vista_spark.compiling._refusals import LIMITS, REASONS

DOCUMENT = ROOT / "docs" / "compiling.md"


def test_the_document_has_the_table_of_today() -> None:
    text = DOCUMENT.read_text()
    assert between_marks(text) == text, "run make operators"
    assert between_marks(between_marks(text)) == text


def test_every_class_is_compiled_or_has_a_reason() -> None:
    rows = [*sklearn_rows(), *spark_rows()]
    names = {row.name for row in rows}
    assert {"sklearn.HalvingGridSearchCV", "sklearn.PCA", "pyspark.KMeansModel", "pyspark.VectorAssembler"} <= names
    assert all(row.remark for row in rows if not row.compiled)
    # A reason for what is not there, or is compiled, misleads.
    assert not {*REASONS, *LIMITS} - names
    assert all(row.remark in {"", LIMITS.get(row.name)} for row in rows if row.compiled)


def test_a_class_that_nobody_has_looked_at_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(REASONS, "sklearn.TSNE")
    with pytest.raises(KeyError, match=r"sklearn.TSNE has neither a parser nor a reason"):
        sklearn_rows()


def test_reasons_are_short_and_end_a_sentence_about_the_class() -> None:
    for reason in {*REASONS.values(), *LIMITS.values()}:
        assert len(reason) < 70
        assert reason[0].islower()
        assert not reason.endswith(".")
    assert "| `TSNE` | no | has results for the rows of its fit alone |" in table()
    assert "| `VotingClassifier` | yes | no negative weight of votes |" in table()


def test_the_message_has_the_reason() -> None:
    model = DBSCAN().fit([[0.0], [1.0]])
    with pytest.raises(UnsupportedOperatorError, match=r"DBSCAN .* cannot be compiled: it has results for the rows of"):
        compile_pipeline(model)
