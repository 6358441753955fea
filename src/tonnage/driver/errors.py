"""How the driver says no: one exception with a gRPC code, which `calls` turns into the answer."""

from __future__ import annotations

from tonnage.csi.errors import Code
from tonnage.errors import TonnageError


class Refused(TonnageError):
    """A call that cannot be done, and why, in the CSI specification's codes."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code
