"""The exceptions for a failed CSI call, on the client's side and on the driver's."""

from __future__ import annotations

from functools import partial

import grpc

from tonnage.errors import TonnageError

Code = grpc.StatusCode

_TOLD_CHARS = 4096
"""How much of a driver's message is kept: it goes into logs, events, conditions and annotations."""


class CsiError(TonnageError):
    """A CSI call failed. `code` is the gRPC code, `told` the driver's message."""

    def __init__(self, method: str, code: Code, told: str, *, address: str = "", hint: str | None = None) -> None:
        self.method = method
        self.code = code
        self.told = told = told if len(told) <= _TOLD_CHARS else f"{told[:_TOLD_CHARS]}..."
        self.address = address
        super().__init__(f"{method}: {rpc_error(code, told)}", hint=hint)

    @property
    def number(self) -> int:
        """The code as a number, for `attachError.errorCode`."""
        value: int = self.code.value[0]
        return value

    @property
    def rpc_error(self) -> str:
        """The error as Go's gRPC words it, without the method: upstream's text in events and attach errors."""
        return rpc_error(self.code, self.told)


_IN_DOUBT = frozenset({Code.CANCELLED, Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE, Code.ABORTED, Code.DATA_LOSS})


def is_in_doubt(code: Code) -> bool:
    """True if the driver may have done the work, or may still be at it: the same request must be repeated.

    Mirrors external-provisioner's isFinalError, but ResourceExhausted is a clear answer: CSI's "no room". gRPC's own
    ResourceExhausted, for an answer too long to read, is raised by the client as DataLoss.
    """
    return code in _IN_DOUBT


def rpc_error(code: Code, told: str) -> str:
    """`rpc error: code = ResourceExhausted desc = …`, which people grep for."""
    return f"rpc error: code = {code_name(code)} desc = {told}"


def error_text(failure: TonnageError) -> str:
    """A failure as in upstream's events and statuses: a driver's as `rpc error: …`, without the method."""
    return failure.rpc_error if isinstance(failure, CsiError) else failure.message


def code_name(code: Code) -> str:
    """`ResourceExhausted`, as Go's gRPC writes codes in messages and metrics."""
    return _ODD_NAMES.get(code) or "".join(part.capitalize() for part in code.name.split("_"))


_ODD_NAMES = {Code.OK: "OK", Code.CANCELLED: "Canceled"}


class StatusError(TonnageError):
    """A call that our driver refuses, with the CSI specification's code; an interceptor turns it into the answer."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code


invalid_argument = partial(StatusError, Code.INVALID_ARGUMENT)
not_found = partial(StatusError, Code.NOT_FOUND)
already_exists = partial(StatusError, Code.ALREADY_EXISTS)
failed_precondition = partial(StatusError, Code.FAILED_PRECONDITION)
resource_exhausted = partial(StatusError, Code.RESOURCE_EXHAUSTED)
out_of_range = partial(StatusError, Code.OUT_OF_RANGE)
