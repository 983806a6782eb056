"""Names of models in registries: ``models:/cats@champion``, ``store:/cats/3``."""

from __future__ import annotations

from dataclasses import dataclass

from vista_spark.errors import InvalidArgumentError

__all__ = ["Reference", "is_reference"]

_SCHEMES = ("models", "store")
_LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Reference:
    """A model in a registry.

    Attributes
    ----------
    scheme : {"models", "store"}
        MLflow's registry, or a :class:`ModelStore`.
    name : str
    version : str
        ``""`` for the one that `alias` names, or the newest.
    alias : str
        ``""`` without one.

    Examples
    --------
    >>> Reference.read("models:/cats@champion")
    Reference(scheme='models', name='cats', version='', alias='champion')
    >>> Reference.read("store:/cats/3").version, Reference.read("store:/cats").moves
    ('3', True)
    """

    scheme: str
    name: str
    version: str = ""
    alias: str = ""

    @property
    def moves(self) -> bool:
        """Whether it may name another version tomorrow."""
        return not self.version

    def __str__(self) -> str:
        """Write it as :meth:`read` takes it."""
        at = f"@{self.alias}" if self.alias else f"/{self.version}" if self.version else ""
        return f"{self.scheme}:/{self.name}{at}"

    @classmethod
    def read(cls, text: str) -> Reference:
        """Take a reference apart.

        Raises
        ------
        InvalidArgumentError
            It names no model.
        """
        scheme, _, rest = text.partition(":/")
        rest = rest.lstrip("/")
        name, at, alias = rest.partition("@")
        version = ""
        if not at:
            name, _, version = rest.partition("/")
        if scheme not in _SCHEMES or not name or (at and not alias) or "/" in version or "/" in alias or "/" in name:
            raise InvalidArgumentError(
                f"model={text!r}: of a registry it is models:/name@alias, models:/name/version, store:/name@alias, "
                "store:/name/version, or store:/name for the newest"
            )
        return cls(scheme, name, "" if version == _LATEST else version, alias)


def is_reference(model: object) -> bool:
    """Tell whether a session's model is a name in a registry."""
    return isinstance(model, str) and model.partition(":/")[0] in _SCHEMES and ":/" in model
