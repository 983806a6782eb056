"""Credentials of a run: the secret and the certificate that only its members know."""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

__all__ = ["Credentials", "new_credentials"]

# The clocks of machines differ and runs are short, so a certificate is valid at any date.
_FROM, _TO = datetime(2000, 1, 1, tzinfo=UTC), datetime(2999, 12, 31, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Credentials:
    """Secret of a run, and its certificate if messages are encrypted. The ``repr`` shows none of the values.

    Examples
    --------
    >>> Credentials(b"0123456789abcdef")
    Credentials()
    """

    secret: bytes = field(repr=False)  # shared secret, at least 16 random bytes
    # Certificate of the run in PEM format. Default "": messages are signed but not encrypted.
    certificate: str = field(default="", repr=False)
    key: str = field(default="", repr=False)  # private key of the certificate in PEM format. Only an endpoint needs it.

    @property
    def encrypted(self) -> bool:
        """True if messages are encrypted."""
        return bool(self.certificate)

    def derived(self, name: str) -> Credentials:
        """Derive the credentials of a part of the run, with the same certificate.

        Every holder of these credentials can derive them, so that no further secret has to be sent to the part.

        Examples
        --------
        >>> whole = Credentials(b"0123456789abcdef")
        >>> whole.derived("a") == whole.derived("a"), whole.derived("a") == whole.derived("b")
        (True, False)
        """
        return replace(self, secret=hmac.digest(self.secret, b"cerebro-spark part|" + name.encode(), "sha256"))


def new_credentials(*, encrypted: bool) -> Credentials:
    """Draw a random secret of 32 bytes, and create a self-signed certificate if messages are to be encrypted.

    Examples
    --------
    >>> new_credentials(encrypted=True).encrypted
    True
    """
    secret = secrets.token_bytes(32)
    return Credentials(secret, *_certificate()) if encrypted else Credentials(secret)


def _certificate() -> tuple[str, str]:
    """Create a P-256 key and a self-signed certificate without a host name."""
    # Imported here: the import takes a tenth of a second, and only the driver of an encrypted run needs it.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a run of cerebro-spark")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), _FROM, _TO)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    unprotected = serialization.NoEncryption()
    return (
        certificate.public_bytes(pem).decode(),
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, unprotected).decode(),
    )
