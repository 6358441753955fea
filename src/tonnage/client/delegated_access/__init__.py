"""Who may read a program's own pages, as the API server says: delegated authentication and authorisation."""

from collections.abc import Sequence
from typing import Final

from tonnage.errors import TonnageError

OPEN_PATHS: Final = ("/healthz", "/readyz", "/livez")
"""The paths of probes, which have no token: upstream's default of --authorization-always-allow-paths."""


class OpenPaths:
    """Paths open to everyone. A `*` is allowed only at the end, for any rest. Raises TonnageError for one elsewhere."""

    def __init__(self, paths: Sequence[str]) -> None:
        bare = [path.removeprefix("/") for path in paths]
        for path in bare:
            if "*" in path[:-1]:
                raise TonnageError(
                    f'only trailing * allowed in "{path}"', hint="see --authorization-always-allow-paths"
                )
        self._whole = frozenset(path for path in bare if not path.endswith("*"))
        self._beginnings = tuple(path[:-1] for path in bare if path.endswith("*"))

    def has(self, path: str) -> bool:
        bare = path.removeprefix("/")
        return bare in self._whole or bare.startswith(self._beginnings)
