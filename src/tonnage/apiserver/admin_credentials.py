"""How an administrator gets in: bearer tokens, kept in a file or named in one, and the kubeconfig that holds the first.

The token is made once and reused, so that a kubeconfig handed out yesterday works after a restart.
"""

from __future__ import annotations

import base64
import secrets
from pathlib import Path
from typing import Final

import yaml

from tonnage.documents.access.user import AUTHENTICATED, MASTERS, User
from tonnage.errors import TonnageError
from tonnage.private_files import read_given, read_own, write_private

ADMIN: Final = User("admin", groups=(MASTERS, AUTHENTICATED))
"""Whoever holds a token without a name."""


def ensure_token(path: Path) -> str:
    """The admin token kept in a file, made on first use. Raises NotOurs for one that somebody else put there."""
    try:
        kept = read_own(path)
    except FileNotFoundError:
        kept = (secrets.token_urlsafe(32) + "\n").encode()
        write_private(path, kept)
    return _tokens(path, kept)[0]


def read_tokens(path: Path) -> list[str]:
    """The tokens of a file, one a line. A line in upstream's `token,user,uid` form gives its first column.

    Raises NotOurs for a file that others own or can write to: whoever writes a token into it is an administrator.
    """
    try:
        return _tokens(path, read_given(path))
    except OSError as exc:
        raise TonnageError(
            f"cannot read the token file {path}: {exc.strerror}", hint="name a readable file with one token a line"
        ) from exc


def _tokens(path: Path, content: bytes) -> list[str]:
    try:
        lines = content.decode().splitlines()
    except UnicodeDecodeError as exc:
        raise TonnageError(f"the token file {path} is not text: {exc}", hint="write one token a line into it") from exc
    tokens = [line.partition(",")[0].strip() for line in lines if line.strip() and not line.startswith("#")]
    if not tokens:
        raise TonnageError(f"the token file {path} holds no token", hint="write one token a line into it")
    return tokens


def write_kubeconfig(path: Path, *, url: str, ca_pem: bytes, token: str) -> None:
    """An admin kubeconfig, readable by its owner alone."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "tonnage",
                "cluster": {"server": url, "certificate-authority-data": base64.b64encode(ca_pem).decode()},
            }
        ],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "tonnage", "context": {"cluster": "tonnage", "user": "admin"}}],
        "current-context": "tonnage",
    }
    write_private(path, yaml.safe_dump(config, sort_keys=False).encode())
