"""Every failure Tonnage reports on purpose.

`TonnageError` is what a person sees: one sentence that names what was tried, what was found and what to do, plus an
optional hint. `ApiError` is Kubernetes' own vocabulary of failures, one class for each `reason`; the API server raises
them, the client raises them again from the Status it received.
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
    """A refusal as Kubernetes words it: HTTP `code`, machine-readable `reason`, and what it is about. `kind` is the
    plural resource name in every error but Invalid, as upstream."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = "InternalError"

    def __init_subclass__(cls, *, code: int | None = None) -> None:
        """With a `code`, the class is named as Kubernetes' reason is."""
        super().__init_subclass__()
        if code is not None:
            cls.code, cls.reason = code, cls.__name__

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


class BadRequest(ApiError, code=400): ...


class Unauthorized(ApiError, code=401): ...


class Forbidden(ApiError, code=403): ...


class NotFound(ApiError, code=404): ...


class MethodNotAllowed(ApiError, code=405): ...


class NotAcceptable(ApiError, code=406): ...


class AlreadyExists(ApiError, code=409): ...


class Conflict(ApiError, code=409): ...


class Gone(ApiError, code=410): ...


class Expired(ApiError, code=410):
    """A resourceVersion or continue token older than what is kept."""

    continue_token: str = ""
    """How to go on with a list whose moment is gone, at the price of consistency."""


class RequestEntityTooLarge(ApiError, code=413): ...


class UnsupportedMediaType(ApiError, code=415): ...


class Invalid(ApiError, code=422): ...


class TooManyRequests(ApiError, code=429): ...


class InternalError(ApiError, code=500): ...


class ServiceUnavailable(ApiError, code=503): ...


class Timeout(ApiError, code=504): ...


def closest(name: str, known: Iterable[str], *, most: int = 1) -> list[str]:
    """The known names nearest to `name`, the nearest first; capitals do not count."""
    by_lower = {each.lower(): each for each in known}
    return [by_lower[each] for each in get_close_matches(name.lower(), by_lower, n=most)]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`did you mean "filter"?`, or nothing when no known name is near."""
    return "".join(f'did you mean "{each}"?' for each in closest(name, known))
