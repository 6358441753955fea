"""The largest requests that are accepted, many at once, and `/readyz` answers within a second all the while.

A real server in a process of its own. Each attack is sent by several clients at the same time; a prober asks for
`/readyz` without pause on a connection of its own, and for a small object as ordinary clients do.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from support.http import PATCH_TYPES, ApiClient, Reply
from support.processes import ApiServerProcess, start_cluster

QUICK_S = 1.0
MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
AT_ONCE = 4
MANY = 8_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServerProcess]:
    server = start_cluster(tmp_path_factory.mktemp("server"))
    server.create("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "small"}})
    yield server
    server.stop()


class Waits:
    """How long the prober waited for each answer."""

    def __init__(self) -> None:
        self.ready_s: list[float] = []
        self.small_s: list[float] = []

    def __repr__(self) -> str:
        return f"readyz at most {max(self.ready_s):.2f} s of {len(self.ready_s)}, small {max(self.small_s):.2f} s"


@contextmanager
def probing(cluster: ApiServerProcess) -> Iterator[Waits]:
    """Ask without pause inside the block, and check afterwards that nobody was kept waiting."""
    waits, ended = Waits(), threading.Event()

    def probe() -> None:
        client = ApiClient(cluster.url, cluster.token, tls=cluster.tls, keep_alive=True)
        while not ended.is_set():
            for path, seconds in (("/readyz", waits.ready_s), (f"{MAPS}/small", waits.small_s)):
                started_at = time.monotonic()
                assert client.get(path).code == 200
                seconds.append(time.monotonic() - started_at)
        client.close()

    with ThreadPoolExecutor(1) as prober:
        probed = prober.submit(probe)
        try:
            yield waits
        finally:
            ended.set()
        probed.result()
    # A prober that gets a part of a busy machine waits as many times longer, whatever the server does.
    share = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    assert max(waits.ready_s) < QUICK_S * share, waits
    assert max(waits.small_s) < QUICK_S * share, waits


def at_once(send: Callable[[int], Reply], count: int = AT_ONCE) -> list[int]:
    """Send it from so many clients at the same time; the codes of the answers."""
    with ThreadPoolExecutor(count) as clients:
        return [reply.code for reply in clients.map(send, range(count))]


def variables(count: int, value: str = "1") -> list[dict[str, str]]:
    return [{"name": f"n{i}", "value": value} for i in range(count)]


def template(env: list[dict[str, str]]) -> dict[str, Any]:
    return {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i", "env": env}]}}


def deployment(name: str, env: list[dict[str, str]]) -> dict[str, Any]:
    spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template(env)}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def pod(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def test_creating_and_patching_ten_thousand_variables(cluster: ApiServerProcess) -> None:
    with probing(cluster):
        assert set(at_once(lambda i: cluster.post(DEPLOYMENTS, deployment(f"d{i}", variables(MANY))))) == {201}
        change = {"spec": {"template": template(variables(MANY, "2"))}}
        place = change["spec"]["template"]["spec"]["containers"][0]
        place["$setElementOrder/env"] = [{"name": each["name"]} for each in place["env"]]

        def patch(i: int) -> Reply:
            return cluster.request("PATCH", f"{DEPLOYMENTS}/d{i}", change, content_type=PATCH_TYPES["strategic"])

        assert set(at_once(patch)) == {200}


@pytest.mark.slow
def test_applying_ten_thousand_variables(cluster: ApiServerProcess) -> None:
    def apply(manager: str, value: str) -> Callable[[int], Reply]:
        config = json.dumps(deployment("applied", variables(MANY, value))).encode()

        def send(i: int) -> Reply:
            path = f"{DEPLOYMENTS}/applied?fieldManager={manager}{i}&force={'true' if i % 2 else 'false'}"
            return cluster.request("PATCH", path, config, content_type=PATCH_TYPES["apply"])

        return send

    with probing(cluster):
        codes = at_once(apply("a", "1")) + at_once(apply("b", "2"))
    assert set(codes) <= {200, 201, 409}


@pytest.mark.slow
def test_twenty_thousand_owners_and_ten_thousand_constraints(cluster: ApiServerProcess) -> None:
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": f"n{i}", "uid": f"u{i}"} for i in range(18_000)]
    spread = [
        {"maxSkew": 1, "topologyKey": f"k{i}", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
        for i in range(10_000)
    ]
    with probing(cluster):
        owned = at_once(lambda i: cluster.post(MAPS, {"metadata": {"name": f"owned{i}", "ownerReferences": owners}}))
        placed = at_once(lambda i: cluster.post(PODS, pod(f"spread{i}", topologySpreadConstraints=spread)))
        codes = at_once(lambda i: cluster.delete(f"{MAPS}/owned{i}"))
    assert set(owned + placed) <= {201, 413} and set(codes) <= {200, 404}


@pytest.mark.slow
def test_bodies_in_yaml_and_protobuf(cluster: ApiServerProcess) -> None:
    lines = "".join(f"    n{i}: v\n" for i in range(100_000))
    labels = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: labels\n  labels:\n{lines}".encode()
    entries = "".join(f"  n{i}: v\n" for i in range(100_000))
    data = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: data\ndata:\n{entries}".encode()
    containers = b"\x12\x00" * 70_000
    spec = b"\x12" + varint(len(containers)) + containers
    meta = b"\x0a\x03\x0a\x01x"
    raw = meta + spec
    message = b"k8s\x00\x0a\x09\x0a\x02v1\x12\x03Pod\x12" + varint(len(raw)) + raw
    with probing(cluster):
        codes = at_once(lambda i: cluster.post(MAPS, labels, content_type="application/yaml"))
        codes += at_once(lambda i: cluster.post(MAPS, data, content_type="application/yaml"))
        codes += at_once(lambda i: cluster.post(PODS, message, content_type="application/vnd.kubernetes.protobuf"))
    assert set(codes) <= {201, 409, 413, 422}, codes


def varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def test_json_patches_of_ten_thousand_steps(cluster: ApiServerProcess) -> None:
    cluster.create(MAPS, {"metadata": {"name": "patched", "annotations": {f"n{i}": "v" for i in range(5_000)}}})
    steps: list[dict[str, Any]] = [
        {"op": "replace", "path": f"/metadata/annotations/n{i}", "value": "w"} for i in range(5_000)
    ]
    steps += [{"op": "test", "path": "", "value": {"a": {}}} for i in range(4_999)]
    with probing(cluster):
        codes = at_once(lambda i: cluster.patch(f"{MAPS}/patched", steps[:5_000], "json"))
        codes += at_once(lambda i: cluster.patch(f"{MAPS}/patched", steps, "json"))
    assert set(codes) <= {200, 409, 422}, codes


@pytest.mark.slow
def test_many_objects_in_every_form(cluster: ApiServerProcess) -> None:
    def create(i: int) -> Reply:
        return cluster.post(PODS, pod(f"p{i}", nodeSelector={"a": "b" * 60}))

    with ThreadPoolExecutor(8) as clients:
        list(clients.map(create, range(2_000)))
    forms = [
        "application/json",
        TABLE,
        "application/yaml",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    ]
    with probing(cluster):
        for form in forms:
            send = partial(cluster.get, PODS, accept=form)
            assert set(at_once(lambda _, send=send: send(), 2)) == {200}  # type: ignore[misc]  # bound per turn
        query = "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&labelSelector=!x"
        events = cluster.watch(PODS + query, 2_000, accept=TABLE)
    assert len(events) == 2_000


@pytest.mark.slow
def test_new_claims_beside_classes_of_a_megabyte_each(cluster: ApiServerProcess) -> None:
    """Admission looks at every StorageClass for every new claim."""
    labels = {f"n{i}": "v" * 60 for i in range(15_000)}
    for i in range(40):
        body = {"metadata": {"name": f"large-{i}", "labels": labels}, "provisioner": "a.example"}
        cluster.create("/apis/storage.k8s.io/v1/storageclasses", body)
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    with probing(cluster):
        codes = at_once(lambda i: cluster.post(claims, {"metadata": {"name": f"c{i}"}, "spec": spec}), 8)
    assert set(codes) == {201}


def test_roles_that_multiply_their_bindings_and_reviews(cluster: ApiServerProcess) -> None:
    rbac, reviews = "/apis/rbac.authorization.k8s.io/v1", "/apis/authorization.k8s.io/v1"
    as_jane = {"Impersonate-User": "jane"}

    def binding(name: str, kind: str, role: str) -> dict[str, Any]:
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role}
        subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"}
        return {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}

    def as_namespace_admin(path: str, body: Any) -> Reply:
        return cluster.post(path, body, extra=as_jane)

    roles, bindings = f"{rbac}/namespaces/default/roles", f"{rbac}/namespaces/default/rolebindings"
    cluster.create(bindings, binding("jane", "ClusterRole", "admin"))
    read = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    four = {"apiGroups": "g", "resources": "r", "verbs": "v", "resourceNames": "n"}
    product = {field: [f"{letter}{i}" for i in range(35)] for field, letter in four.items()}
    groups = [f"g{i}" for i in range(100_000)]
    about = {"namespace": "default", "verb": "get", "resource": "pods"}
    with probing(cluster):
        refused = as_namespace_admin(roles, {"metadata": {"name": "x"}, "rules": [product]})
        assert refused.code == 403 and len(refused.message) < 64 * 1024
        same = {"metadata": {"name": "same"}, "rules": [read] * 20_000}
        assert as_namespace_admin(roles, same).code == 201
        assert set(at_once(lambda i: as_namespace_admin(bindings, binding(f"same{i}", "Role", "same")))) == {201}
        review = {"spec": {"groups": groups, "resourceAttributes": about}}
        local = f"{reviews}/namespaces/default/localsubjectaccessreviews"
        assert set(at_once(lambda _: as_namespace_admin(local, review))) == {201}
        mine = as_namespace_admin(f"{reviews}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}})
        assert mine.code == 201 and len(json.dumps(mine.body)) < 64 * 1024


@pytest.mark.parametrize("form", ["a!=v{}", pytest.param("k{}!=v", marks=pytest.mark.slow)])
def test_long_selectors_in_watches_and_lists(cluster: ApiServerProcess, form: str) -> None:
    """Each of its own: nothing is shared."""
    watches = 20

    def query(i: int) -> str:
        return "labelSelector=" + ",".join(form.format(f"{i}x{j}") for j in range(4_000))

    def watch(i: int) -> int:
        path = f"{MAPS}?watch=1&{query(i)}&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&timeoutSeconds=20"
        return len(cluster.watch(path, 3))

    def write(i: int) -> Reply:
        return cluster.post(MAPS, {"metadata": {"name": f"watched{form[0]}{i}", "labels": {"a": "b"}}})

    with probing(cluster), ThreadPoolExecutor(watches) as watchers:
        watching = [watchers.submit(watch, i) for i in range(watches)]
        for attempt in range(1_000):
            assert write(attempt).code == 201
            if all(each.done() for each in watching):
                break
            time.sleep(0.02)
        assert {each.result() for each in watching} == {3}
        assert set(at_once(lambda i: cluster.get(f"{MAPS}?{query(i)}"), 8)) == {200}
        names = ",".join(f"metadata.name!=v{i}" for i in range(2_000))
        assert set(at_once(lambda _: cluster.get(f"{MAPS}?fieldSelector={names}", accept=TABLE))) == {200}
        assert cluster.delete(f"{MAPS}?{query(0)},a").code == 200
