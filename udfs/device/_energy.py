"""Energy counters of the processor (RAPL)."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

__all__ = ["read_joules"]


def read_joules(folder: Path = Path("/sys/class/powercap")) -> float | None:
    """Return the energy that the processor packages have used since some time, in joules.

    Counters wrap around after some 10^5 joules; a difference below 0 means that one did.

    Parameters
    ----------
    folder : Path
        Folder of the kernel's power zones. Default ``/sys/class/powercap``.

    Returns
    -------
    float or None
        Energy of all packages; None if there is no counter, or only the administrator can read it.
    """
    counters = [zone / "energy_uj" for zone in folder.glob("intel-rapl:*") if zone.name.count(":") == 1]
    with suppress(OSError, ValueError):
        return sum(int(counter.read_text()) for counter in counters) / 1e6 if counters else None
    return None
