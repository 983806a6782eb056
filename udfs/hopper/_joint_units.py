"""Joint units: an epoch of one trial that several workers train together, each on its shards."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from optimizer.hybrids import plan_hybrid
from udfs.gang import Gang, GangError
from udfs.hopper._messages import JointReport, UnitFailure
from udfs.hopper._team_link import TeamLink
from udfs.hybrids import JointEpoch, ShardRows, unshareable_reason
from udfs.rpc import CallError, address_towards
from udfs.training import TrainerError, initial_seed, random_stream, view_of, viewed_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from optimizer.hybrids import Measured
    from udfs.hopper._messages import JointUnit
    from udfs.hopper._outcomes import Outcomes
    from udfs.hopper._sessions import Sessions
    from udfs.hopper._units import Units
    from udfs.rpc import Credentials
    from udfs.shards import Tensors
    from udfs.training import Session

__all__ = ["JointUnits"]

# Seconds for the ranks to connect, once all have sent their addresses: one that died since is missed after these.
_CONNECT_S = 5.0

# The driver hears of a rank that is gone, and ends the processes of the others should they wait for it.
_EXCHANGE_S = 24 * 3600.0


class JointUnits:
    """Shares of this worker in joint units.

    Parameters
    ----------
    units : Units
        Units of an ordinary search, which know the order of the rows.
    shard : callable
        Function that returns the rows of a split's partition.
    driver : str
        Location of the run's driver.
    """

    def __init__(
        self,
        worker: str,
        attempt: str,
        units: Units,
        shard: Callable[[str, int], Tensors],
        sessions: Sessions,
        outcomes: Outcomes,
        driver: str,
        credentials: Credentials,
    ) -> None:
        self._worker, self._attempt = worker, attempt
        self._units, self._shard = units, shard
        self._sessions, self._outcomes = sessions, outcomes
        self._driver, self._credentials = driver, credentials

    def run(self, unit: JointUnit) -> JointReport | UnitFailure:
        """Train this worker's share of a unit, and return the report."""
        try:
            session, fetched = self._sessions.at(unit.members[0])
            return self._train(unit, session, fetched)
        except GangError as error:
            return UnitFailure(unit_id=unit.unit_id, reason="team", traceback=str(error))
        except CallError as error:
            return UnitFailure(unit_id=unit.unit_id, reason="hop", traceback=str(error))
        except BaseException as error:  # noqa: BLE001 - of the user's code, as a rule
            return self._outcomes.unit_failed(unit, error)

    def _refusal(self, session: Session) -> str | None:
        if self._credentials.encrypted:
            return "the run encrypts its connections, and gloo does not encrypt"
        return unshareable_reason(session)

    def _train(self, unit: JointUnit, session: Session, fetched: int) -> JointReport:
        member, reason = unit.members[0], self._refusal(session)
        if reason is not None and unit.mode == "auto":
            return _declined(unit, reason, fetched)
        if reason is not None:
            raise TrainerError(f"hybrid must be 'off' or 'auto' for this configuration, got {unit.mode!r}: {reason}")
        shards = [self._rows(unit, session, partition) for partition in unit.shares[unit.rank]]
        link = TeamLink(self._worker, self._attempt, unit.unit_id, self._driver, self._credentials)
        gang: Gang | None = None
        try:
            gang = Gang.connect(
                unit.rank,
                len(unit.shares),
                address_towards(self._driver),
                link.exchange,
                _CONNECT_S,
                operation_timeout_s=_EXCHANGE_S,
                grace_s=0.0,
            )
            link.watch()
            begun = time.perf_counter()
            stream = random_stream(member.trial_id, member.params)
            seed = initial_seed(self._units.seed, f"{stream} epoch {unit.epoch}")
            epoch = JointEpoch(session, gang, shards, check=link.check, seed=seed)
            mode, measured = unit.mode, None
            with self._sessions.settings(member.trial_id):
                if mode == "auto":
                    mode, measured, text = self._planned(unit, epoch, shards, gang)
                    if mode == "hop":
                        return _declined(unit, text, fetched, measured)
                self._sessions.begin(member.trial_id)
                if member.epoch_metric is not None:
                    session.follow_metric(member.epoch_metric)
                sums = epoch.all_reduce() if mode == "all_reduce" else epoch.averaging()
            seconds = time.perf_counter() - begun
        finally:
            link.close()
            if gang is not None:
                gang.close()
        report = JointReport(
            unit_id=unit.unit_id,
            seconds=seconds,
            fetched_bytes=fetched,
            exchanged_bytes=epoch.sent_bytes,
            trained=None,
            measured=measured,
        )
        if unit.rank:
            return report
        trained = self._outcomes.trained(unit, member, session, sums, fetched=fetched, seconds=seconds)
        return replace(report, trained=trained)

    def _planned(
        self, unit: JointUnit, epoch: JointEpoch, shards: list[ShardRows], gang: Gang
    ) -> tuple[str, Measured | None, str]:
        """Measure, and return the fastest way, the measurements and the plan in words: the same on all ranks."""
        try:
            measured = epoch.measure()
        except GangError:
            raise
        except Exception as error:  # noqa: BLE001 - of the user's code, which the epoch itself may not raise
            return "hop", None, f"its steps cannot be measured: {type(error).__name__}: {error}"
        reason = epoch.all_reduce_refusal()
        if reason:
            return "hop", None, reason
        rows = sum(int(count) for count in gang.all_gather(str(sum(len(each.order) for each in shards)).encode()))
        plan = plan_hybrid(
            measured,
            configurations=unit.configurations,
            workers=gang.size,
            rows=rows,
            partitions=sum(map(len, unit.shares)),
            averages=unit.averages,
        )
        if unit.rank == 0:
            print(plan.explain())  # noqa: T201 - to the log of the trial
        return plan.mode, measured, plan.explain()

    def _rows(self, unit: JointUnit, session: Session, partition: int) -> ShardRows:
        rows = self._shard("train", partition)
        seen = viewed_rows(view_of(session), rows)
        order = self._units.order(replace(unit, partition=partition), unit.members[0], seen, rows)
        return ShardRows(partition, seen, order)


def _declined(unit: JointUnit, reason: str, fetched: int, measured: Measured | None = None) -> JointReport:
    return JointReport(
        unit_id=unit.unit_id,
        seconds=0.0,
        fetched_bytes=fetched,
        exchanged_bytes=0.0,
        trained=None,
        measured=measured,
        declined=reason,
    )
