"""What becomes of an object whose owners are solid, dangling or waiting: every row of the table."""

from __future__ import annotations

import pytest

from tonnage.controllers.dependency_graph import DeleteObject, DependencyGraph, Item, Keep, OwnerState, decide
from tonnage.objects.meta import OwnerReference
from tonnage.objects.resources import BY_PLURAL

SOLID, DANGLING, WAITING = OwnerState.SOLID, OwnerState.DANGLING, OwnerState.WAITING
REPLICA_SETS, PODS, NODES = BY_PLURAL["apps", "replicasets"], BY_PLURAL["", "pods"], BY_PLURAL["", "nodes"]


def owner(uid: str, *, kind: str = "ReplicaSet", name: str = "", blocks: bool = False) -> OwnerReference:
    version = "apps/v1" if kind == "ReplicaSet" else "v1"
    return OwnerReference(api_version=version, kind=kind, name=name or uid, uid=uid, block_owner_deletion=blocks)


def judged(
    *states: OwnerState, finalizers: tuple[str, ...] = (), dependents: bool = False, circle: bool = False
) -> Keep | DeleteObject:
    owners = [(owner(f"{state}-{number}"), state) for number, state in enumerate(states)]
    return decide(owners, finalizers=finalizers, has_dependents=dependents, is_in_deletion_cycle=circle)


def test_an_item_without_owners_stays() -> None:
    assert judged() == Keep()


@pytest.mark.parametrize(
    ("states", "drop"),
    [
        ((SOLID,), ()),
        ((SOLID, SOLID), ()),
        ((SOLID, DANGLING), ("dangling-1",)),
        ((WAITING, SOLID), ("waiting-0",)),  # or the owner would wait for ever
        ((DANGLING, SOLID, WAITING), ("dangling-0", "waiting-2")),
    ],
)
def test_one_solid_owner_keeps_it_and_the_others_are_dropped(
    states: tuple[OwnerState, ...], drop: tuple[str, ...]
) -> None:
    assert judged(*states) == Keep(frozenset(drop))


def test_without_a_solid_owner_it_goes_quietly() -> None:
    assert judged(DANGLING, DANGLING) == DeleteObject("Background")


def test_a_finalizer_that_it_has_already_says_how_it_goes() -> None:
    assert judged(DANGLING, finalizers=("orphan",)) == DeleteObject("Orphan")
    assert judged(DANGLING, finalizers=("foregroundDeletion",)) == DeleteObject("Foreground")
    assert judged(DANGLING, finalizers=("example.com/other",)) == DeleteObject("Background")


def test_an_owner_that_waits_takes_an_item_with_dependents_into_the_foreground() -> None:
    assert judged(WAITING, dependents=True) == DeleteObject("Foreground")
    assert judged(WAITING, DANGLING, dependents=True, circle=True) == DeleteObject("Foreground", unblock=True)


def test_an_owner_that_waits_takes_an_item_without_dependents_quietly() -> None:
    assert judged(WAITING) == DeleteObject("Background")


def test_only_references_that_say_so_block() -> None:
    graph, item = DependencyGraph(), Item(PODS, "ns", "p", "p", owners=(owner("a", blocks=True), owner("b")))
    graph.put(item)
    assert (graph.blocking("a"), graph.blocking("b"), graph.blocking("c")) == ((item,), (), ())


@pytest.mark.parametrize(
    ("known", "reference", "is_meant"),
    [
        (Item(REPLICA_SETS, "ns", "rs", "1"), owner("1", name="rs"), True),
        (Item(REPLICA_SETS, "ns", "rs", "1"), owner("1", name="other"), False),
        (Item(REPLICA_SETS, "ns", "rs", "1"), owner("1", name="rs", kind="Node"), False),
        (Item(REPLICA_SETS, "elsewhere", "rs", "1"), owner("1", name="rs"), False),
        (Item(NODES, "", "n", "1"), owner("1", name="n", kind="Node"), True),  # cluster-scoped: of any namespace
    ],
)
def test_a_reference_means_its_owner_only_if_all_of_it_is_true(
    known: Item, reference: OwnerReference, is_meant: bool
) -> None:
    assert known.is_meant_by(reference, Item(PODS, "ns", "p", "p", owners=(reference,))) is is_meant
