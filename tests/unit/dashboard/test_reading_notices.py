"""What cannot be read is told once a kind, in plain words, with the remedy."""

from __future__ import annotations

from tonnage.client.errors import Disconnected
from tonnage.dashboard.follow.live_cluster import KindReading, notices
from tonnage.errors import Forbidden, NotFound, TonnageError
from tonnage.objects.core_v1 import Node, PersistentVolumeClaim, Pod
from tonnage.objects.storage_v1 import CSIStorageCapacity

SERVER = "https://127.0.0.1:6443"


def told(*readings: KindReading) -> dict[str, tuple[str, str, str]]:
    return {topic: (row.severity, row.text, row.hint) for topic, row in notices(readings, SERVER)}


def test_a_kind_that_is_forbidden_is_told_with_what_is_missing_and_who_could_allow_it():
    refused = Forbidden("nodes is forbidden")
    assert told(KindReading(Node, refused, 0.1), KindReading(Pod, None, 0.0)) == {
        "nodes": (
            "warning",
            "Node objects may not be read: only nodes that volumes name are shown",
            "let the user of the kubeconfig list and watch nodes",
        )
    }


def test_what_lives_in_namespaces_may_be_shown_for_one_alone():
    found = told(KindReading(PersistentVolumeClaim, Forbidden("no"), 0.1))["persistentvolumeclaims"]
    assert found[2].endswith("in all namespaces, or show one namespace alone with --namespace")
    found = told(KindReading(PersistentVolumeClaim, Forbidden("no"), 0.1, "shop"))["persistentvolumeclaims"]
    assert found[1].startswith("PersistentVolumeClaim objects may not be read in namespace shop: ")


def test_a_kind_that_the_server_has_not_is_worth_knowing_and_no_more():
    found = told(KindReading(CSIStorageCapacity, NotFound("not found"), 0.1))["csistoragecapacities.storage.k8s.io"]
    assert found[:2] == ("info", "this server does not know CSIStorageCapacity objects: free capacity is not shown")


def test_a_server_that_is_away_is_one_notice_however_many_kinds_there_are():
    away = Disconnected("GET", SERVER, "connection refused", in_doubt=False)
    assert told(KindReading(Node, away, 0.5)) == {}  # it may be back before anybody reads that
    found = told(KindReading(Node, away, 3.0), KindReading(Pod, away, 5.0))
    assert list(found) == ["server"]
    assert found["server"][0] == "error" and "does not answer" in found["server"][1]


def test_another_failure_is_told_by_its_own_words():
    found = told(KindReading(Node, TonnageError("it is odd", hint="look"), 9.0))
    assert "it is odd" in found["server"][1] and found["server"][2] == "look"
