"""Every failure Tonnage reports on purpose.

Two families live here. `TonnageError` is what a person sees: one sentence that names what was tried, what was found and
what to do, plus an optional hint that the command line prints on a line of its own. `ApiError` is Kubernetes' own
vocabulary of failures, one class for each `reason`; the API server raises them, the client raises them again from the
Status it received, so both sides of the wire speak of the same thing. Turning one into a Status document is the API
server's affair (`apiserver/status.py`).

What a person may have meant by a name that does not exist: the known names that are spelled most like it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import ClassVar


class TonnageError(Exception):
    """A failure with a sentence for a person, and a hint where there is a known remedy."""

    has_lines: ClassVar[bool] = False
    """The message holds lines of our own making, such as the end of a log; others are one line, whatever is in them."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason behind a refusal: `field` is a path such as `spec.drivers[0].name`."""

    reason: str
    message: str
    field: str = ""


class ApiError(TonnageError):
    """A refusal as Kubernetes words it: HTTP `code`, machine-readable `reason`, and what it is about.

    `group`, `kind`, `name` and `uid` fill `status.details`; for `kind` upstream puts the plural resource name in every
    error but Invalid, where it is the kind proper. We keep that.
    """

    code: ClassVar[int] = 500
    reason: ClassVar[str] = "InternalError"

    def __init__(
        self,
        message: str,
        *,
        group: str = "",
        kind: str = "",
        name: str = "",
        uid: str = "",
        causes: tuple[Cause, ...] = (),
        retry_after_s: int = 0,
    ) -> None:
        super().__init__(message)
        self.group = group
        self.kind = kind
        self.name = name
        self.uid = uid
        self.causes = causes
        self.retry_after_s = retry_after_s


class BadRequest(ApiError):
    code = 400
    reason = "BadRequest"


class Unauthorized(ApiError):
    code = 401
    reason = "Unauthorized"


class Forbidden(ApiError):
    code = 403
    reason = "Forbidden"


class NotFound(ApiError):
    code = 404
    reason = "NotFound"


class MethodNotAllowed(ApiError):
    code = 405
    reason = "MethodNotAllowed"


class NotAcceptable(ApiError):
    code = 406
    reason = "NotAcceptable"


class AlreadyExists(ApiError):
    code = 409
    reason = "AlreadyExists"


class Conflict(ApiError):
    code = 409
    reason = "Conflict"


class Gone(ApiError):
    code = 410
    reason = "Gone"


class Expired(ApiError):
    """A resourceVersion or continue token older than what is kept."""

    code = 410
    reason = "Expired"
    continue_token: str = ""
    """How to go on with a list whose moment is gone, at the price of consistency."""


class RequestEntityTooLarge(ApiError):
    code = 413
    reason = "RequestEntityTooLarge"


class UnsupportedMediaType(ApiError):
    code = 415
    reason = "UnsupportedMediaType"


class Invalid(ApiError):
    code = 422
    reason = "Invalid"


class TooManyRequests(ApiError):
    code = 429
    reason = "TooManyRequests"


class InternalError(ApiError):
    code = 500
    reason = "InternalError"


class ServiceUnavailable(ApiError):
    code = 503
    reason = "ServiceUnavailable"


class Timeout(ApiError):
    code = 504
    reason = "Timeout"


def closest(name: str, known: Iterable[str], *, most: int = 1) -> list[str]:
    """The known names nearest to `name`, the nearest first; capitals do not count."""
    by_lower = {each.lower(): each for each in known}
    return [by_lower[each] for each in get_close_matches(name.lower(), by_lower, n=most)]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`did you mean "filter"?`, or nothing when no known name is near."""
    return "".join(f'did you mean "{each}"?' for each in closest(name, known))
