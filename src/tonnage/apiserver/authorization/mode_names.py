"""What `--authorization-mode` takes."""

from __future__ import annotations

from typing import Final

RBAC_MODE: Final = "RBAC"
ALWAYS_ALLOW: Final = "AlwaysAllow"
MODES: Final = (RBAC_MODE, ALWAYS_ALLOW)
