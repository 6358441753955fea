"""Making and deleting the pods of a workload whose pods have random names, so that none is made twice.

The random part of a name is chosen here, so that a create whose answer was lost can be looked up; what was written is
remembered in `expectations` until the cache shows it. A deletion names the uid of the pod it means. The events are
those of upstream's RealPodControl.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from tonnage.behaviour.workloads.templates import generated_name
from tonnage.client.cache import Cache
from tonnage.client.http import Client
from tonnage.client.recorder import Recorder
from tonnage.controllers.workloads.expectations import Expectations, is_in_doubt
from tonnage.errors import AlreadyExists, ApiError, NotFound, TonnageError
from tonnage.objects import codec
from tonnage.objects.core_v1 import Pod
from tonnage.objects.document import Doc
from tonnage.objects.meta import Object

_FIRST_BATCH: Final = 1
_NAME_TRIES: Final = 8
"""How often another random name is tried, as an API server does that chooses them."""


class PodControl:
    """Writes pods for one controller; a failure is returned, because others of the same round may have succeeded."""

    def __init__(
        self,
        client: Client,
        recorder: Recorder,
        pods: Cache[Pod],
        expectations: Expectations,
        rng: random.Random,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._pods = pods
        self._expectations = expectations
        self._rng = rng

    async def create(self, owner: Object, doc: Doc) -> TonnageError | None:
        """Make this pod, under a name that begins with its `generateName`."""
        metadata = doc["metadata"]
        for tries_left in reversed(range(_NAME_TRIES)):
            name = metadata["name"] = generated_name(metadata["generateName"], self._rng)
            try:
                pod = codec.convert(Pod, await self._client.create_doc(doc))
            except TonnageError as exc:
                if isinstance(exc, AlreadyExists) and tries_left:
                    continue  # by chance somebody has that name
                return self._failed_to_create(owner, name, exc)
            self._expectations.expect_written(owner.key, self._pods, pod)
            self._recorder.event(owner, "Normal", "SuccessfulCreate", "Create", f"Created pod: {name}", pod)
            break
        return None

    def _failed_to_create(self, owner: Object, name: str, failure: TonnageError) -> TonnageError | None:
        if is_in_doubt(failure):
            self._expectations.mark_in_doubt(owner.key, self._pods, f"{owner.namespace}/{name}")
        if is_namespace_terminating(failure):
            return None
        self._recorder.event(owner, "Warning", "FailedCreate", "Create", f"Error creating: {failure.message}")
        return failure

    async def delete(self, owner: Object, pod: Pod) -> TonnageError | None:
        """Delete this pod and no namesake; one that is gone already is no failure."""
        try:
            await self._client.delete(Pod, pod.key, uid=pod.uid)
        except NotFound:
            self._expectations.expect_deleted(owner.key, self._pods, pod.key, pod.uid)
            return None
        except TonnageError as exc:
            if is_in_doubt(exc):
                self._expectations.mark_in_doubt(owner.key, self._pods, pod.key, pod.uid)
            self._recorder.event(owner, "Warning", "FailedDelete", "Delete", f"Error deleting: {exc.message}", pod)
            return exc
        self._expectations.expect_deleted(owner.key, self._pods, pod.key, pod.uid)
        self._recorder.event(owner, "Normal", "SuccessfulDelete", "Delete", f"Deleted pod: {pod.name}", pod)
        return None

    async def delete_all(self, owner: Object, pods: Sequence[Pod]) -> TonnageError | None:
        """Delete them at once; the first failure."""
        return first_failure(await asyncio.gather(*(self.delete(owner, pod) for pod in pods)))


async def slow_start(count: int, act: Callable[[int], Awaitable[TonnageError | None]]) -> TonnageError | None:
    """Do it `count` times: one, then two at once, then four… until all are done or one of a batch failed.

    Whatever is wrong with the first is mostly wrong with all of them, and need not be asked a hundred times.
    """
    done, batch = 0, min(count, _FIRST_BATCH)
    while batch > 0:
        failure = first_failure(await asyncio.gather(*(act(done + n) for n in range(batch))))
        if failure is not None:
            return failure
        done += batch
        batch = min(2 * batch, count - done)
    return None


def first_failure(outcomes: Sequence[TonnageError | None]) -> TonnageError | None:
    return next((each for each in outcomes if each is not None), None)


def is_namespace_terminating(failure: TonnageError) -> bool:
    """Nothing more can be made in this namespace, and nothing has to be: it is going with all that is in it."""
    return isinstance(failure, ApiError) and any(cause.reason == "NamespaceTerminating" for cause in failure.causes)
