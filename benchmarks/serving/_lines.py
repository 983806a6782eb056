"""Latencies of published networks on GPUs for simulations, each with its source: printed, published or assumed."""

from __future__ import annotations

from optimizer.serving import BatchingProfile

__all__ = ["GOOGLENET", "INCEPTION", "LENET", "RESNET50", "SQUEEZENET", "SSD", "VGG_FACE", "with_heads"]

INCEPTION = BatchingProfile.from_line(0.69, 5.0, 128)
"""Printed with Figure 3.12."""

SSD = BatchingProfile.from_line(16.4, 34.8, 32)
"""A line through the throughputs that Table 3.6 prints at batches of 3, 7 and 11."""

VGG_FACE = BatchingProfile({1: 6.35, 4: 20.5, 8: 28.95, 16: 54.18, 32: 106.28, 64: 227.6})
"""Published with Nexus, for a TITAN X (Pascal): the network of VGG-16."""

RESNET50 = BatchingProfile.from_line(1.6, 6.0, 64)
"""Assumed; Table 3.1 prints 6.2 ms for a batch of 1 on a faster GPU."""

GOOGLENET = BatchingProfile.from_line(0.6, 4.0, 64)
"""Assumed, a little less than Inception."""

SQUEEZENET = BatchingProfile.from_line(0.4, 1.5, 128)
"""Assumed."""

LENET = BatchingProfile.from_line(0.01, 0.1, 512)
"""Assumed; Table 3.1 prints less than 0.1 ms on a faster GPU."""

_HEAD_MS = 0.1


def with_heads(profile: BatchingProfile, count: int) -> BatchingProfile:
    """Share a network's trunk among variants that differ in the last layer: a batch runs each head that it needs.

    Parameters
    ----------
    profile : BatchingProfile
        Of one variant.
    count : int
        Of variants. Each head beside the first is assumed to take 0.1 ms, what launching its kernels costs.
    """
    latencies = profile.latencies
    return BatchingProfile(
        {
            batch: float(latencies[batch]) + _HEAD_MS * (min(batch, count) - 1)
            for batch in range(1, profile.max_batch + 1)
        }
    )
