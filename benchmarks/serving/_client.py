"""The client of ``benchmarks/serving``: a program that sends requests over HTTP when they are due, answered or not.

It reads one JSON object a line, :class:`_serving_load.Load` as a dict, and answers each with one line.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import numpy as np

from benchmarks.harness.photographs import jpegs
from benchmarks.serving.simulation import arrival_times

# A request that has not ended so long after its deadline hangs.
_PATIENCE_S = 5.0

# What a server that has too much to do says; other refusals are worth reading.
_EXPECTED = (200, 503, 504)

# The first requests find their connections open.
_LEAD_S = 0.2


@dataclass
class _Tally:
    """Outcomes of the requests of one model."""

    sent: int = 0
    in_time: int = 0
    latencies_ms: list[float] = field(default_factory=list)
    ends_ms: list[float] = field(default_factory=list)
    lags_ms: list[float] = field(default_factory=list)
    ended: Counter[str] = field(default_factory=Counter)
    said: dict[str, str] = field(default_factory=dict)


class _Client:
    def __init__(self, load: dict[str, Any]) -> None:
        self._url, self._slo_s = load["url"], load["slo_ms"] / 1000
        self._headers = {"Authorization": f"Bearer {load['token']}"}
        self._bodies = _tensors() if load["body"] == "tensor" else jpegs(load["bodies"])
        kind = "application/json" if load["body"] == "tensor" else "image/jpeg"
        self._headers["Content-Type"] = kind
        self._tallies: dict[str, _Tally] = {name: _Tally() for name in load["rates"]}

    async def run(self, load: dict[str, Any]) -> dict[str, Any]:
        timeout = aiohttp.ClientTimeout(total=self._slo_s + _PATIENCE_S)
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=60)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, headers=self._headers) as session:
            await (self._one_by_one(session, load) if load["alone"] else self._open_loop(session, load))
        return {name: self._summary(tally) for name, tally in self._tallies.items()}

    async def _open_loop(self, session: aiohttp.ClientSession, load: dict[str, Any]) -> None:
        loop = asyncio.get_running_loop()
        due = [
            (float(at) / 1000, name)
            for place, (name, rate) in enumerate(load["rates"].items())
            for at in arrival_times(rate, load["seconds"], "poisson", load["seed"] + place)
        ]
        start = loop.time() + _LEAD_S
        asked = []
        for number, (at, name) in enumerate(sorted(due)):
            if (pause := start + at - loop.time()) > 0:
                await asyncio.sleep(pause)
            # The latency counts from when the request was due: a client that falls behind hides nothing.
            asked.append(loop.create_task(self._ask(session, name, number, start + at)))
        await asyncio.gather(*asked)

    async def _one_by_one(self, session: aiohttp.ClientSession, load: dict[str, Any]) -> None:
        loop = asyncio.get_running_loop()
        for number in range(load["alone"]):
            for name in self._tallies:
                await self._ask(session, name, number, loop.time())

    async def _ask(self, session: aiohttp.ClientSession, name: str, number: int, due: float) -> None:
        loop = asyncio.get_running_loop()
        tally = self._tallies[name]
        tally.sent += 1
        tally.lags_ms.append(1000 * (loop.time() - due))
        try:
            body = self._bodies[number % len(self._bodies)]
            async with session.post(f"{self._url}/v2/models/{name}/infer", data=body) as response:
                content = await response.read()
                how = "answered" if response.status == 200 else str(response.status)
                if response.status not in _EXPECTED:
                    tally.said[how] = content[:300].decode(errors="replace")
        except TimeoutError:
            how = "hangs"
        except aiohttp.ClientError as error:
            how = type(error).__name__
        took = loop.time() - due
        tally.ended[how] += 1
        tally.ends_ms.append(1000 * took)
        if how == "answered":
            tally.latencies_ms.append(1000 * took)
            tally.in_time += took <= self._slo_s

    def _summary(self, tally: _Tally) -> dict[str, Any]:
        return {
            "sent": tally.sent,
            "in_time": tally.in_time,
            "ended": dict(tally.ended),
            "said": tally.said,
            "p50_ms": _percentile(tally.latencies_ms, 50),
            "p99_ms": _percentile(tally.latencies_ms, 99),
            "slowest_end_ms": max(tally.ends_ms, default=0.0),
            "lag_p99_ms": _percentile(tally.lags_ms, 99),
        }


def _tensors() -> list[bytes]:
    inputs = {"name": "x", "shape": [1, 1], "datatype": "FP32", "data": [1.0]}
    return [json.dumps({"inputs": [inputs]}).encode()]


def _percentile(values: list[float], share: float) -> float | None:
    return float(np.percentile(values, share)) if values else None


def main() -> None:
    """Answer loads until the input ends."""
    for line in sys.stdin:
        load = json.loads(line)
        client = _Client(load)
        cpu, wall = time.process_time(), time.perf_counter()
        models = asyncio.run(client.run(load))
        found = {"models": models, "cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - wall}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
