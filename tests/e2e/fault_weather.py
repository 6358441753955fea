"""The weather of a storm over a cluster: programs are killed and stopped, faults come and go, and a watch is kept.

`Killer` sends SIGKILL to a program every second or three, `Faults` are those of `tonnage fault`, `Keepsakes` are words
left in volumes by which it can be seen afterwards that nothing was lost. What to do is drawn from a seed.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from support.cluster_sight import Sight
from support.processes import Up
from tonnage.faults import KINDS, Fault, FaultFile
from tonnage.objects.core_v1 import Pod

PROGRAMS: Final = ("apiserver", "csi-driver", "provisioner", "scheduler", "node", "controllers")
_HANGS: Final = 0.2
"""The part of kills that is no kill."""


class Killer:
    """SIGKILL to one program after another; now and then one is only stopped for a while, as if it hung.

    Programs are drawn as cards are: none comes a second time before each has had its turn.
    """

    def __init__(self, up: Up, rng: random.Random, pause_s: tuple[float, float]) -> None:
        self._up = up
        self._rng = rng
        self._pause_s = pause_s
        self.kills: Counter[str] = Counter()
        self.hangs: Counter[str] = Counter()

    async def work(self) -> None:
        while True:
            for program in self._rng.sample(PROGRAMS, len(PROGRAMS)):
                await asyncio.sleep(self._rng.uniform(*self._pause_s))
                if self._rng.random() < _HANGS:
                    await self._hang(program)
                elif self._signal(program, signal.SIGKILL):
                    self.kills[program] += 1

    async def _hang(self, program: str) -> None:
        if self._signal(program, signal.SIGSTOP):
            self.hangs[program] += 1
            try:
                await asyncio.sleep(self._rng.uniform(*self._pause_s))
            finally:
                self._signal(program, signal.SIGCONT)

    def _signal(self, program: str, number: signal.Signals) -> bool:
        try:
            os.kill(self._up.pid(program), number)
        except (FileNotFoundError, ValueError, ProcessLookupError):  # it is being started again
            return False
        return True


class Faults:
    """Faults that come and go, one at a time."""

    def __init__(self, file: FaultFile, rng: random.Random, nodes: list[str]) -> None:
        self._file = file
        self._rng = rng
        self._nodes = nodes
        self.played: Counter[str] = Counter()

    async def work(self) -> None:
        while True:
            await asyncio.sleep(self._rng.uniform(1.0, 3.0))
            fault = self._fault()
            self._file.put(fault)
            self.played[fault.kind] += 1
            await asyncio.sleep(self._rng.uniform(1.0, 3.0))
            self._file.clear()

    def _fault(self) -> Fault:
        kind = self._rng.choice(sorted(KINDS))
        # All nodes removed at once would leave nowhere to go back to; everything else may strike everywhere.
        node = self._rng.choice((*self._nodes, *(() if kind == "node-removed" else ("",))))
        return Fault(kind, node, {"slow": 1.0, "slots-taken": 28.0, "node-slow": 1.0}.get(kind, 0.0))


class Keepsakes:
    """A word left in each volume that a running pod uses: it must still be there when all is over.

    What was written while a volume was being copied elsewhere may be lost to the copy, so a word counts from when it
    was found again.
    """

    def __init__(self) -> None:
        self._kept: set[str] = set()

    def leave(self, sight: Sight) -> None:
        """Write into volumes that are new here, and find again what was written before."""
        contents = {id: path for path, (_, id) in sight.contents.items()}
        used = {handle for pod in sight.pods if _is_at_work(pod) for handle in _handles(sight, pod)}
        for id, path in contents.items():
            word = path / "keepsake"
            with suppress(OSError):  # it has moved or gone since it was looked at
                if word.exists():
                    self._kept.add(id)
                elif id in used:
                    word.write_text(id)

    def lost(self, sight: Sight) -> list[str]:
        """The volumes that are there and have lost their word, or have another's."""
        return [
            f"{id} in pool {place.pool} of {place.node} has lost what was in it"
            for path, (place, id) in sight.contents.items()
            if id in self._kept and (not (path / "keepsake").exists() or (path / "keepsake").read_text() != id)
        ]

    def __len__(self) -> int:
        return len(self._kept)


def _is_at_work(pod: Pod) -> bool:
    return pod.status.phase == "Running" and not pod.metadata.is_terminating


def _handles(sight: Sight, pod: Pod) -> Iterator[str]:
    volumes = {each.name: each for each in sight.volumes}
    for claim in sight.claims_of(pod):
        volume = volumes.get(claim.spec.volume_name)
        if volume is not None and volume.spec.csi is not None:
            yield volume.spec.csi.volume_handle
