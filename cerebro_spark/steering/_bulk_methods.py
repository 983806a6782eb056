"""Methods of the client for commands to many configurations."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from optimizer.arguments import whole
from optimizer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cerebro_spark.steering._http import Connection
    from optimizer.space import Space

__all__ = ["BulkMethods", "draw_configurations"]


class BulkMethods:
    """Methods of :class:`Client` for commands to many configurations, each of which is one transaction."""

    _connection: Connection

    def effect_all(
        self, run: str, command: str, where: Mapping[str, Any] | None = None, **fields: Any
    ) -> dict[str, Any]:
        """Predict the effect of :meth:`send_all`, without sending anything.

        Returns
        -------
        dict
            ``effect``, the ids ``trials`` of the configurations, and ``left_out`` with reasons.
        """
        return self._connection.request("POST", _place(run, "effects"), _body(command, where, fields))

    def send_all(
        self, run: str, command: str, where: Mapping[str, Any] | None = None, *, key: str = "", **fields: Any
    ) -> dict[str, Any]:
        """Send a command to all configurations that pass a filter: all commands are accepted, or none.

        Parameters
        ----------
        run : str
            Name of the run.
        command : str
            Name of the command, such as ``"stop"``.
        where : mapping, optional
            Conditions ``status`` (a text or a list), ``owner`` (``""`` for the procedure), ``metric``
            (``{"name": "loss", "above": 0.7}``; the name may be left out), ``text``, and ``trials`` (a list of ids, or
            a mapping of ids to the revisions that the decision was based on). Default: all configurations.
        key : str, optional
            Key that makes repetitions one request. Default: a new one.
        **fields
            Fields of the command, such as ``epochs``.

        Returns
        -------
        dict
            Records ``commands``, and ``left_out``: configurations to which the command does not apply, with reasons.

        Examples
        --------
        >>> def stop_the_worst(client, run):
        ...     return client.send_all(run, "stop", {"status": "running", "metric": {"name": "loss", "above": 0.7}})
        """
        return self._send(run, _body(command, where, fields), key)

    def add_all(
        self,
        run: str,
        configurations: list[Mapping[str, Any]],
        *,
        epochs: int | None = None,
        key: str = "",
    ) -> dict[str, Any]:
        """Train several other configurations; all are accepted, or none.

        Parameters
        ----------
        run : str
            Name of the run.
        configurations : list of mapping
            Hyperparameters of each.
        epochs : int, optional
            Number of epochs. Default: as many as the search gives its best configurations.
        key : str, optional
            As for :meth:`send_all`.
        """
        listed = [dict(each) for each in configurations]
        return self._send(run, {"command": "add", "configurations": listed, "epochs": epochs}, key)

    def narrowed(self, run: str, best: int = 5) -> dict[str, Any]:
        """Return the search space that the best configurations have in common, with its reasons.

        Parameters
        ----------
        run : str
            Name of the run.
        best : int, optional
            Number of configurations. Default 5.
        """
        return self._connection.request(
            "GET", f"experiments/{quote(run, safe='')}/narrowed?{urlencode({'best': best})}"
        )

    def add_from(
        self,
        run: str,
        space: Space | Mapping[str, Any] | None = None,
        *,
        count: int,
        seed: int = 0,
        epochs: int | None = None,
    ) -> dict[str, Any]:
        """Train configurations that are drawn from a space.

        Parameters
        ----------
        run : str
            Name of the run.
        space : Space or mapping, optional
            Search space, or the document of one as :meth:`narrowed` returns it. Default: :meth:`narrowed`.
        count : int
            Number of configurations.
        seed : int, optional
            Seed of the draws. Default 0.
        epochs : int, optional
            Number of epochs. Default: as many as the search gives its best configurations.
        """
        chosen = self.narrowed(run)["search_space"] if space is None else space
        return self.add_all(run, draw_configurations(chosen, count, seed), epochs=epochs)

    def _send(self, run: str, body: dict[str, Any], key: str) -> dict[str, Any]:
        headers = {"Idempotency-Key": key or str(uuid.uuid4())}
        return self._connection.request("POST", _place(run, "commands"), body, headers)


def draw_configurations(space: Space | Mapping[str, Any], count: int, seed: int = 0) -> list[Mapping[str, Any]]:
    """Draw different configurations from a space.

    Parameters
    ----------
    space : Space or mapping
        Search space, or a document such as ``{"lr": {"kind": "loguniform", "low": 0.001, "high": 0.1}}``.
    count : int
        Number of configurations.
    seed : int, optional
        Seed of the draws. Default 0.

    Raises
    ------
    InvalidArgumentError
        The space is not valid, or has fewer configurations.

    Examples
    --------
    >>> draw_configurations({"units": {"kind": "choice", "values": [16, 32]}, "lr": {"kind": "fixed", "value": 1}}, 2)
    [{'units': 16, 'lr': 1}, {'units': 32, 'lr': 1}]
    """
    from optimizer.space import Space, read_domain

    whole("count", count, why="It is the number of configurations.")
    whole("seed", seed, 0)
    if not isinstance(space, Space):
        # Entries without a kind, such as values and lists, are those of Space.
        typed = {name: each for name, each in space.items() if isinstance(each, dict) and "kind" in each}
        space = Space({**space, **{name: read_domain(name, each) for name, each in typed.items()}})
    drawn: list[Mapping[str, Any]] = []
    # Spaces of a few values repeat configurations.
    for number in range(100 * count):
        params = space.sample(seed, number)
        if params not in drawn:
            drawn.append(params)
        if len(drawn) == count:
            return drawn
    raise InvalidArgumentError(f"count must be at most {len(drawn)}, the configurations of the space, got {count}.")


def _body(command: str, where: Mapping[str, Any] | None, fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"command": command, "where": dict(where or {}), **fields}


def _place(run: str, kind: str) -> str:
    return f"experiments/{quote(run, safe='')}/{kind}/bulk"
