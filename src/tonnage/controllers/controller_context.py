"""What every controller is built from, as kube-controller-manager's ControllerContext hands it to each of them."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tonnage.client.http import Client
from tonnage.client.informer_scope import InformerFactory
from tonnage.client.metrics.workqueues import WorkQueueMetrics
from tonnage.client.recorder import Recorder
from tonnage.clock import Clock


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
