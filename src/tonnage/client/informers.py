"""The informers of a program: one per resource and selection, started and stopped together.

An `InformerScope` gives a part of a program views whose handlers are all removed when the scope is closed: a restarted
controller adds its handlers again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final, TypeVar, Unpack, cast

from tonnage.client.cache import Cache
from tonnage.client.http import Client
from tonnage.client.informer import Informer
from tonnage.client.rest import Selection, selectors_of
from tonnage.clock import Running, within
from tonnage.errors import TonnageError
from tonnage.logs import logger
from tonnage.objects import codec, meta
from tonnage.objects.resources import Resource

T = TypeVar("T", bound=meta.Object)

_NEWS_S: Final = 30.0
"""How often a program that waits for its first state logs it."""

_log = logger(__name__)


class NotSynced(TonnageError):
    """Some resources did not sync in time; `resources` names them, each with its last failure."""

    def __init__(self, timeout_s: float, late: Iterable[Informer[Any]]) -> None:
        self.timeout_s = timeout_s
        self.resources = {informer.name: informer.last_failure for informer in late}
        lagging = "; ".join(
            f"{name} ({failure.message})" if failure else f"{name} (no answer yet)"
            for name, failure in self.resources.items()
        )
        hint = next((failure.hint for failure in self.resources.values() if failure and failure.hint), None)
        super().__init__(f"not in step with the API server after {timeout_s:g} s: {lagging}", hint=hint)


class Informers(Running):
    def __init__(self, client: Client) -> None:
        self._client = client
        self._informers: dict[tuple[Any, ...], Informer[Any]] = {}
        self._is_started = False

    def of(self, cls: type[T], *, is_optional: bool = False, **selection: Unpack[Selection]) -> Informer[T]:
        """The one informer of these objects. If the others run, it is started at once."""
        asked = (cls, selection.get("namespace", ""), *selectors_of(selection).values())
        informer = self._informers.get(asked)
        if informer is None:
            informer = Informer(self._client, cls, is_optional=is_optional, **selection)
            self._informers[asked] = informer
            if self._is_started:
                informer.start()
        return cast(Informer[T], informer)

    def followed(self) -> dict[Resource, type[meta.Object]]:
        """The resources watched in all namespaces without selectors, with the class each is read as."""
        return {codec.resource_of(cls): cls for cls, *selection in self._informers if not any(selection)}

    def __iter__(self) -> Iterator[Informer[Any]]:
        return iter(tuple(self._informers.values()))

    def start(self) -> None:
        self._is_started = True
        for informer in self._informers.values():
            informer.start()

    async def stop(self) -> None:
        self._is_started = False
        await asyncio.gather(*(informer.stop() for informer in self._informers.values()))

    @property
    def are_synced(self) -> bool:
        return all(informer.is_synced for informer in self._informers.values())

    async def wait_synced(self, timeout_s: float | None = None) -> None:
        """Return when all informers are synced. Raises NotSynced after `timeout_s`; without one it logs and waits."""
        while timeout_s is None:
            try:
                return await self.wait_synced(_NEWS_S)
            except NotSynced as exc:
                _log.warning("Waiting for the API server", error=exc.message)
        try:
            return await within(self._client.clock, timeout_s, self._wait_synced())
        except TimeoutError:
            late = [informer for informer in self._informers.values() if not informer.is_synced]
            raise NotSynced(timeout_s, late) from None

    async def refresh(self) -> None:
        """Read all states again: a new leader must not decide from watches that lag behind the last leader's writes."""
        await asyncio.gather(*(informer.refresh() for informer in tuple(self._informers.values())))

    async def _wait_synced(self) -> None:
        for informer in tuple(self._informers.values()):
            await informer.wait_synced()


class InformerView(Cache[T]):
    """An informer's objects, with handlers that can be removed all at once."""

    def __init__(self, informer: Cache[T]) -> None:
        super().__init__(informer.cls)
        self._informer = informer
        self._objects = informer._objects  # one state, shared by all views
        self._registration = informer.add_handlers(
            on_add=partial(self._notify, "on_add"),
            on_update=partial(self._notify, "on_update"),
            on_delete=partial(self._notify, "on_delete"),
        )

    @property
    def resource_version(self) -> str:
        return self._informer.resource_version

    def close(self) -> None:
        self._informer.remove_handlers(self._registration)


class InformerScope:
    """Views of shared informers, one per resource and namespace."""

    def __init__(self, informers: Informers) -> None:
        self._informers = informers
        self._views: dict[Informer[Any], InformerView[Any]] = {}

    def of(self, cls: type[T], *, namespace: str = "") -> InformerView[T]:
        """The one view of this informer in this scope."""
        informer = self._informers.of(cls, namespace=namespace)
        view = self._views.get(informer)
        if view is None:
            view = self._views[informer] = InformerView(informer)
        return view

    def followed(self) -> dict[Resource, type[meta.Object]]:
        return self._informers.followed()

    async def wait_synced(self) -> None:
        await self._informers.wait_synced()

    def close(self) -> None:
        for view in self._views.values():
            view.close()
