"""How an administrator gets in: bearer tokens, kept in a file or named in one, and the kubeconfig that holds the first.

The token is made once and reused, so that a kubeconfig handed out yesterday works after a restart.
"""

from __future__ import annotations

import base64
import csv
import logging
import secrets
from pathlib import Path
from typing import Final

import yaml

from tonnage.errors import TonnageError
from tonnage.objects.users import AUTHENTICATED, MASTERS, User
from tonnage.private_files import read_given, read_own, write_private

ADMIN: Final = User("admin", groups=(MASTERS, AUTHENTICATED))
"""Whoever holds a token without a name."""
_FORM: Final = 'write one token a line into it, or token,user,uid,"group1,group2"'
_log = logging.getLogger(__name__)


def ensure_token(path: Path) -> str:
    """The admin token kept in a file, made on first use. Raises NotOurs for one that somebody else put there."""
    try:
        kept = read_own(path)
    except FileNotFoundError:
        kept = (secrets.token_urlsafe(32) + "\n").encode()
        write_private(path, kept)
    return next(iter(_users(path, kept)))


def read_tokens(path: Path) -> dict[str, User]:
    """The users of a token file, by token: a line in upstream's form, or a bare token, which is an administrator's.

        token,user,uid,"group1,group2"

    Raises NotOurs for a file that others own or can write to: whoever writes a token into it is who he likes to be.
    """
    try:
        return _users(path, read_given(path))
    except OSError as exc:
        raise TonnageError(
            f"cannot read the token file {path}: {exc.strerror}", hint="name a readable file with one token a line"
        ) from exc


def _users(path: Path, content: bytes) -> dict[str, User]:
    try:
        lines = [line for line in content.decode().splitlines(keepends=True) if not line.startswith("#")]
        rows = [row for row in csv.reader(lines, strict=True) if "".join(row).strip()]
    except UnicodeDecodeError as exc:
        raise TonnageError(f"the token file {path} is not text: {exc}", hint=_FORM) from exc
    except csv.Error as exc:
        raise TonnageError(f"the token file {path} cannot be read: {exc}", hint=_FORM) from exc
    users: dict[str, User] = {}
    for number, row in enumerate(rows, 1):
        token = row[0].strip()
        if len(row) == 2:
            found = f"2 columns in entry {number}, and a user needs three: token, user name, user uid"
            raise TonnageError(f"the token file {path} has {found}", hint=_FORM)
        if not token:
            _log.warning("The token file %s has an entry without a token, number %d: nobody can use it", path, number)
            continue
        if token in users:
            _log.warning("The token file %s has a token twice, in entry %d again: the last one counts", path, number)
        users[token] = ADMIN if len(row) == 1 else User(row[1], row[2], _groups(row))
    if not users:
        raise TonnageError(f"the token file {path} holds no token", hint=_FORM)
    return users


def _groups(row: list[str]) -> tuple[str, ...]:
    return tuple(filter(None, row[3].split(","))) if len(row) > 3 else ()


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
