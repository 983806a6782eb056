"""The contract that the package ships: another project's stage passes it, and a faulty one does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F
from sessions import PREPARATION
from third_party import LENGTHS, Lengths

from udfs.testing import StageContract, transform_in_new_process

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


@pytest.mark.slow
class TestStageOfAnotherProject(StageContract):
    stages = (LENGTHS,)
    preparation = PREPARATION


class CountsNulls(Lengths):
    def counted(self, text: Any) -> Any:
        return super().counted(F.coalesce(text, F.lit("")))


class LosesEmpty(Lengths):
    def _transform(self, dataset: DataFrame) -> DataFrame:
        return super()._transform(dataset) if dataset.count() else dataset


class SharesParams(Lengths):
    def copy(self, extra: Any = None) -> Lengths:
        return self._set(**{param.name: value for param, value in (extra or {}).items()})


class Reorders(Lengths):
    def _transform(self, dataset: DataFrame) -> DataFrame:
        out = super()._transform(dataset)
        return out.select(self.getOutputCol(), *(f"`{name.replace('`', '``')}`" for name in dataset.columns))


@pytest.mark.parametrize(
    ("kind", "broken"),
    [
        (CountsNulls, StageContract.test_nulls),
        (LosesEmpty, StageContract.test_an_empty_data_frame),
        (Reorders, StageContract.test_columns_are_added_at_the_end),
        (Reorders, StageContract.test_other_columns_pass_through_untouched),
    ],
    ids=lambda value: value.__name__,
)
def test_a_faulty_stage_fails(kind: type[Lengths], broken: Callable[..., None], spark: SparkSession) -> None:
    with pytest.raises(AssertionError):
        broken(StageContract(), LENGTHS, kind(letters=2), spark)


def test_a_copy_that_changes_its_original_fails() -> None:
    with pytest.raises(AssertionError):
        StageContract().test_copy_is_independent(LENGTHS, SharesParams(), fitted=True)


def test_a_new_process_that_fails_says_why(tmp_path: Path) -> None:
    preparation = "raise SystemExit('the model is unknown')"
    with pytest.raises(AssertionError, match=r"could not load .*saved: the model is unknown"):
        transform_in_new_process(tmp_path, {tmp_path / "saved": tmp_path / "out"}, preparation)
