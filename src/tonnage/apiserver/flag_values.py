"""What `--authorization-mode` takes, and who issues service accounts' tokens by default: read by the command line,
which loads no server for it.
"""

from __future__ import annotations

from typing import Final

RBAC_MODE: Final = "RBAC"
ALWAYS_ALLOW: Final = "AlwaysAllow"
MODES: Final = (RBAC_MODE, ALWAYS_ALLOW)


DEFAULT_ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
