"""Which pool a driver takes, because somebody says so: `tonnage.dev/pool-policy` on a StorageClass or its CSIDriver.

The API cannot tell, and a driver's documentation or source can. The class goes before its driver: one driver may choose
differently by a parameter of the class. A value that is none of those there are is `unknown`, and is told once. What a
policy means for a fit stands in `packing/pool_policies.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from tonnage import logs
from tonnage.objects.storage_v1 import POOL_POLICIES, POOL_POLICY, CSIDriver, StorageClass
from tonnage.scheduling.cluster.storage import Storage
from tonnage.scheduling.volumes.packing import PoolPolicy

_log = logs.logger("tonnage.scheduling")


def said_policy(text: str) -> PoolPolicy | None:
    """An annotation's value as a policy; None when it is none of those there are."""
    try:
        return PoolPolicy(text)
    except ValueError:
        return None


def problem_with_policy(found: StorageClass | CSIDriver) -> str:
    """Why an object's annotation cannot be read; empty when it can, or is not there."""
    if POOL_POLICY not in found.metadata.annotations or said_policy(found.pool_policy) is not None:
        return ""
    return f'{POOL_POLICY}="{found.pool_policy}" is none of {", ".join(POOL_POLICIES)}'


def pool_policy_of(found: StorageClass | None, driver: CSIDriver | None) -> PoolPolicy:
    """How volumes of a class are given a pool: by its own word, else by its driver's."""
    for each in (found, driver):
        if each is not None and POOL_POLICY in each.metadata.annotations:
            return said_policy(each.pool_policy) or PoolPolicy.UNKNOWN
    return PoolPolicy.UNKNOWN


def common_policy(policies: Iterable[PoolPolicy]) -> PoolPolicy:
    """That of several classes which share their pools: the one that they all have, else nobody knows."""
    found = set(policies)
    return found.pop() if len(found) == 1 else PoolPolicy.UNKNOWN


class PoolPolicies:
    """The policies of a cluster's classes, as they are now."""

    def __init__(self, storage: Storage) -> None:
        self.on_change: list[Callable[[Collection[str]], None]] = []
        """Called with the classes that have another policy now."""
        self._storage = storage
        self._of: dict[str, PoolPolicy] = {}
        """Only those that are known."""
        self._warned: set[tuple[str, str, str]] = set()
        for driver in storage.drivers.values():
            self._driver_changed(None, driver)
        for each in storage.classes.values():
            self._class_changed(None, each)
        storage.on_change(StorageClass, self._class_changed)
        storage.on_change(CSIDriver, self._driver_changed)

    def of(self, class_name: str) -> PoolPolicy:
        return self._of.get(class_name, PoolPolicy.UNKNOWN)

    def _class_changed(self, old: StorageClass | None, new: StorageClass | None) -> None:
        if new is not None:
            self._warn(new)
        if known := new or old:
            self._follow([known.name])

    def _driver_changed(self, old: CSIDriver | None, new: CSIDriver | None) -> None:
        if new is not None:
            self._warn(new)
        if known := new or old:
            self._follow([each.name for each in self._storage.classes.values() if each.provisioner == known.name])

    def _follow(self, class_names: Iterable[str]) -> None:
        changed = []
        for name in class_names:
            found = self._storage.classes.get(name)
            driver = self._storage.drivers.get(found.provisioner) if found is not None else None
            before, now = self.of(name), pool_policy_of(found, driver)
            if before is now:
                continue
            changed.append(name)
            if now is PoolPolicy.UNKNOWN:
                del self._of[name]
            else:
                self._of[name] = now
        for listener in self.on_change if changed else ():
            listener(changed)

    def _warn(self, found: StorageClass | CSIDriver) -> None:
        """A slip of the pen makes a fit less sure than it is, and is told once."""
        told = (type(found).__name__, found.name, found.pool_policy)
        if told in self._warned or not problem_with_policy(found):
            return
        self._warned.add(told)
        _log.warning(
            "A pool policy cannot be read and is taken for unknown",
            object=f"{type(found).__name__} {found.name}",
            field=f"metadata.annotations[{POOL_POLICY}]",
            value=found.pool_policy,
            remedy=f"write one of {', '.join(POOL_POLICIES)}",
        )
