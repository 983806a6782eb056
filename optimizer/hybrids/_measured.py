"""Measured times of a configuration's steps, and of the network between workers."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Measured"]


@dataclass(frozen=True, slots=True)
class Measured:
    """Times of a configuration that workers measured, in seconds, for batches of two sizes and two messages.

    Parameters
    ----------
    batch_rows, share_rows : int
        Rows of a whole batch, and of the share of one worker.
    batch_s, share_s : float
        Seconds of a step on these rows, on one worker.
    gradient_bytes : int
        Bytes of the gradients of all parameters.
    state_bytes : int
        Bytes of a checkpoint: weights, buffers and the optimizer's state.
    exchange_s, latency_s : float
        Seconds of an all-reduce of the gradients, and of one of a few bytes.
    workers : int
        Number of workers of these all-reduces.

    Examples
    --------
    >>> measured = Measured(64, 32, 0.010, 0.006, 4_000_000, 12_000_000, 0.005, 0.001, 2)
    >>> measured.step_s(16)
    0.004
    >>> measured.bandwidth / 1e6, measured.all_reduce_s(4_000_000, 2)
    (1000.0, 0.005)
    """

    batch_rows: int
    share_rows: int
    batch_s: float
    share_s: float
    gradient_bytes: int
    state_bytes: int
    exchange_s: float
    latency_s: float
    workers: int

    def step_s(self, rows: float) -> float:
        """Predict the seconds of a step on some rows: a constant part, and one in proportion to the rows."""
        if self.batch_rows == self.share_rows:
            return self.batch_s
        slope = max(0.0, (self.batch_s - self.share_s) / (self.batch_rows - self.share_rows))
        return max(self.batch_s + slope * (rows - self.batch_rows), 0.0)

    @property
    def bandwidth(self) -> float:
        """Bytes per second that each worker sends in an all-reduce, by the ring algorithm."""
        seconds = max(self.exchange_s - self.latency_s, 1e-9)
        return _sent(self.gradient_bytes, self.workers) / seconds

    def all_reduce_s(self, nbytes: float, workers: int) -> float:
        """Predict the seconds of an all-reduce of some bytes between some workers."""
        rounds = (workers - 1) / max(1, self.workers - 1)
        return self.latency_s * rounds + _sent(nbytes, workers) / self.bandwidth

    def explain(self) -> str:
        """Describe the measurements in a line."""
        batch = f"{self.batch_s * 1e3:.1f} ms for {self.batch_rows} rows"
        share = f"{self.share_s * 1e3:.1f} ms for {self.share_rows}"
        network = f"{self.bandwidth / 1e6:,.0f} MB/s and {self.latency_s * 1e3:.2f} ms for an all-reduce"
        return f"  measured: {batch}, {share}; {network}"


def _sent(nbytes: float, workers: int) -> float:
    return 2.0 * (workers - 1) / workers * nbytes
