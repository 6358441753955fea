"""The claims of a ServiceAccount's token, and whether they still hold. Signatures are made elsewhere.

    {"iss": …, "sub": "system:serviceaccount:shop:db", "aud": [for whom], "iat", "nbf", "exp", "jti",
     "kubernetes.io": {"namespace", "serviceaccount": {name, uid}, "pod" | "secret" | "node": {name, uid}}}

A token is valid until it expires, and while its account and the object it is bound to exist under the same uid: both
are looked up every time. Mirrors pkg/serviceaccount/claims.go without its minute of leeway: there is one server and one
clock, so a token ends at `exp`, and a token from "the future" was issued before the clock was set back.

Legacy tokens live in Secrets and never expire (pkg/serviceaccount/legacy.go, the tokens controller). They are valid
while their Secret holds them and their account exists:

    Secret of type kubernetes.io/service-account-token
      metadata.annotations   kubernetes.io/service-account.name (and .uid, once it is filled in)
      data                   token, ca.crt, namespace
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

import msgspec

from tonnage.clock import MOST_SET_BACK, parse_rfc3339
from tonnage.objects.document import Doc
from tonnage.objects.resources import BY_PLURAL, Resource
from tonnage.objects.users import CREDENTIAL_ID, User, service_account_user, split_service_account

DEFAULT_SECONDS: Final = 3600
WARN_ONLY_SECONDS: Final = 3607
"""What kubelets and injected volumes ask for. Upstream gives such a pod token a year, and warns after this time."""
EXTENDED_SECONDS: Final = 365 * 24 * 3600
_LEEWAY: Final = timedelta(minutes=1)
_EXTRA: Final = "authentication.kubernetes.io/"
ACCOUNTS: Final = BY_PLURAL["", "serviceaccounts"]
_PODS, _SECRETS, _NODES = BY_PLURAL["", "pods"], BY_PLURAL["", "secrets"], BY_PLURAL["", "nodes"]
Find = Callable[[Resource, str, str], Doc | None]
"""(resource, namespace, name) -> the metadata of the current object; None if it does not exist."""
ISSUER: Final = "kubernetes/serviceaccount"
SECRET_TYPE: Final = "kubernetes.io/service-account-token"
NAME_ANNOTATION: Final = "kubernetes.io/service-account.name"
UID_ANNOTATION: Final = "kubernetes.io/service-account.uid"
_PREFIX: Final = "kubernetes.io/serviceaccount/"


class InvalidToken(Exception):
    """Why a token is not valid, in upstream's words."""


class BoundObject(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str = ""
    uid: str = ""


class Kubernetes(msgspec.Struct, frozen=True, omit_defaults=True):
    """The claim `kubernetes.io`, its fields in upstream's order."""

    namespace: str = ""
    node: BoundObject | None = None
    pod: BoundObject | None = None
    secret: BoundObject | None = None
    serviceaccount: BoundObject = BoundObject()
    warnafter: int | float | None = None


class Claims(msgspec.Struct, frozen=True, omit_defaults=True):
    """All claims of a token, in alphabetical order as upstream writes them."""

    aud: tuple[str, ...] | str = ()
    exp: int | float | None = None
    iat: int | float | None = None
    iss: str = ""
    jti: str = ""
    kubernetes: Kubernetes = msgspec.field(name="kubernetes.io", default=Kubernetes())
    nbf: int | float | None = None
    sub: str = ""

    @property
    def audiences(self) -> tuple[str, ...]:
        return (self.aud,) if isinstance(self.aud, str) else self.aud


def claims_of(
    account: Doc,
    bound: Kubernetes,
    *,
    issuer: str,
    audiences: Sequence[str],
    seconds: int,
    now: datetime,
    jti: str,
    warn_after_s: int = 0,
) -> Claims:
    """The claims of a new token. `account` is the ServiceAccount's metadata, `bound` names the pod, secret or node."""
    at = int(now.timestamp())
    return Claims(
        aud=tuple(audiences),
        exp=at + seconds,
        iat=at,
        iss=issuer,
        jti=jti,
        kubernetes=msgspec.structs.replace(
            bound,
            namespace=account["namespace"],
            serviceaccount=BoundObject(account["name"], account["uid"]),
            warnafter=at + warn_after_s if warn_after_s else None,
        ),
        nbf=at,
        sub=service_account_user(account["namespace"], account["name"]).name,
    )


def user_of(claims: Claims, now: datetime, find: Find) -> User:
    """The user of a token. Raises InvalidToken if the token is no longer valid."""
    check_time(claims, now)
    said = claims.kubernetes
    account = find(ACCOUNTS, said.namespace, said.serviceaccount.name)
    if account is None:
        raise InvalidToken(f'serviceaccounts "{said.serviceaccount.name}" not found')
    if account["uid"] != said.serviceaccount.uid:
        told = f"service account UID ({account['uid']}) does not match claim ({said.serviceaccount.uid})"
        raise InvalidToken(told)
    if _is_gone(account, now):
        raise InvalidToken(f"service account {said.namespace}/{said.serviceaccount.name} has been deleted")
    for kind, bound, resource in (
        ("secret", said.secret, _SECRETS),
        ("pod", said.pod, _PODS),
        ("node", said.node if said.pod is None else None, _NODES),
    ):
        if bound is None:
            continue
        found = find(resource, said.namespace if resource.namespaced else "", bound.name)
        if found is not None and found["uid"] != bound.uid:
            told = f"does not match service account {kind} ref claim ({bound.uid})"
            raise InvalidToken(f"{kind} UID ({found['uid']}) {told}")
        if found is None or _is_gone(found, now):
            raise InvalidToken("service account token has been invalidated")
    user = service_account_user(said.namespace, said.serviceaccount.name, said.serviceaccount.uid)
    return replace(user, extra=_extra(claims))


def check_time(claims: Claims, now: datetime) -> None:
    """Raises InvalidToken for a token that is not valid yet, or has expired."""
    at = now.timestamp()
    latest = at + MOST_SET_BACK.total_seconds()
    if claims.nbf is not None and latest < claims.nbf:
        raise InvalidToken("service account token is not valid yet")
    if claims.exp is None or at >= claims.exp:
        raise InvalidToken("service account token has expired")
    if claims.iat is not None and latest < claims.iat:
        raise InvalidToken("service account token is issued in the future")


def _is_gone(meta: Doc, now: datetime) -> bool:
    """True once the deletion time has passed. Until then a pod that is being deleted may still need its token."""
    at = meta.get("deletionTimestamp")
    return at is not None and parse_rfc3339(at) < now - _LEEWAY


def _extra(claims: Claims) -> dict[str, tuple[str, ...]]:
    node, pod = (bound or BoundObject() for bound in (claims.kubernetes.node, claims.kubernetes.pod))
    extra = {
        CREDENTIAL_ID: claims.jti and f"JTI={claims.jti}",
        f"{_EXTRA}node-name": node.name,
        f"{_EXTRA}node-uid": node.name and node.uid,
        f"{_EXTRA}pod-name": pod.uid and pod.name,
        f"{_EXTRA}pod-uid": pod.name and pod.uid,
    }
    return {name: (value,) for name, value in extra.items() if value}


class LegacyClaims(msgspec.Struct, frozen=True):
    iss: str = ""
    namespace: str = msgspec.field(name=f"{_PREFIX}namespace", default="")
    secret: str = msgspec.field(name=f"{_PREFIX}secret.name", default="")
    account: str = msgspec.field(name=f"{_PREFIX}service-account.name", default="")
    account_uid: str = msgspec.field(name=f"{_PREFIX}service-account.uid", default="")
    sub: str = ""


def legacy_claims_of(account: Doc, secret: str) -> LegacyClaims:
    """The claims of a new legacy token for the Secret named `secret`; `account` is the ServiceAccount's metadata."""
    namespace, name = account["namespace"], account["name"]
    user = service_account_user(namespace, name)
    return LegacyClaims(ISSUER, namespace, secret, name, account["uid"], user.name)


def legacy_user_of(claims: LegacyClaims, token: bytes, secret: Doc | None, account: Doc | None) -> User:
    """The user of a legacy token. `secret` and `account` are the current objects that it names. Raises InvalidToken."""
    if not (claims.namespace and claims.secret and claims.account and claims.account_uid):
        raise InvalidToken("invalid bearer token")
    if split_service_account(claims.sub) != (claims.namespace, claims.account):
        raise InvalidToken("sub claim is invalid")
    if secret is None or "deletionTimestamp" in secret["metadata"]:
        raise InvalidToken("Token has been invalidated")
    if not hmac.compare_digest(_data(secret, "token"), token):
        raise InvalidToken("Token does not match server's copy")
    if account is None:
        raise InvalidToken(f'serviceaccounts "{claims.account}" not found')
    if "deletionTimestamp" in account["metadata"]:
        raise InvalidToken(f"ServiceAccount {claims.namespace}/{claims.account} has been deleted")
    uid = account["metadata"]["uid"]
    if uid != claims.account_uid:
        raise InvalidToken(f"ServiceAccount UID ({uid}) does not match claim ({claims.account_uid})")
    return service_account_user(claims.namespace, claims.account, uid)


def is_of_account(secret: Doc, account: Doc | None) -> bool:
    """True if the Secret belongs to this existing account. Nobody needs the Secret of a deleted account."""
    annotations = secret["metadata"].get("annotations", {})
    if account is None or annotations.get(NAME_ANNOTATION) != account["metadata"]["name"]:
        return False
    return annotations.get(UID_ANNOTATION, "") in ("", account["metadata"]["uid"])


def filled(secret: Doc, account: Doc, ca_pem: bytes, sign: Callable[[LegacyClaims], str]) -> Doc:
    """The Secret with token, ca.crt and namespace filled in; an existing token stays."""
    meta, owner = secret["metadata"], account["metadata"]
    data = {
        **secret.get("data", {}),
        "ca.crt": base64.b64encode(ca_pem).decode(),
        "namespace": base64.b64encode(owner["namespace"].encode()).decode(),
    }
    if not _data(secret, "token"):
        data["token"] = base64.b64encode(sign(legacy_claims_of(owner, meta["name"])).encode()).decode()
    annotations = {**meta.get("annotations", {}), NAME_ANNOTATION: owner["name"], UID_ANNOTATION: owner["uid"]}
    return {**secret, "metadata": {**meta, "annotations": annotations}, "data": data}


def _data(secret: Doc, name: str) -> bytes:
    return base64.b64decode(secret.get("data", {}).get(name, ""))
