"""Who may read a program's own pages, asked of the API server: delegated authentication and authorisation."""

from typing import Final

OPEN_PATHS: Final = ("/healthz", "/readyz", "/livez")
"""What probes ask, which have no token: upstream's default of --authorization-always-allow-paths."""
