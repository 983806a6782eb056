"""Check of a trainer before any data are prepared: what ``trainer_fn`` returns, and the names of its metrics."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from cerebro_spark.errors import CerebroError, InvalidArgumentError
from cerebro_spark.hopper._trial_limit import run_trial
from optimizer.errors import nearest
from udfs.handlers import ModelTrainer, call_trainer, settings_kept
from udfs.metrics import metric as metric_of
from udfs.training import initial_seed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["check_trainer"]


def check_trainer(
    trainer_fn: Callable[[dict[str, Any]], Any],
    configurations: Sequence[Mapping[str, Any]],
    seed: int,
    metric: str | Sequence[str],
    limit_s: float | None = None,
) -> None:
    """Call the user's function for the first configuration for which it returns a trainer.

    Parameters
    ----------
    metric : str or sequence of str
        Metrics that decide.
    limit_s : float, optional
        Limit of a call, in seconds; see :func:`run_trial`. Default none.

    Raises
    ------
    TrainerError
        The function raises, or returns no trainer, for every configuration; the error is that of the first one.
    InvalidArgumentError
        The trainer has no such metric.
    """
    first: CerebroError | None = None
    for params in configurations:
        try:
            with settings_kept():
                made = run_trial(
                    partial(call_trainer, trainer_fn, params, initial_seed(seed, "probe")), params, limit_s
                )
        except CerebroError as error:
            first = first or error
            continue
        if isinstance(made, ModelTrainer):
            _check_metrics(made, [metric] if isinstance(metric, str) else list(metric))
        return
    if first is not None:
        raise first


def _check_metrics(trainer: ModelTrainer, wanted: Sequence[str]) -> None:
    names = ["loss", *(metric_of(each).name for each in trainer.metrics)]
    for name in wanted:
        plain = name.removeprefix("val_")
        # A metric with averages also has the names of these.
        if plain not in names and not any(plain.startswith(f"{known}_") for known in names):
            raise InvalidArgumentError(
                f"metric must be one of the trainer's, {', '.join(names)}, got {name!r}{nearest(plain, names)}"
            )
