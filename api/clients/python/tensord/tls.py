"""TLS settings of a client: the authorities it trusts, and its own certificate."""
from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Iterator
from typing import Optional, Union

Certificate = Union[str, tuple[str, str]]  # one PEM file with certificate and key, or the two files


AUTHORITY = "a PEM file with the authority's certificate, or with the server's own certificate if it is self-signed"
OWN = "PEM files with the client's certificate and its key, or one file with both"


@contextlib.contextmanager
def naming(option: str, files: tuple[str, ...], expected: str) -> Iterator[None]:
    """Opens the files first, and adds their names to the errors of ssl, which do not contain them."""
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
        raise ValueError("TLS options need a URL that starts with https://")
    if all(given):
        raise ValueError("tls cannot be combined with ca_file or certificate; load both into the SSLContext instead")
    if not used or tls is not None:
        return tls
    with naming("ca_file", () if ca_file is None else (ca_file,), AUTHORITY):
        context = ssl.create_default_context(cafile=ca_file)
    if certificate is not None:
        files = (certificate,) if isinstance(certificate, str) else certificate
        with naming("certificate", files, OWN):
            context.load_cert_chain(*files)
    return context
