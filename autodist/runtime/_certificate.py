"""A certificate for one run, by which workers know its coordinator and speak to it encrypted (TLS 1.3).

The key stays in the launcher's memory. Workers get the certificate with the run's token, and trust no other.
"""

from __future__ import annotations

import base64
import datetime
import functools
import os
import ssl
from dataclasses import dataclass, field

__all__ = ["Certificate", "make_certificate", "trusting"]

_VALID = datetime.timedelta(days=3650)
"""Before now and after: it ends with the run, and clocks of machines differ."""


@dataclass(frozen=True)
class Certificate:
    """What a server is known by.

    Attributes:
        text: For the clients, in one line.
        context: For the server.

    """

    text: str
    context: ssl.SSLContext = field(repr=False)


def make_certificate() -> Certificate:
    """Make a certificate that nobody else has signed."""
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
    context = _server_context(made.public_bytes(serialization.Encoding.PEM) + secret)
    return Certificate(base64.b64encode(der).decode(), context)


def _server_context(pem: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    file = os.memfd_create("certificate")  # Python reads keys from files only; this one is on no disk
    try:
        os.write(file, pem)
        context.load_cert_chain(f"/proc/self/fd/{file}")
    finally:
        os.close(file)
    return context


@functools.lru_cache(maxsize=8)
def trusting(text: str) -> ssl.SSLContext:
    """Return what a client needs that trusts this certificate and no other."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # it is known by its key, whatever the way to it
    context.load_verify_locations(cadata=base64.b64decode(text))
    return context
