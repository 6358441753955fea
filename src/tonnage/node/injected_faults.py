"""Faults that the nodes play: stopped, slow, removed. See `tonnage.faults` for the file they come from."""

from __future__ import annotations

from tonnage import logs
from tonnage.clock import Clock
from tonnage.errors import TonnageError
from tonnage.faults import Fault, FaultFile, InvalidFault, active_fault

_log = logs.logger(__name__)


class NodeIdle(TonnageError):
    """The node is stopped or removed on request, and leaves whatever it was at."""


class NodeFaults:
    """What is to go wrong on which node, as it is at this moment."""

    def __init__(self, file: FaultFile | None, *, clock: Clock) -> None:
        self._file = file
        self._clock = clock
        self._faults: tuple[Fault, ...] = ()
        self._complaint = ""
        self.changes = 0
        """How often other faults were seen, by whomever: one that came and went between two looks counts twice."""

    def read(self) -> tuple[Fault, ...]:
        """Every fault. A file that is broken is complained about, and changes nothing."""
        if self._file is not None:
            try:
                found = self._file.all()
                if found != self._faults:
                    self._faults = found
                    self.changes += 1
                self._complaint = ""
            except (InvalidFault, OSError) as exc:
                if str(exc) != self._complaint:  # it is read at every step, and complained about once
                    self._complaint = str(exc)
                    _log.warning("The faults cannot be read", error=self._complaint)
        return self._faults

    def _active(self, kind: str, node: str) -> Fault | None:
        return active_fault(self.read(), kind, node)

    def is_removed(self, node: str) -> bool:
        return self._active("node-removed", node) is not None

    def is_idle(self, node: str) -> bool:
        """It does nothing: stopped, or not there."""
        return self.is_removed(node) or self._active("node-stopped", node) is not None

    async def delay_or_stop(self, node: str) -> None:
        """Called before each step of a pod: a slow node waits here. Raises NodeIdle when it is to do nothing more."""
        if self.is_idle(node):
            raise NodeIdle(f"node {node} does nothing on request")
        slow = self._active("node-slow", node)
        if slow is not None:
            await self._clock.sleep(slow.value)
            if self.is_idle(node):
                raise NodeIdle(f"node {node} does nothing on request")
