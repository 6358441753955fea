"""Keeps the annotations of StorageClasses: their driver's policy and sizes, and with which classes they share disks.

They are applied without force: what an admin wrote stays, and is reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tonnage.errors import Conflict, Forbidden, NotFound
from tonnage.objects.storage_v1 import StorageClass
from tonnage.pools.class_pools import ClassPools, PoolSource, Published
from tonnage.pools.settings import PoolsSettings
from tonnage.pools.wanted import OF_CLASSES, groups_of, wanted_of_class
from tonnage.pools.writing import AnnotationWriter, ToldOnce


class ClassKeeper:
    def __init__(self, writer: AnnotationWriter, settings: PoolsSettings, problems: ToldOnce) -> None:
        self._writer = writer
        self._settings = settings
        self._problems = problems
        self._sent: dict[str, tuple[object, ...]] = {}
        """By class, the annotations seen and those sent last."""

    def is_kept(self, storage_class: StorageClass | None) -> bool:
        return storage_class is not None and storage_class.provisioner in self._settings.drivers

    def found(
        self, all_classes: Iterable[StorageClass], source: PoolSource, published: Published
    ) -> dict[str, ClassPools]:
        """The pools of every kept class; problems are logged."""
        found = {each.name: source.pools_of(each, published) for each in all_classes if self.is_kept(each)}
        for name, pools in found.items():
            self._problems.tell(f"StorageClass {name}", pools.problems)
        return found

    async def keep(
        self, all_classes: Iterable[StorageClass], source: PoolSource, found: Mapping[str, ClassPools]
    ) -> None:
        """Look at every class once. Raises TonnageError if a write fails."""
        classes = {each.name: each for each in all_classes if each.name in found}
        problems: list[str] = []
        group_of = groups_of(classes, found, problems) if self._settings.sets_groups else {}
        self._problems.tell("StorageClasses", problems)
        for name, storage_class in classes.items():
            wanted = wanted_of_class(
                storage_class, found[name], self._settings, source=source, group=group_of.get(name, "")
            )
            await self._apply(storage_class, wanted, source.only_node)

    async def remove(self, all_classes: Iterable[StorageClass], source: PoolSource) -> None:
        for storage_class in list(all_classes):
            if self.is_kept(storage_class):
                await self._apply(storage_class, {}, source.only_node)

    async def _apply(self, storage_class: StorageClass, wanted: dict[str, str], node: str) -> None:
        found = {key: text for key, text in storage_class.metadata.annotations.items() if key in OF_CLASSES}
        # What others wrote stays, so the annotations alone do not tell whether anything is left to do: the same is not
        # sent twice.
        sent = (storage_class.uid, tuple(sorted(found.items())), tuple(sorted(wanted.items())))
        if found == wanted or self._sent.get(storage_class.name) == sent:
            return
        thing, problems = f"StorageClass {storage_class.name} annotations", []
        try:
            try:
                await self._writer.apply(storage_class, wanted, force=False, on_behalf_of=node)
            except Conflict:
                theirs = [key for key, text in wanted.items() if found.get(key, text) != text]
                if not theirs:
                    raise
                problems = [f"{key} is {found[key]}, which another program wrote: it stays" for key in theirs]
                ours = {key: wanted[key] for key in wanted.keys() - theirs}
                await self._writer.apply(storage_class, ours, force=False, on_behalf_of=node)
        except NotFound:
            return
        except Forbidden as exc:
            problems = [
                f"may not be written: {exc.message}; allow it, or start with --no-set-pool-policy --no-set-size-rules"
            ]
        self._sent[storage_class.name] = sent
        self._problems.tell(thing, problems)
