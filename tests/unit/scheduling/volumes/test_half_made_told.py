"""A pod that is stuck half-made says which claim to delete, and says nothing where its volume may have been used."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from volume_rig import ELSEWHERE, FULL, VolumeRig, refused

from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Object
from tonnage.scheduling.volumes.explain.refusal_notes import half_made_in
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import attachment, capacity, claim, pod_with, volume

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
TOLD = (
    "Claim default/data has a new volume on a that no pod uses, and no room for default/log is left there: if nothing "
    "was written to it, delete default/data (kubectl delete pvc -n default data), and the pod may go elsewhere."
)


def at(each: Any, when: datetime) -> Any:
    return msgspec.structs.replace(each, metadata=msgspec.structs.replace(each.metadata, creation_timestamp=when))


def stuck(*more: Object, made_after_s: float = 5) -> str:
    """What is told of a pod whose data is on a, where its log has no room, and b has room for both."""
    rig = VolumeRig(
        *(node("a"), node("b"), capacity("fast", "a", pools=["10Gi"]), capacity("fast", "b", pools=["100Gi"])),
        claim("data", "40Gi", volume="pv", selected_node="a"),
        at(volume("pv", "40Gi", on="a", claim="default/data"), NOON + timedelta(seconds=made_after_s)),
        claim("log", "20Gi"),
        *more,
    )
    web: Pod = at(pod_with("web", "data", "log"), NOON)
    decision = rig.decide(web)
    assert decision.diagnosis is not None
    return decision.diagnosis.told()


COUNTED = refused({ELSEWHERE: 1, FULL: 1}, 2)


def test_the_claim_to_delete_is_named_after_what_kubernetes_counts() -> None:
    assert stuck() == f"{COUNTED} {TOLD}"


def test_nothing_is_said_of_a_volume_that_is_older_than_its_pod() -> None:
    assert stuck(made_after_s=-1) == COUNTED


def test_nothing_is_said_of_a_volume_that_is_attached_or_that_another_pod_has() -> None:
    assert stuck(attachment("pv-on-a", "pv", "a")) == COUNTED
    assert stuck(pod_with("other", "data", on="a")) == COUNTED


def test_a_pod_none_of_whose_volumes_is_made_is_not_half_made() -> None:
    rig = VolumeRig(node("a"), capacity("fast", "a", pools=["10Gi"]))
    decision = rig.decide(at(rig.pod("web", "40Gi", "20Gi"), NOON))
    assert decision.diagnosis is not None and decision.diagnosis.told() == refused({FULL: 1}, 1)


def test_the_sentence_is_found_in_the_whole_message() -> None:
    assert half_made_in(stuck()) == TOLD
    assert half_made_in(COUNTED) == ""
