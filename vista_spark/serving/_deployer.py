"""Sessions deployed while the server runs, and aliases of registries followed."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from vista_spark.errors import InvalidArgumentError
from vista_spark.serving._registry import newest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from udfs.serving import Deliveries
    from udfs.store import Store
    from vista_spark.serving._app import App
    from vista_spark.serving._catalog import Deployed
    from vista_spark.serving._control import Control
    from vista_spark.serving._deployed_app import DeployedApp
    from vista_spark.serving._deployment import Deployment
    from vista_spark.serving._session import Session

__all__ = ["Deployer"]

_LOG = logging.getLogger(__name__)

_NO_STORE = "{} cannot reach backends that run: Server(store=...) names a folder that they and this process reach"


class Deployer:
    """What a running server has deployed, and how it gets something else.

    Parameters
    ----------
    spark : SparkSession
    deployed : Deployed
    control : Control
    deliveries : Deliveries or None
        By which models reach backends that run.
    store : Store or None
        Of models that sessions name.
    follow_s : float
        Seconds between two looks at the aliases that sessions name.
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
        self._thread = threading.Thread(target=self._follow, name="aliases", daemon=True)

    @property
    def device(self) -> str:
        """Where models run."""
        return self._deployed.device

    def deployment(self, name: str) -> Deployment:
        """Give a session as it is deployed now."""
        return self._deployed.deployments[name]

    def start(self) -> None:
        """Follow aliases from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Follow no alias any more."""
        self._over.set()

    def deploy(self, session: Session) -> None:
        """Deploy a session, or another version of one; see :meth:`Api.deploy`."""
        with self._deploying:
            self._deployed.check_free(session.name, of="session")
            if self.deliveries is None:
                raise InvalidArgumentError(_NO_STORE.format(f"session {session.name!r}"))
            deployment, profile = self._deployed.tried(session, self._store)
            name, version = deployment.session.name, deployment.session.version
            former = self._deployed.deployments.get(name)
            if former is not None and former.session.version == version:
                raise InvalidArgumentError(
                    f"version {version!r} of {name!r} is deployed already: give what takes its place another version"
                )
            self._swap(self._deployed.replaced(deployment, profile), f"deployed {name}, version {version}")

    def deploy_app(self, app: App) -> DeployedApp:
        """Deploy an application, or another version of one; see :meth:`Api.deploy`. Its requests are not taken yet."""
        with self._deploying:
            self._deployed.check_free(app.name, of="application")
            former = self._deployed.apps.get(app.name)
            if former is not None and former.app.version == app.version:
                raise InvalidArgumentError(
                    f"version {app.version!r} of {app.name!r} is deployed already: give what takes its place another "
                    "version"
                )
            made = self._deployed.tried_app(app)
            # What the former version asks for is among the rates that were measured.
            expected = made.rates if former is None else {}
            why = f"deployed {app.name}, version {app.version}"
            self._swap(self._deployed.with_app(made), why, expected)
            return made

    def _swap(self, deployed: Deployed, why: str, expected: Mapping[str, float] | None = None) -> None:
        deliveries = self.deliveries
        catalog = deployed.catalog(lambda one: one.shipped(self._spark, deliveries))
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
            # Not again until the alias moves.
            self._refused[name] = str(version)
            raise
        self._refused.pop(name, None)
