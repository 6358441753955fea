"""A token that was shown before is not looked at closely again, and still ends when what it depends on does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from support.virtual_clock import VirtualClock
from tonnage.apiserver.authentication.service_account_tokens import ServiceAccountTokens, SigningKey
from tonnage.clock import rfc3339
from tonnage.documents.access.service_account_tokens import ACCOUNTS, BoundObject, InvalidToken, Kubernetes, claims_of
from tonnage.objects.document import Doc, encode
from tonnage.objects.resources import BY_PLURAL
from tonnage.store.records import StoreRecord
from tonnage.store.store import Store

PODS = BY_PLURAL["", "pods"]
AUDIENCES = ("https://here",)


def account(uid: str = "u-1") -> Doc:
    return {"metadata": {"name": "db", "namespace": "shop", "uid": uid}}


@dataclass
class TokensRig:
    """A store with an account and a pod of it, and the token that the pod has shown already."""

    store: Store
    clock: VirtualClock
    tokens: ServiceAccountTokens
    account: StoreRecord
    pod: StoreRecord
    token: bytes

    def user(self, audiences: tuple[str, ...] = AUDIENCES) -> str:
        return self.tokens.authenticate(self.token, audiences)[0].name


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[TokensRig]:
    store, clock = await Store.open(tmp_path / "store"), VirtualClock()
    try:
        pod = {"metadata": {"name": "db-0", "namespace": "shop", "uid": "u-2"}}
        records = [
            await store.create(ACCOUNTS.key("shop", "db"), lambda revision: encode(account())),
            await store.create(PODS.key("shop", "db-0"), lambda revision: encode(pod)),
        ]
        key = SigningKey(ec.generate_private_key(ec.SECP256R1()))
        tokens = ServiceAccountTokens(key, store, clock, issuer=AUDIENCES[0])
        claims = claims_of(
            account()["metadata"],
            Kubernetes(pod=BoundObject("db-0", "u-2")),
            audiences=AUDIENCES,
            seconds=600,
            now=clock.now(),
            jti="j",
            issuer=AUDIENCES[0],
        )
        token = key.signed(msgspec.json.encode(claims)).encode()
        rig = TokensRig(store, clock, tokens, records[0], records[1], token)
        assert rig.user() == rig.user() == "system:serviceaccount:shop:db"
        yield rig
    finally:
        await store.close()


async def test_it_ends_by_the_clock(rig: TokensRig) -> None:
    rig.clock.advance(599)
    assert rig.user()
    rig.clock.advance(1)
    with pytest.raises(InvalidToken, match="has expired"):
        rig.user()


async def test_it_ends_with_its_account(rig: TokensRig) -> None:
    await rig.store.delete(rig.account.key, lambda revision: encode(account()), expected=rig.account.revision)
    with pytest.raises(InvalidToken, match="not found"):
        rig.user()


async def test_another_account_of_that_name_is_another(rig: TokensRig) -> None:
    other = encode(account("u-9"))
    await rig.store.update(rig.account.key, lambda revision: other, expected=rig.account.revision)
    with pytest.raises(InvalidToken, match="does not match claim"):
        rig.user()


async def test_a_change_of_its_objects_does_no_harm(rig: TokensRig) -> None:
    labelled = account()
    labelled["metadata"]["labels"] = {"a": "b"}
    await rig.store.update(rig.account.key, lambda revision: encode(labelled), expected=rig.account.revision)
    assert rig.user() == rig.user() == "system:serviceaccount:shop:db"


async def test_it_ends_some_time_after_its_pod_was_to_be_gone(rig: TokensRig) -> None:
    going = {"metadata": {"name": "db-0", "namespace": "shop", "uid": "u-2"}}
    going["metadata"]["deletionTimestamp"] = rfc3339(rig.clock.now())
    await rig.store.update(rig.pod.key, lambda revision: encode(going), expected=rig.pod.revision)
    assert rig.user() == rig.user()
    rig.clock.advance(61)  # the record is the same, and time has passed
    with pytest.raises(InvalidToken, match="has been invalidated"):
        rig.user()


async def test_for_whom_it_is_is_asked_each_time(rig: TokensRig) -> None:
    with pytest.raises(InvalidToken, match="is invalid for the target audiences"):
        rig.user(("https://elsewhere",))
    assert rig.user()
