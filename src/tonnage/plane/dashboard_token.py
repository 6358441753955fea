"""The token of a cluster's dashboard: made once, kept in the cluster's folder for its owner alone."""

from __future__ import annotations

import secrets
from pathlib import Path

from tonnage.private_files import read_own, write_private


def ensure_token(path: Path) -> None:
    """Make one if there is none yet. Raises NotOurs for one that somebody else put there, OSError as it comes."""
    if not token_in(path):
        write_private(path, f"{secrets.token_urlsafe(24)}\n".encode())


def token_in(path: Path) -> str:
    """The token; empty when there is none. Raises as `ensure_token` does."""
    try:
        return read_own(path).decode(errors="replace").strip()
    except FileNotFoundError:
        return ""
