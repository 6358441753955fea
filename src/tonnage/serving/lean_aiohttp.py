"""aiohttp without the certificates that it reads when it is imported, and that nobody here uses.

Its module makes two TLS contexts with all authorities of the system: a third of what its import takes. Every connection
of ours has a context of its own (`client/transport/tls.py`), which reads the system's authorities where it wants them.
A context that knows no authority trusts nobody, so whoever used aiohttp's by mistake would be refused.
"""

from __future__ import annotations

import os
from typing import Final

_WHERE: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Where OpenSSL looks for authorities, if they are set."""


def import_aiohttp() -> None:
    """Import it, once and early, where the time until a process is ready counts."""
    before = {name: os.environ.get(name) for name in _WHERE}
    os.environ.update(dict.fromkeys(_WHERE, os.devnull))
    try:
        import aiohttp  # noqa: F401
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
