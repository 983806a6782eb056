"""Deployment of sessions and applications on a running server, and following of registry aliases."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from udfs.node import SupervisedThread
from vista_spark.errors import InvalidArgumentError
from vista_spark.serving._model_resolution import newest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from udfs.serving import Deliveries
    from udfs.store import Store
    from vista_spark.serving._app import App
    from vista_spark.serving._catalog import Deployed
    from vista_spark.serving._control_loop import Control
    from vista_spark.serving._deployed_app import DeployedApp
    from vista_spark.serving._deployment import Deployment
    from vista_spark.serving._session import Session

__all__ = ["Deployer"]

_LOG = logging.getLogger(__name__)

_NO_STORE = (
    "{} cannot be sent to running backends without a store. Set Server(store=...) to a folder that the driver and the "
    "workers can access."
)


class Deployer:
    """Deployed sessions of a running server, and their replacement.

    Recipes and files reach running backends through ``deliveries``. ``follow_s`` seconds pass between checks of the
    aliases that sessions name.
    """

    def __init__(
        self,
        spark: SparkSession,
        deployed: Deployed,
        control: Control,
        deliveries: Deliveries | None,
        store: Store | None,
        follow_s: float,
    ) -> None:
        self._spark = spark
        self._deployed = deployed
        self._control = control
        self.deliveries = deliveries
        self._store = store
        self._follow_s = follow_s
        self._deploying = threading.Lock()
        self._refused: dict[str, str] = {}
        self._over = threading.Event()
        self._thread = SupervisedThread(self._follow, "aliases")

    @property
    def device(self) -> str:
        """Device that models run on."""
        return self._deployed.device

    def deployment(self, name: str) -> Deployment:
        """Return the current deployment of a session; that of the most accurate variant of a catalog."""
        deployment = self._deployed.deployments[name]
        return deployment.variants[0] if deployment.variants else deployment

    def start(self) -> None:
        """Start to follow aliases."""
        self._thread.start()

    def stop(self) -> None:
        """Stop following aliases."""
        self._over.set()

    def deploy(self, session: Session) -> None:
        """Deploy a session, or another version of one; see :meth:`Api.deploy`."""
        with self._deploying:
            self._deployed.check_free(session.name, replaces="session")
            if self.deliveries is None:
                raise InvalidArgumentError(_NO_STORE.format(f"session {session.name!r}"))
            deployment, profile = self._deployed.open_session(session, self._store, strict=not self._control.connected)
            name, version = deployment.session.name, deployment.session.version
            former = self._deployed.deployments.get(name)
            if former is not None and former.session.version == version:
                raise InvalidArgumentError(
                    f"version must differ from the deployed one, got {version!r} for session {name!r}."
                )
            self._swap(self._deployed.replaced(deployment, profile), f"deployed {name}, version {version}")

    def deploy_app(self, app: App) -> DeployedApp:
        """Deploy an application or another version of one, before it receives requests; see :meth:`Api.deploy`."""
        with self._deploying:
            self._deployed.check_free(app.name, replaces="application")
            former = self._deployed.apps.get(app.name)
            if former is not None and former.app.version == app.version:
                raise InvalidArgumentError(
                    f"version must differ from the deployed one, got {app.version!r} for application {app.name!r}."
                )
            made = self._deployed.open_app(app)
            # The measured rates include the calls of a former version.
            expected = made.rates if former is None else {}
            why = f"deployed {app.name}, version {app.version}"
            self._swap(self._deployed.with_app(made), why, expected)
            return made

    def _swap(self, deployed: Deployed, why: str, expected: Mapping[str, float] | None = None) -> None:
        deliveries = self.deliveries
        catalog = deployed.catalog(lambda deployment: deployment.shipped(self._spark, deliveries))
        if catalog.recipes and deliveries is None:
            raise InvalidArgumentError(_NO_STORE.format(", ".join(catalog.recipes)))
        digests = {group: deliveries.send(recipe) for group, recipe in catalog.recipes.items()} if deliveries else {}
        self._control.swap(catalog, digests, why, expected)
        self._deployed = deployed
        _LOG.info("%s", why)

    def _follow(self) -> None:
        while not self._over.wait(self._follow_s):
            for name, deployment in self._deployed.deployments.items():
                try:
                    self._follow_one(name, deployment)
                except Exception as error:  # noqa: BLE001 - of a registry, a model or a backend: the old one stays
                    _LOG.warning("%s stays at version %s: %s", name, deployment.session.version, error)

    def _follow_one(self, name: str, deployment: Deployment) -> None:
        asked = deployment.asked
        version = None if asked is None else newest(asked, self._store)
        if asked is None or version in (None, deployment.session.version, self._refused.get(name)):
            return
        try:
            self.deploy(asked)
        except Exception:
            # Do not retry this version until the alias moves.
            self._refused[name] = str(version)
            raise
        self._refused.pop(name, None)
