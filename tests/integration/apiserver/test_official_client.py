"""The official `kubernetes` Python client, unmodified: typed calls, watches, leader leases, the dynamic client."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from kubernetes import client, config, dynamic, watch


@pytest.fixture
def api(cluster):
    loaded = config.new_client_from_config(str(cluster.kubeconfig))
    yield loaded
    loaded.rest_client.pool_manager.clear()  # its `close` ends threads, and leaves the connections
    loaded.close()


def pod(name: str) -> client.V1Pod:
    return client.V1Pod(
        metadata=client.V1ObjectMeta(name=name, labels={"app": "web"}),
        spec=client.V1PodSpec(containers=[client.V1Container(name="main", image="app:1")]),
    )


def test_typed_objects_make_the_round_trip(api, namespace):
    storage = client.StorageV1Api(api)
    made = storage.create_csi_driver(
        client.V1CSIDriver(
            metadata=client.V1ObjectMeta(name="round.trip.dev"),
            spec=client.V1CSIDriverSpec(attach_required=False, node_allocatable_update_period_seconds=30),
        )
    )
    assert made.spec.attach_required is False and made.spec.node_allocatable_update_period_seconds == 30
    made.spec.storage_capacity = True
    assert storage.replace_csi_driver("round.trip.dev", made).spec.storage_capacity is True
    assert storage.delete_csi_driver("round.trip.dev").metadata.name == "round.trip.dev"


def test_a_pod_is_bound_and_its_nomination_cleared(api, namespace):
    core = client.CoreV1Api(api)
    core.create_namespaced_pod(namespace, pod("web-0"))
    core.patch_namespaced_pod_status("web-0", namespace, {"status": {"nominatedNodeName": "node-7"}})
    assert core.read_namespaced_pod("web-0", namespace).status.nominated_node_name == "node-7"
    binding = client.V1Binding(
        metadata=client.V1ObjectMeta(name="web-0"), target=client.V1ObjectReference(kind="Node", name="node-1")
    )
    # The answer is a Status, which the generated client does not expect of this call: leave it unread.
    unread: Any = core.create_namespaced_pod_binding("web-0", namespace, binding, _preload_content=False)
    unread.release_conn()
    bound = core.read_namespaced_pod("web-0", namespace)
    assert bound.spec.node_name == "node-1" and bound.status.nominated_node_name is None
    assert [(c.type, c.status) for c in bound.status.conditions] == [("PodScheduled", "True")]


def test_a_watch_shows_what_happens_in_order(api, namespace):
    core = client.CoreV1Api(api)
    start = core.list_namespaced_pod(namespace).metadata.resource_version
    core.create_namespaced_pod(namespace, pod("web-0"))
    core.patch_namespaced_pod("web-0", namespace, {"metadata": {"labels": {"app": "db"}}})
    core.delete_namespaced_pod("web-0", namespace)
    stream = watch.Watch().stream(core.list_namespaced_pod, namespace, resource_version=start, timeout_seconds=5)
    seen = []
    for event in stream:
        seen.append((event["type"], event["object"].metadata.labels["app"]))
        if event["type"] == "DELETED":
            break
    # A pod shows its last state before it goes: one MODIFIED carries the deletionTimestamp.
    assert seen == [("ADDED", "web"), ("MODIFIED", "db"), ("MODIFIED", "db"), ("DELETED", "db")]


def test_a_lease_is_taken_and_renewed(api, namespace):
    leases = client.CoordinationV1Api(api)
    now = datetime.datetime(2026, 11, 15, 12, 0, 0, 250000, tzinfo=datetime.UTC)
    lease = client.V1Lease(
        metadata=client.V1ObjectMeta(name="leader"),
        spec=client.V1LeaseSpec(holder_identity="one", lease_duration_seconds=15, renew_time=now),
    )
    made = leases.create_namespaced_lease(namespace, lease)
    assert made.spec.renew_time == now
    made.spec.holder_identity = "two"
    assert leases.replace_namespaced_lease("leader", namespace, made).spec.holder_identity == "two"
    with pytest.raises(client.ApiException) as refused:
        leases.replace_namespaced_lease("leader", namespace, made)
    assert refused.value.status == 409 and refused.value.reason == "Conflict"


def test_pages_add_up_to_the_whole_list(api, namespace):
    core = client.CoreV1Api(api)
    for i in range(7):
        core.create_namespaced_config_map(namespace, client.V1ConfigMap(metadata=client.V1ObjectMeta(name=f"c{i}")))
    names, token, pages = [], None, 0
    while True:
        page = core.list_namespaced_config_map(namespace, limit=3, _continue=token)
        names += [item.metadata.name for item in page.items]
        pages, token = pages + 1, page.metadata._continue
        if not token:
            break
    # 7 items, 3 a page: 3 + 3 + 1.
    assert names == [f"c{i}" for i in range(7)] and pages == 3


def test_the_dynamic_client_finds_kinds_by_discovery(api, namespace):
    kinds = dynamic.DynamicClient(api)
    capacities = kinds.resources.get(api_version="storage.k8s.io/v1", kind="CSIStorageCapacity")
    body = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": "node-1"},
        "storageClassName": "pools",
        "availableCapacities": ["100Gi", "50Gi"],
    }
    capacities.create(body=body, namespace=namespace)
    found = capacities.get(name="node-1", namespace=namespace)
    assert found.to_dict()["availableCapacities"] == ["100Gi", "50Gi"]


def test_a_service_account_with_its_token(api, cluster, namespace):
    core = client.CoreV1Api(api)
    core.create_namespaced_service_account(namespace, client.V1ServiceAccount(metadata=client.V1ObjectMeta(name="db")))
    wanted = client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[], expiration_seconds=600))
    token = str(core.create_namespaced_service_account_token("db", namespace, wanted).status.token)
    review = client.AuthenticationV1Api(api).create_token_review(
        client.V1TokenReview(spec=client.V1TokenReviewSpec(token=token))
    )
    assert review.status.authenticated and review.status.user.username == f"system:serviceaccount:{namespace}:db"
    settings = client.Configuration(host=cluster.url, api_key={"authorization": f"Bearer {token}"})
    settings.ssl_ca_cert = str(cluster.folder / "pki" / "ca.crt")
    account = client.ApiClient(settings)
    found = client.AuthenticationV1Api(account).create_self_subject_review(client.V1SelfSubjectReview())
    assert found.status.user_info.username == review.status.user.username
    with pytest.raises(client.ApiException) as refused:
        client.CoreV1Api(account).list_namespaced_pod(namespace)
    assert refused.value.status == 403
    account.rest_client.pool_manager.clear()
    account.close()
