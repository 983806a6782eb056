"""Launch of a search in a pool, exactly once by the name of its run."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any, cast

from cerebro_spark.errors import BusyError, EmptyInputError, InvalidArgumentError
from cerebro_spark.hopper import Journal, cancellable_trials, check_trainer
from cerebro_spark.launching._document import LaunchDocument
from cerebro_spark.launching._launched import Launched, delete_record, launch_record, launched_runs, write_record
from cerebro_spark.launching._left_out import explain_reasons
from cerebro_spark.launching._search import build_search, typed_space
from cerebro_spark.launching._table import load_table
from optimizer.errors import CerebroError
from udfs.node import SupervisedThread
from udfs.requests import RequestHandler
from udfs.shards import load_prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cerebro_spark.launching._search import LaunchSearch
    from cerebro_spark.steering.runner import Pool, PoolRequest, PoolResources
    from udfs.requests import RequestContext
    from udfs.shards import PreparedData

__all__ = ["LAUNCH", "resume_launches"]

_LOG = logging.getLogger(__name__)

# A launch, and the continuation of an earlier one after a restart.
_TURN = threading.Lock()
_LOOK_S = 1.0


def _launch(document: Mapping[str, Any], context: RequestContext) -> dict[str, Any]:
    """Start a search, and return its run once it trains, with the numbers of rows that are left out, if any."""
    read = LaunchDocument.read(document)
    request = cast("PoolRequest", context)
    pool = request.pool
    # A trainer that never returns must not keep later launches waiting after the user has cancelled this one.
    with _TURN, cancellable_trials(context.check_cancelled):
        if _is_begun(read.run, context):
            _continue(pool, read.run, context)
            return {"run": read.run}
        context.report({"step": "loads the model"})
        built = _when_free(lambda: build_search(read, context), context)
        prepared = built.prepared or _when_free(lambda: _prepare(built, context), context)
        # From here on the run exists.
        context.check_cancelled()
        record = {
            "request": context.id,
            "pool": pool.name,
            "document": dict(document),
            "prepared": prepared.name,
            "labels": built.labels,
            "ended": False,
        }
        if "script" in read.source:
            request.keep_blob(read.source["script"])
        write_record(context.store, read.run, record)
        context.report({"step": "starts"})
        try:
            _start(pool, built, prepared, dict(document))
        except BaseException:
            # A run that did not begin leaves its name free.
            if not Journal(context.store, read.run).begun:
                delete_record(context.store, read.run)
            raise
    left_out = _left_out(built, prepared)
    return {"run": read.run, "left_out": left_out} if left_out else {"run": read.run}


LAUNCH = RequestHandler("launch", _launch)
"""Handler of a launch document."""


def _is_begun(run: str, context: RequestContext) -> bool:
    """Check whether the run was begun by this very request, before the runner restarted.

    Raises
    ------
    InvalidArgumentError
        Another search has the name.
    """
    record = launch_record(context.store, run)
    is_begun = Journal(context.store, run).begun
    if record is not None and record["request"] == context.id:
        return is_begun
    if is_begun or (record is not None and not record["ended"]):
        raise InvalidArgumentError(f"run must be a new name, got {run!r}, which the store has. Choose another one.")
    return False


def _when_free(work: Callable[[], Any], context: RequestContext) -> Any:
    """Run a function that uses task slots of Spark, once the workers of other searches leave one."""
    while True:
        context.check_cancelled()
        try:
            return work()
        except BusyError as error:
            context.report({"step": "waits for task slots", "reason": str(error)})
            time.sleep(_LOOK_S)


def _prepare(built: LaunchSearch, context: RequestContext) -> PreparedData:
    # A wrong trainer, such as one without its weights, is refused before hours of preparation.
    search = built.search
    check_trainer(
        search.trainer_fn, search.strategy.list_configurations(), search.seed, search.metric, search.unit_timeout_s
    )
    context.report({"step": "prepares the shards"})
    table = load_table(context.spark, built.document.table, built.document.table_format)
    try:
        return built.search.prepare(table if built.convert_table is None else built.convert_table(table))
    except EmptyInputError as error:
        raise EmptyInputError(explain_reasons(str(error), built.reasons)) from error


def _left_out(built: LaunchSearch, prepared: PreparedData) -> dict[str, int]:
    """Count the rows that are left out by reason; a drill-down, which prepares none, has no counts."""
    dropped = {} if built.document.parent else prepared.dropped
    return {explain_reasons(reason, built.reasons): rows for reason, rows in dropped.items()}


def _start(pool: PoolResources, built: LaunchSearch, prepared: PreparedData, document: dict[str, Any]) -> None:
    read = built.document
    details = {
        "description": read.description,
        "pool": pool.name,
        "parent": read.parent,
        "search_space": typed_space(document, pool.store),
        "source": read.source,
        "labels": built.labels,
        "left_out": _left_out(built, prepared),
    }
    experiment = built.search.start(
        prepared, run_id=read.run, if_begun="resume", server=pool.server or None, details=details
    )
    _ = experiment.trials  # waits until it trains, and raises the error of one that does not
    pool.searches[read.run] = Launched(built.search, prepared, experiment, document, built.convert_table, built.labels)

    def record_end() -> None:
        try:
            experiment.wait()
        except CerebroError as error:
            _LOG.warning("run %s ended: %s", read.run, error)
        record = launch_record(pool.store, read.run)
        if record is not None:
            write_record(pool.store, read.run, {**record, "ended": True})

    SupervisedThread(record_end, f"end of {read.run}", failed=lambda _: None).start()


def _continue(pool: PoolResources, run: str, context: RequestContext) -> None:
    if run in pool.searches:
        return
    record = launch_record(pool.store, run)
    assert record is not None  # the caller has found it
    # The table may have other classes by now.
    built = build_search(LaunchDocument.read(record["document"]), context, record["labels"])
    _start(pool, built, load_prepared(pool.store, record["prepared"]), record["document"])


def resume_launches(pool: Pool) -> None:
    """Continue the searches that an earlier process of a pool has launched, and that are not over.

    A search that cannot be continued is logged, and stays in the store.

    Parameters
    ----------
    pool : Pool
        Pool, which serves already.

    Examples
    --------
    >>> import tempfile
    >>> from pyspark.sql import SparkSession
    >>> from cerebro_spark import SparkBackend, Store
    >>> from cerebro_spark.steering.runner import Pool
    >>> pool = Pool(SparkBackend(SparkSession.active(), num_workers=2), Store.from_uri(tempfile.mkdtemp()), name="p")
    >>> resume_launches(pool)
    >>> pool.searches
    {}
    """
    for run in launched_runs(pool.store):
        try:
            record = launch_record(pool.store, run)
            if record is None or record["pool"] != pool.name or record["ended"] or not Journal(pool.store, run).begun:
                continue
            with _TURN:
                _continue(pool, run, pool.context())
        except CerebroError as error:
            _LOG.warning("run %s cannot be continued: %s", run, error)
