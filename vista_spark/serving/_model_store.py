"""``ModelStore``: versioned models in a folder that the driver and the workers can access."""

from __future__ import annotations

import hashlib
import json
import pickle
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

from optimizer.errors import nearest
from udfs.driver import validate_arguments
from udfs.handlers import framework
from udfs.inference import NetworkFile, Tokenization
from udfs.names import check_name
from udfs.serving import TensorSpec
from udfs.store import Store, StoreError
from vista_spark import roster
from vista_spark.errors import InvalidArgumentError
from vista_spark.network import network
from vista_spark.serving._model_reference import is_reference
from vista_spark.serving._pipelines import pipeline_session

if TYPE_CHECKING:
    from vista_spark.serving._session import Session

__all__ = ["ModelStore"]

_FOLDER, _ALIASES, _ENTRY, _MODEL = "models", "aliases", "entry.json", "model.pickle"
_TOKENIZER = "tokenizer.json"
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class _Sampled:
    """A model and the record that warms it up."""

    model: Any
    sample: Any


@validate_arguments
class ModelStore:
    """Models by name and version, with aliases of versions. A server follows an alias that moves.

    A version never changes. A network is stored with its weights, as :func:`vista_spark.roster.of` copies it, a
    function as a pickle: anyone who can write to the store can run code on every server that uses it.

    Parameters
    ----------
    store : str or Store
        Local path or URI of the folder.

    Raises
    ------
    StoreError
        The store cannot be opened.

    Examples
    --------
    >>> import tempfile
    >>> from udfs.serving import TensorSpec
    >>> from vista_spark.serving import Session
    >>> models = ModelStore(tempfile.mkdtemp())
    >>> x = TensorSpec("x", "float32", (-1, 2))
    >>> models.save(Session("double", model=lambda arrays: {"y": 2 * arrays["x"]}, inputs=[x]), alias="champion")
    '1'
    >>> models.save(Session("double", model=lambda arrays: {"y": arrays["x"] + arrays["x"]}, inputs=[x]))
    '2'
    >>> models.version("double"), models.version("double", "champion")
    ('2', '1')
    """

    def __init__(self, store: str | Store) -> None:
        self._store = Store.from_uri(store) if isinstance(store, str) else store

    @validate_arguments
    def save(self, session: Session, *, alias: str | None = None) -> str:
        """Save a session's model as the next version of its name.

        Parameters
        ----------
        session : Session
            Session with the model. Its weights, head, sizes, inputs, outputs and sample are saved; deadline, rate and
            profile are not.
        alias : str, optional
            Alias that names the new version from now on.

        Returns
        -------
        str
            Version: ``"1"``, ``"2"``, ...

        Raises
        ------
        InvalidArgumentError, StoreError
            The name is not a valid folder name, the model is a name in a registry, or the store is not writable.
        """
        name = check_name(session.name, "a model of the store")
        if is_reference(session.model):
            raise InvalidArgumentError(f"model must be a model, not its name in a registry, got {session.model!r}.")
        if session.catalog is not None:
            raise InvalidArgumentError(
                f"catalog must be None, got one in session {name!r}. Save its variants one by one with model=."
            )
        layer, max_length, head = session.layer, session.max_length, session.head
        session = pipeline_session(session)
        version = str(max(map(int, self.versions(name)), default=0) + 1)
        entry: dict[str, Any] = {
            "layer": layer,
            "max_length": max_length,
            "inputs": [_described(spec) for spec in session.inputs],
            "outputs": [_described(spec) for spec in session.outputs],
        }
        kept: Any = session.model
        if not session.inputs:
            kept = self._network(name, version, session)
        if head is not None:
            self._copy(Path(head), name, version, "head")
            entry["head"] = "head"
        if session.sample is not None:
            # Part of the model's file, whose digest is checked before it is opened.
            kept = _Sampled(kept, session.sample)
        content: bytes = cloudpickle.dumps(kept)  # type: ignore[no-untyped-call]
        entry["digest"] = hashlib.sha256(content).hexdigest()
        self._store.write(content, _FOLDER, name, version, _MODEL)
        # The entry is written last: it marks the version as complete.
        self._store.write(json.dumps(entry, indent=1).encode(), _FOLDER, name, version, _ENTRY)
        if alias is not None:
            self.alias(name, alias, version)
        return version

    @validate_arguments
    def versions(self, name: str) -> list[str]:
        """Return the versions of a model, oldest first.

        Parameters
        ----------
        name : str
            Name of the model.

        Returns
        -------
        list of str
            Versions; empty for an unknown name.
        """
        check_name(name, "a model of the store")
        folders = [version for version in self._store.list(_FOLDER, name) if version.isdecimal()]
        complete = [version for version in folders if self._store.exists(_FOLDER, name, version, _ENTRY)]
        return sorted(complete, key=int)

    def names(self) -> list[str]:
        """Return the names of the saved models.

        Returns
        -------
        list of str
            Names with at least one version.
        """
        return [name for name in self._store.list(_FOLDER) if self.versions(name)]

    @validate_arguments
    def alias(self, name: str, alias: str, version: str) -> None:
        """Set an alias to a version. Servers that use the alias follow within an epoch.

        Parameters
        ----------
        name : str
            Name of the model.
        alias : str
            Alias to set or to move.
        version : str
            Version that the alias names from now on.

        Raises
        ------
        InvalidArgumentError
            The version does not exist.
        """
        check_name(alias, "an alias of the store")
        self._check(name, version)
        self._store.write(version.encode(), _FOLDER, name, _ALIASES, alias)

    @validate_arguments
    def version(self, name: str, alias: str | None = None) -> str:
        """Return the version that an alias names, or the newest one.

        Parameters
        ----------
        name : str
            Name of the model.
        alias : str, optional
            Alias of the model.

        Returns
        -------
        str
            Version.

        Raises
        ------
        InvalidArgumentError
            The name or the alias does not exist.
        """
        if alias is None:
            versions = self.versions(name)
            if not versions:
                raise InvalidArgumentError(
                    f"name must be a model of the store, got {name!r}{nearest(name, self.names()) or '.'}"
                )
            return versions[-1]
        check_name(name, "a model of the store")
        check_name(alias, "an alias of the store")
        known = self._store.list(_FOLDER, name, _ALIASES)
        if alias not in known:
            raise InvalidArgumentError(
                f"alias must be an alias of model {name!r}, got {alias!r}{nearest(alias, known) or '.'} Set it with "
                "ModelStore.alias."
            )
        return self._store.read(_FOLDER, name, _ALIASES, alias).decode()

    @validate_arguments
    def load(self, name: str, version: str) -> dict[str, Any]:
        """Return the :class:`Session` fields that a version was saved with; files stay in the store.

        Parameters
        ----------
        name : str
            Name of the model.
        version : str
            Version of the model.

        Returns
        -------
        dict of str to object
            Values of ``model``, ``head``, ``layer``, ``max_length``, ``inputs``, ``outputs`` and ``sample``.

        Raises
        ------
        InvalidArgumentError
            The version does not exist.
        StoreError
            The version is damaged.
        """
        self._check(name, version)
        entry = json.loads(self._store.read(_FOLDER, name, version, _ENTRY))
        content = self._store.read(_FOLDER, name, version, _MODEL)
        if hashlib.sha256(content).hexdigest() != entry["digest"]:
            raise StoreError(f"{self._store.url(_FOLDER, name, version)} is damaged: its digest does not match.")
        model, sample = pickle.loads(content), None  # noqa: S301 - of the user's own store
        if isinstance(model, _Sampled):
            model, sample = model.model, model.sample
        if isinstance(model, roster.ModelCard):
            model = replace(model, builder=model.builder.at(self._store.url(_FOLDER, name, version, "network")))
        head = entry.get("head")
        return {
            "model": model,
            "head": None if head is None else self._store.url(_FOLDER, name, version, head),
            "layer": entry["layer"],
            "max_length": entry["max_length"],
            "inputs": tuple(_spec(spec) for spec in entry["inputs"]),
            "outputs": tuple(_spec(spec) for spec in entry["outputs"]),
            "sample": sample,
        }

    def _network(self, name: str, version: str, session: Session) -> roster.ModelCard:
        """Write a network's file, and return the card that opens it."""
        net = network(session.model, session.weights, session.seed, session.image_size, session.max_length)
        card, builder = net.card, net.card.builder
        if not isinstance(builder, NetworkFile) or net.weights is not None:
            model = roster.load(card, net.weights, seed=net.seed)
            builder = NetworkFile.of(model, framework(card.framework), card.preprocessing.inputs)
        preprocessing = card.preprocessing
        if isinstance(preprocessing, Tokenization) and "://" not in (preprocessing.tokenizer or "://"):
            self._copy(Path(str(preprocessing.tokenizer)), name, version, _TOKENIZER)
            preprocessing = replace(preprocessing, tokenizer=self._store.url(_FOLDER, name, version, _TOKENIZER))
        self._copy(Path(builder.file), name, version, "network")
        return replace(card, builder=builder, weights=None, preprocessing=preprocessing)

    def _copy(self, file: Path, *parts: str) -> None:
        try:
            with file.expanduser().open("rb") as source, self._store.writing(_FOLDER, *parts) as target:
                while chunk := source.read(_CHUNK):
                    target.write(chunk)
        except FileNotFoundError as error:
            raise InvalidArgumentError(f"The file {file} must exist to be stored.") from error

    def _check(self, name: str, version: str) -> None:
        versions = self.versions(name)
        if version not in versions:
            known = f"one of {', '.join(versions)}" if versions else "saved first"
            raise InvalidArgumentError(f"version of model {name!r} must be {known}, got {version!r}.")


def _described(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "dtype": spec.dtype, "shape": list(spec.shape), "missing": spec.missing}


def _spec(described: dict[str, Any]) -> TensorSpec:
    # Earlier versions wrote no entry for missing values.
    missing = described.get("missing", False)
    return TensorSpec(described["name"], described["dtype"], tuple(described["shape"]), missing)
