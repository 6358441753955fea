"""What sockets, TLS and aiohttp raise, in our words: what was tried, what happened, and whether it is in doubt.

A request is in doubt when it may have reached the server: it may have been carried out, and who sent it has to look.
"""

from __future__ import annotations

import os
import socket
import ssl

import aiohttp

from tonnage.client.errors import Disconnected, Untrusted
from tonnage.client.transport.connection_pool import CONNECT_S, HungUp, NotConnected
from tonnage.client.transport.wire import Request

_LOOK = "is the API server running, and does the kubeconfig name its address?"


def failure_of(request: Request, server: str, exc: Exception) -> Disconnected:
    """The error for a request that got no whole answer."""
    method, url = request.method, server + request.path.partition("?")[0]
    was_sent = not isinstance(exc, NotConnected | aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
    cause = exc.__cause__ if isinstance(exc, NotConnected) and exc.__cause__ is not None else exc
    if isinstance(cause, aiohttp.ClientSSLError | ssl.SSLError):
        return Untrusted(method, url, _words(cause))
    if isinstance(cause, TimeoutError):
        missed = f"no answer within {request.timeout_s:g} s" if was_sent else f"no connection within {CONNECT_S:g} s"
        return Disconnected(method, url, missed, in_doubt=was_sent, hint=None if was_sent else _LOOK)
    return Disconnected(method, url, _words(cause), in_doubt=was_sent, hint=None if was_sent else _LOOK)


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
    if isinstance(exc, aiohttp.ClientPayloadError) or (isinstance(exc, HungUp) and exc.began):
        return "the connection was cut in the middle of the answer"
    if isinstance(exc, aiohttp.ServerDisconnectedError | HungUp):
        return "the server hung up without an answer"
    if isinstance(exc, OSError) and exc.errno:
        return os.strerror(exc.errno).lower()
    if isinstance(exc, ConnectionError):
        return "the connection was lost"
    return str(exc) or type(exc).__name__
