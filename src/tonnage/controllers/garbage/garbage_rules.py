"""Whether an object is kept or deleted, by the states of its owners. Pure; the states come from the API server.

| owners                                              | then                                                    |
| --------------------------------------------------- | ------------------------------------------------------- |
| at least one solid                                  | it stays, and the references to the others are dropped  |
| none solid, one waits for it, it has dependents     | it is deleted in the foreground too                     |
| none solid                                          | it is deleted, as its own finalizers ask, else quietly  |

Mirrors attemptToDeleteItem of upstream's garbage collector.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tonnage.controllers.garbage.dependency_graph import FOREGROUND, ORPHAN
from tonnage.objects.meta import OwnerReference


class OwnerState(StrEnum):
    SOLID = "solid"
    """It exists, and does not wait for its dependents to go."""
    DANGLING = "dangling"
    """No object of that name, or one with another uid."""
    WAITING = "waiting"
    """It is being deleted in the foreground: it goes when its dependents have gone."""


@dataclass(frozen=True, slots=True)
class Keep:
    """The object stays; references to owners of these uids mean nothing any more and are taken out."""

    drop: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """The object goes. With `unblock` its references must stop blocking first, since it waits in a circle."""

    propagation: str
    unblock: bool = False


def decide(
    owners: Sequence[tuple[OwnerReference, OwnerState]],
    *,
    finalizers: Collection[str],
    has_dependents: bool,
    is_in_deletion_cycle: bool,
) -> Keep | DeleteObject:
    """Keep or delete. `is_in_deletion_cycle`: one of its own dependents is being deleted in the foreground already."""
    if not owners:
        return Keep()
    states = {state for _, state in owners}
    if OwnerState.SOLID in states:
        # A reference to an owner that waits must go too, or the owner would wait for ever.
        return Keep(frozenset(reference.uid for reference, state in owners if state is not OwnerState.SOLID))
    if OwnerState.WAITING in states and has_dependents:
        return DeleteObject("Foreground", unblock=is_in_deletion_cycle)
    if ORPHAN in finalizers:
        return DeleteObject("Orphan")
    return DeleteObject("Foreground" if FOREGROUND in finalizers else "Background")
