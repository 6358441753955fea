"""What a driver answers when it refuses, in one exception."""

from __future__ import annotations

import grpc

from tonnage.errors import TonnageError

Code = grpc.StatusCode


class CsiError(TonnageError):
    """A CSI call that did not do what it was asked; `code` is the reason as gRPC has it, `told` the driver's words.

    `is_in_doubt` says that the driver may have done the work, or may still be at it: whoever asked must ask the very
    same again, and must not take it for undone. Mirrors external-provisioner's reading of codes.
    """

    def __init__(self, method: str, code: Code, told: str, *, address: str = "", hint: str | None = None) -> None:
        self.method = method
        self.code = code
        self.told = told
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

    @property
    def is_in_doubt(self) -> bool:
        return self.code in _IN_DOUBT


_IN_DOUBT = frozenset({Code.CANCELLED, Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE, Code.ABORTED, Code.RESOURCE_EXHAUSTED})
"""ResourceExhausted is here as upstream has it, because gRPC itself says so of messages that are too long. Callers that
know it as CSI's "no room" decide for themselves."""


def rpc_error(code: Code, told: str) -> str:
    """`rpc error: code = ResourceExhausted desc = …`, which people grep for."""
    return f"rpc error: code = {code_name(code)} desc = {told}"


def code_name(code: Code) -> str:
    """`ResourceExhausted`, as Go's gRPC writes codes in messages and in metrics."""
    return _ODD_NAMES.get(code) or "".join(part.capitalize() for part in code.name.split("_"))


_ODD_NAMES = {Code.OK: "OK", Code.CANCELLED: "Canceled"}
