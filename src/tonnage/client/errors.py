"""Failures between a program and its API server: refusals, missing answers, bad kubeconfigs."""

from __future__ import annotations

from functools import lru_cache
from typing import cast

import msgspec

from tonnage.errors import AlreadyExists, ApiError, Cause, Expired, TonnageError
from tonnage.objects.meta import Status


class Disconnected(TonnageError):
    """A request without a whole answer. `in_doubt`: the server may have carried it out."""

    def __init__(self, method: str, url: str, detail: str, *, in_doubt: bool, hint: str | None = None) -> None:
        super().__init__(f"{method} {url}: {detail}", hint=hint)
        self.method = method
        self.url = url
        self.detail = detail
        self.in_doubt = in_doubt


class Untrusted(Disconnected):
    """The server's certificate was not verified, or ours was not accepted; nothing was sent."""

    def __init__(self, method: str, url: str, detail: str) -> None:
        super().__init__(
            method,
            url,
            detail,
            in_doubt=False,
            hint="compare certificate-authority and tls-server-name of the kubeconfig with the server's certificate",
        )


class InvalidKubeconfig(TonnageError):
    """An unusable kubeconfig: `entry` is a path such as `users[admin].tokenFile`, empty for the whole file."""

    def __init__(self, file: str, entry: str, problem: str, *, hint: str | None = None) -> None:
        super().__init__(f"{file}: {entry}: {problem}" if entry else f"{file}: {problem}", hint=hint)
        self.file = file
        self.entry = entry
        self.problem = problem


class NoCredentials(TonnageError):
    """The credentials could not be had: an unreadable file, an exec plugin that failed."""


_BY_REASON = {cls.reason: cls for cls in ApiError.__subclasses__() if cls.__module__ == ApiError.__module__}
_AMBIGUOUS = (AlreadyExists, Expired)
"""These share their code with a more general class, so the code alone does not choose them."""
_BY_CODE = {cls.code: cls for cls in _BY_REASON.values() if cls not in _AMBIGUOUS}


def from_status(status: Status, *, retry_after_s: int = 0) -> ApiError:
    """The error of a Status; the header Retry-After counts if the Status has none."""
    details = status.details
    error = _class_of(status.code, status.reason)(
        status.message or f"the server answered {status.code} {status.reason}".rstrip(),
        group=details.group,
        kind=details.kind,
        name=details.name,
        uid=details.uid,
        causes=tuple(Cause(cause.reason, cause.message, cause.field) for cause in details.causes),
        retry_after_s=details.retry_after_seconds or retry_after_s,
    )
    if isinstance(error, Expired):
        error.continue_token = status.metadata.continue_
    return error


def from_response(method: str, url: str, code: int, body: bytes, *, retry_after_s: int = 0) -> ApiError:
    """The error for an answer that is no Status: from a proxy, or from a server that is no API server."""
    said = " ".join(body[:200].decode(errors="replace").split())
    return _class_of(code, "")(
        f"{method} {url}: the answer is {code}" + (f": {said}" if said else ", without a word"),
        retry_after_s=retry_after_s,
    )


def status_message(body: bytes) -> str:
    """The message of a Status; empty for another body."""
    try:
        message = msgspec.json.decode(body)["message"]
    except (msgspec.DecodeError, ValueError, RecursionError, KeyError, TypeError):
        return ""
    return message if isinstance(message, str) else ""


@lru_cache(maxsize=64)
def _class_of(code: int, reason: str) -> type[ApiError]:
    """The class of a reason; for an unknown reason the class of the code, with code and reason as they came."""
    known = _BY_REASON.get(reason) or _BY_CODE.get(code, ApiError)
    if known.code == code and reason in (known.reason, ""):
        return known
    return cast(type[ApiError], type(known.__name__, (known,), {"code": code, "reason": reason}))
