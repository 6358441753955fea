"""What a ServiceAccount's token says, and what ends it. Time and objects are handed in."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from tonnage.documents.access.service_account_tokens import (
    BoundObject,
    Claims,
    InvalidToken,
    Kubernetes,
    claims_of,
    user_of,
)
from tonnage.objects.document import Doc
from tonnage.objects.resources import Resource

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
DAY_S = 24 * 3600
ACCOUNT = {"namespace": "shop", "name": "db", "uid": "u-db"}
OBJECTS: dict[tuple[str, str, str], Doc] = {
    ("serviceaccounts", "shop", "db"): {"uid": "u-db"},
    ("pods", "shop", "db-0"): {"uid": "u-pod"},
    ("secrets", "shop", "key"): {"uid": "u-key"},
    ("nodes", "", "n1"): {"uid": "u-n1"},
}


def find(objects: dict[tuple[str, str, str], Doc]) -> Callable[[Resource, str, str], Doc | None]:
    return lambda resource, namespace, name: objects.get((resource.plural, namespace, name))


def claims(bound: Kubernetes | None = None, **rest: Any) -> Claims:
    given = {"issuer": "iss", "audiences": ["api"], "seconds": 3600, "now": NOW, "jti": "j-1", **rest}
    return claims_of(ACCOUNT, bound or Kubernetes(), **given)


def refusal(said: Claims, now: datetime = NOW, objects: dict[tuple[str, str, str], Doc] | None = None) -> str:
    with pytest.raises(InvalidToken) as refused:
        user_of(said, now, find(OBJECTS if objects is None else objects))
    return str(refused.value)


def test_a_token_says_what_upstreams_says() -> None:
    bound = Kubernetes(pod=BoundObject("db-0", "u-pod"), node=BoundObject("n1", "u-n1"))
    at = int(NOW.timestamp())
    assert msgspec.json.decode(msgspec.json.encode(claims(bound, warn_after_s=3607))) == {
        "iss": "iss",
        "sub": "system:serviceaccount:shop:db",
        "aud": ["api"],
        "iat": at,
        "nbf": at,
        "exp": at + 3600,
        "jti": "j-1",
        "kubernetes.io": {
            "namespace": "shop",
            "serviceaccount": {"name": "db", "uid": "u-db"},
            "pod": {"name": "db-0", "uid": "u-pod"},
            "node": {"name": "n1", "uid": "u-n1"},
            "warnafter": at + 3607,
        },
    }


def test_its_user_is_the_account_with_its_groups_and_what_it_is_bound_to() -> None:
    user = user_of(
        claims(Kubernetes(pod=BoundObject("db-0", "u-pod"), node=BoundObject("n1", "u-n1"))), NOW, find(OBJECTS)
    )
    assert (user.name, user.uid) == ("system:serviceaccount:shop:db", "u-db")
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated")
    assert user.extra == {
        "authentication.kubernetes.io/credential-id": ("JTI=j-1",),
        "authentication.kubernetes.io/node-name": ("n1",),
        "authentication.kubernetes.io/node-uid": ("u-n1",),
        "authentication.kubernetes.io/pod-name": ("db-0",),
        "authentication.kubernetes.io/pod-uid": ("u-pod",),
    }


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (3600, "service account token has expired"),
        (3599, ""),
        (-2 * 3600, ""),
        (-30 * DAY_S, ""),
        (-30 * DAY_S - 1, "service account token is not valid yet"),
    ],
)
def test_it_is_good_until_its_end_and_when_the_clock_is_set_back(seconds: int, told: str) -> None:
    at = NOW + timedelta(seconds=seconds)
    if told:
        assert refusal(claims(), at) == told
    else:
        assert user_of(claims(), at, find(OBJECTS)).uid == "u-db"


def test_one_without_an_end_has_ended() -> None:
    assert refusal(msgspec.structs.replace(claims(), exp=None)) == "service account token has expired"


def test_one_from_the_future_is_refused() -> None:
    said = msgspec.structs.replace(claims(), nbf=None, iat=int(NOW.timestamp()) + 30 * DAY_S + 1)
    assert refusal(said) == "service account token is issued in the future"


@pytest.mark.parametrize(
    ("key", "bound", "gone", "another"),
    [
        (
            ("serviceaccounts", "shop", "db"),
            Kubernetes(),
            'serviceaccounts "db" not found',
            "service account UID (other) does not match claim (u-db)",
        ),
        (
            ("pods", "shop", "db-0"),
            Kubernetes(pod=BoundObject("db-0", "u-pod")),
            "service account token has been invalidated",
            "pod UID (other) does not match service account pod ref claim (u-pod)",
        ),
        (
            ("secrets", "shop", "key"),
            Kubernetes(secret=BoundObject("key", "u-key")),
            "service account token has been invalidated",
            "secret UID (other) does not match service account secret ref claim (u-key)",
        ),
        (
            ("nodes", "", "n1"),
            Kubernetes(node=BoundObject("n1", "u-n1")),
            "service account token has been invalidated",
            "node UID (other) does not match service account node ref claim (u-n1)",
        ),
    ],
)
def test_it_ends_with_the_account_and_with_what_it_is_bound_to(
    key: tuple[str, str, str], bound: Kubernetes, gone: str, another: str
) -> None:
    said = claims(bound)
    assert user_of(said, NOW, find(OBJECTS)).uid == "u-db"
    assert refusal(said, objects={at: each for at, each in OBJECTS.items() if at != key}) == gone
    assert refusal(said, objects={**OBJECTS, key: {"uid": "other"}}) == another
    leaving = {**OBJECTS[key], "deletionTimestamp": "2026-11-15T12:00:30Z"}  # at the end of its grace period
    assert user_of(said, NOW, find({**OBJECTS, key: leaving})).uid == "u-db"
    assert refusal(said, NOW + timedelta(seconds=91), {**OBJECTS, key: leaving})


def test_the_node_of_a_bound_pod_may_go_before_it() -> None:
    said = claims(Kubernetes(pod=BoundObject("db-0", "u-pod"), node=BoundObject("n1", "u-n1")))
    objects = {at: each for at, each in OBJECTS.items() if at[0] != "nodes"}
    assert user_of(said, NOW, find(objects)).uid == "u-db"
