"""TensorBoard's HParams dashboard, read by its own backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("tensorboard")

from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
from tensorboard.context import RequestContext
from tensorboard.plugins.base_plugin import TBContext
from tensorboard.plugins.hparams import api_pb2, backend_context, list_session_groups

from cerebro_spark.callbacks import (
    EpochFinished,
    RunFinished,
    RunStarted,
    TensorBoard,
    TrialFinished,
    TrialStarted,
    TrialState,
)

if TYPE_CHECKING:
    from pathlib import Path


def state(trial_id: str, **params: object) -> TrialState:
    return TrialState(trial_id=trial_id, params=params, status="running", units=0, history=())


def test_the_hparams_dashboard_shows_params_metrics_and_ends(tmp_path: Path) -> None:
    board = TensorBoard(str(tmp_path))
    first = state("c000", lr=0.1, batch=32, net="cnn", bias=True, sizes=[1, 2])
    board.run_started(
        RunStarted(
            run_id="run",
            trials=(first,),
            epoch=0,
            num_epochs=2,
            num_units=4,
            seconds=0.0,
            metric="val_loss",
            larger_is_better=False,
        )
    )
    board.trial_started(TrialStarted(trial=state("c001", lr=0.01, batch=32, net="mlp", bias=False, sizes=[3])))
    board.epoch_finished(EpochFinished(epoch=0, metrics={"c000": {"val_loss": 0.5}, "c001": {"val_loss": 0.25}}))
    board.trial_finished(TrialFinished(trial_id="c000", status="finished"))
    board.trial_finished(TrialFinished(trial_id="c001", status="raised", traceback="no"))
    board.run_finished(RunFinished(run_id="run", seconds=1.0))

    files = plugin_event_multiplexer.EventMultiplexer().AddRunsFromDirectory(str(tmp_path))
    files.Reload()
    provider = data_provider.MultiplexerDataProvider(files, str(tmp_path))
    context = backend_context.Context(TBContext(data_provider=provider))
    request = RequestContext()
    groups = list_session_groups.Handler(
        request,
        context,
        "",
        api_pb2.ListSessionGroupsRequest(
            start_index=0,
            slice_size=9,
            allowed_statuses=[api_pb2.STATUS_SUCCESS, api_pb2.STATUS_FAILURE, api_pb2.STATUS_RUNNING],
            include_metrics=True,
        ),
    ).run()
    found = {group.name: group for group in groups.session_groups}
    assert {name: group.sessions[0].status for name, group in found.items()} == {
        "c000": api_pb2.STATUS_SUCCESS,
        "c001": api_pb2.STATUS_FAILURE,
    }
    assert found["c000"].hparams["lr"].number_value == 0.1
    assert found["c000"].hparams["net"].string_value == "cnn"
    assert found["c000"].hparams["bias"].bool_value is True
    assert found["c001"].hparams["sizes"].string_value == "[3]"
    assert found["c001"].metric_values[0].value == pytest.approx(0.25)
