"""``Device``: variants of several catalogs on a device, with an optional cloud."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from optimizer.approximate import POLICIES, Budget, CostCard, Scheduler, Task, pareto, split_cuts
from optimizer.arguments import one_of, real, whole
from udfs.device import HttpCloud, Installed, ServedCloud, SuffixClient, VariantRunner, read_joules
from udfs.driver import validate_arguments
from udfs.handlers import UntraceableModelError, framework
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    from optimizer.approximate import SplitCut
    from udfs.device import Answer
    from udfs.roster import ModelCard
    from vista_spark.variants._catalog import Catalog

__all__ = ["Device", "installed_networks"]

_SECONDS_PER_HOUR = 3600


class Device:
    """Runtime that answers requests with variants of catalogs, within memory, energy and money (MCDNN).

    For each request a scheduler chooses the variant and its place: the device, the cloud, or a split of both. Variants
    are loaded and evicted in the background. If the cloud does not answer, the device answers alone.

    Shen, *System for Serving Deep Neural Networks Efficiently*, sections 4.3.3 and 4.3.4.

    Parameters
    ----------
    catalogs : sequence of Catalog
        Catalogs, one for each task. Their networks read images.
    memory_bytes : int
        Memory for loaded variants, by their measured resident bytes.
    joules : float
        Energy of the period.
    dollars : float
        Money of the period for the cloud. Default 0.
    hours : float
        Length of the period. Default 10.
    cloud : Api or str, optional
        Server that has the variants as models, named by :func:`served_name`: the running server of this process, or an
        HTTP address. Default: no cloud.
    suffix : str, optional
        Address of a :class:`CloudSuffix`, which runs the upper layers of split variants. It needs a cloud, whose
        price the split shares. Default: no splits.
    token : str, optional
        Access token of `cloud` and `suffix`. Default: ``CEREBRO_TOKEN``, or the token file of this machine.
    policy : {"mcdnn", "primal-dual", "original", "best", "server-first"}
        Policy of the scheduler. Default ``"mcdnn"``.
    card : CostCard, optional
        Prices of energy, of the link and of the cloud. Default: the card of the thesis.
    sent_bytes : int
        Expected size of an encoded image. Default 10,000.

    Raises
    ------
    InvalidArgumentError
        An argument is not valid, or a network does not read one image.
    UnservableError
        The budgets cannot pay for one request of a task, or no variant fits into the memory.

    Examples
    --------
    >>> from vista_spark.variants import Device
    >>> with Device([scene, faces], memory_bytes=60_000_000, joules=5_000) as device:  # doctest: +SKIP
    ...     answer = device.submit("scene", image, deadline_s=2.0).result()
    ...     print(answer.prediction, answer.variant, answer.place)
    """

    @validate_arguments
    def __init__(  # noqa: PLR0913 - options by name
        self,
        catalogs: Sequence[Catalog],
        *,
        memory_bytes: int,
        joules: float,
        dollars: float = 0.0,
        hours: float = 10.0,
        cloud: Any = None,
        suffix: str | None = None,
        token: str | None = None,
        policy: str = "mcdnn",
        card: CostCard | None = None,
        sent_bytes: int = 10_000,
    ) -> None:
        one_of("policy", policy, tuple(POLICIES))
        whole("sent_bytes", sent_bytes)
        if suffix is not None and cloud is None:
            raise InvalidArgumentError(f"suffix must be None without a cloud, got {suffix!r}. Set cloud as well.")
        budget = Budget(joules, memory_bytes, dollars, real("hours", hours, 0, above=True) * _SECONDS_PER_HOUR)
        priced = CostCard() if card is None else card
        installed = installed_networks(catalogs, with_cuts=suffix is not None)
        tasks = [
            _task(catalog, installed[catalog.task], priced, None if cloud is None else sent_bytes)
            for catalog in catalogs
        ]
        scheduler = Scheduler(tasks, budget, POLICIES[policy]())
        client = None if cloud is None else HttpCloud(cloud, token) if isinstance(cloud, str) else ServedCloud(cloud)
        splitter = None if suffix is None else SuffixClient(suffix, token)
        self._runner = VariantRunner(installed, scheduler, client, splitter)
        self._first_joules = read_joules()

    def submit(self, task: str, image: bytes, *, deadline_s: float = math.inf) -> Future[Answer]:
        """Submit an image.

        Parameters
        ----------
        task : str
            Task of a catalog.
        image : bytes
            Encoded image.
        deadline_s : float
            Seconds to the answer. Default: none.

        Returns
        -------
        Future of Answer
            Fails with `UnservableError` if no variant can meet the deadline, the remaining budgets do not pay for the
            request, or no variant can be loaded; with `NoLinkError` if only the cloud can answer and cannot be
            reached; with `ImageError` or `BadRequestError` if the image cannot be decoded.

        Raises
        ------
        InvalidArgumentError
            The task is unknown, or the deadline is not positive.
        DeviceClosedError
            The device is closed.
        """
        if not deadline_s > 0:
            raise InvalidArgumentError(f"deadline_s must be above 0, got {deadline_s!r}.")
        one_of("task", task, self._runner.tasks)
        return self._runner.submit(task, image, deadline_s)

    @property
    def connected(self) -> bool:
        """True if the next request may use the cloud."""
        return self._runner.connected

    @property
    def joules(self) -> float:
        """Remaining energy, by the cost card."""
        return self._runner.joules

    @property
    def dollars(self) -> float:
        """Remaining money."""
        return self._runner.dollars

    @property
    def memory_bytes(self) -> int:
        """Resident bytes of the loaded variants."""
        return self._runner.memory_bytes

    @property
    def peak_memory_bytes(self) -> int:
        """Largest value of `memory_bytes` so far."""
        return self._runner.peak_memory_bytes

    @property
    def failures(self) -> dict[tuple[str, str], BaseException]:
        """Errors of the variants that could not be loaded, by task and variant."""
        return dict(self._runner.failures)

    @property
    def measured_joules(self) -> float | None:
        """Energy of the whole processor since the start, measured by RAPL; None where it cannot be read.

        It is too small once a counter has wrapped around, see :func:`udfs.device.read_joules`.
        """
        now = read_joules()
        return None if now is None or self._first_joules is None else max(0.0, now - self._first_joules)

    def close(self) -> None:
        """Answer the requests that wait, and free the memory."""
        self._runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def installed_networks(catalogs: Sequence[Catalog], *, with_cuts: bool = False) -> dict[str, Installed]:
    """Describe the networks of catalogs to the runtime, by task.

    Raises
    ------
    InvalidArgumentError
        A network does not read one image.
    """
    installed = {}
    for catalog in catalogs:
        models = {variant.name: variant.model for variant in catalog}
        for name, model in models.items():
            if model.kind != "image" or len(model.preprocessing.inputs) != 1:
                raise InvalidArgumentError(
                    f"{name!r} of {catalog.task!r} must read one image, got {len(model.preprocessing.inputs)} inputs "
                    f"of the kind {model.kind!r}."
                )
        cuts = {name: _cuts(model) for name, model in models.items()} if with_cuts else {}
        installed[catalog.task] = Installed(models, catalog.classes, cuts)
    return installed


def _cuts(model: ModelCard) -> tuple[SplitCut, ...]:
    """Return the cuts of a network, which is not loaded; a network in ONNX has no layers to cut."""
    try:
        return split_cuts(framework(model.framework).trace(model.skeleton(), model.preprocessing.inputs).graph)
    except UntraceableModelError:
        return ()


def _task(catalog: Catalog, installed: Installed, card: CostCard, sent_bytes: int | None) -> Task:
    """Return the task for the scheduler, with measured times and priced energy."""
    variants = [
        replace(
            each.measurement.variant(card, sent_bytes=sent_bytes),
            load_seconds=each.measurement.load_seconds,
            run_seconds=each.measurement.latency,
            splits=tuple(cut.split(card.joules_per_kb_sent) for cut in installed.cuts.get(each.name, ())),
        )
        for each in catalog
    ]
    return Task(catalog.task, pareto(variants))
