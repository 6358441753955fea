"""The continue token that leads from one page of a list to the next.

It is in upstream's own form, because some clients look inside: after which key to go on, and at which revision.
"""

from __future__ import annotations

import base64
import binascii

import msgspec

from tonnage.documents.json_syntax import syntax_error
from tonnage.errors import BadRequest, Expired

_VERSION = "meta.k8s.io/v1"


class ContinueToken(msgspec.Struct):
    """Where the next page starts: after the key `start`, at revision `rv` (-1: whatever is newest)."""

    rv: int = 0
    start: str = ""
    v: str = ""

    def text(self) -> str:
        after = msgspec.structs.replace(self, start=f"{self.start}\0", v=_VERSION)
        return base64.urlsafe_b64encode(msgspec.json.encode(after)).decode().rstrip("=")

    @classmethod
    def read(cls, text: str) -> ContinueToken:
        """Raises BadRequest."""
        try:
            token = cls._decode(text)
        except ValueError as exc:
            raise BadRequest(f"invalid continue token: continue key is not valid: {exc}") from exc
        return msgspec.structs.replace(token, start=token.start.lstrip("/").removesuffix("\0"))

    @classmethod
    def _decode(cls, text: str) -> ContinueToken:
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except binascii.Error as exc:
            raise ValueError("illegal base64 data") from exc
        try:
            token = msgspec.json.decode(raw, type=cls)
        except (msgspec.ValidationError, RecursionError) as exc:
            raise ValueError(f"the token is none: {exc}") from exc
        except msgspec.DecodeError as exc:
            raise ValueError(syntax_error(raw)) from exc
        if token.v != _VERSION:
            raise ValueError(f"server does not recognize this encoded version {token.v}")
        if not token.rv:
            raise ValueError(f"incorrect encoded start resourceVersion (version {_VERSION})")
        if not token.start:
            raise ValueError(f"encoded start key empty (version {_VERSION})")
        if ".." in token.start.split("/"):
            raise ValueError(token.start)
        return token


class ExpiredToken(Expired):
    """The moment a paged list showed is gone; the answer holds a token that goes on with what is there now."""

    def __init__(self, token: ContinueToken) -> None:
        super().__init__(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list "
            "without the continue parameter, or use the continue token in this response to retrieve the remainder of "
            "the results. Continuing with the provided token results in an inconsistent list - objects that were "
            "created, modified, or deleted between the time the first chunk was returned and now may show up in the "
            "list."
        )
        self.continue_token = msgspec.structs.replace(token, rv=-1).text()
