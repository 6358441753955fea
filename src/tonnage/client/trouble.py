"""What aiohttp, TLS and the system raise, in our words: what was tried, what happened, and whether it is in doubt.

A request is in doubt when it may have reached the server: it may have been carried out, and who sent it has to look.
"""

from __future__ import annotations

import os
import socket
import ssl

import aiohttp

from tonnage.client.errors import Disconnected, Untrusted
from tonnage.client.wire import Request

CONNECT_S = 10.0
"""How long a connection may take to be made."""

_LOOK = "is the API server running, and does the kubeconfig name its address?"


def trouble(request: Request, server: str, exc: Exception) -> Disconnected:
    """The error for a request that got no whole answer."""
    method, url = request.method, server + request.path.partition("?")[0]
    if isinstance(exc, aiohttp.ClientSSLError | ssl.SSLError):
        return Untrusted(method, url, _words(exc))
    if isinstance(exc, aiohttp.ConnectionTimeoutError):
        return Disconnected(method, url, f"no connection within {CONNECT_S:g} s", in_doubt=False, hint=_LOOK)
    if isinstance(exc, TimeoutError):
        return Disconnected(method, url, f"no answer within {request.timeout_s:g} s", in_doubt=True)
    if isinstance(exc, aiohttp.ClientConnectorError):
        return Disconnected(method, url, _words(exc), in_doubt=False, hint=_LOOK)
    return Disconnected(method, url, _words(exc), in_doubt=True)


def _words(exc: BaseException) -> str:
    if isinstance(exc, aiohttp.ClientConnectorCertificateError):
        exc = exc.certificate_error
    if isinstance(exc, aiohttp.ClientConnectorError):
        exc = exc.os_error
    if isinstance(exc, ssl.SSLCertVerificationError):
        return f"the server's certificate is not accepted: {exc.verify_message}"
    if isinstance(exc, ssl.SSLError):
        return f"TLS failed: {exc.reason or exc}"
    if isinstance(exc, socket.gaierror):
        return f"the server's name is not known: {exc.strerror}"
    if isinstance(exc, aiohttp.ServerDisconnectedError):
        return "the server hung up without an answer"
    if isinstance(exc, aiohttp.ClientPayloadError):
        return "the connection was cut in the middle of the answer"
    if isinstance(exc, OSError) and exc.errno:
        return os.strerror(exc.errno).lower()
    return str(exc) or type(exc).__name__
