"""What a namespace that is being emptied says about itself: five conditions, in upstream's words. Pure.

    NamespaceDeletionDiscoveryFailure · NamespaceDeletionGroupVersionParsingFailure · NamespaceDeletionContentFailure
    NamespaceContentRemaining · NamespaceFinalizersRemaining

Each is "True" when something stands in the way of the deletion, and "False" with a word of calm when nothing does.
Mirrors status_condition_utils.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from tonnage.client.recorder import truncated
from tonnage.clock import rfc3339
from tonnage.objects.document import Doc
from tonnage.objects.resources import Resource

_MAX_MESSAGE_BYTES: Final = 8 * 1024
"""Objects may have thousands of finalizers, of 300 bytes each; what is beyond this nobody reads."""
_DISCOVERY: Final = "NamespaceDeletionDiscoveryFailure"
_CONTENT_FAILURE: Final = "NamespaceDeletionContentFailure"
_CONTENT: Final = "NamespaceContentRemaining"
_FINALIZERS: Final = "NamespaceFinalizersRemaining"
_ALL_IS_WELL: Final = {
    _DISCOVERY: ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    _CONTENT_FAILURE: ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    _CONTENT: ("ContentRemoved", "All content successfully removed"),
    _FINALIZERS: ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}


@dataclass(slots=True)
class Remains:
    """What was found in a namespace after everything in it was asked to go."""

    by_resource: Counter[Resource] = field(default_factory=Counter)
    by_finalizer: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    discovery_failure: str = ""

    def add(self, resource: Resource, finalizers: Iterable[Iterable[str]]) -> None:
        """Take note of the objects left of one kind; each is given by its finalizers."""
        left = list(finalizers)
        if left:
            self.by_resource[resource] += len(left)
        for each in left:
            self.by_finalizer.update(each)

    @property
    def are_none(self) -> bool:
        return not self.by_resource and not self.failures and not self.discovery_failure


def conditions_after(known: Iterable[Doc], remains: Remains, now: datetime) -> list[Doc] | None:
    """The conditions to write, those of others included; None when they all stand there already."""
    by_type = {each["type"]: each for each in known}
    before = dict(by_type)
    troubles = _troubles(remains)
    for type_, calm in _ALL_IS_WELL.items():
        was = by_type.get(type_)
        status = "True" if type_ in troubles else "False"
        reason, message = troubles.get(type_, calm)
        message = truncated(message, _MAX_MESSAGE_BYTES)
        since = was["lastTransitionTime"] if was is not None and was["status"] == status else rfc3339(now)
        by_type[type_] = {
            "type": type_,
            "status": status,
            "lastTransitionTime": since,
            "reason": reason,
            "message": message,
        }
    return None if by_type == before else list(by_type.values())


def _troubles(remains: Remains) -> dict[str, tuple[str, str]]:
    """Reason and message of the conditions that are "True"."""
    troubles: dict[str, tuple[str, str]] = {}
    if remains.discovery_failure:
        troubles[_DISCOVERY] = ("DiscoveryFailed", remains.discovery_failure)
    if remains.failures:
        failures = ", ".join(sorted(remains.failures))
        message = f"Failed to delete all resource types, {len(remains.failures)} remaining: {failures}"
        troubles[_CONTENT_FAILURE] = ("ContentDeletionFailed", message)
    if remains.by_resource:
        left = sorted(
            f"{resource.plural}.{resource.group} has {count} resource instances"
            for resource, count in remains.by_resource.items()
        )
        troubles[_CONTENT] = ("SomeResourcesRemain", f"Some resources are remaining: {', '.join(left)}")
    if remains.by_finalizer:
        left = sorted(f"{name} in {count} resource instances" for name, count in remains.by_finalizer.items())
        message = f"Some content in the namespace has finalizers remaining: {', '.join(left)}"
        troubles[_FINALIZERS] = ("SomeFinalizersRemain", message)
    return troubles
