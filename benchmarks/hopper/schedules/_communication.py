"""Bytes that each way to train many models sends over the network (Table 3.2)."""

from __future__ import annotations

from optimizer.hopper import HopperError

__all__ = ["communication_costs"]


def communication_costs(
    *, configs: int, epochs: int, workers: int, model_bytes: int, data_bytes: int, batches: int
) -> dict[str, int]:
    """Compute the bytes over the network of six approaches, by the formulas of Table 3.2.

    Parameters
    ----------
    configs : int
        ``|S|``.
    epochs : int
        ``k``.
    workers : int
        ``p``.
    model_bytes : int
        ``m``: the state that hops, weights and optimizer state together.
    data_bytes : int
        ``<D>``.
    batches : int
        Mini-batches per epoch over all data, ``|D| / b``.

    Returns
    -------
    dict of str to int
        Bytes by approach, in the order of the table: ``"model hopper"``, ``"task parallel, full replication"``,
        ``"task parallel, remote reads"``, ``"bulk synchronous"``, ``"centralized fine-grained"``,
        ``"decentralized fine-grained"``.

    Raises
    ------
    HopperError
        A number below 1.

    Examples
    --------
    The example under the table, 4, 10, 400 and 8 TB, 80 and 72 PB; its terms ``m|S|`` are below its rounding.

    >>> costs = communication_costs(
    ...     configs=20, epochs=20, workers=10, model_bytes=10**9, data_bytes=10**12, batches=100_000
    ... )
    >>> [round(sent / 10**12, 2) for sent in costs.values()]
    [4.02, 10.02, 400.02, 8.0, 80000.0, 72000.0]
    """
    given = {"configs": configs, "epochs": epochs, "workers": workers}
    given |= {"model_bytes": model_bytes, "data_bytes": data_bytes, "batches": batches}
    for name, number in given.items():
        if number < 1:
            raise HopperError(f"{name} must be a whole number of at least 1, got {number}.")
    all_models = model_bytes * configs
    steps = -(-batches // workers)
    return {
        "model hopper": epochs * workers * all_models + all_models,
        "task parallel, full replication": workers * data_bytes + all_models,
        "task parallel, remote reads": epochs * configs * data_bytes + all_models,
        "bulk synchronous": 2 * epochs * workers * all_models,
        "centralized fine-grained": 2 * epochs * workers * all_models * steps,
        "decentralized fine-grained": 2 * epochs * (workers - 1) * all_models * steps,
    }
