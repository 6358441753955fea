"""`endpoints.json`: where the programs of a cluster on this machine serve health, metrics and debug pages.

    {"scheduler": {"url": "https://127.0.0.1:21007", "certificateAuthority": "tls/scheduler/ca.crt"},
     "node": {"url": "http://127.0.0.1:21008"}}

`tonnage up` writes it, readable only by the owner; `tonnage status` and `tonnage explain` read it. The path of a
certificate authority is relative to the folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tonnage.errors import TonnageError
from tonnage.private_files import read_given, write_private

ENDPOINTS_FILE_NAME: Final = "endpoints.json"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A program's URL and the CA to trust there: PEM, empty for plain HTTP or for the system's CAs."""

    url: str
    ca_pem: bytes = b""


def write_endpoints(folder: Path, urls: Mapping[str, str], authorities: Mapping[str, str]) -> None:
    """Write the file atomically. `authorities`: paths relative to the folder, by program."""
    shown = {
        name: {"url": url} | ({"certificateAuthority": authorities[name]} if name in authorities else {})
        for name, url in urls.items()
    }
    write_private(folder / ENDPOINTS_FILE_NAME, (json.dumps(shown, indent=1) + "\n").encode())


def read_endpoints(folder: Path) -> dict[str, Endpoint]:
    """Endpoints by program; empty when the file does not exist. Raises TonnageError for a broken file."""
    path = folder / ENDPOINTS_FILE_NAME
    try:
        told: Any = json.loads(read_given(path))
        return {name: _endpoint(folder, entry) for name, entry in told.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError, KeyError, TypeError) as exc:
        raise TonnageError(
            f"{path} does not say where programs are served: {exc}", hint="`tonnage up` writes it again when it starts"
        ) from exc


def _endpoint(folder: Path, entry: Any) -> Endpoint:
    url, authority = entry["url"], entry.get("certificateAuthority", "")
    if not isinstance(url, str):
        raise TypeError("url is no text")
    try:
        return Endpoint(url, read_given(folder / authority) if authority else b"")
    except FileNotFoundError:  # the program writes it, and may not have started yet
        return Endpoint(url)
