"""The informers of a program as one of its parts uses them: handlers that the part has added go when it is closed.

    scope = InformerScope(informers)
    pods = scope.of(Pod)          # a view: reads as the shared informer does, has handlers of its own
    pods.on_change(...)
    scope.close()                 # the informer goes on, the handlers are called no more

A controller that is started again adds its handlers and indexes anew. Without a scope those of its earlier life would
stay on the shared informers, and be called, for as long as the program runs.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from tonnage.client.cache import Cache
from tonnage.client.informer import Informer
from tonnage.client.informers import Informers
from tonnage.objects.meta import Object

T = TypeVar("T", bound=Object)


class InformerFactory(Protocol):
    """Where a part of a program has its caches from: `Informers`, or a scope of them."""

    def of(self, cls: type[T], *, namespace: str = "") -> Cache[T]: ...

    async def wait_synced(self) -> None: ...


class InformerView(Cache[T]):
    """The objects of an informer, with handlers that can be removed all at once."""

    def __init__(self, informer: Cache[T]) -> None:
        super().__init__(informer.cls)
        self._informer = informer
        self._objects = informer._objects  # one state, read by all
        self._registration = informer.add_handlers(
            on_add=self._notify_added, on_update=self._notify_updated, on_delete=self._notify_deleted
        )

    @property
    def resource_version(self) -> str:
        return self._informer.resource_version

    def close(self) -> None:
        """Call the handlers of this view no more."""
        self._informer.remove_handlers(self._registration)


class InformerScope:
    """Views of shared informers, one for each resource and namespace that is asked for."""

    def __init__(self, informers: Informers) -> None:
        self._informers = informers
        self._views: dict[Informer[Any], InformerView[Any]] = {}

    def of(self, cls: type[T], *, namespace: str = "") -> InformerView[T]:
        """The view of this informer: the same one for whoever asks in this scope."""
        informer = self._informers.of(cls, namespace=namespace)
        view = self._views.get(informer)
        if view is None:
            view = self._views[informer] = InformerView(informer)
        return view

    async def wait_synced(self) -> None:
        """Return when all informers of the program know their state."""
        await self._informers.wait_synced()

    def close(self) -> None:
        """Call no handler of this scope any more."""
        for view in self._views.values():
            view.close()
