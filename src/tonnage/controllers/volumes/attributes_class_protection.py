"""A VolumeAttributesClass that is in use is not deleted: the finalizer kubernetes.io/vac-protection.

A claim uses the class that it asks for, the one it has, and the one it is being changed to; a volume uses the one it
has. Mirrors vacprotection.
"""

from __future__ import annotations

from collections.abc import Iterator

from tonnage.client.cache import Indexer
from tonnage.client.reconciler import Reconciler
from tonnage.client.written_objects import add_finalizer, remove_finalizer
from tonnage.controllers.controller_context import ControllerContext
from tonnage.errors import Conflict, NotFound
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import VolumeAttributesClass

VAC_PROTECTION = "kubernetes.io/vac-protection"


class AttributesClassProtection:
    """Protects classes of attributes until it is cancelled."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._informers = context.informers
        self._classes = context.informers.of(VolumeAttributesClass)
        claims, volumes = context.informers.of(PersistentVolumeClaim), context.informers.of(PersistentVolume)
        self._claims = Indexer(claims, lambda claim: tuple(classes_of_claim(claim)))
        self._volumes = Indexer(volumes, lambda volume: tuple(classes_of_volume(volume)))
        self._work = Reconciler("attributes-class-protection", self.reconcile, clock=context.clock)
        self._work.follow(self._classes)
        claims.add_handlers(
            on_update=lambda old, new: self._let_go(set(classes_of_claim(old)) - set(classes_of_claim(new))),
            on_delete=lambda old: self._let_go(set(classes_of_claim(old))),
        )
        volumes.add_handlers(
            on_update=lambda old, new: self._let_go(set(classes_of_volume(old)) - set(classes_of_volume(new))),
            on_delete=lambda old: self._let_go(set(classes_of_volume(old))),
        )

    async def run(self) -> None:
        await self._informers.wait_synced()
        await self._work.run()

    async def reconcile(self, key: Key) -> float | None:
        """Put the finalizer on, or take it off a class that is being deleted and that nobody uses."""
        found = self._classes.get(key)
        if found is None:
            return None
        patch = None
        if not found.metadata.is_terminating:
            patch = add_finalizer(found, VAC_PROTECTION)
        elif not self._claims(found.name) and not self._volumes(found.name):
            patch = remove_finalizer(found, VAC_PROTECTION)
        if patch is not None:
            try:
                await self._client.patch(VolumeAttributesClass, key, patch)
            except (Conflict, NotFound):
                return None  # the informer will show how it is now
        return None

    def _let_go(self, names: set[str]) -> None:
        for name in names:
            self._work.add(name)


def classes_of_claim(claim: PersistentVolumeClaim) -> Iterator[str]:
    """Each once."""
    target = claim.status.modify_volume_status
    named = {
        claim.spec.volume_attributes_class_name or "",
        claim.status.current_volume_attributes_class_name,
        "" if target is None else target.target_volume_attributes_class_name,
    }
    yield from named - {""}


def classes_of_volume(volume: PersistentVolume) -> Iterator[str]:
    if volume.spec.volume_attributes_class_name:
        yield volume.spec.volume_attributes_class_name
