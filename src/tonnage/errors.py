"""Every failure that Tonnage reports on purpose.

`TonnageError` is for people: one sentence that says what was tried, what was found and what to do, with an optional
hint. `ApiError` has one class for each of Kubernetes' `reason`s; the API server raises them, and the client raises them
again from the Status it receives.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, ClassVar, dataclass_transform


class TonnageError(Exception):
    """A failure described in one sentence, with a hint if a remedy is known."""

    has_lines: ClassVar[bool] = False
    """True if the message has lines of our own, such as the end of a log; other messages are shown as one line."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass_transform(eq_default=False)
class FormattedError(TonnageError):
    """A failure whose fields are its facts: `text` and `remedy` are the formats of its message and hint."""

    text: ClassVar[str]
    remedy: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        dataclass(eq=False, repr=False)(cls)

    def __post_init__(self) -> None:
        facts = vars(self)
        super().__init__(self.text.format(**facts), hint=self.remedy.format(**facts) or None)


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause of a refusal; `field` is a path such as `spec.drivers[0].name`."""

    reason: str
    message: str
    field: str = ""


class ApiError(TonnageError):
    """A refusal in Kubernetes' words: HTTP `code`, machine-readable `reason`, and the object. `kind` is the plural
    resource name in every error but Invalid, as upstream."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = "InternalError"

    def __init_subclass__(cls, *, code: int | None = None, reason: str | None = None) -> None:
        """With a `code`, the class name is Kubernetes' reason unless that is given."""
        super().__init_subclass__()
        if code is not None:
            cls.code, cls.reason = code, cls.__name__ if reason is None else reason

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

    def status(self) -> dict[str, Any]:
        """The wire's Status; field order and omissions are upstream's."""
        details: dict[str, Any] = {
            name: said for name in ("name", "group", "kind", "uid") if (said := getattr(self, name))
        }
        if self.causes:
            details["causes"] = [
                {
                    name: said
                    for name in ("reason", "message", "field")
                    if (said := getattr(c, name)) or name == "message"
                }
                for c in self.causes
            ]
        if self.retry_after_s:
            details["retryAfterSeconds"] = self.retry_after_s
        token = self.continue_token if isinstance(self, Expired) else ""
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": token} if token else {},
            "status": "Failure",
            "message": self.message,
            **({"reason": self.reason} if self.reason else {}),
            # Upstream sends empty details with these, even for a path that is no resource.
            **({"details": details} if details or isinstance(self, Forbidden | MethodNotAllowed | NotFound) else {}),
            "code": self.code,
        }


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
    """The resourceVersion or continue token is older than the kept history."""

    continue_token: str = ""
    """Continues the list at a newer revision, so that it is no longer consistent."""


class RequestEntityTooLarge(ApiError, code=413): ...


class UnsupportedMediaType(ApiError, code=415): ...


class Invalid(ApiError, code=422): ...


class TooManyRequests(ApiError, code=429): ...


class InternalError(ApiError, code=500): ...


class ServiceUnavailable(ApiError, code=503): ...


class Timeout(ApiError, code=504): ...


def closest(name: str, known: Iterable[str], *, most: int = 1) -> list[str]:
    """The known names nearest to `name`, nearest first; case is ignored."""
    by_lower = {each.lower(): each for each in known}
    return [by_lower[close_match] for close_match in get_close_matches(name.lower(), by_lower, n=most)]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`did you mean "filter"?`, or nothing when no known name is near."""
    return "".join(f'did you mean "{each}"?' for each in closest(name, known))
