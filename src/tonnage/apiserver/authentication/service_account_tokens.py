"""ServiceAccounts' tokens: the signing key, the verification of tokens, and the Secrets that hold legacy tokens.

The key's algorithm is the only one: a token's own claim about it is compared, never followed. The signature is checked
before any claim is read. The claims of a token are remembered; the clock and the objects that it depends on are checked
on every use, so a token ends at once when one of its objects does.

Secrets of type kubernetes.io/service-account-token get their token here, and are deleted with their account. Upstream
this is kube-controller-manager's tokens controller, which is given the key; here the key stays with the server.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from tonnage.apiserver.registry import Registry, done_on_change
from tonnage.apiserver.requests import Location, WriteOptions
from tonnage.clock import Clock
from tonnage.documents.access import service_account_tokens
from tonnage.documents.access.service_account_tokens import ACCOUNTS, Claims, InvalidToken, LegacyClaims
from tonnage.documents.go_text import quoted_list
from tonnage.errors import ApiError, Conflict, NotFound, TonnageError
from tonnage.objects.document import Doc, decode, encode
from tonnage.objects.resources import BY_PLURAL, Resource
from tonnage.objects.users import User
from tonnage.private_files import read_own, write_private
from tonnage.store.errors import KeyDamaged, StoreError
from tonnage.store.records import StoreRecord
from tonnage.store.store import Store

_ES256_BYTES = 32
"""Bytes of each of the two numbers of an ES256 signature."""


class _Header(msgspec.Struct):
    alg: str = ""
    kid: str = ""
    crit: Any = None


class SigningKey:
    """A private key, P-256 or RSA, its public key and its algorithm."""

    def __init__(self, private: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> None:
        self._private = private
        self._public = private.public_key()
        self.algorithm = "ES256" if isinstance(private, ec.EllipticCurvePrivateKey) else "RS256"
        der = self._public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        self.key_id = _text(hashlib.sha256(der).digest())

    def signed(self, payload: bytes) -> str:
        head = encode({"alg": self.algorithm, "kid": self.key_id})
        said = f"{_text(head)}.{_text(payload)}"
        return f"{said}.{_text(self._signature(said.encode()))}"

    def payload_of(self, token: bytes) -> bytes:
        """The payload of a token of ours. Raises InvalidToken for any other."""
        said, _, signature = token.rpartition(b".")
        head, dot, payload = said.partition(b".")
        if not dot or b"." in payload:
            raise InvalidToken("invalid bearer token")
        try:
            header = msgspec.json.decode(_bytes(head), type=_Header)
            if header.alg != self.algorithm or header.kid not in ("", self.key_id) or header.crit is not None:
                raise InvalidToken("invalid bearer token")
            self._verify(_bytes(signature), said)
            return _bytes(payload)
        except (ValueError, RecursionError, InvalidSignature) as exc:  # includes invalid JSON
            raise InvalidToken("invalid bearer token") from exc

    def jwks(self) -> Doc:
        """The public key, as a JSON Web Key Set."""
        key: Doc = {"use": "sig", "kty": "", "kid": self.key_id, "alg": self.algorithm}
        public = self._public
        if isinstance(public, ec.EllipticCurvePublicKey):
            numbers = public.public_numbers()
            x, y = (_text(number.to_bytes(_ES256_BYTES)) for number in (numbers.x, numbers.y))
            return {"keys": [{**key, "kty": "EC", "crv": "P-256", "x": x, "y": y}]}
        modulus, exponent = public.public_numbers().n, public.public_numbers().e
        n, e = (_text(number.to_bytes((number.bit_length() + 7) // 8)) for number in (modulus, exponent))
        return {"keys": [{**key, "kty": "RSA", "n": n, "e": e}]}

    def _signature(self, said: bytes) -> bytes:
        if isinstance(self._private, rsa.RSAPrivateKey):
            return self._private.sign(said, padding.PKCS1v15(), hashes.SHA256())
        r, s = decode_dss_signature(self._private.sign(said, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(_ES256_BYTES) + s.to_bytes(_ES256_BYTES)

    def _verify(self, signature: bytes, said: bytes) -> None:
        if isinstance(self._public, rsa.RSAPublicKey):
            self._public.verify(signature, said, padding.PKCS1v15(), hashes.SHA256())
            return
        if len(signature) != 2 * _ES256_BYTES:
            raise InvalidSignature
        r, s = int.from_bytes(signature[:_ES256_BYTES]), int.from_bytes(signature[_ES256_BYTES:])
        self._public.verify(encode_dss_signature(r, s), said, ec.ECDSA(hashes.SHA256()))


def ensure_signing_key(path: Path) -> SigningKey:
    """The key kept in a file, created on first use, so that tokens survive a restart. Raises NotOurs, TonnageError."""
    try:
        pem = read_own(path)
    except FileNotFoundError:
        key = ec.generate_private_key(ec.SECP256R1())
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        write_private(path, pem)
    try:
        private = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError) as exc:
        raise _unusable(path, "holds no private key in PEM form") from exc
    if isinstance(private, rsa.RSAPrivateKey):
        return SigningKey(private)
    if isinstance(private, ec.EllipticCurvePrivateKey) and isinstance(private.curve, ec.SECP256R1):
        return SigningKey(private)
    raise _unusable(path, "holds a key that is neither RSA nor of the curve P-256")


def _unusable(path: Path, what: str) -> TonnageError:
    return TonnageError(
        f"the key of service account tokens {path} {what}",
        hint="restore it, or move it away: a new one is made, and every token handed out before is void",
    )


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: bytes) -> bytes:
    """Raises ValueError (binascii.Error) for anything but base64url without padding."""
    if b"=" in text or b"+" in text or b"/" in text:
        raise ValueError("not base64url")
    return base64.b64decode(text + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)


MAX_REMEMBERED: Final = 4096
JWKS_PATH: Final = "/openid/v1/jwks"


_CLAIMS: Final = msgspec.json.Decoder(Claims)
_LEGACY_CLAIMS: Final = msgspec.json.Decoder(LegacyClaims)
_SECRETS: Final = BY_PLURAL["", "secrets"]


class ServiceAccountTokens:
    def __init__(
        self, key: SigningKey, store: Store, clock: Clock, *, issuer: str, audiences: Sequence[str] = ()
    ) -> None:
        self.key = key
        self.issuer = issuer
        self.audiences = tuple(audiences) or (issuer,)
        self._store = store
        self._clock = clock
        self._claims = lru_cache(MAX_REMEMBERED)(self._verified)
        """The claims of a token of ours; checking a signature takes longer than everything else together."""

    def openid_configuration(self, jwks_uri: str) -> Doc:
        return {
            "issuer": self.issuer,
            "jwks_uri": jwks_uri,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [self.key.algorithm],
        }

    def authenticate(self, token: bytes, audiences: Sequence[str]) -> tuple[User, tuple[str, ...]]:
        """The token's user, and the audiences it is valid for. Raises InvalidToken."""
        claims = self._claims(token)
        if isinstance(claims, LegacyClaims):
            said: tuple[str, ...] = self.audiences  # without the claim it is for this server
        elif claims.iss == self.issuer:
            said = claims.audiences or self.audiences
        else:
            raise InvalidToken("invalid bearer token")
        shared = tuple(audience for audience in said if audience in audiences)
        if not shared:
            told = f"token audiences {quoted_list(said)} is invalid for the target audiences {quoted_list(audiences)}"
            raise InvalidToken(told)
        if isinstance(claims, LegacyClaims):
            secret = _document(self._store, _SECRETS.key(claims.namespace, claims.secret))
            account = _document(self._store, ACCOUNTS.key(claims.namespace, claims.account))
            return service_account_tokens.legacy_user_of(claims, token, secret, account), shared

        def find(resource: Resource, namespace: str, name: str) -> Doc | None:
            found = _document(self._store, resource.key(namespace, name))
            return found["metadata"] if found is not None else None

        return service_account_tokens.user_of(claims, self._clock.now(), find), shared

    def _verified(self, token: bytes) -> Claims | LegacyClaims:
        payload = self.key.payload_of(token)
        try:
            claims = _CLAIMS.decode(payload)
            return _LEGACY_CLAIMS.decode(payload) if claims.iss == service_account_tokens.ISSUER else claims
        except (msgspec.DecodeError, RecursionError) as exc:
            raise InvalidToken("invalid bearer token") from exc


def _document(store: Store, key: str) -> Doc | None:
    try:
        record = store.get(key)
    except KeyDamaged:
        return None
    return decode(record.document) if record is not None else None


_MARK = service_account_tokens.SECRET_TYPE.encode()
_OPTIONS = WriteOptions(manager="tokens-controller")
_log = logging.getLogger(__name__)


@asynccontextmanager
async def token_secrets_filled(
    registry: Registry, key: SigningKey, ca_pem: bytes, rng: random.Random
) -> AsyncIterator[None]:
    """Inside the block, every such Secret gets a token, or is deleted if its account is gone."""
    store, waiting = registry.store, dict[str, None]()

    async def fill() -> bool:
        while waiting:
            at = next(iter(waiting))
            del waiting[at]
            try:
                await reconcile(registry, key, ca_pem, at)
            except (ApiError, StoreError):
                waiting[at] = None  # the last now
                raise
        return True

    def failed(told: str) -> None:
        at = next(reversed(waiting))
        _log.error("Secret %s gets no token: %s", at.removeprefix(_SECRETS.store_prefix), told)

    async with done_on_change(registry, rng, fill, failed, "tokens of ServiceAccounts") as changed:

        def wait(records: list[StoreRecord]) -> None:
            waiting.update((record.key, None) for record in records if _MARK in record.document)
            changed.set()

        def note_secret(record: StoreRecord, *, is_deleted: bool) -> None:
            if not is_deleted:
                wait([record])

        def note_account(record: StoreRecord, *, is_deleted: bool) -> None:
            namespace = record.key.removeprefix(ACCOUNTS.store_prefix).partition("/")[0]
            if is_deleted:
                wait(store.list(f"{_SECRETS.store_prefix}{namespace}/"))

        store.follow(ACCOUNTS.store_prefix, note_account)
        wait(store.follow(_SECRETS.store_prefix, note_secret))
        yield


async def reconcile(registry: Registry, key: SigningKey, ca_pem: bytes, at: str) -> None:
    """Fill or delete one Secret; safe to run twice."""
    namespace, _, name = at.removeprefix(_SECRETS.store_prefix).partition("/")
    secret = _document(registry.store, at)
    if (
        secret is None
        or secret.get("type") != service_account_tokens.SECRET_TYPE
        or "deletionTimestamp" in secret["metadata"]
    ):
        return
    wanted = secret["metadata"].get("annotations", {}).get(service_account_tokens.NAME_ANNOTATION, "")
    account = _document(registry.store, ACCOUNTS.key(namespace, wanted))
    if account is None or not service_account_tokens.is_of_account(secret, account):
        uid = secret["metadata"]["uid"]

        def check(doc: Doc) -> None:
            if doc["metadata"]["uid"] != uid:
                raise NotFound("it is another one now")

        with suppress(NotFound):
            await registry.remove(Location(_SECRETS, namespace, name), check=check)
        return

    def change(old: Doc) -> Doc:
        return service_account_tokens.filled(
            old, account, ca_pem, lambda claims: key.signed(msgspec.json.encode(claims))
        )

    if change(secret) != secret:
        with suppress(NotFound, Conflict):
            await registry.change(Location(_SECRETS, namespace, name), change, _OPTIONS)
