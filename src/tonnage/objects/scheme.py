"""Resources and their classes, both ways.

A class has the name of its kind and stands in the module of its apiVersion; `resources` has everything else about the
resource. A kind of `resources` without a class is served by the API server and read by no program.
"""

from __future__ import annotations

from types import ModuleType

from tonnage.errors import TonnageError, closest
from tonnage.objects import apps_v1, batch_v1, core_v1, events_v1, small_groups, storage_v1
from tonnage.objects.meta import Object
from tonnage.objects.resources import BY_KIND, Resource

_MODULES: dict[str, ModuleType] = {
    "v1": core_v1,
    "apps/v1": apps_v1,
    "batch/v1": batch_v1,
    "coordination.k8s.io/v1": small_groups,
    "events.k8s.io/v1": events_v1,
    "policy/v1": small_groups,
    "scheduling.k8s.io/v1": small_groups,
    "storage.k8s.io/v1": storage_v1,
}
RESOURCE_BY_CLASS: dict[type[Object], Resource] = {
    cls: BY_KIND[api_version, name]
    for api_version, module in _MODULES.items()
    for name, cls in sorted(vars(module).items())
    if (api_version, name) in BY_KIND
}
RESOURCE_BY_HEAD: dict[type[Object], Resource] = {}
"""Classes with metadata alone, made on demand: see `client.metadata_only`."""
CLASS_BY_KIND: dict[tuple[str, str], type[Object]] = {
    (resource.api_version, resource.kind): cls for cls, resource in RESOURCE_BY_CLASS.items()
}


class UnknownKind(TonnageError):
    """There is no typed class for this apiVersion and kind."""

    def __init__(self, api_version: str, kind: str) -> None:
        self.api_version = api_version
        self.kind = kind
        super().__init__(
            f'apiVersion "{api_version}", kind "{kind}" is not something Tonnage reads', hint=_hint(api_version, kind)
        )


def resource_of(cls: type[Object]) -> Resource:
    """The resource whose objects are read as `cls`. Raises KeyError for a class that is no kind."""
    resource = RESOURCE_BY_CLASS.get(cls)
    return RESOURCE_BY_HEAD[cls] if resource is None else resource


def class_of(api_version: str, kind: str) -> type[Object]:
    """The class for objects of this kind. Raises UnknownKind."""
    cls = CLASS_BY_KIND.get((api_version, kind))
    if cls is None:
        raise UnknownKind(api_version, kind)
    return cls


def _hint(api_version: str, kind: str) -> str | None:
    for known_version, known_kind in CLASS_BY_KIND:
        if known_kind == kind:
            return f"{kind} is read as apiVersion: {known_version}"
    close = closest(kind, sorted({known for _, known in CLASS_BY_KIND}))
    return f"is {close[0]} meant?" if close else None
