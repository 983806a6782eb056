"""Sessions of TensorBoard's HParams dashboard: the params of each trial, and its outcome."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams import metadata
from tensorboard.plugins.hparams.api_pb2 import STATUS_FAILURE, STATUS_SUCCESS
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo, SessionStartInfo
from tensorboard.summary.writer.event_file_writer import EventFileWriter

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Sessions"]


class Sessions:
    """Writer of one session per trial, next to its scalars: the dashboard assigns params and metrics by folder.

    The folder is local to the driver.
    """

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def start(self, trial_id: str, params: Mapping[str, Any]) -> None:
        """Write a trial's params; lists and mappings among them as JSON."""
        info = SessionStartInfo(group_name=trial_id, start_time_secs=time.time())
        for name, value in params.items():
            match value:
                case bool():
                    info.hparams[name].bool_value = value
                case int() | float():
                    info.hparams[name].number_value = value
                case _:
                    info.hparams[name].string_value = value if isinstance(value, str) else json.dumps(value)
        self._write(trial_id, metadata.SESSION_START_INFO_TAG, HParamsPluginData(session_start_info=info))

    def end(self, trial_id: str, *, succeeded: bool) -> None:
        """Write that a trial has ended."""
        status = STATUS_SUCCESS if succeeded else STATUS_FAILURE
        info = SessionEndInfo(status=status, end_time_secs=time.time())
        self._write(trial_id, metadata.SESSION_END_INFO_TAG, HParamsPluginData(session_end_info=info))

    def _write(self, trial_id: str, tag: str, data: Any) -> None:
        value = Summary.Value(tag=tag, metadata=metadata.create_summary_metadata(data), tensor=metadata.NULL_TENSOR)
        writer = EventFileWriter(str(self._folder / trial_id), filename_suffix=".hparams")
        writer.add_event(Event(wall_time=time.time(), summary=Summary(value=[value])))
        writer.close()
