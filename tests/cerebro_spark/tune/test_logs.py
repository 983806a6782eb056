"""What trainers print is read by ``trial.log``: bounded, by configuration, and kept when a run is resumed."""

from __future__ import annotations

import os
import re
import sys
import warnings
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import cloudpickle

torch = pytest.importorskip("torch")

from searches import adult, search, trainer

from cerebro_spark import ModelTrainer, Selection, SparkBackend

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from udfs.store import Store

# The workers have no such module: its functions go to them by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

KEPT = 131_072
PRINTED = 44_000_000


def talking(params: dict[str, Any]) -> ModelTrainer:
    class Talkative(torch.nn.Module):
        """Prints in the first step of each epoch."""

        def __init__(self, inner: torch.nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            if self.training and params["prints"] == "some":
                print("the loss falls")  # what is tested
                warnings.warn("a warning of the trainer", stacklevel=1)
                os.write(2, b"\xff of C\n")
            if self.training and params["prints"] == "much":
                os.write(1, b"the first line\n")
                for _ in range(PRINTED // 1_000_000):
                    os.write(1, b"0123456789abcde\n" * 62_500)
                os.write(1, b"the last line\n")
            return self.inner(rows)

    made = trainer({"lr": 0.01, "hidden": 8})
    return ModelTrainer(
        model=Talkative(made.model), optimizer=made.optimizer, loss=made.loss, metrics=["accuracy"], batch_size=10_000
    )


@pytest.mark.extended
def test_a_log_by_configuration(spark: SparkSession, store: Store) -> None:
    made = search(
        spark,
        store,
        trainer_fn=talking,
        search_space=[{"prints": how} for how in ("nothing", "some", "much")],
        num_epochs=1,
    )
    logs = {trial.params["prints"]: trial.log for trial in made.fit(adult(spark, 600), run_id="talks").trials}
    assert logs["nothing"] == ""
    units = re.split(r"^\[(train c001 epoch 0 partition \d) #\d+ on w\d\]\n", logs["some"], flags=re.MULTILINE)
    assert units[0] == ""
    assert sorted(units[1::2]) == [f"train c001 epoch 0 partition {partition}" for partition in (0, 1)]
    for text in units[2::2]:
        assert text.startswith("the loss falls\n")
        assert "UserWarning: a warning of the trainer" in text
        assert "\ufffd of C\n" in text
    much = re.fullmatch(r"(.+)\n\[([\d,]+) bytes are left out\]\n(.+)", logs["much"], flags=re.DOTALL)
    assert much is not None
    assert len(much[1]) <= KEPT
    assert len(much[3]) <= KEPT
    assert much[1].startswith("[train c002 epoch 0 partition ")
    assert "the first line\n" in much[1]
    assert much[3].endswith("the last line\n")
    # Two units, of which both ends are less than a million.
    assert 2 * PRINTED - 1_000_000 < int(much[2].replace(",", "")) < 2 * PRINTED + 1_000

    resumed = Selection.resume(
        store,
        "talks",
        backend=SparkBackend(spark, num_workers=2, threads=1),
        trainer_fn=talking,
        num_epochs=2,
        progress=False,
    )
    later = {trial.params["prints"]: trial.log for trial in resumed.trials}
    assert later["some"].startswith(logs["some"])
    assert "[train c001 epoch 1 partition " in later["some"].removeprefix(logs["some"])
    assert later["much"].startswith(much[1])
    assert later["nothing"] == ""
