"""A router with links to backends that answer when a test says so."""

from __future__ import annotations

from typing import Any

from live_backends import SPEC, served

from udfs.serving import Admission, LiveRouter, Offered

__all__ = ["PlayedLink", "played"]


class PlayedLink:
    """A link to a backend that answers when the test says so."""

    def __init__(self, name: str) -> None:
        self.name, self.alive, self.lost_rows = name, True, 0
        self.units: list[Any] = []
        self.unsent: set[int] = set()

    def put(self, unit: Any) -> None:
        self.units.append(unit)

    def cancel(self, number: int) -> None:
        self.units = [unit for unit in self.units if unit.number != number]

    def close(self) -> None:
        self.alive = False


def played(*names: str) -> tuple[LiveRouter, dict[str, Any]]:
    router = LiveRouter([Offered(served("m"), Admission("m", (SPEC,), {}), "m", shared=False, least_ms=1.0)])
    links: dict[str, Any] = {name: PlayedLink(name) for name in names}
    for link in links.values():
        router.attach(link)
    router.route({"m": dict.fromkeys(names, 1.0)})
    return router, links
