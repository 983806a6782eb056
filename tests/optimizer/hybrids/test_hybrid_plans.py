"""Plans of epochs that several workers share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizer.errors import InvalidArgumentError
from optimizer.hybrids import HybridSettings, Measured, balance_shards, interleave_rows, plan_hybrid

# A step of 0.1 ms and 0.2 ms a row; 10 MB/s and no latency.
MEASURED = Measured(100, 25, 0.0201, 0.0051, 1_000_000, 3_000_000, 0.2001, 0.0001, 4)


def planned(measured: Measured = MEASURED, **settings: Any) -> Any:
    defaults = {"configurations": 1, "workers": 4, "rows": 8000, "partitions": 4}
    return plan_hybrid(measured, **defaults | settings)


def test_seconds_are_those_of_the_model() -> None:
    bandwidth = 2 * 3 / 4 * 1e6 / 0.2
    assert MEASURED.bandwidth == pytest.approx(bandwidth)
    assert MEASURED.step_s(50) == pytest.approx(0.0101)
    seconds = dict(planned(averages=True).seconds)
    transfer = 3e6 / bandwidth
    assert seconds["hop"] == pytest.approx(4 * (20 * 0.0201 + transfer))
    assert seconds["all_reduce"] == pytest.approx(80 * (0.0051 + 0.2001) + transfer)
    assert seconds["averaging"] == pytest.approx(20 * 0.0201 + 0.0001 + 2 * 3 / 4 * 3e6 / bandwidth + transfer)


def test_the_network_decides_about_all_reduce() -> None:
    assert planned().mode == "hop"
    assert planned(replace(MEASURED, exchange_s=0.0002)).mode == "all_reduce"
    assert planned(averages=True).mode == "averaging"
    # As many configurations as workers keep all of them busy.
    assert planned(replace(MEASURED, exchange_s=0.00011), configurations=4).mode == "hop"


def test_a_hybrid_has_to_save_some_time() -> None:
    # Steps that take as long on a quarter of the rows gain nothing.
    flat = replace(MEASURED, share_s=0.0201, exchange_s=0.00011)
    assert planned(flat).mode == "hop"
    assert planned(averages=False).seconds[0][0] == "hop"


def test_a_plan_explains_itself() -> None:
    text = planned(replace(MEASURED, exchange_s=0.0002)).explain()
    assert text.startswith("1 configuration on 4 workers: all_reduce, 0.")
    assert "20.1 ms for 100 rows, 5.1 ms for 25" in text
    assert planned(configurations=2).explain().startswith("2 configurations on 4 workers: hop\n")
    with pytest.raises(InvalidArgumentError, match="configurations must be a whole number of at least 1, got 0"):
        planned(configurations=0)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=5), st.integers(1, 16), st.booleans())
def test_steps_are_whole_batches_of_all_rows(rows: list[int], batch: int, drop_last: bool) -> None:
    shares = interleave_rows(rows, batch, drop_last=drop_last)
    assert shares.shape[1] == len(rows)
    sizes = shares.sum(1).tolist()
    assert all(size == batch for size in sizes[:-1])
    if drop_last:
        assert all(size == batch for size in sizes)
        assert len(sizes) == sum(rows) // batch
    else:
        assert shares.sum(0).tolist() == rows


@given(st.integers(1, 8), st.integers(1, 16))
def test_equal_shards_have_equal_shares_of_each_step(shards: int, share: int) -> None:
    shares = interleave_rows([share * 3] * shards, share * shards)
    assert np.array_equal(shares, np.full((3, shards), share))


@given(st.data())
def test_shards_are_divided_among_their_holders(data: Any) -> None:
    shards = data.draw(st.integers(1, 8))
    holders = {
        f"w{number}": data.draw(st.sets(st.integers(0, shards - 1))) for number in range(data.draw(st.integers(1, 4)))
    }
    shares = balance_shards(holders, dict.fromkeys(range(shards), 10))
    assert sorted(sum(shares.values(), ())) == sorted(set().union(*holders.values()))
    assert all(set(mine) <= holders[name] for name, mine in shares.items())
    assert list(shares) == sorted(shares)


def test_replicas_even_out_the_rows() -> None:
    shares = balance_shards({"w0": [0, 1, 2, 3], "w1": [0, 1, 2, 3]}, {0: 50, 1: 30, 2: 20, 3: 40})
    assert shares == {"w0": (0, 2), "w1": (1, 3)}


def test_settings() -> None:
    assert HybridSettings().to_dict() == {}
    late = HybridSettings("auto", averaging_from=2)
    assert HybridSettings.from_dict(late.to_dict()) == late
    assert late.modes(1) == ("hop", "all_reduce")
    assert HybridSettings("averaging").resolved(5).averaging_from == 3
    assert HybridSettings("all_reduce").resolved(5).modes(4) == ("all_reduce",)
    assert HybridSettings("all_reduce", averaging_from=1).modes(1) == ("averaging",)
    for arguments, reason in ((("horovod",), "hybrid must be one of"), (("off", 1), "averaging_from must be None")):
        with pytest.raises(InvalidArgumentError, match=reason):
            HybridSettings(*arguments)
