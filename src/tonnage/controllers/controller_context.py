"""What every controller is built from, as kube-controller-manager's ControllerContext hands it to each of them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tonnage.client.http import Client
from tonnage.client.informers import InformerFactory
from tonnage.client.metrics import WorkQueueMetrics
from tonnage.client.recorder import Recorder
from tonnage.clock import Clock
from tonnage.objects.core_v1 import PersistentVolume


class AttacherHere(Protocol):
    """The attacher of a driver that runs in this program."""

    @property
    def volume_finalizer(self) -> str:
        """What it puts on a volume before it attaches it, and takes off one that is deleted and attached nowhere."""
        ...

    async def finalizers(self, volume: PersistentVolume, node: str) -> tuple[tuple[str, ...], Mapping[str, str]]:
        """Put its finalizer on the volume; the finalizers and annotations that an attachment of it should have then."""
        ...


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """The client is shared by all controllers; `recorder` writes events under the controller's own name."""

    client: Client
    informers: InformerFactory
    recorder: Recorder
    clock: Clock
    rng: random.Random
    queues: WorkQueueMetrics | None = None
    """For `Reconciler(metrics=…)`."""
    attachers: dict[str, AttacherHere] = field(default_factory=dict)
    """By the driver's name. Shared by all controllers: who binds a volume or creates an attachment does the
    attacher's first write with it."""
