"""Drivers whose registration was refused: each is tried again by itself, at growing intervals, and told of once.

An API server without KEP-4876 refuses a changed count, every one a changed node id or set of topology keys, and a label
that is there with another value is not overwritten. That is one driver's trouble: the others are registered meanwhile,
and what its entry said before stays. The same answer is the same log line, so it is written once per cause.
"""

from __future__ import annotations

import random
from collections.abc import Hashable

from tonnage import logs
from tonnage.backoff import KeyedBackoff
from tonnage.clock import Clock
from tonnage.errors import TonnageError
from tonnage.node.drivers import InstalledDriver

_FIRST_S, _MAX_S = 1.0, 300.0

_log = logs.logger(__name__)


class RefusedDrivers:
    """The drivers of one node that could not be registered."""

    def __init__(self, node: str, *, clock: Clock, rng: random.Random) -> None:
        self._node = node
        self._backoff = KeyedBackoff(clock=clock, rng=rng, first_s=_FIRST_S, max_s=_MAX_S)
        self._told: dict[str, str] = {}

    def left_s(self, driver: InstalledDriver) -> float:
        """How long a driver has to wait before it is tried again; 0 for one that says something else than before."""
        return self._backoff.left_s(driver.name, _said(driver))

    def refused(self, driver: InstalledDriver, failure: TonnageError) -> None:
        """Its registration failed: note when it is tried again, and tell people if they do not know."""
        pause_s = self._backoff.failed(driver.name, _said(driver))
        if self._told.get(driver.name) != failure.message:
            self._told[driver.name] = failure.message
            _log.warning(
                "A driver could not be registered; the others are, and it is tried again",
                node=self._node,
                driver=driver.name,
                again_s=round(pause_s, 1),
                error=failure.message,
                hint=failure.hint,
            )

    def accepted(self, name: str) -> None:
        """It is registered, or gone."""
        self._backoff.forget(name)
        self._told.pop(name, None)


def _said(driver: InstalledDriver) -> Hashable:
    return driver.socket, driver.info.SerializeToString(deterministic=True)
