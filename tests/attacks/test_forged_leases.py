"""The header `Tonnage-Lease`, forged: it can make its sender's own write be refused, and nothing else.

The API server refuses a write that names a lease somebody else holds by now. The header only takes away: whoever has a
token may write without it, and whoever has none may not with it.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from support.http import Reply
from support.processes import ApiServerProcess

HEADER = "Tonnage-Lease"


@pytest.fixture
def maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


@pytest.fixture
def lease(cluster: ApiServerProcess, namespace: str) -> str:
    """A lease that `leader` holds, as the header names it."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    made = cluster.post(path, {"metadata": {"name": "program"}, "spec": {"holderIdentity": "leader"}})
    assert made.code == 201
    return f"{namespace}/program"


def create(cluster: ApiServerProcess, maps: str, name: str, header: str, **options: str) -> Reply:
    return cluster.post(maps, {"metadata": {"name": name}}, extra={HEADER: header}, **options)


def test_without_a_token_the_name_of_the_holder_opens_nothing(cluster: ApiServerProcess, maps: str, lease: str) -> None:
    for token in ("", "guessed"):
        for path in (maps, f"{maps}?dryRun=All"):
            refused = cluster.post(path, {"metadata": {"name": "a"}}, extra={HEADER: f"{lease} leader"}, token=token)
            assert refused.code == 401
    assert cluster.get(f"{maps}/a").code == 404


def test_the_name_of_the_holder_passes_no_other_rule(cluster: ApiServerProcess, maps: str, lease: str) -> None:
    leading = f"{lease} leader"
    assert create(cluster, maps, "a", leading).code == 201, "as without the header"
    assert create(cluster, maps, "a", leading).code == 409
    assert create(cluster, maps, "NOT A NAME", leading).code == 422
    old = {"metadata": {"name": "a", "resourceVersion": "1"}}
    assert cluster.put(f"{maps}/a", old, extra={HEADER: leading}).code == 409, "the optimistic lock holds"
    uid = {"preconditions": {"uid": "another"}}
    assert cluster.request("DELETE", f"{maps}/a", uid, extra={HEADER: leading}).code == 409


def test_another_name_refuses_its_senders_write_and_nobody_elses(
    cluster: ApiServerProcess, maps: str, lease: str
) -> None:
    """All verbs that write; reads pass the header over. Others write all the while, the leader under its lease too."""
    assert cluster.post(maps, {"metadata": {"name": "there"}}).code == 201
    forged = {HEADER: f"{lease} somebody"}

    def refused(number: int) -> set[int]:
        there = f"{maps}/there"
        return {
            create(cluster, maps, f"forged-{number}", forged[HEADER]).code,
            cluster.patch(there, {"data": {"v": "forged"}}, extra=forged).code,
            cluster.put(there, {"metadata": {"name": "there"}, "data": {"v": "forged"}}, extra=forged).code,
            cluster.request("DELETE", there, extra=forged).code,
        }

    def others(number: int) -> set[int]:
        return {
            cluster.post(maps, {"metadata": {"name": f"plain-{number}"}}).code,
            create(cluster, maps, f"leading-{number}", f"{lease} leader").code,
        }

    with ThreadPoolExecutor(4) as threads:
        answers = threads.map(lambda number: (refused(number), others(number)), range(10))
        assert all(answer == ({409}, {201}) for answer in answers)
    read = cluster.get(f"{maps}/there", extra=forged)
    assert read.code == 200 and not read.body.get("data")


def test_a_forged_header_neither_takes_a_lease_nor_keeps_its_holder_from_renewing(
    cluster: ApiServerProcess, maps: str, lease: str, namespace: str
) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/program"
    forged = {HEADER: f"{lease} somebody"}
    taken = {"spec": {"holderIdentity": "somebody"}}
    assert cluster.patch(path, taken, extra=forged).code == 409, "not even to make itself true"
    for seconds in range(1, 6):
        assert create(cluster, maps, "a", forged[HEADER]).code == 409
        renewed = {"spec": {"leaseDurationSeconds": seconds}}
        assert cluster.patch(path, renewed, extra={HEADER: f"{lease} leader"}).code == 200
    assert cluster.get(path).body["spec"]["holderIdentity"] == "leader"


@pytest.mark.parametrize(
    "header",
    ["", " ", "program", "program leader", "/program leader", "ns/ leader", "ns/program", "ns/program "],
)
def test_a_header_that_names_no_lease_and_holder_is_a_bad_request(
    cluster: ApiServerProcess, maps: str, header: str
) -> None:
    assert create(cluster, maps, "a", header).code == 400
    assert cluster.get(f"{maps}/a").code == 404


@pytest.mark.parametrize("name", ["../../pods/default/x", "%2e%2e/x", "program/spec", "a" * 4000, "\xff\xfe"])
def test_a_lease_that_nobody_has_changes_nothing_and_leads_nowhere_else(
    cluster: ApiServerProcess, maps: str, namespace: str, name: str
) -> None:
    """The header names a lease by its key, never a path: what is not there refuses nothing, as without the header."""
    assert cluster.post(maps, {"metadata": {"name": "x"}}).code == 201
    assert create(cluster, maps, "a", f"{namespace}/{name} somebody").code == 201
    assert cluster.get("/readyz").code == 200
