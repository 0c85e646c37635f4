"""Certificates for one run, by which its processes know each other and speak encrypted (TLS 1.3).

Keys stay in the memory of the process that has made them. Workers get the coordinator's certificate with the run's
token, and each other's from the coordinator, and trust no other.
"""

from __future__ import annotations

import base64
import datetime
import functools
import os
import socket
import ssl
from dataclasses import dataclass, field

_VALID = datetime.timedelta(days=3650)
"""Validity before and after now; long, as a certificate ends with its run and machines' clocks differ."""


@dataclass(frozen=True)
class Certificate:
    """The certificate by which a process is known.

    Attributes:
        text: The certificate for the others, in one line.
        pem: The certificate with its key.
    """

    text: str
    pem: bytes = field(repr=False)

    @functools.cached_property
    def context(self) -> ssl.SSLContext:
        """The context of a server that knows its clients in another way."""
        return self.shown(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))

    def shown(self, context: ssl.SSLContext) -> ssl.SSLContext:
        """Have connections of this context present the certificate, and return the context."""
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        file = os.memfd_create("certificate")  # Python reads keys from files only; this one is on no disk
        try:
            os.write(file, self.pem)
            context.load_cert_chain(f"/proc/self/fd/{file}")
        finally:
            os.close(file)
        return context


def make_certificate() -> Certificate:
    """Make a self-signed certificate."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "autodist")])
    now = datetime.datetime.now(datetime.timezone.utc)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - _VALID)
        .not_valid_after(now + _VALID)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    der = made.public_bytes(serialization.Encoding.DER)
    return Certificate(base64.b64encode(der).decode(), made.public_bytes(serialization.Encoding.PEM) + secret)


@functools.lru_cache(maxsize=8)
def trusting(text: str) -> ssl.SSLContext:
    """Return what a client needs that trusts this certificate and no other."""
    return _trusting(text, ssl.PROTOCOL_TLS_CLIENT)


def encrypted(connection: socket.socket, own: Certificate, other: str, *, is_calling: bool) -> ssl.SSLSocket:
    """Encrypt a connection whose ends know each other's certificates; takes it over.

    Args:
        connection: One end of it.
        own: Certificate of this end.
        other: Text of the certificate that the other end must present.
        is_calling: Whether this end has called the other.

    Raises:
        OSError: The other end has another certificate, or none.
    """
    kind = ssl.PROTOCOL_TLS_CLIENT if is_calling else ssl.PROTOCOL_TLS_SERVER
    return own.shown(_trusting(other, kind)).wrap_socket(connection, server_side=not is_calling)


def _trusting(text: str, kind: int) -> ssl.SSLContext:
    context = ssl.SSLContext(kind)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # it is known by its key, whatever the way to it
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=base64.b64decode(text))
    return context
