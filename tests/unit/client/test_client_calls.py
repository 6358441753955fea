"""One call and what surrounds it: refusals as exceptions, second tries, the count, the limit."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from support.virtual_clock import VirtualClock
from tonnage.client.calls import asking_first
from tonnage.client.errors import Disconnected, Untrusted, from_status
from tonnage.client.http import Client
from tonnage.client.throttle import TokenBucket
from tonnage.client.transport.wire import HttpResponse, Request
from tonnage.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Cause,
    Conflict,
    Expired,
    Forbidden,
    Gone,
    InternalError,
    Invalid,
    NotFound,
    ServiceUnavailable,
    TooManyRequests,
    Unauthorized,
)
from tonnage.objects.codec import convert
from tonnage.objects.core_v1 import ConfigMap, Node, Pod
from tonnage.objects.meta import Status
from tonnage.objects.resources import BY_PLURAL

NODE = b'{"kind":"Node","apiVersion":"v1","metadata":{"name":"n1"}}'


class Script:
    """A transport that plays its part line by line."""

    server = "https://10.0.0.1:6443"

    def __init__(self, *lines: HttpResponse | Exception) -> None:
        self._lines = list(lines)
        self.requests: list[Request] = []

    async def send(self, request: Request) -> HttpResponse:
        self.requests.append(request)
        line = self._lines.pop(0)
        if isinstance(line, Exception):
            raise line
        return line

    def stream(self, request: Request):
        raise AssertionError("no streams here")

    async def close(self) -> None: ...


def status(
    code: int, reason: str, message: str = "no", headers: dict[str, str] | None = None, **fields: Any
) -> HttpResponse:
    doc = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }
    return HttpResponse(code, json.dumps({**doc, **fields}).encode(), headers or {})


def away() -> Disconnected:
    return Disconnected("GET", "https://10.0.0.1:6443/api/v1/nodes/n1", "connection refused", in_doubt=False)


async def play(script: Script, act: Callable[[Client], Any], **options: Any) -> tuple[Any, float]:
    """What came of it (a result or an exception), and how long it took."""
    clock = VirtualClock()
    client = Client(script, clock=clock, rng=random.Random(1), **options)
    acting = asyncio.ensure_future(act(client))
    seconds = 0.0
    while not acting.done():
        await clock.run_for(0.1)
        seconds = clock.monotonic()
    return acting.exception() or acting.result(), seconds


def get(client: Client) -> Any:
    return client.get(Node, "n1")


def patch(client: Client) -> Any:
    return client.patch(Node, "n1", {})


# -- refusals ---------------------------------------------------------------------------------------------------------


async def test_a_status_becomes_its_error_with_all_it_says():
    details = {
        "name": "x",
        "group": "storage.k8s.io",
        "kind": "CSINode",
        "uid": "u1",
        "causes": [{"reason": "FieldValueInvalid", "message": "Invalid value: 1", "field": "spec.drivers[0].name"}],
        "retryAfterSeconds": 60,
    }
    failure, _ = await play(Script(status(422, "Invalid", "it is wrong", details=details)), get)
    assert type(failure) is Invalid and failure.message == "it is wrong"
    assert (failure.name, failure.group, failure.kind, failure.uid) == ("x", "storage.k8s.io", "CSINode", "u1")
    assert failure.causes == (Cause("FieldValueInvalid", "Invalid value: 1", "spec.drivers[0].name"),)
    assert failure.retry_after_s == 60


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (400, "BadRequest", BadRequest),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Conflict),
        (410, "Expired", Expired),
        (410, "Gone", Gone),
        (500, "InternalError", InternalError),
    ],
)
def test_each_reason_has_its_class(code, reason, expected):
    assert type(from_status(Status(code=code, reason=reason, message="no"))) is expected


def test_a_reason_nobody_knows_is_of_the_class_of_its_code():
    failure = from_status(Status(code=500, reason="ServerTimeout", message="try again"))
    assert isinstance(failure, InternalError) and (failure.code, failure.reason) == (500, "ServerTimeout")
    failure = from_status(Status(code=418, reason="Teapot", message="short and stout"))
    assert isinstance(failure, ApiError) and (failure.code, failure.reason) == (418, "Teapot")
    assert isinstance(from_status(Status(code=409, message="no")), Conflict)
    assert from_status(Status(code=503)).message == "the server answered 503"


def test_an_expired_list_says_how_to_go_on():
    body = {"kind": "Status", "code": 410, "reason": "Expired", "metadata": {"continue": "token"}}
    failure = from_status(convert(Status, body))
    assert isinstance(failure, Expired) and failure.continue_token == "token"


async def test_an_answer_that_is_no_status_is_quoted():
    page = b"<html>\n<head><title>403 Forbidden</title></head>\n</html>"
    failure, _ = await play(Script(HttpResponse(403, page)), get)
    assert isinstance(failure, Forbidden) and failure.message == (
        "GET https://10.0.0.1:6443/api/v1/nodes/n1: the answer is 403: <html> <head><title>403 Forbidden</title></head>"
        " </html>"
    )
    failure, _ = await play(Script(HttpResponse(302, b"")), get)
    assert (type(failure).__mro__[1], failure.code) == (ApiError, 302)
    assert failure.message == "GET https://10.0.0.1:6443/api/v1/nodes/n1: the answer is 302, without a word"


# -- second tries -----------------------------------------------------------------------------------------------------


async def test_a_read_that_got_no_answer_is_tried_again_after_a_growing_pause():
    script = Script(away(), away(), away(), HttpResponse(200, NODE))
    node, seconds = await play(script, get)
    assert node.name == "n1" and len(script.requests) == 4
    # 0.2, 0.4 and 0.8 s, each stretched by up to as much again.
    assert 1.4 <= seconds <= 2.9


async def test_after_five_tries_a_read_gives_up():
    script = Script(*(away() for _ in range(9)))
    failure, _ = await play(script, get)
    assert isinstance(failure, Disconnected) and len(script.requests) == 5
    assert failure.message == "GET https://10.0.0.1:6443/api/v1/nodes/n1: connection refused"


async def test_a_read_without_retry_is_sent_once():
    script = Script(away())
    failure, _ = await play(script, lambda client: client.get(Node, "n1", retry=False))
    assert isinstance(failure, Disconnected) and len(script.requests) == 1


async def test_a_server_that_is_not_trusted_is_not_tried_again():
    script = Script(Untrusted("GET", "https://10.0.0.1:6443/x", "the server's certificate is not accepted"))
    failure, _ = await play(script, get)
    assert isinstance(failure, Untrusted) and len(script.requests) == 1
    assert failure.hint == (
        "compare certificate-authority and tls-server-name of the kubeconfig with the server's certificate"
    )


@pytest.mark.parametrize("code", [502, 503, 504])
async def test_a_read_from_a_server_that_is_not_well_is_tried_again(code):
    script = Script(status(code, "ServiceUnavailable"), HttpResponse(200, NODE))
    node, _ = await play(script, get)
    assert node.name == "n1" and len(script.requests) == 2


@pytest.mark.parametrize("code", [400, 403, 404, 409, 410, 422, 500])
async def test_other_refusals_are_final(code):
    script = Script(status(code, ""))
    failure, _ = await play(script, get)
    assert isinstance(failure, ApiError) and failure.code == code and len(script.requests) == 1


async def test_retry_after_is_honoured_from_header_and_status():
    script = Script(
        status(429, "TooManyRequests", headers={"retry-after": "7"}),
        status(429, "TooManyRequests", details={"retryAfterSeconds": 3}),
        HttpResponse(200, NODE),
    )
    _, seconds = await play(script, get)
    assert 10.0 <= seconds <= 10.2 and len(script.requests) == 3


async def test_a_server_that_wants_to_be_left_alone_for_long_is_not_waited_for():
    script = Script(status(429, "TooManyRequests", headers={"retry-after": "31"}))
    failure, seconds = await play(script, get)
    assert isinstance(failure, TooManyRequests) and failure.retry_after_s == 31 and seconds < 1.0


async def test_a_write_that_got_no_answer_is_not_tried_again():
    script = Script(Disconnected("PATCH", "x", "cut", in_doubt=True))
    failure, _ = await play(script, patch)
    assert isinstance(failure, Disconnected) and failure.in_doubt and len(script.requests) == 1


async def test_a_write_is_tried_again_when_the_server_says_when():
    script = Script(status(429, "TooManyRequests", headers={"retry-after": "1"}), HttpResponse(200, NODE))
    node, seconds = await play(script, patch)
    assert node.name == "n1" and seconds >= 1.0
    for refused in (status(429, "TooManyRequests"), status(503, "", headers={"retry-after": "1"})):
        script = Script(refused)
        failure, _ = await play(script, patch)
        assert isinstance(failure, TooManyRequests | ServiceUnavailable) and len(script.requests) == 1


async def test_an_eviction_that_a_budget_forbids_is_told_at_once():
    script = Script(status(429, "TooManyRequests", "Cannot evict pod", headers={"retry-after": "10"}))
    failure, seconds = await play(script, lambda client: client.evict("shop/db-0"))
    assert failure.message == "Cannot evict pod" and seconds < 1.0


# -- the count and the limit ------------------------------------------------------------------------------------------


async def test_every_request_is_counted_with_verb_resource_and_code():
    counted: list[tuple[str, str, int]] = []
    binding = HttpResponse(201, b'{"kind":"Status","apiVersion":"v1","status":"Success"}')
    lease = HttpResponse(200, b'{"kind":"Lease","metadata":{"name":"b","namespace":"a"}}')
    script = Script(away(), HttpResponse(200, NODE), binding, lease, HttpResponse(200, b"ok"), status(404, "NotFound"))

    async def act(client: Client) -> None:
        await client.get(Node, "n1")
        await client.bind("shop/db-0", "n1")
        await client.get_doc(BY_PLURAL["coordination.k8s.io", "leases"], "a/b")
        await client.raw("GET", "/readyz?verbose")
        await client.delete(Pod, "shop/db-0")

    failure, _ = await play(script, act, on_request=lambda *facts: counted.append(facts[:3]))
    assert isinstance(failure, NotFound)
    assert counted == [
        ("get", "nodes", 0),
        ("get", "nodes", 200),
        ("create", "pods/binding", 201),
        ("get", "leases.coordination.k8s.io", 200),
        ("get", "/readyz", 200),
        ("delete", "pods", 404),
    ]


async def test_a_count_has_the_seconds_of_its_own_request():
    clock, counted = VirtualClock(), []

    class Slow(Script):
        async def send(self, request: Request) -> HttpResponse:
            await clock.sleep(0.25)
            return await super().send(request)

    client = Client(
        Slow(HttpResponse(200, NODE)),
        clock=clock,
        rng=random.Random(1),
        on_request=lambda *facts: counted.append(facts),
    )
    getting = asyncio.create_task(client.get(Node, "n1"))
    await clock.run_for(1.0)
    await getting
    assert counted == [("get", "nodes", 200, 0.25)]


async def test_a_limit_spaces_requests_out():
    clock = VirtualClock()
    script = Script(*(HttpResponse(200, NODE) for _ in range(4)))
    client = Client(script, clock=clock, rng=random.Random(1), limit=TokenBucket(2.0, 2, clock=clock))
    getting = [asyncio.create_task(client.get(Node, "n1")) for _ in range(4)]
    await clock.run_for(0.0)
    assert len(script.requests) == 2
    await clock.run_for(0.5)
    assert len(script.requests) == 3
    await clock.run_for(0.5)
    await asyncio.gather(*getting)


async def test_a_write_asks_first_when_its_turn_has_come():
    clock = VirtualClock()
    script = Script(HttpResponse(200, NODE), HttpResponse(200, NODE))
    client = Client(script, clock=clock, rng=random.Random(1), limit=TokenBucket(1.0, 1, clock=clock))
    useless: list[str] = []

    def check() -> None:
        if useless:
            raise Conflict(useless[0])

    async def write() -> Node:
        with asking_first(check):
            return await client.patch(Node, "n1", {})

    first, second = asyncio.create_task(write()), asyncio.create_task(write())
    await clock.run_for(0.5)
    assert first.done() and not second.done()  # it waits for the limit
    useless.append("nobody wants it any more")
    await clock.run_for(1.0)
    with pytest.raises(Conflict, match="nobody wants it any more"):
        await second
    assert len(script.requests) == 1


async def test_a_write_that_is_tried_again_asks_again():
    clock = VirtualClock()
    script = Script(status(429, "TooManyRequests", headers={"retry-after": "2"}), HttpResponse(200, NODE))
    client = Client(script, clock=clock, rng=random.Random(1))
    asked: list[float] = []

    async def write() -> None:
        with asking_first(lambda: asked.append(clock.monotonic())):
            await client.patch(Node, "n1", {})

    writing = asyncio.create_task(write())
    await clock.run_for(10.0)
    await writing
    assert len(asked) == len(script.requests) == 2


async def test_warnings_of_the_server_are_logged_once_each(caplog):
    warned = HttpResponse(200, NODE, {}, ('299 - "v1 Thing is \\"old\\""', '299 - "v1 Thing is \\"old\\""'))
    script = Script(warned, warned)

    async def twice(client: Client) -> None:
        await client.get(Node, "n1")
        await client.get(Node, "n1")

    await play(script, twice)
    assert caplog.messages == ['the API server warns: v1 Thing is "old"']


# -- how things are asked for -----------------------------------------------------------------------------------------


async def asked(
    act: Callable[[Client], Any], body: bytes = b'{"kind":"Pod","metadata":{"name":"b","namespace":"a"}}'
) -> Request:
    script = Script(HttpResponse(200, body))
    result, _ = await play(script, act)
    assert not isinstance(result, Exception), result
    return script.requests[0]


async def test_patches_have_the_type_they_are():
    for kind, content_type in {
        "merge": "application/merge-patch+json",
        "json": "application/json-patch+json",
        "strategic": "application/strategic-merge-patch+json",
        "apply": "application/apply-patch+yaml",
    }.items():
        request = await asked(
            lambda client, kind=kind: client.patch(  # type: ignore[misc]  # a default of a lambda
                Pod, "a/b", {"x": 1}, patch_type=kind, subresource="status"
            )
        )
        assert (request.method, request.path, request.content_type, request.body) == (
            "PATCH",
            "/api/v1/namespaces/a/pods/b/status",
            content_type,
            b'{"x":1}',
        )
    request = await asked(
        lambda client: client.patch_doc(Pod, "a/b", {}, patch_type="apply", field_manager="me & co", force=True)
    )
    assert request.path == "/api/v1/namespaces/a/pods/b?fieldManager=me%20%26%20co&force=true"


async def test_a_deletion_says_which_life_and_state_and_how():
    request = await asked(lambda client: client.delete(Pod, "a/b"))
    assert (request.method, request.path, request.body) == ("DELETE", "/api/v1/namespaces/a/pods/b", None)
    request = await asked(
        lambda client: client.delete(Pod, "a/b", uid="u", resource_version="7", grace_s=0, propagation="Foreground")
    )
    assert json.loads(request.body or b"") == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u", "resourceVersion": "7"},
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Foreground",
    }


async def test_a_binding_and_an_eviction_are_written_as_upstream_does():
    request = await asked(lambda client: client.bind("shop/db-0", "n1", uid="u"))
    assert request.path == "/api/v1/namespaces/shop/pods/db-0/binding"
    assert json.loads(request.body or b"") == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": "shop", "name": "db-0", "uid": "u"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }
    request = await asked(lambda client: client.evict("shop/db-0"))
    assert json.loads(request.body or b"") == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": "shop", "name": "db-0"},
    }


async def test_a_key_that_does_not_fit_its_kind_is_refused_before_anything_is_sent():
    client = Client(Script(), clock=VirtualClock(), rng=random.Random(1))
    with pytest.raises(ValueError, match='a Pod is named by a key of the form "namespace/name", not "db-0"'):
        await client.get(Pod, "db-0")
    with pytest.raises(ValueError, match='a Node is named by a key of the form "name", not "a/n1"'):
        await client.get(Node, "a/n1")
    with pytest.raises(ValueError, match=r"a ConfigMap is made in a namespace, and metadata\.namespace is empty"):
        await client.create(ConfigMap())


async def test_names_are_escaped():
    request = await asked(lambda client: client.get_doc(Pod, "a/b c?d"))
    assert request.path == "/api/v1/namespaces/a/pods/b%20c%3Fd"
