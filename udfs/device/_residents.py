"""Resident variants of a device, which a background thread loads and evicts."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from optimizer.approximate import Option
    from udfs.device._open_variant import OpenVariant

__all__ = ["Resident", "Residents"]


@dataclass(slots=True)
class Resident:
    """Variant that is loaded, or whose load is in progress.

    Attributes
    ----------
    loaded : Future of OpenVariant
        Result of the load.
    uses : int
        Requests that will run it or are running it, which delay its eviction.
    """

    loaded: Future[OpenVariant] = field(default_factory=Future)
    uses: int = 0


class Residents:
    """Memory of a device. Loads and evictions happen in the order of the calls, in one background thread.

    Memory is the sum of the measured resident bytes of the options. An evicted variant leaves the memory before the
    next one is read, after the requests that use it.

    Parameters
    ----------
    open_option : callable
        Opens an option from its file.
    """

    def __init__(self, open_option: Callable[[Option], OpenVariant]) -> None:
        self._open_option = open_option
        self._residents: dict[Option, Resident] = {}
        self._loader = ThreadPoolExecutor(1, "variant-loader")
        self._changed = threading.Condition()
        self.bytes = 0
        self.peak_bytes = 0

    def load(self, option: Option, evictions: Sequence[Option]) -> None:
        """Evict options, then load one, in the background."""
        leaving = [(victim, self._residents.pop(victim)) for victim in evictions if victim in self._residents]
        resident = self._residents[option] = Resident()
        self._loader.submit(self._exchange, option, resident, leaving)

    def acquire(self, option: Option) -> Resident:
        """Return a resident option, which stays in memory until :meth:`release`."""
        resident = self._residents[option]
        with self._changed:
            resident.uses += 1
        return resident

    def release(self, resident: Resident) -> None:
        """End a use of an option."""
        with self._changed:
            resident.uses -= 1
            self._changed.notify_all()

    def forget(self, option: Option) -> None:
        """Remove an option whose load failed."""
        self._residents.pop(option, None)

    def failed(self) -> list[tuple[Option, BaseException]]:
        """List the options whose load failed, and their errors."""
        done = [(option, resident.loaded) for option, resident in self._residents.items() if resident.loaded.done()]
        return [(option, error) for option, loaded in done if (error := loaded.exception()) is not None]

    def is_loading(self, option: Option) -> bool:
        """Return whether the load of an option is in progress."""
        resident = self._residents.get(option)
        return resident is not None and not resident.loaded.done()

    def is_loaded(self, option: Option) -> bool:
        """Return whether an option is in memory, so that a request need not wait for it."""
        resident = self._residents.get(option)
        return resident is not None and resident.loaded.done() and resident.loaded.exception() is None

    def close(self) -> None:
        """Wait for the loads, and free the memory."""
        self._loader.shutdown()
        for option, resident in self._residents.items():
            self._free(option, resident)
        self._residents.clear()

    def _exchange(self, option: Option, resident: Resident, leaving: Sequence[tuple[Option, Resident]]) -> None:
        reserved = 0
        try:
            for victim, old in leaving:
                with self._changed:
                    self._changed.wait_for(lambda old=old: not old.uses)  # type: ignore[misc]
                self._free(victim, old)
            reserved = option.memory_bytes
            self.bytes += reserved
            self.peak_bytes = max(self.peak_bytes, self.bytes)
            resident.loaded.set_result(self._open_option(option))
        except BaseException as error:  # noqa: BLE001 - any error of the user's builder or of the file
            self.bytes -= reserved
            resident.loaded.set_exception(error)

    def _free(self, option: Option, resident: Resident) -> None:
        if resident.loaded.exception() is None:
            resident.loaded.result().close()
            self.bytes -= option.memory_bytes
        resident.loaded = Future()
        # What a module holds beside its tensors, such as a session of ONNX, is in a cycle of references.
        gc.collect()
