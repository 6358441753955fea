"""Have TLS hand over whatever certificate a client shows, good or not, so that an answer can say which it was.

Go's servers ask for a certificate and judge it later: who shows a bad one gets a 401, or is let in by a token. Python's
`ssl` has no word for that: it verifies, and a failed verification ends the handshake, of which asyncio tells the client
nothing at all. OpenSSL has the word (a verify callback that says yes), so it is told directly. That needs the address
of the context, which CPython keeps behind the object's head and has since 3.6; on any other Python, or where OpenSSL's
functions cannot be found, nothing is done and TLS refuses by itself.

Nothing rests on this: certificates are judged by `certificate_judging` in either case.
"""

from __future__ import annotations

import _ssl
import ctypes
import ssl
import sys
from typing import Any, Final

_KNOWN: Final = (3, 11) <= sys.version_info < (3, 14) and sys.implementation.name == "cpython"
"""Where it has been tried that the first field of CPython's SSLContext is `SSL_CTX *ctx`."""
_VERIFY_PEER: Final = 1
_Verify = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p)


_kept: Final[list[Any]] = []
"""The callback, which must live as long as any context does."""


def take_any_certificate(context: ssl.SSLContext) -> bool:
    """Ask clients for a certificate and take what they show; False where that cannot be had and nothing was changed."""
    file = getattr(_ssl, "__file__", None)
    if not _KNOWN or type(context) is not ssl.SSLContext or file is None:
        return False
    try:
        library = ctypes.CDLL(file)  # whose symbols include those of the OpenSSL it was linked with
        get_mode, set_verify = library.SSL_CTX_get_verify_mode, library.SSL_CTX_set_verify
        clear_errors = library.ERR_clear_error
    except (OSError, AttributeError):
        return False
    get_mode.argtypes, get_mode.restype = [ctypes.c_void_p], ctypes.c_int
    set_verify.argtypes, set_verify.restype = [ctypes.c_void_p, ctypes.c_int, _Verify], None
    clear_errors.argtypes, clear_errors.restype = [], None
    if not _kept:

        def accept(is_verified: int, store: int | None) -> int:
            clear_errors()  # or the next read on this thread would take what verification found for its own failure
            return 1

        _kept.append(_Verify(accept))
    address = ctypes.c_void_p.from_address(id(context) + object.__basicsize__)
    if get_mode(address) != context.verify_mode:
        return False
    set_verify(address, _VERIFY_PEER, _kept[0])
    return True


def ask_for_any(context: ssl.SSLContext, authorities: bytes) -> None:
    """Have a server's TLS ask clients for a certificate of these authorities (PEM), and take another one as well.

    Where that cannot be had, TLS takes those of these authorities alone. Raises ssl.SSLError for what is no PEM.
    """
    context.load_verify_locations(cadata=authorities.decode("ascii", errors="ignore"))
    if not take_any_certificate(context):
        context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN  # as Go: any authority is one, root or not
        context.verify_mode = ssl.CERT_OPTIONAL
