"""Writes behind a fence: judged by another key as it is when the write gets its revision, not when it was asked for."""

from __future__ import annotations

import asyncio

import pytest

from tonnage.apiserver.requests import fence_broken, fence_of
from tonnage.errors import BadRequest
from tonnage.store.errors import FenceBroken
from tonnage.store.store import Store
from tonnage.store.writes import Fence, fenced

LEASE = "leases.coordination.k8s.io/kube-system/tonnage"


def held_by(name: str):
    return lambda revision: b'{"spec":{"holderIdentity":"%s"}}' % name.encode()


@pytest.fixture
async def opened(tmp_path):
    store = await Store.open(tmp_path / "store")
    yield store
    await store.close()


def of_a() -> Fence | None:
    return fence_of("kube-system/tonnage a")


async def test_a_write_holds_while_its_holder_does(opened):
    lease = await opened.create(LEASE, held_by("a"))
    with fenced(of_a()):
        await opened.create("pods/default/in-time", lambda revision: b"{}")
    await opened.update(LEASE, held_by("b"), expected=lease.revision)
    with fenced(of_a()), pytest.raises(FenceBroken) as caught:
        await opened.create("pods/default/late", lambda revision: b"{}")
    assert fence_broken("kube-system/tonnage a", caught.value.record).message == (
        'the write was made by "a" as holder of the lease "kube-system/tonnage", which "b" holds by now: '
        "it is not carried out"
    )
    assert opened.get("pods/default/late") is None
    await opened.create("pods/default/others", lambda revision: b"{}")  # who names no lease is not asked


async def test_a_change_of_the_fence_that_is_on_its_way_is_waited_for(opened):
    lease = await opened.create(LEASE, held_by("a"))
    taking = asyncio.create_task(opened.update(LEASE, held_by("b"), expected=lease.revision))
    await asyncio.sleep(0)  # it has its revision, and is not on disk yet
    with fenced(of_a()), pytest.raises(FenceBroken):
        await opened.create("pods/default/late", lambda revision: b"{}")
    await taking


async def test_a_lease_that_is_gone_is_held_by_nobody_else(opened):
    with fenced(of_a()):
        await opened.create("pods/default/p", lambda revision: b"{}")


@pytest.mark.parametrize("header", ["", "kube-system/tonnage", "tonnage a", "/x a", "kube-system/ a"])
def test_a_header_that_names_no_lease_and_holder_is_refused(header):
    with pytest.raises(BadRequest, match="names no lease and holder"):
        fence_of(header)
