"""The key that signs ServiceAccounts' tokens, and the JSON Web Tokens it makes and recognises.

One algorithm, that of the key: what a token says about its own algorithm is compared, never followed, so neither `none`
nor a symmetric one with our public key for a secret gets anywhere. The signature is checked before anything that a
token claims is read.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from tonnage.documents.access.service_account_tokens import InvalidToken
from tonnage.errors import TonnageError
from tonnage.objects.document import Doc, encode
from tonnage.private_files import read_own, write_private

_ES256_BYTES = 32
"""Of each of the two numbers that an ES256 signature is."""


class _Header(msgspec.Struct):
    alg: str = ""
    kid: str = ""
    crit: Any = None


class SigningKey:
    """A private key, P-256 or RSA, and what follows from it."""

    def __init__(self, private: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> None:
        self._private = private
        self._public = private.public_key()
        self.algorithm = "ES256" if isinstance(private, ec.EllipticCurvePrivateKey) else "RS256"
        der = self._public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        self.key_id = _text(hashlib.sha256(der).digest())

    def signed(self, payload: bytes) -> str:
        """A token that says `payload`."""
        head = encode({"alg": self.algorithm, "kid": self.key_id})
        said = f"{_text(head)}.{_text(payload)}"
        return f"{said}.{_text(self._signature(said.encode()))}"

    def payload_of(self, token: bytes) -> bytes:
        """What a token of ours says. Raises InvalidToken for everything else."""
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
        except (ValueError, RecursionError, InvalidSignature) as exc:  # what is no JSON is a ValueError, too
            raise InvalidToken("invalid bearer token") from exc

    def jwks(self) -> Doc:
        """The public half, as a JSON Web Key Set."""
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
    """The key kept in a file, made on first use, so that tokens outlive a restart. Raises NotOurs, TonnageError."""
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
    """Raises ValueError (binascii.Error) for what is not base64url without padding."""
    if b"=" in text or b"+" in text or b"/" in text:
        raise ValueError("not base64url")
    return base64.b64decode(text + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
