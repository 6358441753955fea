"""What a driver answers when it refuses, in one exception."""

from __future__ import annotations

import grpc

from tonnage.errors import TonnageError

Code = grpc.StatusCode

_TOLD_CHARS = 4096
"""How much of a driver's words is kept: they go into logs, events, conditions and annotations."""


class CsiError(TonnageError):
    """A CSI call that did not do what it was asked; `code` is the reason as gRPC has it, `told` the driver's words."""

    def __init__(self, method: str, code: Code, told: str, *, address: str = "", hint: str | None = None) -> None:
        self.method = method
        self.code = code
        self.told = told = told if len(told) <= _TOLD_CHARS else f"{told[:_TOLD_CHARS]}..."
        self.address = address
        super().__init__(f"{method}: {rpc_error(code, told)}", hint=hint)

    @property
    def number(self) -> int:
        """The code as a number: what goes into `attachError.errorCode`."""
        value: int = self.code.value[0]
        return value

    @property
    def rpc_error(self) -> str:
        """The refusal as Go's gRPC words it, without the method: what upstream puts into events and attach errors."""
        return rpc_error(self.code, self.told)


_IN_DOUBT = frozenset({Code.CANCELLED, Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE, Code.ABORTED, Code.DATA_LOSS})


def is_in_doubt(code: Code) -> bool:
    """Whether the driver may have done the work, or may still be at it: the very same is then to be asked again.

    Mirrors external-provisioner's isFinalError. Other than there, ResourceExhausted is a clear answer: CSI's "no room".
    What gRPC itself calls so, an answer that is too long to be read, the client raises as DataLoss.
    """
    return code in _IN_DOUBT


def rpc_error(code: Code, told: str) -> str:
    """`rpc error: code = ResourceExhausted desc = …`, which people grep for."""
    return f"rpc error: code = {code_name(code)} desc = {told}"


def error_text(failure: TonnageError) -> str:
    """A failure as upstream's events and statuses tell it: a driver's as `rpc error: …`, without our method."""
    return failure.rpc_error if isinstance(failure, CsiError) else failure.message


def code_name(code: Code) -> str:
    """`ResourceExhausted`, as Go's gRPC writes codes in messages and in metrics."""
    return _ODD_NAMES.get(code) or "".join(part.capitalize() for part in code.name.split("_"))


_ODD_NAMES = {Code.OK: "OK", Code.CANCELLED: "Canceled"}
