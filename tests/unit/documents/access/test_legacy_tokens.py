"""Tokens in Secrets: what ends them, and what a Secret is filled with."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tonnage.documents.access.service_account_tokens import (
    InvalidToken,
    LegacyClaims,
    filled,
    is_of_account,
    legacy_claims_of,
    legacy_user_of,
)
from tonnage.objects.document import Doc

ACCOUNT: Doc = {"metadata": {"namespace": "shop", "name": "db", "uid": "u-db"}}
CLAIMS = legacy_claims_of(ACCOUNT["metadata"], "key")
SECRET: Doc = {
    "metadata": {"name": "key", "annotations": {"kubernetes.io/service-account.name": "db"}},
    "data": {"token": base64.b64encode(b"a.b.c").decode()},
}
LEAVING = {"deletionTimestamp": "2026-11-15T12:00:00Z"}


def test_a_token_is_good_while_its_secret_holds_it() -> None:
    assert legacy_user_of(CLAIMS, b"a.b.c", SECRET, ACCOUNT).name == "system:serviceaccount:shop:db"


@pytest.mark.parametrize(
    ("claims", "token", "secret", "account", "told"),
    [
        (CLAIMS, b"a.b.c", None, ACCOUNT, "Token has been invalidated"),
        (CLAIMS, b"a.b.c", {**SECRET, "metadata": LEAVING}, ACCOUNT, "Token has been invalidated"),
        (CLAIMS, b"a.b.d", SECRET, ACCOUNT, "Token does not match server's copy"),
        (CLAIMS, b"", {"metadata": {}}, None, 'serviceaccounts "db" not found'),
        (CLAIMS, b"a.b.c", SECRET, None, 'serviceaccounts "db" not found'),
        (CLAIMS, b"a.b.c", SECRET, {"metadata": LEAVING}, "ServiceAccount shop/db has been deleted"),
        (
            CLAIMS,
            b"a.b.c",
            SECRET,
            {"metadata": {"uid": "other"}},
            "ServiceAccount UID (other) does not match claim (u-db)",
        ),
        (LegacyClaims(sub="system:serviceaccount:shop:db"), b"a.b.c", SECRET, ACCOUNT, "invalid bearer token"),
        (
            LegacyClaims("", "shop", "key", "db", "u-db", "system:serviceaccount:shop:boss"),
            b"a.b.c",
            SECRET,
            ACCOUNT,
            "sub claim is invalid",
        ),
    ],
)
def test_what_ends_it(claims: LegacyClaims, token: bytes, secret: Doc | None, account: Doc | None, told: str) -> None:
    with pytest.raises(InvalidToken) as refused:
        legacy_user_of(claims, token, secret, account)
    assert str(refused.value) == told


@pytest.mark.parametrize(
    ("annotations", "account", "expected"),
    [
        ({"kubernetes.io/service-account.name": "db"}, ACCOUNT, True),
        ({"kubernetes.io/service-account.name": "db", "kubernetes.io/service-account.uid": "u-db"}, ACCOUNT, True),
        ({"kubernetes.io/service-account.name": "db", "kubernetes.io/service-account.uid": "old"}, ACCOUNT, False),
        ({"kubernetes.io/service-account.name": "other"}, ACCOUNT, False),
        ({"kubernetes.io/service-account.name": "db"}, None, False),
        ({}, ACCOUNT, False),
    ],
)
def test_whose_secret_it_is(annotations: dict[str, str], account: Doc | None, expected: bool) -> None:
    assert is_of_account({"metadata": {"annotations": annotations}}, account) is expected


def test_a_secret_is_filled_once_and_keeps_what_is_there() -> None:
    signed: list[Any] = []

    def sign(claims: LegacyClaims) -> str:
        signed.append(claims)
        return "x.y.z"

    empty = {"metadata": SECRET["metadata"], "data": {"mine": "YQ=="}}
    once = filled(empty, ACCOUNT, b"ca", sign)
    assert signed == [CLAIMS]
    assert {name: base64.b64decode(value) for name, value in once["data"].items()} == {
        "mine": b"a",
        "token": b"x.y.z",
        "ca.crt": b"ca",
        "namespace": b"shop",
    }
    assert once["metadata"]["annotations"]["kubernetes.io/service-account.uid"] == "u-db"
    assert filled(once, ACCOUNT, b"ca", sign) == once and len(signed) == 1
