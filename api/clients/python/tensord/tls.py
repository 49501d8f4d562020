"""TLS of a client: which authorities it trusts, and its own certificate."""
from __future__ import annotations

import ssl
from typing import Optional, Union

Certificate = Union[str, tuple[str, str]]  # a file of both, or of the certificate and of the key


def context_of(used: bool, tls: Optional[ssl.SSLContext], ca_file: Optional[str],
               certificate: Optional[Certificate]) -> Optional[ssl.SSLContext]:
    given = tls is not None, ca_file is not None or certificate is not None
    if any(given) and not used:
        raise ValueError("options of TLS need a URL that begins with https://")
    if all(given):
        raise ValueError("a context of TLS has its own authorities and certificate")
    if not used or tls is not None:
        return tls
    context = ssl.create_default_context(cafile=ca_file)
    if certificate is not None:
        context.load_cert_chain(*((certificate,) if isinstance(certificate, str) else certificate))
    return context
