"""Who issues the tokens of service accounts, unless the API server is told another name."""

from __future__ import annotations

from typing import Final

DEFAULT_ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
