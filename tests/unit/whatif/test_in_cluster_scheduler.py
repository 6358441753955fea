"""The scheduler of a cluster is found by its Service and by the lease of the replica that decides."""

from __future__ import annotations

from tonnage.objects.core_v1 import Service
from tonnage.objects.core_v1.small_kinds import ServicePort, ServiceSpec
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.small_groups import Lease, LeaseSpec
from tonnage.whatif.scheduler_memory import InClusterScheduler, find


def service(name: str, namespace: str = "tonnage-system", port: int = 10259) -> Service:
    return Service(
        metadata=ObjectMeta(name=name, namespace=namespace), spec=ServiceSpec(ports=(ServicePort(port=port),))
    )


def lease(holder: str) -> Lease:
    return Lease(metadata=ObjectMeta(name="some", namespace="kube-system"), spec=LeaseSpec(holder_identity=holder))


def test_the_replica_that_holds_the_lease_is_found():
    found = find([service("tonnage-scheduler", port=4443)], [lease("mill-1_ab"), lease("tonnage-scheduler-7f-x2_cd")])
    assert found == InClusterScheduler("tonnage-system", "tonnage-scheduler", 4443, "tonnage-scheduler-7f-x2")
    assert found.url == "https://tonnage-scheduler.tonnage-system.svc:4443"
    assert found.note("kubectl --context c", is_untrusted=False) == (
        "Not connected to the scheduler (Service tonnage-system/tonnage-scheduler), so its reservations are ignored. "
        "Run `kubectl --context c --namespace tonnage-system port-forward pod/tonnage-scheduler-7f-x2 4443` in another "
        "terminal and `kubectl --context c --namespace tonnage-system exec pod/tonnage-scheduler-7f-x2 -- "
        "cat /tmp/certs/ca.crt > ca.crt`, then add --scheduler-endpoint https://localhost:4443 --scheduler-ca ca.crt."
    )
    assert found.note("kubectl", is_untrusted=True).endswith("Its certificate is not trusted: add --scheduler-ca FILE.")


def test_of_two_schedulers_the_one_that_a_pod_leads_is_found():
    services = [service("a-scheduler"), service("b-scheduler")]
    found = find(services, [lease("b-scheduler-0_ab")])
    assert found is not None and (found.service, found.pod) == ("b-scheduler", "b-scheduler-0")


def test_without_a_lease_the_service_is_named_and_without_a_service_nothing():
    found = find([service("tonnage-scheduler")], [])
    assert found is not None and "port-forward service/tonnage-scheduler 10259`" in found.note(
        "kubectl", is_untrusted=False
    )
    assert find([], [lease("tonnage-scheduler-0_ab")]) is None
