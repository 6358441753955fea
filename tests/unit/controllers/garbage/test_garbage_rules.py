"""What becomes of an object whose owners are solid, dangling or waiting: every row of the table."""

from __future__ import annotations

import pytest

from tonnage.controllers.dependency_graph import DependencyGraph, Item, OwnerState, propagation_of
from tonnage.objects.meta import OwnerReference
from tonnage.objects.resources import BY_PLURAL

SOLID, DANGLING, WAITING = OwnerState.SOLID, OwnerState.DANGLING, OwnerState.WAITING
REPLICA_SETS, PODS, NODES = BY_PLURAL["apps", "replicasets"], BY_PLURAL["", "pods"], BY_PLURAL["", "nodes"]


def owner(uid: str, *, kind: str = "ReplicaSet", name: str = "", blocks: bool = False) -> OwnerReference:
    version = "apps/v1" if kind == "ReplicaSet" else "v1"
    return OwnerReference(api_version=version, kind=kind, name=name or uid, uid=uid, block_owner_deletion=blocks)


@pytest.mark.parametrize(
    ("states", "finalizers", "dependents", "propagation"),
    [
        ((), (), False, ""),
        ((SOLID,), (), False, ""),
        ((SOLID, DANGLING), (), False, ""),
        ((DANGLING, SOLID, WAITING), (), True, ""),
        ((DANGLING, DANGLING), (), False, "Background"),
        # A finalizer that the object has already says how it goes.
        ((DANGLING,), ("orphan",), False, "Orphan"),
        ((DANGLING,), ("foregroundDeletion",), False, "Foreground"),
        ((DANGLING,), ("example.com/other",), False, "Background"),
        # An owner that waits takes an object with dependents into the foreground.
        ((WAITING,), (), True, "Foreground"),
        ((WAITING, DANGLING), ("orphan",), True, "Foreground"),
        ((WAITING,), (), False, "Background"),
    ],
)
def test_owners_and_finalizers_say_whether_and_how_an_object_goes(
    states: tuple[OwnerState, ...], finalizers: tuple[str, ...], dependents: bool, propagation: str
) -> None:
    assert propagation_of(states, finalizers=finalizers, has_dependents=dependents) == propagation


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
