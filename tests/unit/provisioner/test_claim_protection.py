"""Holding a claim is asked for in one patch of one element, and a provisioner without the right to it goes on."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

import pytest

from tonnage.client.http import Client
from tonnage.client.transport.wire import HttpResponse, Request, Stream
from tonnage.errors import NotFound
from tonnage.objects.codec import encode
from tonnage.objects.document import Doc, decode
from tonnage.objects.document import encode as encode_doc
from tonnage.provisioner.volumes.claims import FINALIZER, is_protected, protect, unprotect
from tonnage.testing.storage_builders import claim

CLAIM = claim("data")
HELD = claim("data", metadata={"finalizers": [FINALIZER]})


@dataclass
class OneAnswer:
    """A server that says the same to everybody."""

    answer: HttpResponse
    asked: list[Request] = field(default_factory=list)
    server: str = "https://server"

    async def send(self, request: Request) -> HttpResponse:
        self.asked.append(request)
        return self.answer

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        raise AssertionError("nobody follows anything here")

    async def close(self) -> None:
        pass


def refusal(code: int, reason: str) -> HttpResponse:
    status: Doc = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
    return HttpResponse(code, encode_doc({**status, "message": "no"}))


async def test_a_claim_is_held_by_one_patch_for_this_life_of_it():
    server = OneAnswer(HttpResponse(200, encode(HELD)))
    await protect(Client(server), CLAIM)
    (asked,) = server.asked
    assert (asked.method, asked.path) == ("PATCH", "/api/v1/namespaces/default/persistentvolumeclaims/data")
    assert asked.content_type == "application/strategic-merge-patch+json"
    assert asked.body is not None
    assert decode(asked.body) == {"metadata": {"uid": "default-data", "finalizers": [FINALIZER]}}


async def test_a_claim_that_is_held_is_not_asked_for_again():
    server = OneAnswer(HttpResponse(200, encode(HELD)))
    assert is_protected(HELD) and not is_protected(CLAIM)
    await protect(Client(server), HELD)
    assert server.asked == []


async def test_without_the_right_to_it_a_claim_is_left_as_it_is():
    await protect(Client(OneAnswer(refusal(403, "Forbidden"))), CLAIM)


async def test_a_claim_that_is_gone_cannot_be_held_and_need_not_be_let_go():
    client = Client(OneAnswer(refusal(404, "NotFound")))
    with pytest.raises(NotFound):
        await protect(client, CLAIM)
    await unprotect(client, HELD)
