"""May they: the group that may everything, the paths that are everybody's, and what the API server says of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from tonnage.client.delegated_access.expiring_cache import ExpiringCache
from tonnage.client.delegated_access.reviews import AccessAnswer, Reviews
from tonnage.clock import Clock
from tonnage.errors import TonnageError
from tonnage.objects.users import User

OPEN_PATHS: Final = ("/healthz", "/readyz", "/livez")
"""What probes ask, which have no token: upstream's default of --authorization-always-allow-paths."""
_CACHE_SIZE: Final = 8192
_MAX_CACHED_BYTES: Final = 2_000
"""Questions that are longer are asked each time: what strangers write must not fill the memory."""


class OpenPaths:
    """Paths that are everybody's. A `*` at the end stands for the rest. Raises TonnageError for one elsewhere."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._whole: set[str] = set()
        self._begin: list[str] = []
        for path in (each.removeprefix("/") for each in paths):
            if "*" in path[:-1]:
                raise TonnageError(
                    f'only trailing * allowed in "{path}"', hint="see --authorization-always-allow-paths"
                )
            if path.endswith("*"):
                self._begin.append(path[:-1])
            else:
                self._whole.add(path)

    def has(self, path: str) -> bool:
        bare = path.removeprefix("/")
        return bare in self._whole or any(bare.startswith(begin) for begin in self._begin)


class DelegatedAuthorizer:
    """Whether somebody may read a path. Answers of the API server count for a while: `allow_ttl_s`, `deny_ttl_s`."""

    def __init__(self, reviews: Reviews | None, *, allow_ttl_s: float, deny_ttl_s: float, clock: Clock) -> None:
        self._reviews = reviews
        self._allow_ttl_s = allow_ttl_s
        self._deny_ttl_s = deny_ttl_s
        self._known: ExpiringCache[bytes, AccessAnswer] = ExpiringCache(_CACHE_SIZE, clock=clock)

    async def may(self, user: User, verb: str, path: str) -> AccessAnswer:
        """Raises ReviewFailed when the API server does not say."""
        if user.is_master:
            return AccessAnswer(True)
        if self._reviews is None:
            return AccessAnswer(False)
        spec = {"nonResourceAttributes": {"path": path, "verb": verb}, **user.review_spec()}
        key = msgspec.json.encode(spec)
        known = self._known.get(key)
        if known is not None:
            return known
        answer = await self._reviews.access(spec)
        if len(key) <= _MAX_CACHED_BYTES:
            self._known.put(key, answer, for_s=self._allow_ttl_s if answer.allowed else self._deny_ttl_s)
        return answer
