"""A claim whose volume cannot be made, whatever room there is, keeps nothing back, in both modes."""

from __future__ import annotations

from datetime import timedelta

import pytest
from ledger_rig import NODE_1, NODE_2, LedgerRig, bound, made, written

from tonnage.clock import rfc3339
from tonnage.objects.codec import convert
from tonnage.objects.core_v1 import Event, PersistentVolumeClaim
from tonnage.objects.core_v1.persistent_volume import PROVISIONING_REFUSED, is_for_good, refusal_text
from tonnage.scheduling.volumes.reservations.object_reservations import Reservations
from tonnage.testing.storage_builders import claim, meta

INVALID = "rpc error: code = InvalidArgument desc = the driver has no ReadWriteMany"
AWAY = "rpc error: code = Unavailable desc = connection refused"


@pytest.mark.parametrize(
    ("message", "for_good"),
    [
        (INVALID, True),
        (f"Volume provisioning failed with infeasible error. Retries will be delayed. {INVALID}", True),
        (f"(combined from similar events): {INVALID}", True),
        ("rpc error: code = OutOfRange desc = at most 16Ti", True),
        ("rpc error: code = Unimplemented desc = no clones", True),
        ("rpc error: code = NotFound desc = no such snapshot", True),
        ("rpc error: code = PermissionDenied desc = not yours", True),
        (AWAY, False),
        ("rpc error: code = DeadlineExceeded desc = context deadline exceeded", False),
        ("rpc error: code = Aborted desc = in progress", False),
        ("rpc error: code = Internal desc = who knows", False),
        ("rpc error: code = ResourceExhausted desc = no pool has room", False),
        (
            "error getting handle for DataSource Type VolumeSnapshot by Name snap: error getting snapshot snap from "
            'api server: volumesnapshots.snapshot.storage.k8s.io "snap" not found',
            True,
        ),
        (
            "error getting handle for DataSource Type PersistentVolumeClaim by Name old: error getting PVC old "
            '(namespace "default") from api server: persistentvolumeclaim "old" not found',
            True,
        ),
        (
            "error getting handle for DataSource Type PersistentVolumeClaim by Name old: error, new PVC request must "
            "be greater than or equal in size to the specified PVC data source, requested 1 but source is 2",
            True,
        ),
        ('volumeattributesclasses.storage.k8s.io "gold" not found', True),
        ("CSI driver does not support clone operations: controller CLONE_VOLUME capability is not reported", True),
        ("error getting handle for DataSource Type VolumeSnapshot by Name s: snapshot s is not Ready", False),
        (
            "error getting handle for DataSource Type VolumeSnapshot by Name s: error getting snapshot s from api "
            "server: the server could not find the requested resource (get volumesnapshots.snapshot.storage.k8s.io s)",
            True,
        ),
        (
            "error getting handle for DataSource Type VolumeSnapshot by Name s: GET https://127.0.0.1/apis/snapshot.sto"
            "rage.k8s.io/v1/namespaces/n/volumesnapshots/s: the answer is 404: 404 page not found",
            True,
        ),
        ('error generating accessibility requirements: error getting CSINode: csinode "n" not found', False),
        ('node "n1" not found', False),
        ("error saving volume pvc-1: the server is away", False),
    ],
)
def test_what_a_provisioner_says_is_for_good_or_for_now(message: str, for_good: bool) -> None:
    assert is_for_good(message) is for_good


def failed(name: str, message: str, rig: LedgerRig, *, event: str = "e", after_s: float = 0.0, uid: str = "") -> Event:
    """The event of a provisioner that could not make a claim's volume, written so many seconds from now."""
    stamp = rfc3339(rig.clock.now() + timedelta(seconds=after_s))
    about = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": name, "uid": uid or f"default-{name}"}
    return convert(
        Event,
        {
            "kind": "Event",
            "metadata": meta(event, "default", managedFields=[{"time": stamp}]),
            "involvedObject": about,
            "reason": "ProvisioningFailed",
            "message": message,
            "lastTimestamp": stamp,
        },
    )


def annotated(name: str, node_name: str = "node-1", told_for: str = "node-1") -> PersistentVolumeClaim:
    asked = claim(name, "20Gi", selected_node=told_for)
    return claim(
        name,
        "20Gi",
        selected_node=node_name,
        metadata={"annotations": {PROVISIONING_REFUSED: refusal_text(asked, INVALID)}},
    )


@pytest.fixture
def rig() -> LedgerRig:
    """A pod's claim was sent to node-1 and is being made."""
    rig = LedgerRig()
    rig.reserve(rig.pod("web", "data"))
    rig.put(written("data", at=rig.clock.now()))
    rig.changed.clear()
    return rig


def test_a_promise_rests_when_its_claim_cannot_be_made_and_wakes_who_was_turned_away(rig: LedgerRig) -> None:
    rig.put(failed("data", INVALID, rig))
    assert rig.gibs() == []
    assert rig.released == [NODE_1]
    (resting,) = rig.ledger.resting()
    assert (resting.claims, resting.pod, resting.uid, resting.bytes) == (("default/data",), "default/web", NODE_1, 0)
    assert resting.why == f"keeps nothing back: its volume cannot be made: {INVALID}"
    assert rig.ledger.holds() == []
    assert rig.ledger.ended["refusal"] == 1


def test_a_failure_that_may_end_by_itself_keeps_the_promise(rig: LedgerRig) -> None:
    rig.put(failed("data", AWAY, rig))
    assert rig.gibs() == [20]


def test_the_last_word_counts(rig: LedgerRig) -> None:
    rig.put(failed("data", INVALID, rig))
    rig.put(failed("data", AWAY, rig, event="later", after_s=5))
    assert rig.gibs() == [20]
    rig.put(failed("data", INVALID, rig, after_s=9))  # told again
    assert rig.gibs() == []
    assert rig.ledger.ended["refusal"] == 2


def test_a_promise_resumes_when_the_claim_is_sent_elsewhere(rig: LedgerRig) -> None:
    rig.put(failed("data", INVALID, rig))
    rig.put(written("data", node_name="node-2", at=rig.clock.now() + timedelta(seconds=5)))
    assert (rig.gibs(NODE_1), rig.gibs(NODE_2)) == ([], [20])
    rig.put(failed("data", INVALID, rig, after_s=6))
    assert rig.gibs(NODE_2) == []


def test_what_was_said_before_a_claim_was_sent_elsewhere_says_nothing_there(rig: LedgerRig) -> None:
    rig.put(failed("data", INVALID, rig))
    rig.clock.advance(5)
    rig.reserve(rig.pod("web", "data"), "node-2")
    assert rig.gibs(NODE_2) == [20]
    rig.put(written("data", node_name="node-2", at=rig.clock.now()))
    assert rig.gibs(NODE_2) == [20]


def test_a_promise_resumes_when_its_volume_is_there_after_all(rig: LedgerRig) -> None:
    rig.put(failed("data", INVALID, rig))
    rig.put(made("data", rig, age_s=0))
    assert rig.gibs() == [20]
    rig.put(bound("data"))
    rig.refresh()
    assert rig.gibs() == []


def test_an_event_about_another_claim_of_that_name_says_nothing(rig: LedgerRig) -> None:
    rig.put(failed("data", INVALID, rig, uid="an earlier one"))
    assert rig.gibs() == [20]


def test_a_new_decision_is_not_refused_by_what_was_said_before_it(rig: LedgerRig) -> None:
    rig.put(failed("data", INVALID, rig))
    rig.put(claim("data", "20Gi"))  # the choice of the node was taken back
    rig.clock.advance(5)
    rig.reserve(rig.pod("web", "data"), "node-1")
    assert rig.gibs() == [20]
    rig.put(written("data", at=rig.clock.now()))
    assert rig.gibs() == [20]


def test_the_annotation_of_our_provisioner_says_the_same_for_the_node_it_names(rig: LedgerRig) -> None:
    rig.put(annotated("data"))
    assert rig.gibs() == []
    rig.put(written("data"))  # another word was said
    assert rig.gibs() == [20]
    rig.put(annotated("data", node_name="node-2", told_for="node-1"))
    assert rig.gibs(NODE_2) == [20]


@pytest.mark.parametrize("by_event", [True, False])
def test_after_a_restart_a_promise_rests_as_before(by_event: bool) -> None:
    rig = LedgerRig(is_down=True)
    rig.put(written("data", at=rig.clock.now()) if by_event else annotated("data"))
    if by_event:
        rig.put(failed("data", INVALID, rig))
    assert rig.gibs() == []
    assert len(rig.ledger.resting()) == 1


def test_a_claim_that_is_deleted_rests_no_more(rig: LedgerRig) -> None:
    rig.put(failed("data", INVALID, rig))
    rig.storage.remove(rig.claim("default/data"))
    assert rig.ledger.resting() == []


def test_in_mode_object_the_object_is_free_when_none_of_its_claims_can_be_made() -> None:
    rig = LedgerRig()
    kept = rig.cluster.index(Reservations)
    room = rig.storage.capacities["kube-system/fast-node-1"]
    rig.put(written("a"), written("b"))
    kept.reserve(room, rig.pod("web", "a", "b"), [rig.claim("default/a"), rig.claim("default/b")])
    rig.put(failed("a", INVALID, rig, event="a"))
    assert kept.is_reserved(room)
    rig.put(failed("b", INVALID, rig, event="b"))
    assert not kept.is_reserved(room)
    assert kept.ended["refusal"] == 1
    kept.reserve(room, rig.pod("web", "a", "b"), [rig.claim("default/a"), rig.claim("default/b")])  # it is tried again
    assert not kept.is_reserved(room)
