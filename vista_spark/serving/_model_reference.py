"""Names of models in registries, such as ``models:/cats@champion`` and ``store:/cats/3``."""

from __future__ import annotations

from dataclasses import dataclass

from vista_spark.errors import InvalidArgumentError

__all__ = ["Reference", "is_reference"]

_SCHEMES = ("models", "store")
_LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Reference:
    """A model in a registry.

    ``scheme`` is ``"models"`` (MLflow) or ``"store"`` (:class:`ModelStore`). ``version`` is ``""`` for the one that
    ``alias`` names, or the newest.

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
        """True if the reference may name another version later."""
        return not self.version

    def __str__(self) -> str:
        """Return the text that :meth:`read` parses."""
        at = f"@{self.alias}" if self.alias else f"/{self.version}" if self.version else ""
        return f"{self.scheme}:/{self.name}{at}"

    @classmethod
    def read(cls, text: str) -> Reference:
        """Parse a reference.

        Raises
        ------
        InvalidArgumentError
            The text is not a valid reference.
        """
        scheme, _, rest = text.partition(":/")
        rest = rest.lstrip("/")
        name, at, alias = rest.partition("@")
        version = ""
        if not at:
            name, _, version = rest.partition("/")
        if scheme not in _SCHEMES or not name or (at and not alias) or "/" in version or "/" in alias or "/" in name:
            raise InvalidArgumentError(
                "model must be models:/name@alias, models:/name/version, store:/name@alias, store:/name/version, or "
                f"store:/name for the newest version, got {text!r}."
            )
        return cls(scheme, name, "" if version == _LATEST else version, alias)


def is_reference(model: object) -> bool:
    """Return whether a session's model is a name in a registry."""
    return isinstance(model, str) and model.partition(":/")[0] in _SCHEMES and ":/" in model
