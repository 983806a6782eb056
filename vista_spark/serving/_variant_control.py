"""Control of the variants of catalogs: shares of the requests by load and budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optimizer.serving import ladder_shares, with_shares
from udfs.serving import PlacedVariant
from vista_spark.serving._spending import Spending

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optimizer.serving import Backend, Ladder, Placement, Session
    from vista_spark.serving._catalog import Catalog

__all__ = ["VariantControl"]


class VariantControl:
    """Shares of the variants of a running server.

    Parameters
    ----------
    dollars_per_hour : float
        Price of a busy backend.

    Attributes
    ----------
    spending : Spending
        Budgets of the sessions.
    """

    def __init__(self, dollars_per_hour: float) -> None:
        self._shares: dict[str, tuple[float, ...]] = {}
        self.spending = Spending(dollars_per_hour)
        self._ladders: Mapping[str, Ladder] = {}
        self._members: Mapping[str, tuple[str, ...]] = {}

    def follow(self, catalog: Catalog) -> None:
        """Control the variants of a catalog from now on."""
        self._ladders, self._members = catalog.ladders, catalog.members
        self.spending.follow(catalog)

    def planned(self, sessions: Sequence[Session], backends: Sequence[Backend]) -> Sequence[Session]:
        """Choose the shares for the rates of sessions; return the sessions that the plan gets."""
        if not self._ladders:
            return sessions
        limits = self.spending.limits()
        by_group = {group: limits[names[0]] for group, names in self._members.items() if names[0] in limits}
        self._shares = ladder_shares(sessions, self._ladders, backends, by_group, self._shares)
        return with_shares(sessions, self._ladders, self._shares)

    def placed(self, placement: Placement) -> tuple[PlacedVariant, ...]:
        """Return the variants of a group: each runs the largest batch that ends within the planned one."""
        ladder = self._ladders.get(placement.session)
        if ladder is None:
            return ()
        limit = placement.latency_ms * (1 + 1e-9)
        return tuple(
            PlacedVariant(
                max(1, int(np.searchsorted(profile.latencies, limit, "right")) - 1), profile.latencies, float(share)
            )
            for profile, share in zip(ladder.profiles, np.cumsum(self._shares[placement.session]).round(9), strict=True)
        )

    def correct(self, sessions: Sequence[Session], rates: Mapping[str, float], seconds: float) -> None:
        """Compare the busy time of the last seconds with that of the plan, for the budgets."""
        planned_s = {}
        for session in sessions:
            shares = self._shares.get(session.name)
            if session.name in self._ladders and session.name in rates and shares is not None:
                costs = self._ladders[session.name].seconds(session)
                each = sum(share * cost for share, cost in zip(shares, costs, strict=True))
                planned_s[self._members[session.name][0]] = rates[session.name] * seconds * each
        self.spending.correct(planned_s)
