"""Tokens that are not ours, in every way that people have tried on others."""

from __future__ import annotations

import base64
import hmac
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from tonnage.apiserver.authentication.service_account_tokens import SigningKey, ensure_signing_key
from tonnage.documents.access.service_account_tokens import InvalidToken
from tonnage.errors import TonnageError

EC = SigningKey(ec.generate_private_key(ec.SECP256R1()))
RSA = SigningKey(rsa.generate_private_key(public_exponent=65537, key_size=2048))
SAID = b'{"sub":"system:serviceaccount:a:b"}'


def part(value: Any) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def public_pem(key: SigningKey) -> bytes:
    return key._public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


@pytest.mark.parametrize("key", [EC, RSA], ids=["ES256", "RS256"])
def test_what_it_signs_it_recognises(key: SigningKey) -> None:
    token = key.signed(SAID)
    assert json.loads(base64.urlsafe_b64decode(token.split(".")[0] + "==")) == {"alg": key.algorithm, "kid": key.key_id}
    assert key.payload_of(token.encode()) == SAID


@pytest.mark.parametrize("key", [EC, RSA], ids=["ES256", "RS256"])
def test_every_bit_counts(key: SigningKey) -> None:
    head, said, signature = key.signed(SAID).split(".")
    other = SigningKey(ec.generate_private_key(ec.SECP256R1())).signed(SAID)
    forged = [
        other,
        f"{head}.{part(b'{}')}.{signature}",
        f"{head}.{said}.",
        f"{head}.{said}.{signature[:-4]}",
        f"{head}.{said}.{signature}AA",
        f"{head}.{said}.{part(bytes(64))}",
        f"{head}.{said}.{part(bytes([255] * 64))}",
        f"{head}.{said}",
        f"{head}.{said}.{signature}.{signature}",
        f".{head}.{said}.{signature}",
        f"{head}..{signature}",
        f"{head}=.{said}.{signature}",
        f"{head}.{said}.{signature}\n",
        f"{head} .{said}.{signature}",
        "",
        ".",
        "..",
        "...",
        "{}",
        "a.b.c",
        f"{part([[[]]])}.{said}.{signature}",
        f"{part(b'[' * 20000)}.{said}.{signature}",
        f"{part('x')}.{said}.{signature}",
        f"{part({'alg': key.algorithm, 'kid': 7})}.{said}.{signature}",
    ]
    for token in forged:
        with pytest.raises(InvalidToken, match="invalid bearer token"):
            key.payload_of(token.encode())


@pytest.mark.parametrize(
    "head",
    [
        {"alg": "none"},
        {"alg": "None", "kid": EC.key_id},
        {"alg": "HS256", "kid": EC.key_id},
        {"alg": "RS256", "kid": EC.key_id},
        {"alg": "ES384", "kid": EC.key_id},
        {"alg": "ES256", "kid": "another"},
        {"alg": "ES256", "kid": EC.key_id, "crit": ["b64"], "b64": False},
        {"kid": EC.key_id},
        {},
    ],
)
def test_what_a_token_says_about_itself_is_compared_not_followed(head: dict[str, Any]) -> None:
    said = f"{part(head)}.{part(SAID)}"
    good = EC._signature(said.encode())
    secret = hmac.digest(public_pem(EC), said.encode(), "sha256")
    for signature in (b"", good, secret):
        with pytest.raises(InvalidToken, match="invalid bearer token"):
            EC.payload_of(f"{said}.{part(signature)}".encode())


def test_a_header_without_a_key_id_is_tried_with_ours() -> None:
    said = f"{part({'typ': 'JWT', 'alg': 'ES256'})}.{part(SAID)}"
    assert EC.payload_of(f"{said}.{part(EC._signature(said.encode()))}".encode()) == SAID


def test_a_signature_in_der_form_is_none() -> None:
    head, said, _ = EC.signed(SAID).split(".")
    private = EC._private
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    der = private.sign(f"{head}.{said}".encode(), ec.ECDSA(hashes.SHA256()))
    assert decode_dss_signature(der)
    with pytest.raises(InvalidToken):
        EC.payload_of(f"{head}.{said}.{part(der)}".encode())


def test_others_can_check_with_what_is_published() -> None:
    (key,) = EC.jwks()["keys"]
    x, y = (int.from_bytes(base64.urlsafe_b64decode(key[axis] + "=")) for axis in ("x", "y"))
    public = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
    assert public == EC._public and key["kid"] == EC.key_id and key["alg"] == "ES256"
    (key,) = RSA.jwks()["keys"]
    n, e = (int.from_bytes(base64.urlsafe_b64decode(key[number] + "==")) for number in ("n", "e"))
    assert rsa.RSAPublicNumbers(e, n).public_key() == RSA._public


def test_the_key_is_made_once_private_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "sa.key"
    first = ensure_signing_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert ensure_signing_key(path).payload_of(first.signed(SAID).encode()) == SAID


def test_a_key_that_is_none_is_told_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "sa.key"
    path.write_text("nothing\n")
    path.chmod(0o600)
    with pytest.raises(TonnageError, match="holds no private key in PEM form") as refused:
        ensure_signing_key(path)
    assert refused.value.hint is not None and "every token handed out before is void" in refused.value.hint
    curve = ec.generate_private_key(ec.SECP384R1())
    path.write_bytes(
        curve.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    with pytest.raises(TonnageError, match="neither RSA nor of the curve P-256"):
        ensure_signing_key(path)
