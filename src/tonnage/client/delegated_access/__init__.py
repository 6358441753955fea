"""Who may read a program's own pages, as the API server says: delegated authentication and authorisation."""

from typing import Final

OPEN_PATHS: Final = ("/healthz", "/readyz", "/livez")
"""The paths of probes, which have no token: upstream's default of --authorization-always-allow-paths."""
