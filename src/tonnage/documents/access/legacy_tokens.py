"""Tokens of ServiceAccounts that live in Secrets: the older kind, without an end of their own.

    Secret of type kubernetes.io/service-account-token
      metadata.annotations   kubernetes.io/service-account.name (and .uid, once it is filled in)
      data                   token, ca.crt, namespace

Such a token is good while its Secret holds it and its account is there. `filled` is what becomes of a Secret,
`legacy_user_of` whose a token is. Mirrors pkg/serviceaccount/legacy.go and the tokens controller.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable
from typing import Final

import msgspec

from tonnage.documents.access.service_account_tokens import InvalidToken
from tonnage.objects.document import Doc
from tonnage.objects.users import User, service_account_user, split_service_account

ISSUER: Final = "kubernetes/serviceaccount"
SECRET_TYPE: Final = "kubernetes.io/service-account-token"
NAME_ANNOTATION: Final = "kubernetes.io/service-account.name"
UID_ANNOTATION: Final = "kubernetes.io/service-account.uid"
_PREFIX: Final = "kubernetes.io/serviceaccount/"


class LegacyClaims(msgspec.Struct, frozen=True):
    """What such a token says."""

    iss: str = ""
    namespace: str = msgspec.field(name=f"{_PREFIX}namespace", default="")
    secret: str = msgspec.field(name=f"{_PREFIX}secret.name", default="")
    account: str = msgspec.field(name=f"{_PREFIX}service-account.name", default="")
    account_uid: str = msgspec.field(name=f"{_PREFIX}service-account.uid", default="")
    sub: str = ""


def legacy_claims_of(account: Doc, secret: str) -> LegacyClaims:
    """What a new token of an account says, in a Secret; `account` is its metadata."""
    namespace, name = account["namespace"], account["name"]
    user = service_account_user(namespace, name)
    return LegacyClaims(ISSUER, namespace, secret, name, account["uid"], user.name)


def legacy_user_of(claims: LegacyClaims, token: bytes, secret: Doc | None, account: Doc | None) -> User:
    """Whose token it is. `secret` and `account` are those it names, as they are now. Raises InvalidToken."""
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
    """Is this the Secret of an account that is there? One that is not, nobody will ever need."""
    annotations = secret["metadata"].get("annotations", {})
    if account is None or annotations.get(NAME_ANNOTATION) != account["metadata"]["name"]:
        return False
    return annotations.get(UID_ANNOTATION, "") in ("", account["metadata"]["uid"])


def filled(secret: Doc, account: Doc, ca_pem: bytes, sign: Callable[[LegacyClaims], str]) -> Doc:
    """A Secret with everything in it that belongs there; a token that is there stays."""
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
