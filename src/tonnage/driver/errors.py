"""One exception for every refused call: a gRPC code and a message, as Go's `status.Error`."""

from __future__ import annotations

from functools import partial

from tonnage.csi.errors import Code
from tonnage.errors import TonnageError


class StatusError(TonnageError):
    """A refused call, with the CSI specification's code; the interceptor turns it into the answer."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code


invalid_argument = partial(StatusError, Code.INVALID_ARGUMENT)
not_found = partial(StatusError, Code.NOT_FOUND)
already_exists = partial(StatusError, Code.ALREADY_EXISTS)
failed_precondition = partial(StatusError, Code.FAILED_PRECONDITION)
resource_exhausted = partial(StatusError, Code.RESOURCE_EXHAUSTED)
out_of_range = partial(StatusError, Code.OUT_OF_RANGE)
