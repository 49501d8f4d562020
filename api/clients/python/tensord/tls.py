"""TLS of a client: which authorities it trusts, and its own certificate."""
from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Iterator
from typing import Optional, Union

Certificate = Union[str, tuple[str, str]]  # a file of both, or of the certificate and of the key


AUTHORITY = "the PEM file of the authority's certificate, or of the server's own if it is self-signed"
OWN = "PEM files of the client's certificate and of its key, or one file of both"


@contextlib.contextmanager
def naming(option: str, files: tuple[str, ...], expected: str) -> Iterator[None]:
    """Opens the files first, and names them in the errors of ssl, which does not."""
    try:
        for file in files:
            open(os.fspath(file), "rb").close()
        yield
    except OSError as error:
        names = repr(error.filename) if error.filename else " and ".join(map(repr, files))
        reason = error.strerror
        if isinstance(error, ssl.SSLError):
            reason = error.reason.replace("_", " ").lower() if error.reason else "damaged, or not PEM"
        raise type(error)(error.errno, f"{option}: {names} cannot be used: {reason}; expected {expected}") from None


def context_of(used: bool, tls: Optional[ssl.SSLContext], ca_file: Optional[str],
               certificate: Optional[Certificate]) -> Optional[ssl.SSLContext]:
    given = tls is not None, ca_file is not None or certificate is not None
    if any(given) and not used:
        raise ValueError("options of TLS need a URL that begins with https://")
    if all(given):
        raise ValueError("a context of TLS has its own authorities and certificate")
    if not used or tls is not None:
        return tls
    with naming("ca_file", () if ca_file is None else (ca_file,), AUTHORITY):
        context = ssl.create_default_context(cafile=ca_file)
    if certificate is not None:
        files = (certificate,) if isinstance(certificate, str) else certificate
        with naming("certificate", files, OWN):
            context.load_cert_chain(*files)
    return context
